//! Connections to inspected hosts: TLS ends here, and each request is judged by itself before the host
//! hears of it. A program that does not accept the session's certificate gets no connection.

use crate::{
    authority::{HostTrust, SessionAuthority},
    credential::{Credential, fill_in},
    echo::EchoFilter,
    hello::{FirstBytes, ServerName},
    http::{self, Answer},
    http2,
    link::Place,
    name::read_target_or,
    relay::{Metered, Prefixed, Side},
    session::{ConnectionRecord, Open, Permit, Session},
    tunnel::{ACCESS_DENIED, first_bytes, is_http},
};
use hyper::{
    Method, Request, StatusCode, Version,
    body::Incoming,
    header::{CONTENT_LENGTH, HeaderName, UPGRADE},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use palisade_egress_protocol::{
    MAX_REQUEST_PATH, WebRequest,
    host::{Host, Target},
};
use std::{convert::Infallible, io, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// The port of HTTPS, which requests need not name.
const HTTPS_PORT: u16 = 443;

/// Headers by which some servers take a request for one with another method or path.
const OVERRIDES: [&str; 6] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-override-url",
    "x-rewrite-url",
];

/// The parts of a session that inspected connections need.
#[derive(Debug)]
pub(crate) struct Inspection {
    pub(crate) authority: SessionAuthority,
    pub(crate) trust: Arc<HostTrust>,
}

/// Serves a program's connection to an inspected host.
pub(crate) async fn serve<C>(session: Arc<Session>, client: C, permit: Permit, place: Place)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let Permit { target, tunnel: _, mut record } = permit;
    let accepted = accept(&session, client, &target, &mut record).await;
    let client = match accepted {
        Ok(Some(client)) => client,
        Ok(None) => return record.end(None),
        Err(why) => {
            session.refuse(Some(target), why.clone(), Some(&place));
            return record.end(Some(why));
        }
    };
    let is_second = client.get_ref().1.alpn_protocol() == Some(http2::PROTOCOL);
    let (limits, client) = (session.limits, TokioIo::new(client));
    let turn = Arc::new(Semaphore::new(1));
    let host = Arc::new(InspectedHost { session, target, place, turn });
    if is_second {
        let answer = move |request| {
            let host = host.clone();
            async move { host.answer(request).await }
        };
        http2::serve(client, &limits, answer).await;
    } else {
        let answer =
            service_fn(|request| async { Ok::<_, Infallible>(host.answer(request).await) });
        // An error is the program's affair: each request that was sent is recorded by itself.
        drop(http::settings(&limits).serve_connection(client, answer).await);
    }
    record.end(None);
}

type ClientStream<C> = TlsStream<Prefixed<Metered<C>>>;

/// Ends the program's TLS. `None` means that the program has sent nothing.
async fn accept<C>(
    session: &Session,
    client: C,
    target: &Target,
    record: &mut ConnectionRecord,
) -> Result<Option<ClientStream<C>>, String>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let limits = &session.limits;
    let mut client = Metered::new(client, Side::Client, record.meter.clone());
    let (first, meaning) = first_bytes(&mut client, limits)
        .await
        .map_err(|error| format!("the program's ClientHello: {error}"))?;
    let name = match (meaning, &target.host) {
        (FirstBytes::Partial, _) if first.is_empty() => return Ok(None),
        (FirstBytes::Hello(ServerName::Host(Host::Name(name))), Host::Name(asked))
            if name == *asked =>
        {
            name
        }
        (FirstBytes::Hello(named), _) => {
            // A program that is gone needs no reason.
            drop(client.write_all(&ACCESS_DENIED).await);
            drop(client.shutdown().await);
            let named = match named {
                ServerName::Host(host) => format!("is for {host}"),
                ServerName::Absent => "names no server".to_owned(),
                ServerName::Unreadable(error) => format!("can not be read: {error}"),
            };
            return Err(format!("the ClientHello {named}, the connection is for {target}"));
        }
        (FirstBytes::Other, _) if is_http(&first) => {
            let why = format!("{target} has a net.rule: requests to it must come over TLS");
            http::refuse_all(Prefixed::new(first, client), limits, &why).await;
            return Err(why);
        }
        (FirstBytes::Other | FirstBytes::Partial | FirstBytes::Broken(_), _) => {
            return Err(format!("{target} has a net.rule, and the program does not speak TLS"));
        }
    };
    record.server_name = Some(name.clone());
    let settings = session.inspection()?.authority.server(&name);
    let settings = settings.map_err(|error| error.to_string())?;
    let accepting = TlsAcceptor::from(settings).accept(Prefixed::new(first, client));
    match timeout(limits.handshake, accepting).await {
        Ok(Ok(client)) => Ok(Some(client)),
        Ok(Err(error)) => Err(describe_failure(target, &error)),
        Err(_) => Err("the program did not finish the TLS handshake in time".to_owned()),
    }
}

/// Returns the reason why a program's TLS handshake failed.
fn describe_failure(target: &Target, error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(rustls::Error::NoApplicationProtocol) = inner {
        return format!(
            "{target} has a net.rule, so requests to it must be HTTP/1.1 or HTTP/2, and the program \
             offers only other protocols"
        );
    }
    format!(
        "the program did not accept the certificate of {target}, which is the session's own \
         because {target} has a net.rule: {error}"
    )
}

