//! `palisade doctor --prove`: tries escapes inside a session of each profile.

use super::{Doctor, UNHEALTHY};
use crate::{
    approve::{
        asking,
        own::{self, AutoApprover},
    },
    disconnect::disconnect,
    failure::Failure,
    operator,
    paint::{self, Paint, Style, harmless},
    print,
    profile::{Directories, load},
};
use palisade_client::{Client, Error, ErrorCode, Open, Operator, Receipt, Session};
use palisade_options::connect::{self, DaemonChoice};
use palisade_policy::{Profile, Samples};
use palisade_proof::{
    Confinement, OutsideTargets, Owner, ProverNetwork, RestrictedNames, Row, Trial, Verdict,
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

/// The uid that root's sessions run as here: a user that owns nothing.
const NOBODY: u32 = 65534;

/// The mode of a daemon whose sessions run as the owner of their workspace if root opens them.
const SYSTEM_MODE: &str = "system";

/// The directory of programs that sessions of every profile can execute.
const SYSTEM: &str = "/usr";

/// The tests of the names that a profile hides and protects. They need the profile's file here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameTests {
    Done,
    Skipped,
}

/// The name under which the command approves its own calls.
const APPROVER: &str = "program:palisade-doctor";

/// The way to the operator socket of the daemon.
#[derive(Debug)]
enum OperatorAccess {
    /// The connection to a private daemon.
    Private(Operator),
    /// The sockets that may belong to the running daemon.
    Running(Vec<PathBuf>),
}

/// The outcome for one profile.
#[derive(Debug)]
struct Proof {
    profile: String,
    rows: Vec<Row>,
    /// The tests of the names that the profile hides and protects.
    names: NameTests,
    /// The reason there are no rows.
    untested: Option<UntestedProfile>,
}

/// The reason a profile was not tested.
#[derive(Debug)]
struct UntestedProfile {
    code: ErrorCode,
    message: String,
    hint: String,
}

impl Proof {
    /// Returns `true` if the launcher's ceiling allows nobody a session with this profile.
    fn not_permitted(&self) -> bool {
        self.untested.as_ref().is_some_and(|untested| untested.code == ErrorCode::OverCeiling)
    }

    fn holds(&self) -> bool {
        match &self.untested {
            Some(_) => self.not_permitted(),
            None => self.rows.iter().all(|row| row.verdict.holds()),
        }
    }
}

pub(super) async fn perform(doctor: &Doctor) -> Result<u8, Failure> {
    let wanted = if doctor.wanted.is_empty() {
        let client = asking::connect_to_read(&doctor.connection).await?;
        let status = client.status().await.map_err(Failure::from);
        disconnect(&client, status).await?.profiles
    } else {
        doctor.wanted.clone()
    };
    let mut proofs = Vec::new();
    for profile in wanted {
        let (client, access) = match connect::find(&doctor.connection).await? {
            DaemonChoice::Running(client) => (client, OperatorAccess::Running(sockets(doctor))),
            DaemonChoice::Private(private, _) => {
                let (client, operator) = private.with_operator().await?;
                (client, OperatorAccess::Private(operator))
            }
        };
        let here = here(doctor, &profile);
        let proof = prove(&client, access, profile, here.as_ref()).await;
        let proof = disconnect(&client, proof).await?;
        if !doctor.json {
            print::bytes(text(&proof, paint::stdout()).as_bytes())?;
        }
        proofs.push(proof);
    }
    if doctor.json {
        print::json(&report(&proofs))?;
    }
    Ok(if proofs.iter().all(Proof::holds) { 0 } else { UNHEALTHY })
}

