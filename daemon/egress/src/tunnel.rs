//! Connections whose bytes are not the room's affair, after a check of the first ones.

use crate::{
    hello::{FirstBytes, MAX_HELLO, ServerName, read_first},
    http::{self, HTTP_PORT},
    inspect,
    limits::Limits,
    link::Place,
    origin,
    relay::{Metered, Prefixed, Side, copy, listen_first},
    session::{Open, OpenError, Permit, Session},
};
use palisade_egress_protocol::{
    Asked, Tunnel,
    host::{Host, Target},
};
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

/// A TLS alert: fatal, access denied. Clients show it to people.
pub(crate) const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// A connection that is allowed, and made if its bytes are.
#[derive(Debug)]
pub(crate) enum Ready {
    /// HTTP only, or inspected: each request makes its own.
    Allowed(Permit),
    /// It is made.
    Open(Open),
}

impl Ready {
    pub(crate) const fn target(&self) -> &Target {
        match self {
            Self::Allowed(permit) => &permit.target,
            Self::Open(open) => &open.target,
        }
    }

    /// Ends a connection that nothing was sent through, for a reason.
    pub(crate) fn end_unused(self, reason: String) {
        let mut record = match self {
            Self::Allowed(permit) => permit.record,
            Self::Open(open) => open.record,
        };
        record.end(Some(reason));
    }
}

/// Makes an allowed connection, unless each of its requests makes one.
pub(crate) async fn prepare(permit: Permit) -> Result<Ready, OpenError> {
    match permit.tunnel {
        Tunnel::Inspected => Ok(Ready::Allowed(permit)),
        Tunnel::Checked if permit.target.port == HTTP_PORT => Ok(Ready::Allowed(permit)),
        Tunnel::Checked | Tunnel::Any => permit.dial().await.map(Ready::Open),
    }
}

/// Carries a connection to its end.
pub(crate) async fn carry<C>(
    session: Arc<Session>,
    client: C,
    ready: Ready,
    asked: Asked,
    place: Place,
) where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let open = match ready {
        Ready::Open(open) => open,
        Ready::Allowed(permit) if permit.tunnel == Tunnel::Inspected => {
            return inspect::serve(session, client, permit, place).await;
        }
        Ready::Allowed(_) => return origin::serve(session, client, ready, asked, place).await,
    };
    let mut client = Metered::new(client, Side::Client, open.record.meter.clone());
    match open.tunnel {
        Tunnel::Any => carry_any(&session, &mut client, open, asked, &place).await,
        // Such a connection is never made by itself.
        Tunnel::Inspected => refuse(&session, open, "it is inspected".to_owned(), &place),
        Tunnel::Checked => match first_bytes(&mut client, &session.limits, Vec::new()).await {
            Ok((first, FirstBytes::Hello(name))) => {
                carry_tls(&session, &mut client, open, first, name, asked, &place).await;
            }
            Ok((first, FirstBytes::Other)) if is_http(&first) => {
                let client = Prefixed::new(first, client);
                origin::serve(session, client, Ready::Open(open), asked, place).await;
            }
            Ok((first, FirstBytes::Partial)) if first.is_empty() => end(open, Ok(())),
            Ok((_, FirstBytes::Other | FirstBytes::Partial)) => {
                let why = "the program sent neither TLS nor HTTP; name the port in net.allow \
                           to permit any protocol";
                refuse(&session, open, why.to_owned(), &place);
            }
            Ok((_, FirstBytes::Broken(why))) => {
                refuse(&session, open, why.to_owned(), &place);
            }
            Err(error) => end(open, Err(error)),
        },
    }
}

/// Carries a connection on which the profile allows any protocol. The server may speak first.
async fn carry_any<C>(
    session: &Arc<Session>,
    client: &mut C,
    mut open: Open,
    asked: Asked,
    place: &Place,
) where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let first = match listen_first(client, &mut open.destination).await {
        Ok(first) => first,
        Err(error) => return end(open, Err(error)),
    };
    let (first, meaning) = match first_bytes(client, &session.limits, first).await {
        Ok(read) => read,
        Err(error) => return end(open, Err(error)),
    };
    match meaning {
        FirstBytes::Hello(name) => {
            carry_tls(session, client, open, first, name, asked, place).await;
        }
        // It begins like TLS of some version, so a server might understand it.
        FirstBytes::Broken(why) if first.get(1) == Some(&3) => {
            refuse(session, open, why.to_owned(), place);
        }
        FirstBytes::Broken(_) | FirstBytes::Other | FirstBytes::Partial => {
            let carried = pass_on(client, &mut open, &first).await;
            end(open, carried);
        }
    }
}

