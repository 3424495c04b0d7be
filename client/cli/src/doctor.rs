//! `palisade doctor`: shows what this host can enforce, by trying it.

mod prove;

use crate::{
    disconnect::disconnect,
    failure::Failure,
    linger,
    operator::OperatorOptions,
    paint::{self, Paint, Style, field, harmless},
    print,
    receipt::{self, Detail},
    status::rooms,
};
use clap::Args;
use palisade_client::{Client, Error, ErrorCode, LayerStatus, Open, Receipt, Status, WireError};
use palisade_options::{
    Connection,
    connect::{self, Daemon},
};
use serde_json::{Value, json};
use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt as _, path::PathBuf};

/// The exit status on a host that can not enforce the default profile.
const UNHEALTHY: u8 = 1;

/// Check what this host can enforce, and how to get what is missing
#[derive(Debug, Args)]
#[command(after_help = "\
Lists the kernel, Landlock, seccomp, each namespace and the limits, as the launcher found them by
trying. Then opens a session with the default profile in an empty directory and runs one command
in it.

--prove opens a session with each profile instead and tries to escape from it. A line for each
escape says which layer stopped it and with which answer; an allowed attempt of the same kind must
succeed. Names that a profile hides or protects are tried too, in separate calls, if the profile is
built in or found here (--profiles). The command approves its own calls, and no others: through the
operator socket of a running daemon. Where this user may not use that socket, approvers are asked.

Exit status: 0 the default profile is enforced, or each profile is proved; 1 the default profile can
not be enforced and calls are refused, or an escape was not stopped as expected; 125 no daemon.

Examples:
  palisade doctor
  palisade doctor --prove
  palisade doctor --prove strict mine --profiles /etc/palisade/profiles
  palisade doctor --json | jq '.status.layers[] | select(.available | not)'
  palisade doctor --socket /run/palisade/agent.sock")]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Try to escape from a session of each profile
    #[arg(long)]
    prove: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    operator: OperatorOptions,
    /// With --prove: the profiles to try [default: all that you may use]
    #[arg(value_name = "PROFILE", requires = "prove")]
    wanted: Vec<String>,
}

/// The outcome of the trial session.
#[derive(Debug)]
enum TrialOutcome {
    /// The session ran with this confinement.
    Kept(Box<Receipt>),
    /// The session was refused.
    Refused(Box<WireError>),
}

impl Doctor {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        if self.prove {
            return prove::perform(&self).await;
        }
        let (client, daemon) = connect::connect(&self.connection).await?;
        if let Some(notice) = daemon.notice() {
            print::note(&format!("note: {notice}"));
        }
        let status = self.examine(&client, daemon).await;
        disconnect(&client, status).await
    }

    async fn examine(&self, client: &Client, daemon: Daemon) -> Result<u8, Failure> {
        let status = client.status().await?;
        let directory = scratch()?;
        let trial = attempt(client, &directory).await;
        // The directory is empty; if it can not be deleted, no harm is done.
        drop(std::fs::remove_dir(&directory));
        let trial = trial?;
        if self.json {
            print::json(&report(&status, daemon, &trial))?;
        } else {
            let paint = paint::stdout();
            let lingering = linger::notice(paint).await;
            print::bytes((text(&status, daemon, &trial, paint) + &lingering).as_bytes())?;
        }
        Ok(match trial {
            TrialOutcome::Kept(_) => 0,
            TrialOutcome::Refused(_) => UNHEALTHY,
        })
    }
}

