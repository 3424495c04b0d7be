//! `palisade net`: lists the published ports and open network connections of this user's sessions.

use crate::{
    approve::asking,
    disconnect::disconnect,
    failure::Failure,
    paint::{self, Paint, Style, harmless},
    print,
};
use clap::Args;
use palisade_client::{ConnectionInfo, Connections};
use palisade_options::Connection;

/// List the published ports and open network connections of your sessions
#[derive(Debug, Args)]
#[command(after_help = "\
Only sessions whose profile has net.mode = \"domains\" have connections; an egress room makes them.
Those that have ended, and those that were refused, are in the audit log.

Examples:
  palisade net
  palisade net --json | jq '.connections[] | .host'
  palisade audit tail --json | jq 'select(.kind == \"connection\")'")]
pub(crate) struct ShowConnections {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl ShowConnections {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let client = asking::connect_to_read(&self.connection).await?;
        let shown = match client.connections().await {
            Ok(listed) if self.json => print::json(&listed).map(|()| 0),
            Ok(listed) => print::bytes(text(&listed, paint::stdout()).as_bytes()).map(|()| 0),
            Err(error) => Err(error.into()),
        };
        disconnect(&client, shown).await
    }
}

fn text(listed: &Connections, paint: Paint) -> String {
    if listed.connections.is_empty() {
        return "no network connections\n".to_owned();
    }
    listed.connections.iter().map(|connection| line(connection, paint)).collect()
}

fn line(connection: &ConnectionInfo, paint: Paint) -> String {
    let target = format!("{}:{}", connection.host, connection.port);
    let (style, address) = match &connection.address {
        Some(address) => (Style::Good, address.as_str()),
        None => (Style::Hint, "not connected yet"),
    };
    if connection.asked == "publish" {
        return format!(
            "{} published port {} at {}, {}\n",
            connection.session,
            connection.port,
            paint.apply(style, &harmless(address)),
            harmless(&connection.rule),
        );
    }
    let calls: Vec<_> = connection.call_ids.iter().map(ToString::to_string).collect();
    let calls = if calls.is_empty() { "none".to_owned() } else { calls.join(", ") };
    format!(
        "{} {} ({}), {} ms, {}, call {calls}\n",
        connection.session,
        paint.apply(style, &harmless(&target)),
        harmless(address),
        connection.time_ms,
        harmless(&connection.rule),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_and_a_word_for_none() {
        let connection = |host: &str, address: Option<&str>, calls: &[&str]| ConnectionInfo {
            session: "s-1".parse().unwrap(),
            call_ids: calls.iter().map(|call| call.parse().unwrap()).collect(),
            host: host.to_owned(),
            port: 443,
            asked: "connect".to_owned(),
            rule: "net.allow \"packages.example\"".to_owned(),
            address: address.map(str::to_owned),
            time_ms: 7,
        };
        let connections = vec![
            connection("packages.example", Some("203.0.113.7:443"), &["c-1", "c-2"]),
            connection("x\u{1b}[2J", None, &[]),
        ];
        assert_eq!(
            text(&Connections { connections }, Paint::Plain),
            "s-1 packages.example:443 (203.0.113.7:443), 7 ms, net.allow \"packages.example\", \
             call c-1, c-2\n\
             s-1 x\u{fffd}[2J:443 (not connected yet), 7 ms, net.allow \"packages.example\", call \
             none\n"
        );
        let published = ConnectionInfo {
            asked: "publish".to_owned(),
            port: 3000,
            rule: "net.publish.ports 3000".to_owned(),
            ..connection("127.0.0.1", Some("127.0.0.1:40001"), &[])
        };
        assert_eq!(
            text(&Connections { connections: vec![published] }, Paint::Plain),
            "s-1 published port 3000 at 127.0.0.1:40001, net.publish.ports 3000\n"
        );
        assert_eq!(text(&Connections::default(), Paint::Plain), "no network connections\n");
    }
}
