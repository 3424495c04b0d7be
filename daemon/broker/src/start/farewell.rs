//! Tells the one client of a private daemon why it did not start, instead of leaving it with a broken
//! connection. Nothing is read but the first byte, which says how the client speaks. Broker.

use crate::wire::encode;
use palisade_protocol::{
    ErrorCode, Reply, ServerMessage, WireError,
    wire::{Dialect, sniff},
};
use rustix::net::{RecvFlags, sockopt};
use std::{
    io::{self, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

/// How long the client may take to begin, and to hear the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Says why to the client on a socket. An error if it could not be told.
pub(super) fn tell(client: &UnixStream, why: &str) -> io::Result<()> {
    client.set_nonblocking(false)?;
    sockopt::set_socket_timeout(client, sockopt::Timeout::Recv, Some(PATIENCE))?;
    sockopt::set_socket_timeout(client, sockopt::Timeout::Send, Some(PATIENCE))?;
    let mut first = [0];
    let (heard, _) = rustix::net::recv(client, &mut first, RecvFlags::PEEK)?;
    if heard == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let (what, hint) = why.split_once("; ").unwrap_or((why, ""));
    let what = format!("the daemon did not start: {what}");
    let error = WireError::new(ErrorCode::NotStarted, what, hint);
    let message = ServerMessage::Reply { id: None, reply: Reply::Error(error) };
    let [first] = first;
    // What begins no message at all is answered in the dialect that people read.
    let dialect = sniff(first).unwrap_or(Dialect::JsonLines);
    let mut client = client;
    client.write_all(&encode(dialect, message))
}
