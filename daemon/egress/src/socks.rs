//! SOCKS5: `CONNECT` without authentication.

use crate::{
    dial::DialError,
    link::Place,
    name::{host_of, read_host},
    session::{OpenError, Session},
    tunnel,
};
use palisade_egress_protocol::{Asked, host::Target};
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// The version of the protocol, which is its first byte.
pub(crate) const VERSION: u8 = 5;

/// The method without authentication, and the answer that none is acceptable.
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;

/// The command to connect.
const CONNECT: u8 = 1;

/// The forms of an address.
const IPV4: u8 = 1;
const DOMAIN: u8 = 3;
const IPV6: u8 = 4;

/// The codes of replies.
const SUCCEEDED: u8 = 0;
const FAILURE: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const REFUSED: u8 = 5;
const EXPIRED: u8 = 6;
const NO_COMMAND: u8 = 7;
const NO_ADDRESS_TYPE: u8 = 8;

/// Why no place could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocksError {
    /// The connection failed, or was not SOCKS5.
    #[error("SOCKS5: {0}")]
    Io(#[from] io::Error),
    /// The request is refused with a code.
    #[error("SOCKS5: {1}")]
    Refused(u8, String),
}

/// Serves a program that speaks SOCKS5.
pub(crate) async fn serve(session: Arc<Session>, mut client: TcpStream, place: Place) {
    let read = timeout(session.limits.handshake, read_request(&mut client)).await;
    let target = match read.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
    {
        Ok(target) => session.as_named(target),
        Err(error) => {
            session.refuse(None, error.to_string(), Some(&place));
            if let SocksError::Refused(code, _) = error {
                answer_and_close(client, code).await;
            }
            return;
        }
    };
    let ready = match session.ask_for(&client, target, Asked::Socks, &place).await {
        Ok(permit) => tunnel::prepare(permit).await,
        Err(error) => Err(error),
    };
    match ready {
        Ok(ready) => {
            // If the program is gone, the connection ends with no bytes.
            if client.write_all(&reply(SUCCEEDED)).await.is_ok() {
                tunnel::carry(session, client, ready, Asked::Socks, place).await;
            }
        }
        Err(error) => answer_and_close(client, code_of(&error)).await,
    }
}

/// Reads the place that a program wants a connection to.
pub(crate) async fn read_request<C>(client: &mut C) -> Result<Target, SocksError>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let [version, count] = read::<2>(client).await?;
    let mut methods = [0; 255];
    let methods = &mut methods[..usize::from(count)];
    client.read_exact(methods).await?;
    if version != VERSION || !methods.contains(&NO_AUTHENTICATION) {
        client.write_all(&[VERSION, NO_METHOD]).await?;
        let text = "the program wants to authenticate itself, which is not needed";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text).into());
    }
    client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, _, form] = read::<4>(client).await?;
    let refused = |code, why: &str| Err(SocksError::Refused(code, why.to_owned()));
    if version != VERSION {
        return refused(FAILURE, "the request has another version");
    }
    if command != CONNECT {
        return refused(NO_COMMAND, "only connections can be made, and no UDP is carried");
    }
    let host = match form {
        IPV4 => Ok(host_of(Ipv4Addr::from(read::<4>(client).await?).into())),
        IPV6 => Ok(host_of(Ipv6Addr::from(read::<16>(client).await?).into())),
        DOMAIN => {
            let [length] = read::<1>(client).await?;
            let mut name = [0; 255];
            let name = &mut name[..usize::from(length)];
            client.read_exact(name).await?;
            read_host(name)
        }
        _ => return refused(NO_ADDRESS_TYPE, "an address of an unknown form"),
    };
    let port = u16::from_be_bytes(read::<2>(client).await?);
    match host {
        Ok(host) if port != 0 => Ok(Target { host, port }),
        Ok(_) => refused(NOT_ALLOWED, "the port is 0"),
        Err(error) => refused(NOT_ALLOWED, &error.to_string()),
    }
}

async fn read<const N: usize>(client: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Returns a reply without an address: programs do not use it.
const fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

async fn answer_and_close(mut client: TcpStream, code: u8) {
    // A program that is gone needs no answer.
    drop(client.write_all(&reply(code)).await);
    drop(client.shutdown().await);
}

fn code_of(error: &OpenError) -> u8 {
    match error {
        OpenError::Denied(_) | OpenError::Dial(DialError::Address(..)) => NOT_ALLOWED,
        OpenError::Dial(DialError::Lookup(..) | DialError::NoAddress(_)) => HOST_UNREACHABLE,
        OpenError::Dial(DialError::Connect(_, error)) => {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                REFUSED
            } else if error.kind() == io::ErrorKind::TimedOut {
                EXPIRED
            } else {
                HOST_UNREACHABLE
            }
        }
    }
}

#[cfg(test)]
#[path = "socks_tests.rs"]
mod tests;
