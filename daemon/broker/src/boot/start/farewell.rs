//! Tells the one client of an embedded daemon why it did not start, instead of just closing the
//! connection. Only the first byte is read, which shows the client's protocol dialect. Runs in the
//! broker.

use crate::front::wire::encode;
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

/// The time limit for the client to send its first byte, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends the reason to the client. Returns an error if that failed.
pub(super) fn tell(client: &UnixStream, why: &str) -> io::Result<()> {
    client.set_nonblocking(false)?;
    sockopt::set_socket_timeout(client, sockopt::Timeout::Recv, Some(PATIENCE))?;
    sockopt::set_socket_timeout(client, sockopt::Timeout::Send, Some(PATIENCE))?;
    let mut first = [0];
    let (heard, _) = rustix::net::recv(client, &mut first, RecvFlags::PEEK)?;
    if heard == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // The reason says what to do as well.
    let what = format!("the daemon did not start: {why}");
    let error = WireError::new(ErrorCode::NotStarted, what, "");
    let message = ServerMessage::Reply { id: None, reply: Reply::Error(error) };
    let [first] = first;
    // An unknown first byte is answered in JSON, which people can read.
    let dialect = sniff(first).unwrap_or(Dialect::JsonLines);
    let mut client = client;
    client.write_all(&encode(dialect, message))
}
