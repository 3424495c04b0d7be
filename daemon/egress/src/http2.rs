//! HTTP/2 with programs and with inspected hosts: its bounds, and the tasks that it needs. Each of its
//! streams is a request, which is judged and sent on as one of HTTP/1.1.

use crate::{
    http::{self, AnswerBody},
    limits::{Limits, MAX_HEAD},
};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    HeaderMap, Method, Request, Response, Uri, Version,
    body::Incoming,
    client::conn::http2 as client,
    header::{COOKIE, HOST, HeaderValue, TE},
    http::uri::Scheme,
    rt::{Executor, Read, Write},
    server::conn::http2 as server,
    service::service_fn,
};
use hyper_util::rt::TokioTimer;
use palisade_egress_protocol::host::Target;
use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use tokio::{sync::Notify, task::JoinSet, time::timeout};

/// The name of the protocol in TLS.
pub(crate) const PROTOCOL: &[u8] = b"h2";

/// Requests that a program may have under way at once on one connection.
const MAX_STREAMS: u32 = 32;

/// Most bytes of an answer that wait for a program which does not read them.
const MAX_UNSENT: usize = 64 * 1024;

/// Requests that a program may give up before they are answered, on one connection. Each of them costs
/// a question to the broker and perhaps a connection, and the program nothing.
const MAX_ABANDONED: usize = 100;

/// Most bytes of a refused request that are read before it is answered.
const MAX_DISCARDED: usize = 1024 * 1024;

/// The bound for the heads of messages. hyper counts 32 bytes more for each header.
const HEAD: u32 = {
    assert!(MAX_HEAD <= u32::MAX as usize);
    MAX_HEAD as u32
};

/// Starts the tasks of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn(task);
    }
}

/// The tasks of a connection, which end when this value is dropped.
#[derive(Debug, Default)]
pub(crate) struct OwnedTasks(Tasks);

impl Drop for OwnedTasks {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

/// The settings of the side that faces hosts.
pub(crate) fn host_settings(tasks: &OwnedTasks) -> client::Builder<Tasks> {
    let mut settings = client::Builder::new(tasks.0.clone());
    settings.timer(TokioTimer::new()).max_header_list_size(HEAD).max_send_buf_size(MAX_UNSENT);
    // A host can not begin streams of its own.
    settings.max_concurrent_streams(0);
    settings
}

/// The requests of a connection that were given up.
#[derive(Debug, Default)]
struct Requests {
    begun: AtomicUsize,
    abandoned: AtomicUsize,
    too_many: Notify,
}

/// A request that is being answered. Dropping it before the answer has begun means that it was given up.
struct Answering<'a> {
    requests: &'a Requests,
    is_answered: bool,
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        if !self.is_answered && self.requests.abandoned.fetch_add(1, Relaxed) >= MAX_ABANDONED {
            self.requests.too_many.notify_one();
        }
    }
}

/// Serves the requests of a program on one connection, until it ends.
pub(crate) async fn serve<I, A, F>(stream: I, limits: &Limits, answer: A)
where
    I: Read + Write + Unpin,
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<AnswerBody>> + Send + 'static,
{
    let tasks = OwnedTasks::default();
    let mut settings = server::Builder::new(tasks.0.clone());
    settings.timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
    settings.max_header_list_size(HEAD).max_send_buf_size(MAX_UNSENT);
    let requests = Arc::new(Requests::default());
    let counted = requests.clone();
    let answer = service_fn(move |request: Request<Incoming>| {
        let is_head = request.method() == Method::HEAD;
        let (answering, requests) = (answer(request), counted.clone());
        async move {
            requests.begun.fetch_add(1, Relaxed);
            let mut state = Answering { requests: &requests, is_answered: false };
            let mut answer = answering.await;
            state.is_answered = true;
            // An answer to `HEAD` has no body; hyper sees to that for HTTP/1.1 only.
            if let (true, AnswerBody::Text(text)) = (is_head, answer.body_mut()) {
                *text = Full::default();
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let mut connection = std::pin::pin!(settings.serve_connection(stream, answer));
    // An error is the program's affair: each request that was sent is recorded by itself.
    let serving = async {
        let first = timeout(limits.handshake, &mut connection).await;
        if first.is_err() && requests.begun.load(Relaxed) > 0 {
            drop(connection.await);
        }
    };
    tokio::select! {
        () = serving => {}
        () = requests.too_many.notified() => {}
    }
}

/// Makes a request of a program one of the room's to a host that speaks HTTP/2.
pub(crate) fn readdress<B>(
    request: &mut Request<B>,
    scheme: Scheme,
    target: &Target,
) -> Result<(), &'static str> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().scheme(scheme).authority(target.to_string()).path_and_query(path);
    *request.uri_mut() = uri.build().map_err(|_| "the request's path can not be read")?;
    *request.version_mut() = Version::HTTP_2;
    let headers = request.headers_mut();
    // Hosts that answer with trailers, as those of gRPC do, want to know that they are taken.
    let takes_trailers = headers.get(TE).is_some_and(|value| value == "trailers");
    http::remove_one_hop(headers);
    headers.remove(HOST);
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    Ok(())
}

/// Reads the rest of a refused request, up to a bound. A program that still sends would have its stream
/// reset, and would see that instead of the refusal.
pub(crate) async fn discard(request: Request<Incoming>, limits: &Limits) {
    if request.version() != Version::HTTP_2 {
        return;
    }
    let (mut body, mut left) = (request.into_body(), MAX_DISCARDED);
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, |data| data.len());
            match left.checked_sub(size) {
                Some(less) => left = less,
                None => return,
            }
        }
    };
    // A program that is slow has its stream reset.
    drop(timeout(limits.handshake, reading).await);
}

/// Puts the parts of a cookie together, which HTTP/2 may have apart and HTTP/1.1 may not.
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    let parts: Vec<_> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if parts.len() > 1
        && let Ok(whole) = HeaderValue::from_bytes(&parts.join(b"; ".as_slice()))
    {
        headers.insert(COOKIE, whole);
    }
}
