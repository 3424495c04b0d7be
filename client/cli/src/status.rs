//! `palisade status`: shows the daemon that answers, and this user's sessions with it.

use crate::{
    disconnect::disconnect,
    failure::Failure,
    linger,
    operator::sessions::size,
    paint::{self, Paint, field},
    print,
};
use clap::Args;
use palisade_client::Status;
use palisade_options::{
    Connection,
    connect::{self, Daemon, PrivateReason},
};

/// Show the daemon: its processes, its profiles, your sessions
#[derive(Debug, Args)]
#[command(after_help = "\
A daemon that an earlier command left running is counted on a line of its own; palisade stop ends
it.

Examples:
  palisade status
  palisade status --socket /run/palisade/agent.sock
  palisade status --json | jq .sessions")]
pub(crate) struct ShowStatus {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl ShowStatus {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let (client, daemon) = connect::connect(&self.connection).await?;
        let status = match client.status().await {
            Ok(status) if self.json => print::json(&status).map(|()| 0),
            Ok(status) => {
                let paint = paint::stdout();
                let lingering = linger::notice(paint).await;
                print::bytes((text(&status, daemon, paint) + &lingering).as_bytes()).map(|()| 0)
            }
            Err(error) => Err(error.into()),
        };
        disconnect(&client, status).await
    }
}

/// Returns the daemon's processes and properties, one line each.
pub(crate) fn rooms(status: &Status, daemon: Daemon) -> Vec<(&'static str, String)> {
    let answered = match daemon {
        Daemon::Running => "",
        Daemon::Private(PrivateReason::NoneRuns) => {
            " (private, started for this command: no daemon is running)"
        }
        Daemon::Private(PrivateReason::Profiles) => " (private, started for this command)",
        Daemon::Private(PrivateReason::NotAdmitted) => {
            " (private, started for this command: the service has a socket that this user may not \
             use)"
        }
    };
    vec![
        ("daemon", format!("{}{answered}", status.server)),
        ("build", status.build_id.clone()),
        ("kernel", status.kernel.clone()),
        ("mode", status.mode.clone()),
        ("broker", status.broker.clone()),
        ("launcher", status.launcher.clone()),
        ("egress", status.egress.clone()),
        ("profiles", status.profiles.join(", ")),
    ]
}

fn text(status: &Status, daemon: Daemon, paint: Paint) -> String {
    let mut lines: Vec<String> =
        rooms(status, daemon).into_iter().map(|(name, value)| field(name, &value, paint)).collect();
    let missing: Vec<_> =
        status.layers.iter().filter(|l| !l.available).map(|l| l.layer.as_str()).collect();
    let layers = if missing.is_empty() {
        "all available".to_owned()
    } else {
        format!("unavailable: {}; see palisade doctor", missing.join(", "))
    };
    lines.push(field("layers", &layers, paint));
    let records = match status.records.available {
        true => format!("from the kernel: {}", status.records.detail),
        false => format!("none from the kernel: {}; see palisade doctor", status.records.detail),
    };
    lines.push(field("records", &records, paint));
    for session in &status.sessions {
        let workspace = session.workspace.as_path().display();
        let told = format!(
            "{} in {workspace}, profile {}, {} calls, {} running",
            session.session, session.profile, session.calls, session.in_flight
        );
        lines.push(field("session", &told, paint));
    }
    if status.sessions.is_empty() {
        lines.push(field("sessions", "none", paint));
    }
    let kept = &status.kept;
    let told = format!(
        "{} of {} for output, {} of {} for undo",
        size(kept.spool_bytes),
        size(kept.spool_most),
        size(kept.undo_bytes),
        size(kept.undo_most)
    );
    lines.push(field("stored", &told, paint));
    lines.join("\n") + "\n"
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use palisade_protocol::{KeptOverview, LayerStatus, SessionStatus};

    pub(crate) fn status() -> Status {
        let layer = |name: &str, available| LayerStatus {
            layer: name.to_owned(),
            available,
            detail: format!("{name} detail"),
            advice: format!("{name} advice"),
        };
        Status {
            server: "palisaded 0.1.0".to_owned(),
            build_id: "abc".to_owned(),
            kernel: "6.18".to_owned(),
            mode: "user".to_owned(),
            broker: "pid 1".to_owned(),
            launcher: "pid 2".to_owned(),
            egress: "none running".to_owned(),
            layers: vec![layer("mount", true), layer("limits", false)],
            profiles: vec!["readonly".to_owned(), "workspace".to_owned()],
            sessions: vec![SessionStatus {
                session: "s1".parse().unwrap(),
                workspace: "/srv/a".into(),
                profile: "workspace".to_owned(),
                calls: 3,
                in_flight: 1,
            }],
            kept: KeptOverview {
                uid: 1000,
                spool_bytes: 0,
                spool_most: 256 << 20,
                undo_bytes: 8192,
                undo_most: 1 << 30,
            },
            records: palisade_protocol::RecordsStatus {
                available: false,
                detail: "records detail".to_owned(),
                advice: "records advice".to_owned(),
            },
        }
    }

    #[test]
    fn everything_is_shown() {
        let expected = "\
daemon    palisaded 0.1.0
build     abc
kernel    6.18
mode      user
broker    pid 1
launcher  pid 2
egress    none running
profiles  readonly, workspace
layers    unavailable: limits; see palisade doctor
records   none from the kernel: records detail; see palisade doctor
session   s1 in /srv/a, profile workspace, 3 calls, 1 running
stored    0B of 256M for output, 8K of 1024M for undo
";
        assert_eq!(text(&status(), Daemon::Running, Paint::Plain), expected);
    }

    #[test]
    fn a_private_daemon_is_said_to_be_one() {
        let shown = |why| text(&status(), Daemon::Private(why), Paint::Plain);
        let none = shown(PrivateReason::NoneRuns);
        assert!(none.contains("(private, started for this command: no daemon is running)\n"));
        // What does not let this user in may well be running.
        let closed = shown(PrivateReason::NotAdmitted);
        assert!(closed.contains(": the service has a socket that this user may not use)\n"));
        assert!(!closed.contains("no daemon is running"), "{closed}");
    }
}