/// Tests one profile, in a directory that is deleted afterwards.
async fn prove(
    client: &Client,
    access: OperatorAccess,
    profile: String,
    here: Option<&Profile>,
) -> Result<Proof, Failure> {
    let owner =
        match rustix::process::geteuid().is_root() && client.status().await?.mode == SYSTEM_MODE {
            true => Owner::Given(NOBODY),
            false => Owner::Prover,
        };
    let top = tempfile::Builder::new().prefix("palisade-proof-").tempdir();
    let made = top.and_then(|top| {
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755))?;
        let places = OutsideTargets::create(top.path(), ProverNetwork::Host)?;
        let program = program(&places)?;
        if let Owner::Given(owner) = owner {
            chown(places.workspace(), Some(owner), Some(owner))?;
        }
        Ok((top, places, program))
    });
    let unmade = |error: std::io::Error| {
        let told = format!("can not create the files for the proof: {error}");
        Failure::new(told, "set TMPDIR to a directory that every user may enter")
    };
    let (_top, mut places, program) = made.map_err(unmade)?;
    let session = match client.open(Open::new(places.workspace()).profile(&profile)).await {
        Ok(session) => session,
        Err(error) => return untested(profile, error),
    };
    let approver = approve(access, &session).await;
    let here = here.filter(|here| here.digest() == session.receipt().profile_digest);
    if let Some(here) = here {
        name(&mut places, here, owner).map_err(unmade)?;
    }
    let names = if here.is_some() { NameTests::Done } else { NameTests::Skipped };
    let mut trial = Trial::new(&places, &confinement_of(session.receipt()));
    let rows = attempt(&session, &program, &mut trial).await;
    match session.close().await.and(rows) {
        Ok(rows) => Ok(Proof { profile, rows, names, untested: None }),
        Err(error) => {
            let mut proof = untested(profile, error)?;
            if let (Some(untested), Err(reason)) = (&mut proof.untested, &approver)
                && untested.code == ErrorCode::Denied
            {
                untested.hint = format!(
                    "run this command as an operator (for the service: root, or group \
                     palisade-operators), or run `palisade approve` beside it: {reason}"
                );
            }
            Ok(proof)
        }
    }
}

/// Returns the operator sockets that may belong to the running daemon.
fn sockets(doctor: &Doctor) -> Vec<PathBuf> {
    let variable = std::env::var_os("PALISADE_SOCKET").filter(|path| !path.is_empty());
    let agent_socket = doctor.connection.socket.clone().or(variable.map(PathBuf::from));
    operator::sockets(&doctor.operator, agent_socket.as_deref())
}

/// Approves the calls of the proof's own session, or says why this command may not.
async fn approve(access: OperatorAccess, session: &Session) -> Result<AutoApprover, String> {
    let paths = match access {
        OperatorAccess::Private(operator) => {
            let approving = own::approve_session(operator, session.id(), APPROVER).await;
            return approving.map_err(|error| error.to_string());
        }
        OperatorAccess::Running(paths) => paths,
    };
    let mut first = None;
    for path in paths {
        let approving = match Operator::connect(&path).await {
            Ok(operator) => own::approve_session(operator, session.id(), APPROVER).await,
            Err(error) => Err(error),
        };
        match approving {
            Ok(approver) => return Ok(approver),
            // The first reason is about the likeliest socket.
            Err(error) => first = first.or(Some(error.to_string())),
        }
    }
    Err(first.unwrap_or_default())
}

/// Returns the entry for a profile that could not be tested, if the daemon said why.
fn untested(profile: String, error: Error) -> Result<Proof, Failure> {
    match error.wire() {
        Some(wire) => {
            let (message, hint) = (wire.message.clone(), wire.hint.clone());
            let untested = Some(UntestedProfile { code: wire.code, message, hint });
            Ok(Proof { profile, rows: Vec::new(), names: NameTests::Skipped, untested })
        }
        None => Err(error.into()),
    }
}

/// Returns the path of this program at a place where a session can execute it.
fn program(places: &OutsideTargets) -> std::io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    if own.starts_with(SYSTEM) { Ok(own) } else { places.install(Path::new("/proc/self/exe")) }
}

/// Returns the confinement that the session's receipt reports.
fn confinement_of(receipt: &Receipt) -> Confinement {
    Confinement {
        missing: receipt.degraded.iter().map(|degraded| degraded.layer.clone()).collect(),
        scopes: receipt.landlock.iter().flat_map(|landlock| landlock.scopes.clone()).collect(),
        network: receipt.network.mode.clone(),
        ports: receipt.network.ports.clone(),
    }
}

