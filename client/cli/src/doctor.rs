//! `palisade doctor`: what this host can enforce, shown by doing it.

mod prove;

use crate::{
    connect::{self, Daemon},
    failure::Failure,
    options::Connection,
    paint::{self, Paint, Style, harmless},
    print, receipt, run,
    status::{field, rooms},
};
use clap::Args;
use palisade_client::{Client, Error, ErrorCode, Open, Receipt, Status, WireError};
use serde_json::{Value, json};
use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt as _, path::PathBuf};

/// The status of a host where the default profile can not be kept.
const UNHEALTHY: u8 = 1;

/// Check what this host can enforce, and say what to do about what is missing
#[derive(Debug, Args)]
#[command(after_help = "\
Lists kernel, Landlock, seccomp, each namespace and the limits as the launcher found them by
trying, then opens a session with the default profile in an empty directory and runs one command
in it.

With --prove it opens a session with each profile instead and tries to get out of it: a line for
each escape says which layer stopped it and with which answer, beside an attempt of the same kind
that succeeded. Names that a profile hides or protects are tried too, in calls of their own, if it
is one of the built-in profiles or of those that are here (--profiles). What a running daemon asks
about is for its handlers to approve; a private daemon's questions are answered here.

Exit status: 0 the default profile is kept, or each profile is proved; 1 it is not, and calls are
refused, or an escape was not stopped as it must be; 125 no daemon.

Examples:
  palisade doctor
  palisade doctor --prove
  palisade doctor --prove strict mine --profiles /etc/palisade/profiles
  palisade doctor --json | jq '.status.layers[] | select(.available | not)'
  palisade doctor --socket /run/palisade/agent.sock")]
pub(crate) struct Doctor {
    /// Print it as one JSON object
    #[arg(long)]
    json: bool,
    /// Try to escape from a session of each profile
    #[arg(long)]
    prove: bool,
    #[command(flatten)]
    connection: Connection,
    /// With --prove, the profiles; all that you may use if none is given
    #[arg(value_name = "PROFILE", requires = "prove")]
    wanted: Vec<String>,
}

/// What became of the trial session.
#[derive(Debug)]
enum Trial {
    /// It ran, confined like this.
    Kept(Box<Receipt>),
    /// It was refused.
    Refused(Box<WireError>),
}

impl Doctor {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        if self.prove {
            return prove::perform(&self).await;
        }
        let (client, daemon) = connect::connect(&self.connection).await?;
        let status = self.examine(&client, daemon).await;
        run::end(&client, status).await
    }

    async fn examine(&self, client: &Client, daemon: Daemon) -> Result<u8, Failure> {
        let status = client.status().await?;
        let directory = scratch()?;
        let trial = attempt(client, &directory).await;
        // Nothing was put into it; one that can not be removed harms nobody.
        drop(std::fs::remove_dir(&directory));
        let trial = trial?;
        if self.json {
            print::json(&report(&status, daemon, &trial))?;
        } else {
            print::bytes(text(&status, daemon, &trial, paint::stdout()).as_bytes())?;
        }
        Ok(match trial {
            Trial::Kept(_) => 0,
            Trial::Refused(_) => UNHEALTHY,
        })
    }
}

