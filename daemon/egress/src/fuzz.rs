//! The room's parsers of hostile bytes, each with what must hold for every input. For `tests/fuzz`: no
//! program of the project is built with the feature that has this module.

use crate::{
    Limits,
    hello::{FirstBytes, ServerName, read_first},
    http,
    name::{read_host, read_target_or},
    page_content::{Body, ContentType, render},
    page_url::PageUrl,
    proxy::read_place,
    query::{Query, Reply, read_query},
    request_line::{FirstLine, read_first_line},
    socks,
};
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use palisade_egress_protocol::{
    fetch::PageFormat,
    host::{Host, Target},
};
use rustls::server::Acceptor;
use std::{
    convert::Infallible,
    net::Ipv4Addr,
    sync::{Mutex, PoisonError},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The port of requests that name none.
const PORT: u16 = 80;

/// Most bytes of a page that is rendered.
const MOST: usize = 4096;

/// Runs a future that waits for nothing outside of this process.
fn complete(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    assert!(runtime.is_ok(), "{runtime:?}");
    if let Ok(runtime) = runtime {
        runtime.block_on(future);
    }
}

/// Checks that a host has one form, which is read as the same host, and that no name is an address to
/// anybody.
fn check_host(host: &Host) {
    let form = host.to_string();
    assert_eq!(read_host(form.as_bytes()).as_ref(), Ok(host), "{form}");
    let with_dot = format!("{form}.");
    let Host::Name(name) = host else { return };
    assert_eq!(read_host(with_dot.as_bytes()).as_ref(), Ok(host), "{form}");
    assert_eq!(read_host(form.to_ascii_uppercase().as_bytes()).as_ref(), Ok(host), "{form}");
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    assert!(name.as_str().bytes().all(is_plain), "{form}");
    // The parser of URLs that other programs have takes it for a name, too, and for the same one. It
    // may find that a label is not one of IDNA.
    if let Ok(url) = url::Url::parse(&format!("http://{form}/")) {
        assert_eq!(url.domain(), Some(name.as_str()), "{form}");
    }
}

/// Reads a host, and a host with a port.
pub fn host_name(text: &[u8]) {
    if let Ok(host) = read_host(text) {
        check_host(&host);
    }
    let Ok(text) = str::from_utf8(text) else { return };
    if let Ok(target) = read_target_or(text, PORT) {
        check_host(&target.host);
        assert_eq!(read_target_or(&target.to_string(), 1).as_ref(), Ok(&target));
    }
}

/// Reads the first bytes of a connection. A ClientHello that a TLS server accepts has the same name for
/// that server, and more bytes do not change what was decided.
pub fn client_hello(bytes: &[u8]) {
    let meaning = read_first(bytes);
    for end in [bytes.len() / 3, bytes.len() / 2, bytes.len().saturating_sub(1)] {
        let before = read_first(&bytes[..end]);
        assert!(before == FirstBytes::Partial || before == meaning, "{before:?}, then {meaning:?}");
    }
    let FirstBytes::Hello(ours) = meaning else { return };
    let mut server = Acceptor::default();
    let mut left = bytes;
    while !left.is_empty() {
        match server.read_tls(&mut left) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let Ok(Some(accepted)) = server.accept() else { return };
    let theirs = accepted.client_hello().server_name().map(|name| read_host(name.as_bytes()));
    let is_same = match (&ours, &theirs) {
        // A server takes an address for no name.
        (ServerName::Absent | ServerName::Host(Host::Address(_)), None) => true,
        (ServerName::Host(host), Some(Ok(name))) => host == name,
        // The connection is refused.
        (ServerName::Unreadable(_), _) => true,
        (ServerName::Absent | ServerName::Host(_), _) => false,
    };
    assert!(is_same, "{ours:?} is {theirs:?} for a server");
}

/// Reads the first line of a connection that may carry any protocol. Whatever an HTTP server takes for
/// a request is one, and more bytes do not change what was decided.
pub fn first_line(bytes: &[u8]) {
    let meaning = read_first_line(bytes);
    for end in 0..bytes.len().min(256) {
        let before = read_first_line(&bytes[..end]);
        assert!(before == FirstLine::Partial || before == meaning, "{before:?}, then {meaning:?}");
    }
    complete(async {
        serve_http(bytes, async |_| {
            assert_eq!(meaning, FirstLine::Request, "{}", bytes.escape_ascii());
        })
        .await;
    });
}

/// Reads what a program says in SOCKS5. Bytes after the request are left for the destination.
pub fn socks(bytes: &[u8]) {
    complete(async {
        // Every answer fits, so that nothing waits.
        let (mut program, mut room) = tokio::io::duplex(bytes.len().max(64));
        drop(program.write_all(bytes).await);
        drop(program.shutdown().await);
        let read = socks::read_request(&mut room).await;
        let mut left = Vec::new();
        drop(room.read_to_end(&mut left).await);
        drop(room);
        let mut answers = Vec::new();
        drop(program.read_to_end(&mut answers).await);
        assert!(matches!(answers.as_slice(), [] | [5, 0 | 0xff]), "{answers:?}");
        if let Ok(target) = read {
            check_host(&target.host);
            assert!(target.port != 0 && bytes.ends_with(&left), "{target}");
            let methods = usize::from(bytes[1]);
            let used = match bytes[2 + methods + 3] {
                1 => 4,
                4 => 16,
                _ => 1 + usize::from(bytes[2 + methods + 4]),
            };
            assert_eq!(bytes.len() - left.len(), 2 + methods + 4 + used + 2);
        }
    });
}

/// Reads a query of DNS. Its answers are answers, to the same question.
pub fn dns_query(message: &[u8]) {
    let question = match read_query(message) {
        Query::Question(question) => question,
        Query::Refused(answer) => return assert_eq!(read_query(&answer), Query::Ignored),
        Query::Ignored => return,
    };
    if let Some(Ok(host)) = question.name.as_deref().map(read_host) {
        check_host(&host);
    }
    let address = Reply::Address(Ipv4Addr::new(198, 18, 0, 1));
    for reply in [address, Reply::Nothing, Reply::NoName, Reply::Failure] {
        let answer = question.answer(reply);
        assert_eq!(read_query(&answer), Query::Ignored);
        assert!(answer.len() <= 512 && answer[..2] == message[..2], "{}", answer.len());
        let asked = answer.len() - if reply == address { 16 } else { 0 };
        assert_eq!(answer[12..asked], message[12..asked]);
    }
}

/// Reads the requests of a program to the proxy. Of each that would be sent on, the host hears one that
/// is for it, and that has one length.
pub fn http_requests(bytes: &[u8]) {
    complete(async {
        let sent = Mutex::new(Vec::new());
        serve_http(bytes, async |request| {
            if let Some(written) = write_anew(request).await {
                sent.lock().unwrap_or_else(PoisonError::into_inner).push(written);
            }
        })
        .await;
        for (target, written) in sent.into_inner().unwrap_or_else(PoisonError::into_inner) {
            check_written(&target, &written);
        }
    });
}

/// Serves what a program sends as HTTP, with empty answers.
async fn serve_http(bytes: &[u8], heard: impl AsyncFn(Request<Incoming>)) {
    let (mut program, room) = tokio::io::duplex(bytes.len().max(1));
    drop(program.write_all(bytes).await);
    drop(program.shutdown().await);
    let heard = &heard;
    let answer = service_fn(|request| async move {
        heard(request).await;
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
    });
    // The program reads nothing; an answer that it does not take ends the connection.
    let mut unread = tokio::io::sink();
    let reading = tokio::io::copy(&mut program, &mut unread);
    let limits = Limits::default();
    let serving = http::settings(&limits).serve_connection(TokioIo::new(room), answer);
    drop(tokio::join!(serving, reading));
}

/// Writes a request of a program as the room does; `None` if it is refused.
async fn write_anew(mut request: Request<Incoming>) -> Option<(Target, Vec<u8>)> {
    let target = read_place(&request).ok()?;
    http::readdress(&mut request, &target, PORT).ok()?;
    let (mut host, room) = tokio::io::duplex(1 << 20);
    let (mut sender, driver) = http::host_settings().handshake(TokioIo::new(room)).await.ok()?;
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let exchange = async {
        // A body that is broken off ends the connection, too.
        drop(sender.send_request(request).await);
        drop(sender);
    };
    let mut written = Vec::new();
    let hearing = async {
        while !written.windows(4).any(|window| window == b"\r\n\r\n")
            && matches!(host.read_buf(&mut written).await, Ok(1..))
        {}
        drop(host.write_all(answer).await);
        drop(host.read_to_end(&mut written).await);
    };
    drop(tokio::join!(driver, exchange, hearing));
    Some((target, written))
}

fn check_written(target: &Target, written: &[u8]) {
    let shown = || String::from_utf8_lossy(written).into_owned();
    let Some(end) = written.windows(4).position(|window| window == b"\r\n\r\n") else {
        return assert!(written.is_empty(), "{}", shown());
    };
    let head = String::from_utf8_lossy(&written[..end]).to_ascii_lowercase();
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    assert!(first.ends_with(" http/1.1") && first.split(' ').count() == 3, "{}", shown());
    assert!(!head.replace("\r\n", "").contains(['\r', '\n', '\0']), "{}", shown());
    let headers: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
    let values = |wanted: &str| {
        headers.iter().filter(|(name, _)| *name == wanted).map(|(_, v)| *v).collect::<Vec<_>>()
    };
    let expected = if target.port == PORT { target.host.to_string() } else { target.to_string() };
    assert_eq!(values("host"), [expected], "{}", shown());
    let lengths = [values("content-length"), values("transfer-encoding")].concat();
    assert!(lengths.len() <= 1, "{}", shown());
    assert!(values("connection").is_empty() && values("upgrade").is_empty(), "{}", shown());
}

/// Renders a page in every form: the first line is its content type, and the rest its body.
pub fn web_page(bytes: &[u8]) {
    let (kind, body) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (&b"text/html"[..], bytes),
    };
    let kind = String::from_utf8_lossy(kind);
    let Ok(page) = PageUrl::parse("https://docs.example/a/b") else { return };
    if let Ok(next) = page.follow(&kind) {
        assert!(next.is_tls());
        check_host(&next.target.host);
    }
    let kind = ContentType::parse(&kind);
    for format in [PageFormat::Markdown, PageFormat::Text, PageFormat::Html, PageFormat::Raw] {
        let body = Body { bytes: body.to_vec(), is_cut: false };
        let Ok(rendered) = render(body, &kind, format, (page.url(), MOST)) else { continue };
        let is_text = rendered.kind == palisade_egress_protocol::fetch::PageContent::Text;
        assert!(!is_text || rendered.bytes.len() <= MOST, "{}", rendered.bytes.len());
        assert!(!is_text || str::from_utf8(&rendered.bytes).is_ok());
    }
}

#[cfg(test)]
#[path = "fuzz_tests.rs"]
mod tests;
