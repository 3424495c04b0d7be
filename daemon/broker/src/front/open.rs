//! Opens a session for a client, after checking that the profile admits it and is proved if
//! required. Runs in the broker.

use crate::{
    base::who::PeerIdentity,
    cells::{
        scene,
        session::{
            Session,
            error::SessionError,
            make::{SessionParameters, begin},
        },
        survival::Survival,
    },
    front::server::{Clients, Server},
};
use palisade_plan::record::Recording;
use palisade_policy::{DEFAULT, User, stricter_ask, stricter_guard};
use palisade_protocol::Open;
use std::{os::fd::BorrowedFd, sync::Arc, time::Duration};

/// Opens a session for the client at the other end of a socket.
pub(crate) async fn open(
    server: &Arc<Server>,
    who: &PeerIdentity,
    client: BorrowedFd<'_>,
    request: Open,
) -> Result<Arc<Session>, SessionError> {
    let name = request.profile.as_deref().unwrap_or(DEFAULT);
    let live = server.live();
    let Some(profile) = live.profiles.get(name) else {
        let known = live.profiles.keys().cloned().collect::<Vec<_>>().join(", ");
        let name = name.to_owned();
        return Err(match live.invalid.get(&name) {
            Some(why) => SessionError::InvalidProfile { name, why: why.clone(), known },
            None => SessionError::NoProfile { name, known },
        });
    };
    let peer = who.peer;
    if !profile.admits(User { uid: peer.uid, gid: peer.gid, unit: who.unit() }) {
        return Err(SessionError::NotForYou { name: name.to_owned(), who: who.to_string() });
    }
    live.allow_host.check(profile)?;
    live.allow_publish.check_published(profile)?;
    let ask = stricter_ask(profile, request.options.ask)?;
    server.proofs.require(server, profile).await?;
    let guard = stricter_guard(profile, request.options.guard)?;
    let grace = request.options.grace_ms.unwrap_or(0).min(server.grace_ms(profile));
    let survival = match grace {
        0 => None,
        grace => {
            let terms = Open { profile: Some(name.to_owned()), ..request.clone() };
            Some(Survival::new(Duration::from_millis(grace), terms)?)
        }
    };
    let scene = scene::of(&server.host.link, peer, client, &request.workspace).await?;
    let client = Some(client);
    let recording = if request.options.record { Recording::Yes } else { Recording::No };
    let uid = live.roles.uid_for(who, live.identity);
    let hosts = &request.options.allow_domains;
    let profile = &match server.clients {
        _ if hosts.is_empty() => Arc::clone(profile),
        // Whoever starts a daemon for themselves could start it with another profile as well.
        Clients::One | Clients::OfUser(_) => Arc::new(profile.with_hosts(hosts)?),
        Clients::Many => {
            profile.allows_hosts(hosts)?;
            Arc::clone(profile)
        }
    };
    let opening = SessionParameters { peer, client, ask, guard, survival, scene, recording, uid };
    begin(&server.host, profile, opening).await
}