/// Loads the local profile of this name. The daemon's profile may be a different one.
fn here(doctor: &Doctor, profile: &str) -> Option<Profile> {
    let directories = Directories::new(doctor.connection.profiles.clone());
    load::find(&directories, [profile]).ok()?.pop()
}

/// Creates files with names that the profile hides and protects.
fn name(places: &mut OutsideTargets, profile: &Profile, owner: Owner) -> std::io::Result<()> {
    let Samples { hidden, made, protected, below } = profile.samples();
    let names = RestrictedNames { hidden, made, protected, below };
    places.name(&names, owner)
}

/// Makes all attempts. Attempts at hidden and protected names are made in calls of their own,
/// because their effects show only when the call ends.
async fn attempt(session: &Session, program: &Path, trial: &mut Trial) -> Result<Vec<Row>, Error> {
    let run = async |words: &[String]| {
        let program = program.to_string_lossy();
        let words = words.iter().map(String::as_str);
        let argv = [program.as_ref(), "attempt"].into_iter().chain(words);
        session.exec(argv).reason("palisade doctor --prove").await
    };
    let result = run(trial.words()).await?;
    // Output that was printed before the program ended counts. If it did not run at all, the result
    // says why.
    if result.stdout.is_empty() {
        return Err(Error::Failed(Box::new(result)));
    }
    let mut rows = trial.read(&result.stdout);
    for mut escape in trial.separate_attempts() {
        while let Some(word) = escape.next().map(str::to_owned) {
            let result = run(&[word]).await?;
            escape.record(result.denials.into_iter().map(|denial| denial.layer).collect());
        }
        rows.push(escape.row());
    }
    Ok(rows)
}

fn report(proofs: &[Proof]) -> Value {
    let row = |row: &Row| {
        json!({
            "probe": row.probe.name, "tries": row.probe.tries, "layer": row.probe.layer.name(),
            "expected": row.probe.stopped, "answer": row.answer, "control": row.control,
            "verdict": row.verdict.to_string(), "holds": row.verdict.holds(),
        })
    };
    let profile = |proof: &Proof| {
        let error = proof.untested.as_ref();
        let error = error.map(|untested| {
            json!({"code": untested.code, "message": untested.message, "hint": untested.hint})
        });
        let probes: Vec<_> = proof.rows.iter().map(row).collect();
        json!({
            "profile": proof.profile, "ok": proof.holds(), "permitted": !proof.not_permitted(),
            "error": error, "probes": probes, "names_tried": proof.names == NameTests::Done,
        })
    };
    let profiles: Vec<_> = proofs.iter().map(profile).collect();
    json!({"ok": proofs.iter().all(Proof::holds), "profiles": profiles})
}

fn text(proof: &Proof, paint: Paint) -> String {
    let mut lines: Vec<String> = proof.rows.iter().map(|row| line(row, paint)).collect();
    let profile = harmless(&proof.profile);
    let stopped = proof.rows.iter().filter(|row| row.verdict.holds()).count();
    let tried = proof.rows.len();
    match &proof.untested {
        Some(UntestedProfile { message, .. }) if proof.not_permitted() => {
            let told = format!(
                "{profile}: not tried, because the ceiling does not permit it: {}",
                harmless(message)
            );
            lines.push(paint.apply(Style::Warning, &told));
        }
        Some(UntestedProfile { message, hint, .. }) => {
            let told = format!("{profile}: not proved: {}", harmless(message));
            lines.push(paint.apply(Style::Error, &told));
            if !hint.is_empty() {
                lines.push(format!("{} {}", paint.apply(Style::Hint, "hint:"), harmless(hint)));
            }
        }
        None if proof.holds() => {
            let told = format!("{profile}: proved: {stopped} of {tried} escapes were stopped");
            lines.push(paint.apply(Style::Good, &told));
        }
        None => {
            let told = format!(
                "{profile}: NOT proved: {stopped} of {tried} escapes were stopped as expected"
            );
            lines.push(paint.apply(Style::Error, &told));
        }
    }
    if proof.untested.is_none() && proof.names == NameTests::Skipped {
        lines.push(format!(
            "{profile}: hidden and protected names were not tried: the profile's file was not \
             found here (name its directory with --profiles)"
        ));
    }
    lines.join("\n") + "\n\n"
}

