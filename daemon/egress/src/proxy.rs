//! The proxy's port: HTTP requests, `CONNECT` and SOCKS5, told apart by the first byte.

use crate::{
    http::{self, Answer, AnswerBody},
    link::Place,
    name::{read_target, read_target_or},
    relay::{Meter, Metered, Side},
    session::Session,
    socks,
    tunnel::{self, Ready},
};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Incoming},
    service::service_fn,
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use palisade_egress_protocol::{Asked, host::Target};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{net::TcpStream, time::timeout};

/// Serves a connection to the proxy's port.
pub(crate) async fn serve(session: Arc<Session>, client: TcpStream, place: Place) {
    let mut first = [0];
    match timeout(session.limits.handshake, client.peek(&mut first)).await {
        Ok(Ok(1)) if first[0] == socks::VERSION => socks::serve(session, client, place).await,
        Ok(Ok(1)) if first[0].is_ascii_uppercase() => serve_http(session, client, place).await,
        Ok(Ok(1)) => {
            let reason = "the proxy understands HTTP and SOCKS5 only".to_owned();
            session.refuse(None, reason, Some(&place));
        }
        // The program sent nothing.
        Ok(_) | Err(_) => {}
    }
}

/// A program's connection to the proxy.
#[derive(Debug)]
struct ProxyClient {
    session: Arc<Session>,
    /// The number of the connection.
    number: u64,
    place: Place,
    /// The tunnel that an answer to `CONNECT` begins.
    tunnel: Mutex<Option<(OnUpgrade, Ready)>>,
}

async fn serve_http(session: Arc<Session>, client: TcpStream, place: Place) {
    let meter = Meter::new(&session.limits);
    let stream = TokioIo::new(Metered::new(client, Side::Client, meter));
    let settings = http::settings(&session.limits);
    let number = session.next_question();
    let proxied = Arc::new(ProxyClient { session, number, place, tunnel: Mutex::default() });
    let answering = proxied.clone();
    let answer = service_fn(move |request| {
        let proxied = answering.clone();
        async move { Ok::<_, Infallible>(proxied.answer(request).await) }
    });
    // An error is the program's affair: each request that was sent is recorded by itself.
    drop(settings.serve_connection(stream, answer).with_upgrades().await);
    let tunnel = proxied.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((upgrade, ready)) = tunnel
        && let Ok(client) = upgrade.await
    {
        let (session, place) = (proxied.session.clone(), proxied.place.clone());
        tunnel::carry(session, TokioIo::new(client), ready, Asked::Connect, place).await;
    }
}

impl ProxyClient {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let target = match read_place(&request) {
            Ok(target) => self.session.as_named(target),
            Err(reason) => {
                self.session.refuse(None, reason.clone(), Some(&self.place));
                return http::refusal(StatusCode::BAD_REQUEST, &reason);
            }
        };
        if request.method() == Method::CONNECT {
            self.connect(request, target).await
        } else {
            self.request(request, target).await
        }
    }

    async fn connect(&self, request: Request<Incoming>, target: Target) -> Answer {
        let ready =
            match self.session.ask_on(self.number, target, Asked::Connect, &self.place).await {
                Ok(permit) => tunnel::prepare(permit).await,
                Err(error) => Err(error),
            };
        match ready {
            Ok(ready) => {
                let upgrade = hyper::upgrade::on(request);
                let mut tunnel = self.tunnel.lock().unwrap_or_else(PoisonError::into_inner);
                *tunnel = Some((upgrade, ready));
                Response::new(AnswerBody::Text(Full::default()))
            }
            Err(error) => http::not_opened(&error),
        }
    }

    async fn request(&self, request: Request<Incoming>, target: Target) -> Answer {
        if let Some(why) = self.session.refuse_misplaced(&target, &request, None, &self.place) {
            return http::refusal(StatusCode::FORBIDDEN, &why);
        }
        let open = match self.session.ask_on(self.number, target, Asked::Http, &self.place).await {
            Ok(permit) => permit.dial().await,
            Err(error) => Err(error),
        };
        match open {
            Ok(open) => http::forward(open, request, None).await,
            Err(error) => http::not_opened(&error),
        }
    }
}

/// Reads the place that a request to the proxy is for. Its `Host` header must agree.
pub(crate) fn read_place<B: Body>(request: &Request<B>) -> Result<Target, String> {
    let uri = request.uri();
    let authority = uri.authority().map(|authority| authority.as_str());
    let host = http::named_host(request.headers(), http::HTTP_PORT)?;
    if request.method() == Method::CONNECT {
        let authority = authority.ok_or("CONNECT needs a host and a port")?;
        let target = read_target(authority).map_err(|error| error.to_string())?;
        if !request.body().is_end_stream() {
            return Err("CONNECT has no body".to_owned());
        }
        // Some programs leave the port out of this header.
        return match host {
            Some(host) if host.host != target.host => Err(disagree(&host, &target)),
            _ => Ok(target),
        };
    }
    if uri.scheme_str() != Some("http") {
        return Err("the proxy takes requests for http:// URLs; https:// needs CONNECT".to_owned());
    }
    let authority = authority.ok_or("the URL has no host")?;
    let target = read_target_or(authority, http::HTTP_PORT).map_err(|error| error.to_string())?;
    match host {
        Some(host) if host != target => Err(disagree(&host, &target)),
        _ => Ok(target),
    }
}

fn disagree(host: &Target, target: &Target) -> String {
    format!("the request is for {target}, its Host header for {host}")
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
