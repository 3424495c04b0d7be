//! Connections whose bytes are not the room's affair, after a check of the first ones.

use crate::{
    hello::{FirstBytes, MAX_HELLO, ServerName, read_first},
    http::{self, HTTP_PORT},
    inspect,
    limits::Limits,
    link::Place,
    origin,
    relay::{Listened, Metered, Prefixed, Side, Waited, Watched, Watching, copy, listen_first},
    request_line::{FirstLine, read_first_line},
    session::{ConnectionRecord, Open, OpenError, Permit, Session},
};
use palisade_egress_protocol::{
    Asked, THIS_HOST, Tunnel,
    host::{Host, Target},
};
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

/// A TLS alert: fatal, access denied. Clients show it to people.
pub(crate) const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// Why a connection ends on which the program only began to speak.
const LATE_HELLO: &str = "the program sent no ClientHello or request in time";

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

    /// Returns the bytes that the connection may carry.
    pub(crate) const fn tunnel(&self) -> Tunnel {
        match self {
            Self::Allowed(permit) => permit.tunnel,
            Self::Open(open) => open.tunnel,
        }
    }

    /// Returns the record of the connection.
    pub(crate) const fn record(&mut self) -> &mut ConnectionRecord {
        match self {
            Self::Allowed(permit) => &mut permit.record,
            Self::Open(open) => &mut open.record,
        }
    }

    /// Ends a connection that nothing was sent through, for a reason.
    pub(crate) fn end_unused(mut self, reason: String) {
        self.record().end(Some(reason));
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
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let open = match ready {
        Ready::Open(open) => open,
        Ready::Allowed(permit) if permit.tunnel == Tunnel::Inspected => {
            return inspect::serve(session, client, permit, place).await;
        }
        Ready::Allowed(_) => {
            return origin::serve(session, (Vec::new(), client), ready, asked, place).await;
        }
    };
    let mut client = Metered::new(client, Side::Client, open.record.meter.clone());
    match open.tunnel {
        Tunnel::Any => carry_any(session, client, open, asked, place).await,
        // Such a connection is never made by itself.
        Tunnel::Inspected => refuse(&session, open, "it is inspected".to_owned(), &place),
        Tunnel::Checked => match first_bytes(&mut client, &session.limits).await {
            Ok((first, FirstBytes::Hello(name))) => {
                carry_tls(&session, &mut client, open, first, name, asked, &place).await;
            }
            Ok((first, FirstBytes::Other)) if is_http(&first) => {
                origin::serve(session, (first, client), Ready::Open(open), asked, place).await;
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

/// The meaning of the first bytes of a connection that may carry any protocol.
#[derive(Debug, PartialEq, Eq)]
enum Opening {
    /// More bytes are needed.
    Partial,
    /// A whole ClientHello.
    Hello(ServerName),
    /// They begin like TLS of some version, so a server might understand them.
    Broken(&'static str),
    /// HTTP, or so long a line that only its reader can tell.
    Requests,
    /// Another protocol.
    Other,
}

/// Reads the first bytes of a connection that may carry any protocol.
fn read_opening(bytes: &[u8], requests: RequestHandling) -> Opening {
    match (read_first(bytes), requests) {
        (FirstBytes::Partial, _) => Opening::Partial,
        (FirstBytes::Hello(name), _) => Opening::Hello(name),
        (FirstBytes::Broken(why), _) if bytes.get(1) == Some(&3) => Opening::Broken(why),
        (FirstBytes::Broken(_), _) | (FirstBytes::Other, RequestHandling::PassedOn) => {
            Opening::Other
        }
        (FirstBytes::Other, RequestHandling::Judged) => match read_first_line(bytes) {
            FirstLine::Request => Opening::Requests,
            FirstLine::Other => Opening::Other,
            FirstLine::Partial if bytes.len() >= MAX_HELLO => Opening::Requests,
            FirstLine::Partial => Opening::Partial,
        },
    }
}

/// The handling of requests of HTTP on a connection that may carry any protocol.
#[derive(Debug, Clone, Copy)]
enum RequestHandling {
    Judged,
    /// As any other bytes: to a server that speaks first, which is not one of HTTP, and to a service of
    /// this host, whose clients name it in `Host` as the service wants it.
    PassedOn,
}

/// Carries a connection on which the profile allows any protocol. The server may speak first.
async fn carry_any<C>(
    session: Arc<Session>,
    mut client: Metered<C>,
    mut open: Open,
    asked: Asked,
    place: Place,
) where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let is_service = matches!(&open.target.host, Host::Name(name) if name.as_str() == THIS_HOST);
    let read = |first: &[u8], listened| {
        let is_passed_on = is_service || listened == Listened::SpokenTo;
        let requests =
            if is_passed_on { RequestHandling::PassedOn } else { RequestHandling::Judged };
        read_opening(first, requests)
    };
    let is_enough = |first: &[u8], listened| {
        first.len() >= MAX_HELLO || read(first, listened) != Opening::Partial
    };
    let limits = session.limits;
    let time = |first: &[u8]| match read_first(first) {
        FirstBytes::Partial => limits.handshake,
        FirstBytes::Other | FirstBytes::Hello(_) | FirstBytes::Broken(_) => limits.first_line,
    };
    let heard = listen_first(&mut client, &mut open.destination, time, is_enough).await;
    let (first, listened, waited) = match heard {
        Ok(heard) => heard,
        Err(error) => return end(open, Err(error)),
    };
    match (read(&first, listened), waited) {
        (Opening::Hello(name), _) => {
            carry_tls(&session, &mut client, open, first, name, asked, &place).await;
        }
        (Opening::Requests, _) => {
            origin::serve(session, (first, client), Ready::Open(open), asked, place).await;
        }
        (Opening::Broken(why), _) => refuse(&session, open, why.to_owned(), &place),
        (Opening::Partial, Waited::Late) if read_first(&first) == FirstBytes::Partial => {
            refuse(&session, open, LATE_HELLO.to_owned(), &place);
        }
        (Opening::Partial, Waited::Late) => {
            let mut client = Watched::new(client, first.clone(), watch_first_line);
            let carried = pass_on(&mut client, &mut open, &first).await;
            end(open, carried);
        }
        (Opening::Other | Opening::Partial, _) => {
            let carried = pass_on(&mut client, &mut open, &first).await;
            end(open, carried);
        }
    }
}

/// Watches a line whose beginning was passed on. If it becomes a request, its end is not: no server has
/// a request then.
fn watch_first_line(bytes: &[u8]) -> io::Result<Watching> {
    match read_opening(bytes, RequestHandling::Judged) {
        Opening::Other => Ok(Watching::Ends),
        Opening::Partial => Ok(Watching::GoesOn),
        Opening::Requests | Opening::Hello(_) | Opening::Broken(_) => {
            let text = "the program sent the first line of an HTTP request in parts, too slowly";
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
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
) -> io::Result<(Vec<u8>, FirstBytes)>
where
    C: AsyncRead + Unpin,
{
    let mut bytes = Vec::new();
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
    let meaning = timeout(limits.handshake, read)
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, LATE_HELLO)))?;
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
    match first_bytes(&mut client, limits).await {
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

#[cfg(test)]
#[path = "tunnel_tests.rs"]
mod tests;
