//! The name server of a session. It looks up nothing: an allowed name gets a synthetic address, and
//! any other name does not exist.

use crate::{
    link::Place,
    name::read_host,
    query::{MAX_QUERY, Query, Question, Reply, read_query},
    session::Session,
};
use palisade_egress_protocol::host::{Host, HostName};
use std::{io, net::Ipv4Addr, sync::Arc};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
    task::JoinSet,
    time::timeout,
};

/// The name of the session's own loopback, and the end of others for it.
const LOCALHOST: &str = "localhost";

/// Answers queries over UDP, for as long as the session exists.
pub(crate) async fn serve_udp(session: Arc<Session>, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let mut answering = JoinSet::new();
    let mut buffer = vec![0; MAX_QUERY];
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut buffer) => received,
            Some(_) = answering.join_next() => continue,
        };
        let (length, from) = match received {
            Ok(received) => received,
            // A program that is gone has refused its answer.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => {
                session.refuse(None, format!("the session's name server failed: {error}"), None);
                return;
            }
        };
        // Further queries wait in the socket, or are lost there.
        let Some(place) = session.lookup_place().await else { return };
        let (session, socket, query) = (session.clone(), socket.clone(), buffer[..length].to_vec());
        answering.spawn(async move {
            if let Some(answer) = answer(&session, &query, &place).await {
                // A program that is gone needs no answer; one whose answer is lost asks again.
                drop(socket.send_to(&answer, from).await);
            }
        });
    }
}

/// Answers queries over TCP, one after another.
pub(crate) async fn serve_tcp(session: Arc<Session>, mut client: TcpStream, place: Place) {
    let mut query = vec![0; MAX_QUERY];
    // A program that sends half a query, or none in time, is left.
    while let Ok(Ok(length)) =
        timeout(session.limits.handshake, read_framed(&mut client, &mut query)).await
    {
        let Some(answer) = answer(&session, &query[..length], &place).await else { return };
        let Ok(length) = u16::try_from(answer.len()) else { return };
        let framed = [&length.to_be_bytes(), answer.as_slice()].concat();
        match timeout(session.limits.handshake, client.write_all(&framed)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}

async fn read_framed(client: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let length = usize::from(client.read_u16().await?);
    let whole = buffer.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
    client.read_exact(whole).await
}

async fn answer(session: &Session, message: &[u8], place: &Place) -> Option<Vec<u8>> {
    match read_query(message) {
        Query::Question(question) => {
            let reply = decide(session, &question, place).await;
            Some(question.answer(reply))
        }
        Query::Refused(answer) => Some(answer),
        Query::Ignored => None,
    }
}

async fn decide(session: &Session, question: &Question<'_>, place: &Place) -> Reply {
    let host = question.name.as_deref().map(read_host);
    let Some(Ok(Host::Name(name))) = host else { return Reply::NoName };
    if !question.is_for_address {
        return Reply::Nothing;
    }
    if is_localhost(&name) {
        return Reply::Address(Ipv4Addr::LOCALHOST);
    }
    if !session.may_look_up(&name, place).await {
        return Reply::NoName;
    }
    session.synthetic().address_of(&name).map_or(Reply::Failure, Reply::Address)
}

fn is_localhost(name: &HostName) -> bool {
    name.as_str().rsplit('.').next() == Some(LOCALHOST)
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
