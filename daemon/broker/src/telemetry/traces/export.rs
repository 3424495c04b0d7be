//! The destination of traces and logs: a file, a Unix socket, or a collector on a loopback address.
//! Runs in the broker.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fmt, io, mem,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    fs::OpenOptions,
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    sync::mpsc,
    time::timeout,
};

/// The maximum number of items in a document.
const BATCH: usize = 64;

/// The time limit for a collector.
const PATIENCE: Duration = Duration::from_secs(5);

/// The destination of traces or logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Export {
    /// A file, which gets a line for each document.
    File(PathBuf),
    /// A Unix socket, which gets a connection and a line for each document.
    Unix(PathBuf),
    /// An HTTP collector (address and path), which gets a request for each document.
    Http(SocketAddr, String),
}

/// Sends items to a destination in batches, as they come. Counts those that it did not take in
/// `lost`, and logs `warning` when it stops taking them.
pub(in crate::telemetry) async fn send_batches<T>(
    mut items: mpsc::Receiver<T>,
    export: Export,
    lost: Arc<AtomicU64>,
    document: fn(Vec<T>) -> Value,
    warning: &'static str,
) {
    let mut is_taking = true;
    loop {
        let mut batch = Vec::new();
        if items.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        let count = batch.len() as u64;
        match export.send(&document(batch).to_string()).await {
            Ok(()) => is_taking = true,
            Err(error) => {
                lost.fetch_add(count, Ordering::Relaxed);
                if mem::take(&mut is_taking) {
                    tracing::warn!(%error, to = %export, "{warning}");
                }
            }
        }
    }
}

impl TryFrom<String> for Export {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text, "/v1/traces")
    }
}

impl Export {
    /// Parses a destination; `usual` is the path of a collector for which none is given.
    pub(crate) fn parse(text: &str, usual: &str) -> Result<Self, String> {
        let absolute = |path: &str| {
            let path = PathBuf::from(path);
            path.is_absolute()
                .then_some(path)
                .ok_or_else(|| format!("{text:?} does not have an absolute path"))
        };
        if let Some(path) = text.strip_prefix("file:") {
            return absolute(path).map(Self::File);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return absolute(path).map(Self::Unix);
        }
        let Some(url) = text.strip_prefix("http://") else {
            return Err(format!(
                "{text:?} is invalid: use file:/PATH, unix:/PATH or http://127.0.0.1:4318{usual}"
            ));
        };
        let (host, path) = url.split_at(url.find('/').unwrap_or(url.len()));
        if path.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(format!("{text:?} is not an address"));
        }
        let path = if path.is_empty() { usual } else { path };
        match host.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Self::Http(address, path.to_owned())),
            Ok(_) => {
                Err(format!("{text:?} is not a loopback address: it would be sent to unencrypted"))
            }
            Err(_) => Err(format!("{text:?} does not have an address such as 127.0.0.1:4318")),
        }
    }
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Http(address, path) => write!(f, "http://{address}{path}"),
        }
    }
}

impl From<Export> for String {
    fn from(export: Export) -> Self {
        export.to_string()
    }
}

impl Export {
    /// Sends a document to the destination.
    pub(in crate::telemetry) async fn send(&self, document: &str) -> io::Result<()> {
        timeout(PATIENCE, self.hand_over(document))
            .await
            .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))
    }

    async fn hand_over(&self, document: &str) -> io::Result<()> {
        let line = format!("{document}\n");
        match self {
            Self::File(path) => {
                // Opened each time, so that the file can be rotated by renaming.
                let mut options = OpenOptions::new();
                let mut file = options.append(true).create(true).mode(0o640).open(path).await?;
                file.write_all(line.as_bytes()).await?;
                file.flush().await
            }
            Self::Unix(path) => {
                let mut stream = UnixStream::connect(path).await?;
                stream.write_all(line.as_bytes()).await?;
                stream.shutdown().await
            }
            Self::Http(address, path) => {
                let stream = TcpStream::connect(address).await?;
                post(stream, &address.to_string(), path, document).await
            }
        }
    }
}

/// Sends one HTTP request; any status but 2xx is an error.
async fn post(mut stream: TcpStream, host: &str, path: &str, body: &str) -> io::Result<()> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    // The length of `HTTP/1.1 200`.
    let mut status = [0; 12];
    stream.read_exact(&mut status).await?;
    if status.get(9) == Some(&b'2') {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&status).into_owned();
    Err(io::Error::other(format!("the collector answered {said:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(text: &str) -> Result<Export, String> {
        Export::try_from(text.to_owned())
    }

    #[test]
    fn only_what_stays_on_the_host_is_a_place() {
        for good in
            ["file:/a/b", "unix:/a/b", "http://127.0.0.1:4318/v1/traces", "http://[::1]:1/x"]
        {
            assert_eq!(export(good).unwrap().to_string(), good);
        }
        assert_eq!(
            export("http://127.0.0.1:1").unwrap().to_string(),
            "http://127.0.0.1:1/v1/traces"
        );
        for bad in
            ["file:a", "unix:", "http://10.0.0.1:1/", "http://x:1/", "https://127.0.0.1:1/", "/a"]
        {
            assert!(export(bad).is_err(), "{bad}");
        }
        assert!(export("http://127.0.0.1:1/a b").is_err());
    }

    #[tokio::test]
    async fn a_collector_gets_a_request_and_its_refusal_is_an_error() {
        for (answer, well) in
            [("HTTP/1.1 200 OK\r\n\r\n", true), ("HTTP/1.1 503 No\r\n\r\n", false)]
        {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = Export::Http(listener.local_addr().unwrap(), "/v1/traces".to_owned());
            let collector = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 1024];
                let mut length = 0;
                while !request[..length].ends_with(b"{\"a\":1}") {
                    length += stream.read(&mut request[length..]).await.unwrap();
                }
                stream.write_all(answer.as_bytes()).await.unwrap();
                String::from_utf8(request[..length].to_vec()).unwrap()
            };
            let (request, sent) = tokio::join!(collector, to.send("{\"a\":1}"));
            assert!(request.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{request}");
            assert!(request.contains("\r\nContent-Length: 7\r\n"), "{request}");
            assert_eq!(sent.is_ok(), well);
        }
    }

    #[tokio::test]
    async fn a_file_gets_a_line_each() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("traces");
        let to = Export::File(path.clone());
        to.send("{}").await.unwrap();
        to.send("[]").await.unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "{}\n[]\n");
        assert!(Export::File("/nonexistent/a".into()).send("{}").await.is_err());
    }
}