/// An inspected host, as one connection of a program sees it.
#[derive(Debug)]
struct InspectedHost {
    session: Arc<Session>,
    target: Target,
    place: Place,
    /// The turn of the request that uses the place of the program's connection.
    turn: Arc<Semaphore>,
}

impl InspectedHost {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let session = &self.session;
        let refuse = |status, reason: &str| {
            session.refuse(Some(self.target.clone()), reason.to_owned(), Some(&self.place));
            http::refusal(status, reason)
        };
        let judged = async {
            let asked = self.read(&request).map_err(|(status, reason)| refuse(status, &reason))?;
            let credential = session.credentials.of(&self.target);
            let credential =
                credential.map_err(|reason| refuse(StatusCode::BAD_GATEWAY, &reason))?;
            let own = credential.as_ref().map(|(own, placeholder)| (own, *placeholder));
            if let Some(why) = session.refuse_misplaced(&self.target, &request, own, &self.place) {
                return Err(http::refusal(StatusCode::FORBIDDEN, &why));
            }
            let Some(place) = session.request_place(&self.turn).await else {
                let why = "the session has ended";
                return Err(http::refusal(StatusCode::SERVICE_UNAVAILABLE, why));
            };
            let open = match session.ask_request(self.target.clone(), asked, &place).await {
                Ok(permit) => permit.dial().await,
                Err(error) => Err(error),
            };
            open.map(|open| (open, credential)).map_err(|error| http::not_opened(&error))
        };
        match judged.await {
            Ok((open, credential)) => self.forward(open, request, credential).await,
            Err(refusal) => {
                http2::discard(request, &session.limits).await;
                refusal
            }
        }
    }

    /// Reads the parts of a request that are judged. It must be for this host.
    fn read(&self, request: &Request<Incoming>) -> Result<WebRequest, (StatusCode, String)> {
        let bad = |reason: &str| (StatusCode::BAD_REQUEST, reason.to_owned());
        let refused = |reason: String| (StatusCode::FORBIDDEN, reason);
        let (uri, headers) = (request.uri(), request.headers());
        let is_origin_form = uri.scheme().is_none() && uri.authority().is_none();
        let is_second = request.version() == Version::HTTP_2;
        if request.method() == Method::CONNECT || !(is_origin_form || is_second) {
            return Err(bad("a request on this connection must have a path only"));
        }
        if is_second && uri.scheme_str() != Some("https") {
            return Err(bad("a request on this connection must be for an https URL"));
        }
        if headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
            return Err(bad("the request has two lengths"));
        }
        let authority = uri.authority().map(|authority| authority.as_str());
        let authority = authority.map(|text| read_target_or(text, HTTPS_PORT)).transpose();
        let authority = authority.map_err(|_| bad("the request's authority can not be read"))?;
        let named = http::named_host(headers, HTTPS_PORT).map_err(bad)?;
        if authority.is_none() && named.is_none() {
            return Err(bad("the request has no Host header"));
        }
        for host in [authority, named].into_iter().flatten() {
            if host != self.target {
                let (is, of) = (host, &self.target);
                return Err(refused(format!("the request is for {is}, the connection for {of}")));
            }
        }
        let is_override = |name: &&HeaderName| {
            let plain = name.as_str().replace('_', "-");
            OVERRIDES.contains(&plain.as_str())
        };
        if let Some(name) = headers.keys().find(is_override) {
            let target = &self.target;
            return Err(refused(format!(
                "{target} has a net.rule, and the header {name} makes some servers take the request \
                 for another one"
            )));
        }
        if request.headers().contains_key(UPGRADE) {
            let target = &self.target;
            let reason = format!("{target} has a net.rule, so no other protocol can follow HTTP");
            return Err(refused(reason));
        }
        if uri.path().len() > MAX_REQUEST_PATH {
            let reason = format!("the path has more than {MAX_REQUEST_PATH} bytes");
            return Err((StatusCode::URI_TOO_LONG, reason));
        }
        let (method, path) = (request.method().as_str().to_owned(), uri.path().to_owned());
        Ok(WebRequest { method, path })
    }

    /// Sends an allowed request to the host, whose certificate must be one that this host trusts.
    async fn forward(
        &self,
        open: Open,
        mut request: Request<Incoming>,
        credential: Option<(Credential, &str)>,
    ) -> Answer {
        let Open { target, tunnel: _, destination, mut record } = open;
        let secured = match self.session.inspection() {
            Ok(inspection) => {
                let destination = (destination, request.version());
                inspection.trust.connect(&target, destination, &self.session.limits).await
            }
            Err(why) => Err(why),
        };
        match secured {
            Ok(destination) => {
                let echoes = credential.map(|(credential, placeholder)| {
                    fill_in(request.headers_mut(), &credential, placeholder);
                    EchoFilter::new(credential.echoes)
                });
                http::exchange(destination, (&target, HTTPS_PORT), record, request, (echoes, None))
                    .await
            }
            Err(reason) => {
                record.end(Some(reason.clone()));
                http::refusal(StatusCode::BAD_GATEWAY, &reason)
            }
        }
    }
}
