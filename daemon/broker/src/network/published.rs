//! The published ports of a session: what is listed and recorded of them. Runs in the broker.

use super::{connections, session::NetworkSession};
use crate::telemetry::Telemetry;
use palisade_audit::{CleanText, Connection, ConnectionVerdict, Count};
use palisade_protocol::ConnectionInfo;

/// The word in lists and records for a port that is published, which is not a connection.
const PUBLISH: &str = "publish";

/// The host of a published port: the session's loopback.
const LOOPBACK: &str = "127.0.0.1";

impl NetworkSession {
    /// Describes the published ports, each with its address on the host.
    pub(super) fn published_infos(&self) -> Vec<ConnectionInfo> {
        let info = |(port, at): (u16, std::net::SocketAddrV4)| ConnectionInfo {
            session: self.identity.id.clone(),
            call_ids: Vec::new(),
            host: LOOPBACK.to_owned(),
            port,
            asked: PUBLISH.to_owned(),
            rule: rule(port),
            address: Some(at.to_string()),
            time_ms: connections::millis(self.opened.elapsed()),
        };
        self.listeners.published().into_iter().map(info).collect()
    }

    /// Records that ports of the session can be connected to from the host.
    pub(super) fn record_published(&self, telemetry: &Telemetry) {
        for (port, at) in self.listeners.published() {
            let record = Connection {
                session: self.identity.id.to_string(),
                calls: Vec::new(),
                host: CleanText::new(LOOPBACK),
                port,
                asked: PUBLISH.to_owned(),
                verdict: ConnectionVerdict::Allow,
                rule: CleanText::new(&rule(port)),
                address: Some(at.to_string()),
                server_name: None,
                sent_bytes: 0,
                received_bytes: 0,
                duration_us: 0,
                failure: None,
                count: Count::default(),
                alarm: None,
                denial: None,
            };
            telemetry.audit.connection(&self.identity, record);
        }
    }
}

fn rule(port: u16) -> String {
    format!("net.publish.ports {port}")
}
