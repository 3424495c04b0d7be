//! Plain HTTP on a connection that is for one host: each request must be for that host, and is
//! judged by itself.

use crate::{
    http::{self, Answer},
    link::Place,
    session::Session,
    tunnel::Ready,
};
use hyper::{Method, Request, StatusCode, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use palisade_egress_protocol::{Asked, host::Target};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// The host of a connection with HTTP requests.
#[derive(Debug)]
struct Origin {
    session: Arc<Session>,
    target: Target,
    asked: Asked,
    place: Place,
    /// The permit or connection for the first request: the program was asked about already.
    first: Mutex<Option<Ready>>,
}

/// Serves a program's requests to one host.
pub(crate) async fn serve<C>(
    session: Arc<Session>,
    client: C,
    ready: Ready,
    asked: Asked,
    place: Place,
) where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let settings = http::settings(&session.limits);
    let (target, first) = (ready.target().clone(), Mutex::new(Some(ready)));
    let origin = Origin { session, target, asked, place, first };
    let answer = service_fn(|request| async { Ok::<_, Infallible>(origin.answer(request).await) });
    // An error is the program's affair: each request that was sent is recorded by itself.
    drop(settings.serve_connection(TokioIo::new(client), answer).await);
    if let Some(first) = origin.take_first() {
        first.end_unused("the program sent no HTTP request that can be read".to_owned());
    }
}

impl Origin {
    fn take_first(&self) -> Option<Ready> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if let Err((status, reason)) = self.check(&request) {
            if let Some(first) = self.take_first() {
                first.end_unused(reason.clone());
            }
            self.session.refuse(Some(self.target.clone()), reason.clone(), Some(&self.place));
            return http::refusal(status, &reason);
        }
        let misplaced = self.session.refuse_misplaced(&self.target, &request, None, &self.place);
        if let Some(why) = misplaced {
            if let Some(first) = self.take_first() {
                first.end_unused(why.clone());
            }
            return http::refusal(StatusCode::FORBIDDEN, &why);
        }
        let open = match self.take_first() {
            Some(Ready::Open(open)) => Ok(open),
            Some(Ready::Allowed(permit)) => permit.dial().await,
            None => match self.session.ask(self.target.clone(), self.asked, &self.place).await {
                Ok(permit) => permit.dial().await,
                Err(error) => Err(error),
            },
        };
        match open {
            Ok(open) => http::forward(open, request).await,
            Err(error) => http::not_opened(&error),
        }
    }

    fn check(&self, request: &Request<Incoming>) -> Result<(), (StatusCode, String)> {
        let bad = |reason: &str| (StatusCode::BAD_REQUEST, reason.to_owned());
        let uri = request.uri();
        let is_origin_form = uri.scheme().is_none() && uri.authority().is_none();
        if request.method() == Method::CONNECT || !is_origin_form || !uri.path().starts_with('/') {
            return Err(bad("a request on this connection must have a path only"));
        }
        match http::named_host(request.headers(), http::HTTP_PORT).map_err(bad)? {
            Some(host) if host == self.target => Ok(()),
            Some(host) => {
                let reason =
                    format!("the request is for {host}, the connection for {}", self.target);
                Err((StatusCode::FORBIDDEN, reason))
            }
            None => Err(bad("the request has no Host header")),
        }
    }
}
