//! HTTP in the room: hyper parses each request of a program and writes a new one to the destination, so
//! that nothing a parser could read in two ways is passed on.

use crate::{
    echo::EchoFilter,
    http2::{self, OwnedTasks},
    limits::{Limits, MAX_HEAD},
    name::{NameError, read_target_or},
    session::{ConnectionRecord, Open, OpenError},
    switch::{self, Switch, Switched},
};
use http_body_util::Full;
use hyper::{
    HeaderMap, Request, Response, StatusCode, Version,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    client::conn::http1 as client,
    header::{
        CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HOST, HeaderName, HeaderValue, TE,
        TRAILER,
    },
    header::{PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TRANSFER_ENCODING, UPGRADE},
    http::uri::Scheme,
    server::conn::http1 as server,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use palisade_egress_protocol::host::Target;
use std::{
    convert::Infallible,
    error::Error,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// The port of HTTP, which requests need not name.
pub(crate) const HTTP_PORT: u16 = 80;

/// Headers for one hop only, besides those that `Connection` names. `Expect` is one of them here:
/// hyper answers it as soon as the body is wanted.
const ONE_HOP: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    EXPECT,
];

/// An answer to a program.
pub(crate) type Answer = Response<AnswerBody>;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum AnswerBody {
    /// A text of the room's own.
    Text(Full<Bytes>),
    /// The destination's.
    Relayed(Box<Exchange>),
}

/// The rest of an exchange with a destination.
pub(crate) struct Exchange {
    /// Moves the bytes; `None` when it has ended.
    driver: Option<Driver>,
    /// The tasks that HTTP/2 needs to move them.
    _tasks: OwnedTasks,
    body: Incoming,
    record: ConnectionRecord,
    /// The texts to replace in the answer.
    echoes: Option<EchoFilter>,
    /// The trailers, while the rest of the data is on its way.
    trailers: Option<HeaderMap>,
}

pub(crate) type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("record", &self.record).finish_non_exhaustive()
    }
}

impl Exchange {
    fn new(
        (driver, tasks): (Option<Driver>, OwnedTasks),
        body: Incoming,
        record: ConnectionRecord,
        echoes: Option<EchoFilter>,
    ) -> Self {
        let trailers = None;
        let mut exchange = Self { driver, _tasks: tasks, body, record, echoes, trailers };
        exchange.note_end();
        exchange
    }

    /// Returns `true` if nothing of the answer is left, here or at the destination.
    fn is_over(&self) -> bool {
        self.body.is_end_stream()
            && self.trailers.is_none()
            && self.echoes.as_ref().is_none_or(EchoFilter::is_empty)
    }

    /// Replaces the credential in a piece of the answer. The rest that was held comes at its end.
    fn clean(&mut self, frame: Option<Frame<Bytes>>) -> Option<Frame<Bytes>> {
        let Some(echoes) = &mut self.echoes else { return frame };
        match frame.map(Frame::into_data) {
            Some(Ok(data)) => Some(Frame::data(echoes.pass(&data))),
            Some(Err(frame)) => {
                let mut trailers = frame.into_trailers().unwrap_or_default();
                echoes.clean(&mut trailers);
                if echoes.is_empty() {
                    return Some(Frame::trailers(trailers));
                }
                self.trailers = Some(trailers);
                Some(Frame::data(echoes.finish()))
            }
            None if echoes.is_empty() => None,
            None => Some(Frame::data(echoes.finish())),
        }
    }

