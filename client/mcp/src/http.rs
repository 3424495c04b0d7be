//! Messages over HTTP, on a loopback address or a Unix socket. Each client has to show the token, or
//! to be the user who owns the socket.

use crate::{
    listen::{Listener, Stream},
    server::{Server, Shared},
};
use http_body_util::{BodyExt as _, Full, Limited, combinators::BoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, WWW_AUTHENTICATE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// The maximum number of connections at a time.
const MAX_CONNECTIONS: usize = 64;

/// The time that a client may take to send the head of a request.
const HEAD: Duration = Duration::from_secs(30);

/// The time after which the session of a client that sends nothing ends.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// The origins of pages that may be clients.
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The first version of the protocol in which each request stands alone.
const WITHOUT_SESSIONS: &str = "2026-07-28";

type Service = StreamableHttpService<Server, LocalSessionManager>;
type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Serves until the future is dropped.
pub(crate) async fn serve(listener: &Listener, token: Option<String>, shared: Arc<Shared>) {
    let config = StreamableHttpServerConfig::default()
        .with_cancellation_token(shared.ended.clone())
        .with_max_request_body_bytes(palisade_client::limits::MAX_FRAME)
        // Pages of other hosts are no clients, whatever name they give this host.
        .with_allowed_origins(ORIGINS);
    let factory = move || Ok(Server::new(Arc::clone(&shared)));
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(IDLE);
    let service = Service::new(factory, Arc::new(sessions), config);
    let token: Option<Arc<str>> = token.map(Into::into);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                eprintln!("warning: can not accept a connection: {error}");
                // Out of descriptors, for example. Others may be closed meanwhile.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (service, token) = (service.clone(), token.clone());
        tokio::spawn(async move {
            converse(stream, service, token).await;
            drop(place);
        });
    }
}

async fn converse(stream: Stream, service: Service, token: Option<Arc<str>>) {
    let is_local = matches!(stream, Stream::Unix(_));
    let answer = service_fn(move |mut request: Request<Incoming>| {
        let (service, token) = (service.clone(), token.clone());
        async move {
            if !is_authorized(&request, token.as_deref()) {
                return Ok::<Answer, Infallible>(unauthorized());
            }
            // The name of the host says nothing where there is no network.
            if is_local {
                request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
            }
            if is_initialize_without_sessions(&request) {
                return Ok(unknown_method(request.into_body()).await);
            }
            let is_end = request.method() == Method::DELETE;
            let mut answer = service.handle(request).await;
            // The end of a session is over when it is answered, and some clients take only this for it.
            if is_end && answer.status() == StatusCode::ACCEPTED {
                *answer.status_mut() = StatusCode::NO_CONTENT;
            }
            Ok(answer)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), answer);
    // A client that breaks off has ended its own calls.
    drop(served.await);
}

/// Returns `true` for the method `initialize` in the version of the protocol that has no sessions, and
/// so no such method. The library takes it for one of an earlier version.
fn is_initialize_without_sessions<B>(request: &Request<B>) -> bool {
    let is = |name: &str, wanted: &str| {
        request.headers().get(name).is_some_and(|value| value.as_bytes() == wanted.as_bytes())
    };
    is("mcp-method", "initialize") && is("mcp-protocol-version", WITHOUT_SESSIONS)
}

/// Answers a request whose method there is not, under its id.
async fn unknown_method(body: Incoming) -> Answer {
    let body = Limited::new(body, palisade_client::limits::MAX_FRAME).collect().await;
    let request = body.ok().and_then(|body| serde_json::from_slice(&body.to_bytes()).ok());
    let id = request.and_then(|mut request: Value| Some(request.get_mut("id")?.take()));
    let error = json!({"code": -32601, "message": "there is no method initialize in this version"});
    let text = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
    let mut answer = Response::new(Full::new(text.into()).boxed());
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// Returns `true` if a request shows the token, or if there is none.
fn is_authorized<B>(request: &Request<B>, token: Option<&str>) -> bool {
    let Some(token) = token else { return true };
    let mut given = request.headers().get_all(AUTHORIZATION).iter();
    let (Some(first), None) = (given.next(), given.next()) else { return false };
    first.as_bytes().strip_prefix(b"Bearer ").is_some_and(|given| same(given, token.as_bytes()))
}

/// Compares in a time that depends on the lengths only.
fn same(given: &[u8], token: &[u8]) -> bool {
    let differences = given.iter().zip(token).fold(0, |all, (one, other)| all | (one ^ other));
    given.len() == token.len() && differences == 0
}

fn unauthorized() -> Answer {
    let text = Bytes::from_static(b"the token of this server is missing or wrong\n");
    let mut answer = Response::new(Full::new(text).boxed());
    *answer.status_mut() = StatusCode::UNAUTHORIZED;
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_accepted() {
        let request = |values: &[&str]| {
            let mut request = Request::new(());
            for value in values {
                request.headers_mut().append(AUTHORIZATION, value.parse().unwrap());
            }
            request
        };
        let token = Some("0123456789abcdef");
        assert!(is_authorized(&request(&["Bearer 0123456789abcdef"]), token));
        for values in [
            &[][..],
            &["Bearer "],
            &["Bearer 0123456789abcde"],
            &["Bearer 0123456789abcdef0"],
            &["Bearer 0123456789abcdeF"],
            &["Basic 0123456789abcdef"],
            &["0123456789abcdef"],
            &["Bearer 0123456789abcdef", "Bearer x"],
        ] {
            assert!(!is_authorized(&request(values), token), "{values:?}");
        }
        assert!(is_authorized(&request(&[]), None));
    }
}
