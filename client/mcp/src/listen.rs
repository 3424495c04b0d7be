//! The address that the server listens on, if it does not use standard input and output.

use palisade_options::ListenAddress;
use rustix::{fs::Mode, process::umask};
use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};

/// The minimum length of a token, in bytes.
const TOKEN_LENGTH: usize = 16;

/// The reason the server can not listen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    #[error("can not listen on {address}: {source}")]
    Bind { address: String, source: io::Error },
    #[error("can not read the token in {path}: {source}; write it there, with mode 0600")]
    Token { path: PathBuf, source: io::Error },
    #[error("others may read the token in {0}; chmod 600 it")]
    Exposed(PathBuf),
    #[error("the token in {0} has fewer than {TOKEN_LENGTH} characters, or has spaces")]
    Weak(PathBuf),
    #[error(
        "a loopback address needs --token-file: every user of this host can connect to it. A Unix \
         socket needs none"
    )]
    NoToken,
}

/// A socket that clients connect to. A Unix socket is deleted when this is dropped.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _path: SocketPath },
}

/// The path of a socket of this server's.
#[derive(Debug)]
pub(crate) struct SocketPath(PathBuf);

impl Drop for SocketPath {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            eprintln!("warning: can not delete {}: {error}", self.0.display());
        }
    }
}

/// A connection of a client.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Binds the address. A Unix socket must not exist yet, and only this user may connect to it.
    pub(crate) async fn bind(address: &ListenAddress) -> Result<Self, ListenError> {
        let bound = match address {
            ListenAddress::Loopback(address) => TcpListener::bind(address).await.map(Self::Tcp),
            ListenAddress::Unix(path) => bind_unix(path),
        };
        let listener =
            bound.map_err(|source| ListenError::Bind { address: address.to_string(), source })?;
        if let Self::Tcp(listener) = &listener {
            // With port 0, the kernel has chosen one.
            if let Ok(address) = listener.local_addr() {
                eprintln!("listening on http://{address}/");
            }
        }
        Ok(listener)
    }

    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| Stream::Tcp(stream)),
            Self::Unix { listener, .. } => {
                listener.accept().await.map(|(stream, _)| Stream::Unix(stream))
            }
        }
    }
}

fn bind_unix(path: &Path) -> io::Result<Listener> {
    // There is one thread, and nothing else is created meanwhile.
    let before = umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    Ok(Listener::Unix { listener: bound?, _path: SocketPath(path.to_owned()) })
}

/// Reads the token that clients have to show.
pub(crate) fn token(
    address: &ListenAddress,
    file: Option<&Path>,
) -> Result<Option<String>, ListenError> {
    let Some(path) = file else {
        return match address {
            ListenAddress::Loopback(_) => Err(ListenError::NoToken),
            ListenAddress::Unix(_) => Ok(None),
        };
    };
    let unread = |source| ListenError::Token { path: path.to_owned(), source };
    let mode = fs::metadata(path).map_err(unread)?.mode();
    if mode & 0o077 != 0 {
        return Err(ListenError::Exposed(path.to_owned()));
    }
    let text = fs::read_to_string(path).map_err(unread)?;
    let token = text.trim();
    if token.len() < TOKEN_LENGTH || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ListenError::Weak(path.to_owned()));
    }
    Ok(Some(token.to_owned()))
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, data),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, data),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
