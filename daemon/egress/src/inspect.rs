//! Connections to inspected hosts: TLS ends here, and each request is judged by itself before the host
//! hears of it. A program that does not accept the session's certificate gets no connection.

use crate::{
    authority::{HostTrust, SessionAuthority},
    credential::{Credential, fill_in},
    echo::EchoFilter,
    hello::{FirstBytes, ServerName},
    http::{self, Answer},
    link::Place,
    relay::{Metered, Prefixed, Side},
    session::{ConnectionRecord, Open, Permit, Session},
    tunnel::{ACCESS_DENIED, first_bytes, is_http},
};
use hyper::{Method, Request, StatusCode, body::Incoming, header::UPGRADE, service::service_fn};
use hyper_util::rt::TokioIo;
use palisade_egress_protocol::{
    MAX_REQUEST_PATH, WebRequest,
    host::{Host, Target},
};
use std::{convert::Infallible, io, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// The port of HTTPS, which requests need not name.
const HTTPS_PORT: u16 = 443;

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
    let settings = http::settings(&session.limits);
    let host = InspectedHost { session, target, place };
    let answer = service_fn(|request| async { Ok::<_, Infallible>(host.answer(request).await) });
    // An error is the program's affair: each request that was sent is recorded by itself.
    drop(settings.serve_connection(TokioIo::new(client), answer).await);
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
    let (first, meaning) = first_bytes(&mut client, limits, Vec::new())
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
            "{target} has a net.rule, so requests to it must be HTTP/1.1, and the program offers \
             only other protocols, such as HTTP/2"
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
}

impl InspectedHost {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let asked = match self.read(&request) {
            Ok(asked) => asked,
            Err((status, reason)) => {
                self.session.refuse(Some(self.target.clone()), reason.clone(), Some(&self.place));
                return http::refusal(status, &reason);
            }
        };
        let credential = match self.session.credentials.of(&self.target) {
            Ok(credential) => credential,
            Err(reason) => {
                self.session.refuse(Some(self.target.clone()), reason.clone(), Some(&self.place));
                return http::refusal(StatusCode::BAD_GATEWAY, &reason);
            }
        };
        let own = credential.as_ref().map(|(own, placeholder)| (own, *placeholder));
        let session = &self.session;
        if let Some(why) = session.refuse_misplaced(&self.target, &request, own, &self.place) {
            return http::refusal(StatusCode::FORBIDDEN, &why);
        }
        let open = match self.session.ask_request(self.target.clone(), asked, &self.place).await {
            Ok(permit) => permit.dial().await,
            Err(error) => Err(error),
        };
        match open {
            Ok(open) => self.forward(open, request, credential).await,
            Err(error) => http::not_opened(&error),
        }
    }

    /// Reads the parts of a request that are judged. It must be for this host.
    fn read(&self, request: &Request<Incoming>) -> Result<WebRequest, (StatusCode, String)> {
        let bad = |reason: &str| (StatusCode::BAD_REQUEST, reason.to_owned());
        let refused = |reason: String| (StatusCode::FORBIDDEN, reason);
        let uri = request.uri();
        let is_origin_form = uri.scheme().is_none() && uri.authority().is_none();
        if request.method() == Method::CONNECT || !is_origin_form {
            return Err(bad("a request on this connection must have a path only"));
        }
        match http::named_host(request.headers(), HTTPS_PORT).map_err(bad)? {
            Some(host) if host == self.target => {}
            Some(host) => {
                let (is, of) = (host, &self.target);
                return Err(refused(format!("the request is for {is}, the connection for {of}")));
            }
            None => return Err(bad("the request has no Host header")),
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
                http::exchange(destination, (&target, HTTPS_PORT), record, request, echoes).await
            }
            Err(reason) => {
                record.end(Some(reason.clone()));
                http::refusal(StatusCode::BAD_GATEWAY, &reason)
            }
        }
    }
}