/// Creates a new directory that only this user can access.
fn scratch() -> Result<PathBuf, Failure> {
    let base = std::env::temp_dir().canonicalize();
    let made = base.and_then(|base| {
        let path = base.join(format!("palisade-doctor-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).map(|()| path)
    });
    made.map_err(|error| {
        let told = format!("can not create a temporary directory: {error}");
        Failure::new(told, "set TMPDIR to a directory that can be written to")
    })
}

async fn attempt(client: &Client, directory: &PathBuf) -> Result<TrialOutcome, Failure> {
    let tried = async {
        let session = client.open(Open::new(directory)).await?;
        let result = session.exec(["true"]).reason("palisade doctor").await?;
        session.close().await?;
        if !result.success {
            return Err(Error::Failed(Box::new(result)));
        }
        Ok(result.receipt.unwrap_or_else(|| Box::new(session.receipt().clone())))
    };
    match tried.await {
        Ok(receipt) => Ok(TrialOutcome::Kept(receipt)),
        Err(error) => match error.wire() {
            Some(wire) => Ok(TrialOutcome::Refused(Box::new(wire.clone()))),
            None => Err(error.into()),
        },
    }
}

fn report(status: &Status, daemon: Daemon, trial: &TrialOutcome) -> Value {
    let (ok, receipt, error) = match trial {
        TrialOutcome::Kept(receipt) => (true, json!(receipt), Value::Null),
        TrialOutcome::Refused(error) => {
            let error = json!({"message": error.message, "hint": error.hint, "code": error.code});
            (false, Value::Null, error)
        }
    };
    let private = matches!(daemon, Daemon::Private(_));
    json!({"ok": ok, "private": private, "status": status, "receipt": receipt, "error": error})
}

fn text(status: &Status, daemon: Daemon, trial: &TrialOutcome, paint: Paint) -> String {
    let mut lines: Vec<String> =
        rooms(status, daemon).into_iter().map(|(name, value)| field(name, &value, paint)).collect();
    lines.push(String::new());
    let mut rest: Vec<&LayerStatus> = status.layers.iter().collect();
    while let Some(first) = rest.first().copied() {
        let alike;
        (alike, rest) = rest
            .into_iter()
            .partition(|layer| layer.layer == first.layer || have_one_cause(first, layer));
        lines.extend(layers(first, &alike, paint));
    }
    lines.extend(records(status, paint));
    lines.push(String::new());
    lines.extend(verdict(trial, paint));
    lines.join("\n") + "\n"
}

/// Returns `true` if two layers are missing for the same reason. One may say more besides.
fn have_one_cause(one: &LayerStatus, other: &LayerStatus) -> bool {
    !one.available
        && !other.available
        && one.advice == other.advice
        && other.detail.starts_with(&one.detail)
}

/// Shows a layer, or several that are missing for one reason, which is told once.
fn layers(first: &LayerStatus, alike: &[&LayerStatus], paint: Paint) -> Vec<String> {
    let mark = match first.available {
        true => paint.apply(Style::Good, "yes"),
        false => paint.apply(Style::Error, "NO "),
    };
    let mut lines = Vec::new();
    for layer in alike {
        let more = layer.detail.strip_prefix(&first.detail).unwrap_or_default();
        let more = more.trim_start_matches("; ");
        let notes = match alike.len() {
            1 => [layer.detail.as_str(), meaning(&layer.layer)],
            _ => [meaning(&layer.layer), more],
        };
        let (shown, rest) = (field(&layer.layer, notes[0], paint), notes[1]);
        lines.push(format!("{mark} {shown}"));
        if !rest.is_empty() {
            lines.push(note(rest));
        }
    }
    if alike.len() > 1 {
        lines.push(note(&format!("why: {}", first.detail)));
    }
    if !first.advice.is_empty() {
        lines.push(note(&first.advice));
    }
    lines
}

fn note(text: &str) -> String {
    format!("              {}", harmless(text))
}

/// Shows whether the kernel's records of refusals are available. No layer depends on them.
fn records(status: &Status, paint: Paint) -> Vec<String> {
    let records = &status.records;
    let mark = match records.available {
        true => paint.apply(Style::Good, "yes"),
        false => paint.apply(Style::Warning, "no "),
    };
    let mut lines = vec![format!("{mark} {}", field("records", &records.detail, paint))];
    lines.push(
        "              the kernel's records of what it refuses to programs; not needed for \
         confinement"
            .to_owned(),
    );
    if !records.advice.is_empty() {
        lines.push(format!("              {}", harmless(&records.advice)));
    }
    lines
}

/// Describes what a layer gives the profiles that require it.
fn meaning(layer: &str) -> &'static str {
    match layer {
        "mount" => "private root directory: no other home, no /run, private /tmp; hides secrets",
        "pid" => "sees and signals only its own processes; all of them can be killed at once",
        "network" => "`net.mode` none, loopback and domains: the host's network can not be reached",
        "ipc" => "private shared memory and message queues",
        "uts" => "private host name",
        "cgroup" => "sees its own cgroup as the root",
        "landlock" => "the kernel enforces `read`, `write` and `execute` for each path",
        "seccomp" => "system calls outside the profile's list are refused",
        "limits" => "memory, processes and CPU are limited for the whole session",
        "hide" => "`fs.hide`: secrets in the workspace can not be read",
        "protect" => "`fs.protect`: names in the workspace can not be changed",
        _ => "",
    }
}

fn verdict(trial: &TrialOutcome, paint: Paint) -> Vec<String> {
    match trial {
        TrialOutcome::Kept(receipt) => {
            let mut lines = vec![receipt::confined(receipt)];
            lines.extend(receipt::degraded(&receipt.degraded, Detail::Full, paint));
            let told = match receipt.degraded.len() {
                0 => "this host can enforce the default profile",
                _ => "this host can enforce the default profile, which allows what is missing",
            };
            lines.push(paint.apply(Style::Good, told));
            lines
        }
        TrialOutcome::Refused(error) => {
            let WireError { code, message, hint, .. } = &**error;
            // A layer that the host lacks is one reason; that this user may not open a session is
            // another.
            let told = match *code == ErrorCode::LayerUnavailable {
                true => "this host can not enforce the default profile, so calls are refused",
                false => {
                    "not tried: this user may not open a session; other users may be allowed to"
                }
            };
            let mut lines = vec![paint.apply(Style::Error, told)];
            lines.push(format!("{} {}", paint.apply(Style::Error, "error:"), harmless(message)));
            if !hint.is_empty() {
                lines.push(format!("{} {}", paint.apply(Style::Hint, "hint:"), harmless(hint)));
            }
            lines
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_options::connect::PrivateReason;

    fn refused() -> TrialOutcome {
        let error = WireError::new(ErrorCode::LayerUnavailable, "no limits here", "delegate");
        TrialOutcome::Refused(Box::new(error))
    }

    #[test]
    fn who_may_have_no_session_is_not_told_that_the_host_is_to_blame() {
        let error = WireError::new(ErrorCode::OverCeiling, "a session may not run as root", "");
        let lines = verdict(&TrialOutcome::Refused(Box::new(error)), Paint::Plain);
        assert_eq!(
            lines,
            [
                "not tried: this user may not open a session; other users may be allowed to",
                "error: a session may not run as root"
            ]
        );
    }

    #[test]
    fn each_layer_has_its_line_and_its_advice() {
        let status = crate::status::tests::status();
        let shown = text(&status, Daemon::Running, &refused(), Paint::Plain);
        let expected = "\
yes mount     mount detail
              private root directory: no other home, no /run, private /tmp; hides secrets
              mount advice
NO  limits    limits detail
              memory, processes and CPU are limited for the whole session
              limits advice
no  records   records detail
              the kernel's records of what it refuses to programs; not needed for confinement
              records advice

this host can not enforce the default profile, so calls are refused
error: no limits here
hint: delegate
";
        assert!(shown.ends_with(expected), "{shown}");
    }

    #[test]
    fn layers_that_are_missing_for_one_reason_tell_it_once() {
        let layer = |name: &str, available: bool, detail: &str, advice: &str| LayerStatus {
            layer: name.to_owned(),
            available,
            detail: detail.to_owned(),
            advice: advice.to_owned(),
        };
        let mut status = crate::status::tests::status();
        let (why, advice) = ("no namespaces: sysctl x is 0: set it above 0", "or a service");
        status.layers = vec![
            layer("mount", false, why, advice),
            layer("network", false, &format!("{why}; outbound TCP: available"), advice),
            layer("landlock", true, "ABI 7", ""),
            layer("hide", false, why, advice),
            layer("limits", false, "no cgroup", "delegate"),
        ];
        let shown = text(&status, Daemon::Running, &refused(), Paint::Plain);
        let expected = "\
NO  mount     private root directory: no other home, no /run, private /tmp; hides secrets
NO  network   `net.mode` none, loopback and domains: the host's network can not be reached
              outbound TCP: available
NO  hide      `fs.hide`: secrets in the workspace can not be read
              why: no namespaces: sysctl x is 0: set it above 0
              or a service
yes landlock  ABI 7
              the kernel enforces `read`, `write` and `execute` for each path
NO  limits    no cgroup
              memory, processes and CPU are limited for the whole session
              delegate
";
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn the_report_is_one_object_with_the_verdict() {
        let status = crate::status::tests::status();
        let refusal = report(&status, Daemon::Private(PrivateReason::NoneRuns), &refused());
        assert_eq!(refusal["ok"], json!(false));
        assert_eq!(refusal["private"], json!(true));
        let error =
            json!({"message": "no limits here", "hint": "delegate", "code": "layer_unavailable"});
        assert_eq!(refusal["error"], error);
        assert_eq!(refusal["status"]["layers"][1]["available"], json!(false));
        let kept = report(&status, Daemon::Running, &TrialOutcome::Kept(Box::default()));
        assert_eq!((&kept["ok"], &kept["error"]), (&json!(true), &Value::Null));
        assert_eq!(kept["receipt"]["uid"], json!(0));
    }
}
