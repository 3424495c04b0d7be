//! Plain HTTP on a connection that is for one host: each request must be for that host, and is
//! judged by itself.

use crate::{
    http::{self, Answer},
    http2,
    link::Place,
    name::read_target_or,
    relay::Prefixed,
    request_line::is_second,
    session::Session,
    switch::Switch,
    tunnel::Ready,
};
use hyper::{
    Method, Request, StatusCode, Version, body::Incoming, header::CONTENT_LENGTH,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use palisade_egress_protocol::{Asked, Tunnel, host::Target};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Semaphore,
};

/// The host of a connection with HTTP requests.
#[derive(Debug)]
struct Origin {
    session: Arc<Session>,
    /// The number of the program's connection.
    number: u64,
    target: Target,
    asked: Asked,
    place: Place,
    /// The permit or connection for the first request: the program was asked about already.
    first: Mutex<Option<Ready>>,
    /// The turn of the request that uses the place of the program's connection.
    turn: Arc<Semaphore>,
    /// Where a request may switch the connection, if any protocol may follow HTTP.
    switch: Option<Switch>,
}

/// Serves a program's requests to one host. Its first bytes may have been read. HTTP/2 is spoken where
/// any protocol may be, and begins there.
pub(crate) async fn serve<C>(
    session: Arc<Session>,
    (first, client): (Vec<u8>, C),
    mut ready: Ready,
    asked: Asked,
    place: Place,
) where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limits = session.limits;
    let is_second = ready.tunnel() == Tunnel::Any && is_second(&first);
    let switch = (ready.tunnel() == Tunnel::Any).then(Switch::default);
    let client = TokioIo::new(Prefixed::new(first, client));
    let (number, target) = (ready.record().connection, ready.target().clone());
    let first = Mutex::new(Some(ready));
    let turn = Arc::new(Semaphore::new(1));
    let origin = Arc::new(Origin { session, number, target, asked, place, first, turn, switch });
    let answering = origin.clone();
    let answer = move |request| {
        let origin = answering.clone();
        async move { origin.answer(request).await }
    };
    if is_second {
        http2::serve(client, &limits, answer).await;
    } else {
        let answer = service_fn(move |request| {
            let answering = answer(request);
            async { Ok::<_, Infallible>(answering.await) }
        });
        // An error is the program's affair: each request that was sent is recorded by itself.
        drop(http::settings(&limits).serve_connection(client, answer).with_upgrades().await);
    }
    if let Some(switched) = origin.switch.as_ref().and_then(Switch::take) {
        switched.carry().await;
    }
    if let Some(first) = origin.take_first() {
        first.end_unused("the program sent no HTTP request that can be read".to_owned());
    }
}

impl Origin {
    fn take_first(&self) -> Option<Ready> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let refused = match self.check(&request) {
            Err((status, reason)) => {
                let target = Some(self.target.clone());
                self.session.refuse(target, reason.clone(), Some(&self.place));
                Some((status, reason))
            }
            Ok(()) => self
                .session
                .refuse_misplaced(&self.target, &request, None, &self.place)
                .map(|why| (StatusCode::FORBIDDEN, why)),
        };
        if let Some((status, reason)) = refused {
            if let Some(first) = self.take_first() {
                first.end_unused(reason.clone());
            }
            http2::discard(request, &self.session.limits).await;
            return http::refusal(status, &reason);
        }
        let Some(place) = self.session.request_place(&self.turn).await else {
            let why = "the session has ended";
            return http::refusal(StatusCode::SERVICE_UNAVAILABLE, why);
        };
        let open = match self.take_first() {
            Some(mut first) => {
                first.record().move_to(place);
                match first {
                    Ready::Open(open) => Ok(open),
                    Ready::Allowed(permit) => permit.dial().await,
                }
            }
            None => {
                let (target, asked) = (self.target.clone(), self.asked);
                match self.session.ask_on(self.number, target, asked, &place).await {
                    Ok(permit) => permit.dial().await,
                    Err(error) => Err(error),
                }
            }
        };
        match open {
            Ok(open) => http::forward(open, request, self.switch.as_ref()).await,
            Err(error) => {
                http2::discard(request, &self.session.limits).await;
                http::not_opened(&error)
            }
        }
    }

    fn check(&self, request: &Request<Incoming>) -> Result<(), (StatusCode, String)> {
        let bad = |reason: &str| (StatusCode::BAD_REQUEST, reason.to_owned());
        let uri = request.uri();
        let is_second = request.version() == Version::HTTP_2;
        let is_origin_form = uri.scheme().is_none() && uri.authority().is_none();
        if request.method() == Method::CONNECT
            || !(is_origin_form || is_second)
            || !uri.path().starts_with('/')
        {
            return Err(bad("a request on this connection must have a path only"));
        }
        if is_second && uri.scheme_str() != Some("http") {
            return Err(bad("a request on this connection must be for an http URL"));
        }
        if request.headers().get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
            return Err(bad("the request has two lengths"));
        }
        let authority = uri.authority().map(|text| read_target_or(text.as_str(), http::HTTP_PORT));
        let authority = authority.transpose();
        let authority = authority.map_err(|_| bad("the request's authority can not be read"))?;
        let named = http::named_host(request.headers(), http::HTTP_PORT).map_err(bad)?;
        if authority.is_none() && named.is_none() {
            return Err(bad("the request has no Host header"));
        }
        match [authority, named].into_iter().flatten().find(|host| *host != self.target) {
            None => Ok(()),
            Some(host) => {
                let reason =
                    format!("the request is for {host}, the connection for {}", self.target);
                Err((StatusCode::FORBIDDEN, reason))
            }
        }
    }
}
