//! Resolves `[net.host]` and `[net.publish]` of a profile file over the profile that it extends. Pure: no I/O.

use super::laxer::WIDEN;
use crate::{
    ProfileError,
    access::Widening,
    document::Document,
    net::{
        Net, NetMode, PortEntry,
        host::{HostServices, HostText, SocketEntry},
        publish::{PublishText, PublishedPorts},
    },
    source::WithOrigin,
    written::List,
};
use palisade_plan::listeners::{MAX_PUBLISHED, can_be_direct};
use std::fmt::Display;

const PORTS: &str = "net.host.ports";
const PUBLISH: &str = "net.publish.ports";

/// Returns the host's services of a file, combined with those that it extends.
pub(super) fn services(
    document: &Document<'_>,
    written: &HostText,
    base: &HostServices,
    mode: NetMode,
    widening: Widening,
) -> Result<HostServices, ProfileError> {
    for said in written.ports.iter().flatten() {
        let PortEntry(port) = *said.get_ref();
        if !can_be_direct(port) {
            let why = format!("{port} is a port that Palisade uses in the session");
            return Err(document.wrong_at(said.span().start, PORTS, why, "leave it out"));
        }
    }
    let mut ports = entries(document, PORTS, &base.ports, written.ports.as_ref(), widening)?;
    ports.sort_by_key(|said| said.value);
    let sockets = (&base.sockets[..], written.sockets.as_ref());
    let mut sockets = entries(document, "net.host.sockets", sockets.0, sockets.1, widening)?;
    sockets.sort_by(|a: &WithOrigin<SocketEntry>, b| a.value.path().cmp(b.value.path()));
    Ok(HostServices { ports, sockets }.within(mode))
}

/// Returns the published ports of a file, combined with those that it extends.
pub(super) fn publish(
    document: &Document<'_>,
    written: &PublishText,
    base: &PublishedPorts,
    widening: Widening,
) -> Result<PublishedPorts, ProfileError> {
    let mut ports = entries(document, PUBLISH, &base.ports, written.ports.as_ref(), widening)?;
    ports.sort_by_key(|said| said.value);
    if ports.len() > MAX_PUBLISHED {
        let why = format!("has {} ports", ports.len());
        return Err(document.wrong(PUBLISH, why, format!("name at most {MAX_PUBLISHED}")));
    }
    Ok(PublishedPorts { ports })
}

/// Checks that programs of the session can listen on the ports that it publishes.
pub(super) fn check_published(document: &Document<'_>, net: &Net) -> Result<(), ProfileError> {
    let taken = net.direct_ports();
    let is_taken = |port: u16| !can_be_direct(port) || taken.contains(&port);
    match net.publish.ports.iter().find(|said| is_taken(said.value.0)) {
        None => Ok(()),
        Some(said) => {
            let why = format!("{} has a listener of Palisade in the session", said.value);
            let instead = "publish a port that is neither 53, 80, 443 or 61080 nor in net.allow or \
                           net.host.ports";
            Err(document.wrong(PUBLISH, why, instead))
        }
    }
}

/// Returns the entries of a list, each of which opens something by itself.
pub(super) fn entries<T: Clone + Display>(
    document: &Document<'_>,
    key: &str,
    base: &[WithOrigin<T>],
    written: Option<&List<T>>,
    widening: Widening,
) -> Result<Vec<WithOrigin<T>>, ProfileError> {
    let Some(list) = written else { return Ok(base.to_vec()) };
    let mut kept: Vec<WithOrigin<T>> = match widening {
        Widening::Yes => base.to_vec(),
        Widening::No => Vec::new(),
    };
    let has =
        |list: &[WithOrigin<T>], text: &str| list.iter().any(|said| said.value.to_string() == text);
    for said in list {
        let (text, start) = (said.get_ref().to_string(), said.span().start);
        if has(&kept, &text) {
            let why = format!("{text} is already listed");
            return Err(document.wrong_at(start, key, why, "leave one of the two out"));
        }
        if widening == Widening::No && !has(base, &text) {
            let why = format!("{text} is not open in the extended profile");
            return Err(document.wrong_at(start, key, why, WIDEN));
        }
        kept.push(WithOrigin { value: said.get_ref().clone(), at: Some(document.origin(start)) });
    }
    Ok(kept)
}
