//! Answers metrics scrapes: one request, one reply, over a Unix socket or a loopback address. Runs
//! in the broker.

use crate::front::{
    exposition,
    listen::{self, BoundSocket, ListenError, SocketAccess},
    server::Server,
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::Semaphore,
    time::{sleep, timeout},
};

/// The number of scrapes that are answered at once.
const AT_ONCE: usize = 8;
/// The time limit of one scrape.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of a request that are read.
const HEAD: usize = 8192;
/// The time to wait when the kernel has no free descriptor.
const SHORTAGE: Duration = Duration::from_millis(100);

/// The address on which scrapes are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Address {
    Unix(PathBuf),
    Loopback(SocketAddr),
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").map(PathBuf::from) {
            return match path.is_absolute() {
                true => Ok(Self::Unix(path)),
                false => Err(format!("{text:?} does not have an absolute path")),
            };
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Self::Loopback(address)),
            Ok(_) => Err(format!(
                "{text:?} is not a loopback address: other hosts could read the metrics"
            )),
            Err(_) => Err(format!(
                "{text:?} is invalid: use unix:/PATH or an address such as 127.0.0.1:9464"
            )),
        }
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        match address {
            Address::Unix(path) => format!("unix:{}", path.display()),
            Address::Loopback(address) => address.to_string(),
        }
    }
}

/// A socket for scrapes.
#[derive(Debug)]
pub(crate) enum Socket {
    Bound(BoundSocket),
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Creates the listening socket for scrapes.
pub(crate) fn bind(address: &Address, audience: SocketAccess) -> Result<Socket, ListenError> {
    match address {
        Address::Unix(path) => listen::bind(path, audience).map(Socket::Bound),
        Address::Loopback(address) => {
            TcpListener::bind(address).map(Socket::Tcp).map_err(|source| ListenError::Io {
                act: "listen on",
                path: address.to_string().into(),
                source,
            })
        }
    }
}

/// Answers scrapes for as long as the daemon runs.
pub(crate) async fn serve(socket: Socket, server: Arc<Server>) {
    let served = match socket {
        Socket::Bound(bound) => match bound.listener.try_clone() {
            Ok(listener) => unix(listener, server).await,
            Err(error) => Err(error),
        },
        Socket::Unix(listener) => unix(listener, server).await,
        Socket::Tcp(listener) => tcp(listener, server).await,
    };
    if let Err(error) = served {
        tracing::error!(%error, "metrics can not be scraped");
    }
}

async fn unix(listener: UnixListener, server: Arc<Server>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => begin(stream, &server, &places),
            Err(_) => sleep(SHORTAGE).await,
        }
    }
}

async fn tcp(listener: TcpListener, server: Arc<Server>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => begin(stream, &server, &places),
            Err(_) => sleep(SHORTAGE).await,
        }
    }
}

fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    server: &Arc<Server>,
    places: &Arc<Semaphore>,
) {
    // A connection over the limit is closed without an answer: the scraper will try again.
    let Ok(place) = Arc::clone(places).try_acquire_owned() else { return };
    let server = Arc::clone(server);
    tokio::spawn(async move {
        match timeout(PATIENCE, answer(stream, &server)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a scrape was not answered"),
            Err(_) => tracing::debug!("a scrape took too long"),
        }
        drop(place);
    });
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    server: &Server,
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > HEAD || stream.read_buf(&mut head).await? == 0 {
            return Err(io::Error::other("it sent no HTTP request"));
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => ("200 OK", exposition::of(server)),
        (Some("GET"), _) => ("404 Not Found", "only /metrics exists\n".to_owned()),
        (_, _) => ("405 Method Not Allowed", "use GET /metrics\n".to_owned()),
    };
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_path_or_a_loopback_address_is_one() {
        for text in ["unix:/run/palisade/metrics.sock", "127.0.0.1:9464", "[::1]:9464"] {
            let address = Address::try_from(text.to_owned()).unwrap();
            assert_eq!(String::from(address), text);
        }
        for text in ["unix:metrics.sock", "0.0.0.0:9464", "192.0.2.1:1", "[::]:1", "9464", "/x"] {
            assert!(Address::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