fn line(row: &Row, paint: Paint) -> String {
    let style = if row.verdict.holds() { Style::Good } else { Style::Error };
    let mark = paint.apply(style, &format!("{:9}", row.verdict.to_string()));
    let (layer, name) = (row.probe.layer.name(), row.probe.name);
    let answer = if row.answer.is_empty() { "nothing" } else { &row.answer };
    let told = format!("{mark} {layer:8} {name:22} {:12} {}", harmless(answer), row.probe.tries);
    match row.verdict {
        Verdict::Stopped | Verdict::Escaped | Verdict::Silent => told,
        Verdict::Otherwise => format!("{told}: expected {}", row.probe.stopped),
        Verdict::Missing | Verdict::Open => {
            format!("{told}: the layer is missing, which the profile allows")
        }
        Verdict::Vacuous => {
            format!("{told}: not proved: the allowed attempt failed ({})", harmless(&row.control))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_proof::PROBES;

    fn proof(answers: &[(&str, Verdict)]) -> Proof {
        let row =
            |(probe, (answer, verdict)): (&'static palisade_proof::Probe, &(&str, Verdict))| {
                let (answer, control) = ((*answer).to_owned(), "ok".to_owned());
                Row { probe, answer, control, verdict: *verdict }
            };
        let rows = PROBES.iter().zip(answers).map(row).collect();
        Proof { profile: "mine".to_owned(), rows, names: NameTests::Done, untested: None }
    }

    #[test]
    fn what_the_ceiling_does_not_permit_is_no_failure_and_what_else_is_untried_is() {
        let untested = |code| Proof {
            profile: "mine".to_owned(),
            rows: Vec::new(),
            names: NameTests::Skipped,
            untested: Some(UntestedProfile {
                code,
                message: "no".to_owned(),
                hint: "do".to_owned(),
            }),
        };
        let over = untested(ErrorCode::OverCeiling);
        let shown = "mine: not tried, because the ceiling does not permit it: no\n\n";
        assert!(over.holds());
        assert_eq!(text(&over, Paint::Plain), shown);
        assert_eq!(report(&[over])["profiles"][0]["permitted"], json!(false));
        let failed = untested(ErrorCode::CellFailed);
        assert!(!failed.holds());
        assert_eq!(text(&failed, Paint::Plain), "mine: not proved: no\nhint: do\n\n");
    }

    #[test]
    fn a_proof_is_told_line_by_line_and_an_escape_spoils_it() {
        let good = proof(&[("ENOENT", Verdict::Stopped), ("ENOENT", Verdict::Stopped)]);
        let expected = "\
stopped   mount    read-beside            ENOENT       read a file beside the workspace
stopped   mount    write-beside           ENOENT       change a file beside the workspace
mine: proved: 2 of 2 escapes were stopped

";
        assert_eq!(text(&good, Paint::Plain), expected);
        let bad = proof(&[("ok", Verdict::Escaped), ("EACCES", Verdict::Otherwise)]);
        let shown = text(&bad, Paint::Plain);
        assert!(shown.starts_with("ESCAPED   mount    read-beside            ok "), "{shown}");
        assert!(shown.contains("workspace: expected ENOENT\n"), "{shown}");
        assert!(shown.contains("mine: NOT proved: 0 of 2 escapes"), "{shown}");
        let told = report(&[good, bad]);
        assert_eq!((&told["ok"], &told["profiles"][0]["ok"]), (&json!(false), &json!(true)));
        assert_eq!(told["profiles"][1]["probes"][0]["verdict"], json!("ESCAPED"));
    }
}
