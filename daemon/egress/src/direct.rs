//! Connections to synthetic addresses, by programs that know no proxy: the address tells the name.

use crate::{link::Place, session::Session, tunnel};
use palisade_egress_protocol::{
    Asked,
    host::{Host, Target},
};
use std::{net::IpAddr, sync::Arc};
use tokio::net::TcpStream;

/// Serves a connection that a program has made to a synthetic address.
pub(crate) async fn serve(session: Arc<Session>, client: TcpStream, port: u16, place: Place) {
    let address = match client.local_addr() {
        Ok(address) => address.ip().to_canonical(),
        // The program is gone already.
        Err(_) => return,
    };
    serve_at(session, client, address, port, place).await;
}

async fn serve_at(
    session: Arc<Session>,
    client: TcpStream,
    address: IpAddr,
    port: u16,
    place: Place,
) {
    let name = match address {
        IpAddr::V4(address) => session.synthetic().name_of(address).cloned(),
        IpAddr::V6(_) => None,
    };
    let Some(name) = name else {
        let target = Target { host: Host::Address(address), port };
        let reason = "nothing listens on this address, and it stands for no name".to_owned();
        session.refuse(Some(target), reason, Some(&place));
        return;
    };
    let target = Target { host: Host::Name(name), port };
    let ready = match session.ask_for(&client, target, Asked::Direct, &place).await {
        Ok(permit) => tunnel::prepare(permit).await,
        Err(error) => Err(error),
    };
    match ready {
        Ok(ready) => tunnel::carry(session, client, ready, Asked::Direct, place).await,
        Err(error) => tunnel::turn_away(client, &session.limits, &error.to_string()).await,
    }
}

#[cfg(test)]
#[path = "direct_tests.rs"]
mod tests;