/// A new directory that only this user can use.
fn scratch() -> Result<PathBuf, Failure> {
    let base = std::env::temp_dir().canonicalize();
    let made = base.and_then(|base| {
        let path = base.join(format!("palisade-doctor-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).map(|()| path)
    });
    made.map_err(|error| {
        let told = format!("can not make an empty directory to try in: {error}");
        Failure::new(told, "set TMPDIR to a directory that can be written to")
    })
}

async fn attempt(client: &Client, directory: &PathBuf) -> Result<Trial, Failure> {
    let tried = async {
        let session = client.open(Open::new(directory)).await?;
        let result = session.exec(["true"]).reason("palisade doctor").await?;
        session.close().await?;
        if result.success { Ok(result) } else { Err(Error::Failed(Box::new(result))) }
    };
    match tried.await {
        Ok(result) => Ok(Trial::Kept(Box::new(result.receipt))),
        Err(error) => match error.wire() {
            Some(wire) => Ok(Trial::Refused(Box::new(wire.clone()))),
            None => Err(error.into()),
        },
    }
}

fn report(status: &Status, daemon: Daemon, trial: &Trial) -> Value {
    let (ok, receipt, error) = match trial {
        Trial::Kept(receipt) => (true, json!(receipt), Value::Null),
        Trial::Refused(error) => {
            let error = json!({"message": error.message, "hint": error.hint, "code": error.code});
            (false, Value::Null, error)
        }
    };
    let private = daemon == Daemon::Private;
    json!({"ok": ok, "private": private, "status": status, "receipt": receipt, "error": error})
}

fn text(status: &Status, daemon: Daemon, trial: &Trial, paint: Paint) -> String {
    let mut lines: Vec<String> =
        rooms(status, daemon).into_iter().map(|(name, value)| field(name, &value, paint)).collect();
    lines.push(String::new());
    for layer in &status.layers {
        let mark = if layer.available {
            paint.apply(Style::Good, "yes")
        } else {
            paint.apply(Style::Error, "NO ")
        };
        let shown = field(&layer.layer, &layer.detail, paint);
        lines.push(format!("{mark} {shown}"));
        for note in [meaning(&layer.layer), &layer.advice] {
            if !note.is_empty() {
                lines.push(format!("              {}", harmless(note)));
            }
        }
    }
    lines.extend(records(status, paint));
    lines.push(String::new());
    lines.extend(verdict(trial, paint));
    lines.join("\n") + "\n"
}

/// Whether what programs are refused can be told, which no layer depends on.
fn records(status: &Status, paint: Paint) -> Vec<String> {
    let records = &status.records;
    let mark = match records.available {
        true => paint.apply(Style::Good, "yes"),
        false => paint.apply(Style::Warning, "no "),
    };
    let mut lines = vec![format!("{mark} {}", field("records", &records.detail, paint))];
    lines.push(
        "              the kernel's own, of what it refuses to programs; nothing is let through \
         without them"
            .to_owned(),
    );
    if !records.advice.is_empty() {
        lines.push(format!("              {}", harmless(&records.advice)));
    }
    lines
}

/// What a layer gives the profiles that require it.
fn meaning(layer: &str) -> &'static str {
    match layer {
        "mount" => "a small root of its own: no other home, no /run, private /tmp; hides secrets",
        "pid" => "sees and signals only its own processes; the whole tree is killed at once",
        "network" => "`net.mode` none and loopback: nothing of the host's is reached",
        "ipc" => "shared memory and message queues of its own",
        "uts" => "a host name of its own",
        "cgroup" => "sees its own cgroup as the root",
        "landlock" => "`read`, `write` and `execute` are held by the kernel, path by path",
        "seccomp" => "system calls outside the profile's list are refused",
        "limits" => "memory, processes and CPU are bounded for the session as a whole",
        _ => "",
    }
}

fn verdict(trial: &Trial, paint: Paint) -> Vec<String> {
    match trial {
        Trial::Kept(receipt) => {
            let mut lines = vec![receipt::confined(receipt)];
            for missing in &receipt.degraded {
                let label = paint.apply(Style::Warning, "warning:");
                let (layer, why) = (harmless(&missing.layer), harmless(&missing.why));
                lines.push(format!("{label} {layer} is not enforced: {why}"));
            }
            let told = match receipt.degraded.len() {
                0 => "the default profile is kept on this host",
                _ => "the default profile is kept on this host; it allows what is missing",
            };
            lines.push(paint.apply(Style::Good, told));
            lines
        }
        Trial::Refused(error) => {
            let WireError { code, message, hint, .. } = &**error;
            // What the host lacks is one thing; who may have a session here is another.
            let told = match *code == ErrorCode::LayerUnavailable {
                true => "the default profile can not be kept on this host, so calls are refused",
                false => {
                    "this user was refused a session, so it was not tried; of others it says nothing"
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

    fn refused() -> Trial {
        let error = WireError::new(ErrorCode::LayerUnavailable, "no limits here", "delegate");
        Trial::Refused(Box::new(error))
    }

    #[test]
    fn who_may_have_no_session_is_not_told_that_the_host_is_to_blame() {
        let error = WireError::new(ErrorCode::OverCeiling, "a session may not run as root", "");
        let lines = verdict(&Trial::Refused(Box::new(error)), Paint::Plain);
        assert_eq!(
            lines,
            [
                "this user was refused a session, so it was not tried; of others it says nothing",
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
              a small root of its own: no other home, no /run, private /tmp; hides secrets
              mount advice
NO  limits    limits detail
              memory, processes and CPU are bounded for the session as a whole
              limits advice
no  records   records detail
              the kernel's own, of what it refuses to programs; nothing is let through without them
              records advice

the default profile can not be kept on this host, so calls are refused
error: no limits here
hint: delegate
";
        assert!(shown.ends_with(expected), "{shown}");
    }

    #[test]
    fn the_report_is_one_object_with_the_verdict() {
        let status = crate::status::tests::status();
        let refusal = report(&status, Daemon::Private, &refused());
        assert_eq!(refusal["ok"], json!(false));
        assert_eq!(refusal["private"], json!(true));
        let error =
            json!({"message": "no limits here", "hint": "delegate", "code": "layer_unavailable"});
        assert_eq!(refusal["error"], error);
        assert_eq!(refusal["status"]["layers"][1]["available"], json!(false));
        let kept = report(&status, Daemon::Running, &Trial::Kept(Box::default()));
        assert_eq!((&kept["ok"], &kept["error"]), (&json!(true), &Value::Null));
        assert_eq!(kept["receipt"]["uid"], json!(0));
    }
}