async fn carry_tls<C>(
    session: &Arc<Session>,
    client: &mut C,
    mut open: Open,
    first: Vec<u8>,
    name: ServerName,
    asked: Asked,
    place: &Place,
) where
    C: AsyncRead + AsyncWrite + Unpin,
{
    if let ServerName::Host(Host::Name(name)) = &name {
        open.record.server_name = Some(name.clone());
    }
    if let Err(why) = check_server_name(session, &open, &name, asked, place).await {
        refuse(session, open, why, place);
        // A program that is gone needs no reason.
        drop(client.write_all(&ACCESS_DENIED).await);
        drop(client.shutdown().await);
        return;
    }
    let carried = pass_on(client, &mut open, &first).await;
    end(open, carried);
}

/// Checks that a ClientHello is for the host that was asked for.
async fn check_server_name(
    session: &Arc<Session>,
    open: &Open,
    name: &ServerName,
    asked: Asked,
    place: &Place,
) -> Result<(), String> {
    let target = &open.target;
    match (name, &target.host) {
        (ServerName::Absent, Host::Name(_)) if open.tunnel == Tunnel::Checked => {
            Err(format!("the ClientHello on a connection to {target} names no server"))
        }
        (ServerName::Absent, _) => Ok(()),
        (ServerName::Unreadable(error), _) => Err(format!("the ClientHello's name: {error}")),
        (ServerName::Host(host), asked_for) if host == asked_for => Ok(()),
        // The address is allowed; the name must be, too.
        (ServerName::Host(host @ Host::Name(_)), Host::Address(_)) => {
            let named = Target { host: host.clone(), port: target.port };
            let mut permit = session
                .ask(named, asked, place)
                .await
                .map_err(|error| format!("the ClientHello is for {host}: {error}"))?;
            let is_inspected = permit.tunnel == Tunnel::Inspected;
            let why = format!("{host} has a net.rule: it must be connected to by its name");
            permit.record.end(is_inspected.then(|| why.clone()));
            if is_inspected { Err(why) } else { Ok(()) }
        }
        (ServerName::Host(host), _) => {
            Err(format!("the ClientHello is for {host}, the connection for {target}"))
        }
    }
}

async fn pass_on<C>(client: &mut C, open: &mut Open, first: &[u8]) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    open.destination.write_all(first).await?;
    open.destination.flush().await?;
    copy(client, &mut open.destination).await
}

/// Reads until the first bytes of a program have a meaning. `Partial` means that it sends no more.
pub(crate) async fn first_bytes<C>(
    client: &mut C,
    limits: &Limits,
    mut bytes: Vec<u8>,
) -> io::Result<(Vec<u8>, FirstBytes)>
where
    C: AsyncRead + Unpin,
{
    let read = async {
        let mut chunk = [0; 2048];
        loop {
            let meaning = read_first(&bytes);
            if meaning != FirstBytes::Partial {
                return Ok(meaning);
            }
            let room = chunk.len().min(MAX_HELLO - bytes.len());
            match client.read(&mut chunk[..room]).await? {
                0 => return Ok(FirstBytes::Partial),
                count => bytes.extend_from_slice(&chunk[..count]),
            }
        }
    };
    let late = "the program sent no ClientHello or request in time";
    let meaning = timeout(limits.handshake, read)
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, late)))?;
    Ok((bytes, meaning))
}

/// Returns `true` if bytes may be the beginning of an HTTP request.
pub(crate) fn is_http(first: &[u8]) -> bool {
    first.first().is_some_and(u8::is_ascii_uppercase)
}

fn refuse(session: &Session, mut open: Open, why: String, place: &Place) {
    session.refuse(Some(open.target.clone()), why.clone(), Some(place));
    open.record.end(Some(why));
}

fn end(mut open: Open, result: io::Result<()>) {
    open.record.end(result.err().map(|error| error.to_string()));
}

/// Tells a program that its connection is refused, in the protocol that it speaks.
pub(crate) async fn turn_away<C>(client: C, limits: &Limits, reason: &str)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let mut client = client;
    match first_bytes(&mut client, limits, Vec::new()).await {
        Ok((first, FirstBytes::Other)) if is_http(&first) => {
            http::refuse_all(Prefixed::new(first, client), limits, reason).await;
        }
        Ok((_, FirstBytes::Hello(_))) => {
            // A program that is gone needs no reason.
            drop(client.write_all(&ACCESS_DENIED).await);
            drop(client.shutdown().await);
        }
        Ok(_) | Err(_) => {}
    }
}
