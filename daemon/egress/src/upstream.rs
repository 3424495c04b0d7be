//! The operator's HTTP proxy: connections through it, by `CONNECT` to an address that was checked. The
//! proxy learns the address and no name, and nothing of a session is in the request.

use std::{io, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Most bytes of the head of a proxy's answer.
const MAX_ANSWER: usize = 8 * 1024;

/// Connects to an address through a proxy that has one of these addresses. The caller bounds the time.
pub(crate) async fn connect(proxy: &[SocketAddr], to: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(proxy).await?;
    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let head = read_head(&mut stream).await?;
    match read_status(&head) {
        Some(200..=299) => Ok(stream),
        Some(407) => Err(io::Error::other("it wants a password, which can not be configured")),
        Some(code) => Err(io::Error::other(format!("it refused {to} with status {code}"))),
        None => Err(io::Error::other("its answer is not one of an HTTP proxy")),
    }
}

/// Reads the head of the answer, and not one byte more: the next ones are the destination's.
async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
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

#[cfg(test)]
#[path = "upstream_tests.rs"]
mod tests;