    /// hyper does not poll a body again that says it is at its end.
    fn note_end(&mut self) {
        if self.body.is_end_stream() {
            self.record.end(None);
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let exchange = match &mut *self {
            Self::Text(text) => return Pin::new(text).poll_frame(cx).map_err(Into::into),
            Self::Relayed(exchange) => exchange,
        };
        if let Some(trailers) = exchange.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        if let Some(driver) = &mut exchange.driver
            && driver.as_mut().poll(cx).is_ready()
        {
            // If it failed, the body says so.
            exchange.driver = None;
        }
        let frame = ready!(Pin::new(&mut exchange.body).poll_frame(cx));
        match &frame {
            Some(Ok(_)) => exchange.note_end(),
            Some(Err(error)) => exchange.record.end(Some(describe(error))),
            None => exchange.record.end(None),
        }
        match frame.transpose() {
            Ok(frame) => Poll::Ready(exchange.clean(frame).map(Ok)),
            Err(error) => Poll::Ready(Some(Err(error.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_end_stream(),
            Self::Relayed(exchange) => exchange.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => text.size_hint(),
            Self::Relayed(exchange) => exchange.body.size_hint(),
        }
    }
}

/// Returns the innermost reason of an error: hyper's own text says only which act failed.
fn describe(error: &hyper::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

/// The settings of the side that faces programs.
pub(crate) fn settings(limits: &Limits) -> server::Builder {
    let mut settings = server::Builder::new();
    settings.timer(TokioTimer::new()).header_read_timeout(limits.handshake);
    // Without the second bound, a head may be as long as the buffer happens to be when it is read.
    settings.max_buf_size(MAX_HEAD).max_header_size(MAX_HEAD);
    settings
}

/// The settings of the side that faces hosts.
pub(crate) fn host_settings() -> client::Builder {
    let mut settings = client::Builder::new();
    settings.max_buf_size(MAX_HEAD).max_header_size(MAX_HEAD);
    settings
}

/// Returns an answer of the room's own, after which the connection ends.
pub(crate) fn refusal(status: StatusCode, reason: &str) -> Answer {
    let text = Full::new(Bytes::from(format!("palisade: {reason}\n")));
    let mut answer = Response::new(AnswerBody::Text(text));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// Returns the answer for a connection that was not made.
pub(crate) fn not_opened(error: &OpenError) -> Answer {
    use crate::dial::DialError::{Address, Connect, Lookup, NoAddress};
    let status = match error {
        OpenError::Denied(_) | OpenError::Dial(Address(..)) => StatusCode::FORBIDDEN,
        OpenError::Dial(Lookup(..) | NoAddress(_) | Connect(..)) => StatusCode::BAD_GATEWAY,
    };
    refusal(status, &error.to_string())
}

/// Answers every request on a connection with a refusal.
pub(crate) async fn refuse_all<C>(client: C, limits: &Limits, reason: &str)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let refuse = service_fn(|_: Request<Incoming>| async {
        Ok::<_, Infallible>(refusal(StatusCode::FORBIDDEN, reason))
    });
    // An error is the program's affair: it was refused.
    drop(settings(limits).serve_connection(TokioIo::new(client), refuse).await);
}

/// Returns the place that a request's `Host` header names; `None` if there is no header.
pub(crate) fn named_host(
    headers: &HeaderMap,
    default_port: u16,
) -> Result<Option<Target>, &'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (None, _) => return Ok(None),
        (Some(host), None) => host,
        (Some(_), Some(_)) => return Err("the request has two Host headers"),
    };
    let unreadable = |_: NameError| "the request's Host header is not a host and a port";
    let text = str::from_utf8(host.as_bytes()).map_err(|_| "the Host header is not UTF-8")?;
    read_target_or(text, default_port).map(Some).map_err(unreadable)
}

/// Sends a request for plain HTTP to its destination, in the version that the program speaks. It may
/// switch the connection if there is a place for that.
pub(crate) async fn forward(
    open: Open,
    request: Request<Incoming>,
    switch: Option<&Switch>,
) -> Answer {
    let Open { target, tunnel: _, destination, record } = open;
    let destination = (destination, request.version());
    exchange(destination, (&target, HTTP_PORT), record, request, (None, switch)).await
}

/// Waits for the answer to a request, while the connection is moved by its driver.
async fn wait_for(
    answered: impl Future<Output = hyper::Result<Response<Incoming>>>,
    driver: Driver,
) -> hyper::Result<(Response<Incoming>, Option<Driver>)> {
    let (mut answered, mut driver) = (pin!(answered), Some(driver));
    loop {
        let Some(running) = &mut driver else { return Ok((answered.await?, None)) };
        tokio::select! {
            response = &mut answered => return Ok((response?, driver)),
            _ = running => driver = None,
        }
    }
}

/// Sends a request to its destination, which speaks this version, and returns the answer as soon as it
/// begins.
pub(crate) async fn exchange<D>(
    (destination, version): (D, Version),
    (target, default_port): (&Target, u16),
    mut record: ConnectionRecord,
    mut request: Request<Incoming>,
    (echoes, switch): (Option<EchoFilter>, Option<&Switch>),
) -> Answer
where
    D: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let is_second = version == Version::HTTP_2;
    let wanted = switch.and_then(|switch| Some((switch, switch::wanted(&mut request)?)));
    let readdressed = if is_second {
        let scheme = if default_port == HTTP_PORT { Scheme::HTTP } else { Scheme::HTTPS };
        http2::readdress(&mut request, scheme, target)
    } else {
        readdress(&mut request, target, default_port)
    };
    if let Err(reason) = readdressed {
        record.end(Some(reason.to_owned()));
        return refusal(StatusCode::BAD_REQUEST, reason);
    }
    if wanted.is_some() {
        switch::write_agreement(request.headers_mut());
    }
    let (tasks, stream) = (OwnedTasks::default(), TokioIo::new(destination));
    let sent = async {
        if is_second {
            let (mut sender, driver) = http2::host_settings(&tasks).handshake(stream).await?;
            wait_for(sender.send_request(request), Box::pin(driver)).await
        } else {
            let (mut sender, driver) = host_settings().handshake(stream).await?;
            wait_for(sender.send_request(request), Box::pin(driver.with_upgrades())).await
        }
    };
    let (mut response, driver) = match sent.await {
        Ok(answered) => answered,
        Err(error) => {
            let reason = format!("{target} did not answer the request: {}", describe(&error));
            record.end(Some(reason.clone()));
            return refusal(StatusCode::BAD_GATEWAY, &reason);
        }
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        if let Some((switch, program)) = wanted {
            let host = hyper::upgrade::on(&mut response);
            switch.begin(Switched { program, host, driver, record });
            let mut head = response.into_parts().0;
            remove_one_hop(&mut head.headers);
            switch::write_agreement(&mut head.headers);
            return Response::from_parts(head, AnswerBody::Text(Full::default()));
        }
        let reason = format!("{target} switched to another protocol, which was not asked for");
        record.end(Some(reason.clone()));
        return refusal(StatusCode::BAD_GATEWAY, &reason);
    }
    let (mut head, body) = response.into_parts();
    head.version = Version::HTTP_11;
    remove_one_hop(&mut head.headers);
    if let Some(echoes) = &echoes {
        echoes.clean(&mut head.headers);
        // The reason phrase is among these, and would be sent on.
        head.extensions.clear();
        if head.headers.get_all(CONTENT_ENCODING).iter().any(|value| value != "identity") {
            let reason = format!(
                "{target} compressed its answer although it was asked not to, so that it can not be \
                 searched for the credential"
            );
            record.end(Some(reason.clone()));
            return refusal(StatusCode::BAD_GATEWAY, &reason);
        }
    }
    let exchange = Exchange::new((driver, tasks), body, record, echoes);
    Response::from_parts(head, AnswerBody::Relayed(Box::new(exchange)))
}

/// Makes a request of a program one of the room's to the destination.
pub(crate) fn readdress<B>(
    request: &mut Request<B>,
    target: &Target,
    default_port: u16,
) -> Result<(), &'static str> {
    if request.version() == Version::HTTP_2 {
        http2::join_cookies(request.headers_mut());
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = path.parse().map_err(|_| "the request's path can not be read")?;
    *request.uri_mut() = path;
    *request.version_mut() = Version::HTTP_11;
    let host =
        if target.port == default_port { target.host.to_string() } else { target.to_string() };
    let host = HeaderValue::from_str(&host).map_err(|_| "the host can not be sent")?;
    remove_one_hop(request.headers_mut());
    request.headers_mut().insert(HOST, host);
    Ok(())
}

pub(crate) fn remove_one_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named = named.flat_map(|value| value.split(',')).map(str::trim);
    let named: Vec<HeaderName> = named.filter_map(|name| name.parse().ok()).collect();
    for name in named.iter().chain(&ONE_HOP) {
        headers.remove(name);
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
