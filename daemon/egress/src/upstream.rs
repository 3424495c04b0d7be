//! The operator's HTTP proxy: connections through it, by `CONNECT` to an address that was checked. The
//! proxy learns the address and no name, and nothing of a session is in the request.

use crate::{
    authority::HostTrust,
    credential::{CredentialFiles, read_authorization},
    limits::Limits,
};
use hyper::Version;
use palisade_egress_protocol::{OperatorProxy, ProxyTransport};
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;
use zeroize::Zeroizing;

/// Most bytes of the head of a proxy's answer.
const MAX_ANSWER: usize = 8 * 1024;

/// A connection from the room to a destination.
#[derive(Debug)]
pub(crate) enum OutwardStream {
    /// Directly, or through a proxy without encryption.
    Plain(TcpStream),
    /// Through a proxy over TLS.
    Secured(Box<TlsStream<TcpStream>>),
}

/// The way through the operator's proxy.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) proxy: OperatorProxy,
    /// The files of credentials, with that of the proxy.
    pub(crate) files: CredentialFiles,
    pub(crate) trust: Arc<HostTrust>,
}

impl Upstream {
    /// Connects to an address through the proxy, which has one of these addresses. The caller bounds the
    /// time.
    pub(crate) async fn connect(
        &self,
        at: &[SocketAddr],
        to: SocketAddr,
        limits: &Limits,
    ) -> io::Result<OutwardStream> {
        // It is read for each connection, so that a new value counts at once.
        let authorization = match &self.proxy.credential {
            Some(name) => Some(read_authorization(&self.files, name).map_err(io::Error::other)?),
            None => None,
        };
        let stream = TcpStream::connect(at).await?;
        let mut stream = match self.proxy.transport {
            ProxyTransport::Plain => OutwardStream::Plain(stream),
            ProxyTransport::Tls => {
                let stream = (stream, Version::HTTP_11);
                let secured = self.trust.connect(&self.proxy.target, stream, limits).await;
                OutwardStream::Secured(Box::new(secured.map_err(io::Error::other)?.0))
            }
        };
        let mut request =
            Zeroizing::new(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n").into_bytes());
        if let Some(value) = &authorization {
            // Reserved at once, so that no copy is left behind.
            request.reserve_exact(value.len() + 32);
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(value);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request).await?;
        stream.flush().await?;
        let head = read_head(&mut stream).await?;
        match read_status(&head) {
            Some(200..=299) => Ok(stream),
            Some(407) if authorization.is_some() => {
                Err(io::Error::other("it refused the password"))
            }
            Some(407) => Err(io::Error::other(
                "it wants a password; name one in egress_proxy, as credential:NAME@HOST:PORT",
            )),
            Some(code) => Err(io::Error::other(format!("it refused {to} with status {code}"))),
            None => Err(io::Error::other("its answer is not one of an HTTP proxy")),
        }
    }
}

/// Reads the head of the answer, and not one byte more: the next ones are the destination's.
async fn read_head(stream: &mut OutwardStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_ANSWER {
            return Err(io::Error::other(format!("its answer has more than {MAX_ANSWER} bytes")));
        }
        let mut byte = [0];
        if stream.read(&mut byte).await? == 0 {
            return Err(io::Error::other("it ended the connection instead of an answer"));
        }
        head.extend(byte);
    }
    Ok(head)
}

/// Returns the status code of an answer's first line.
fn read_status(head: &[u8]) -> Option<u16> {
    let version = head.strip_prefix(b"HTTP/1.1 ").or_else(|| head.strip_prefix(b"HTTP/1.0 "))?;
    let (code, rest) = version.split_first_chunk::<3>()?;
    let is_number =
        code.iter().all(u8::is_ascii_digit) && matches!(rest.first(), Some(b' ' | b'\r'));
    str::from_utf8(code).ok()?.parse().ok().filter(|_| is_number)
}

impl AsyncRead for OutwardStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Secured(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for OutwardStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Secured(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Secured(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Secured(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
#[path = "upstream_tests.rs"]
mod tests;
