//! Tries the same escapes under every sandbox that is installed here, and prints one table:
//! `cargo run -p palisade-tests --bin escape-bench`, as an ordinary user.
//!
//! Each attempt and each control is a sandbox of its own. What an attempt claims to have made is
//! looked for from outside.

use palisade_proof::{Confinement, OutsideTargets, Probe, ProverNetwork, Trial};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A sandbox, with the words that come before the program. `{workspace}` is the one directory that
/// may be written, and `{palisade}` the directory of the programs of this build.
struct Sandbox {
    name: &'static str,
    program: &'static str,
    words: &'static str,
}

/// The sandboxes, each as its own documentation confines a program that is not trusted.
const SANDBOXES: [Sandbox; 7] = [
    Sandbox {
        name: "palisade",
        program: "{palisade}/palisade",
        words: "run --profile workspace --",
    },
    Sandbox { name: "none", program: "env", words: "" },
    Sandbox {
        name: "bubblewrap",
        program: "bwrap",
        words: "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib \
                --symlink usr/lib64 /lib64 --ro-bind /etc /etc --proc /proc --dev /dev \
                --tmpfs /tmp --bind {workspace} {workspace} --chdir {workspace} --unshare-all \
                --die-with-parent --new-session --",
    },
    Sandbox {
        name: "firejail",
        program: "firejail",
        words: "--quiet --noprofile --whitelist={workspace} --private-dev --caps.drop=all \
                --nonewprivs --noroot --seccomp --net=none --",
    },
    Sandbox {
        name: "nsjail",
        program: "nsjail",
        words: "-Mo --really_quiet -R /usr -R /bin -R /lib -R /lib64 -R /etc -T /tmp \
                -B {workspace} --cwd {workspace} --",
    },
    Sandbox {
        name: "minijail",
        program: "minijail0",
        words: "-U -m -M -p -v -r -e -l -N -n -b {workspace},{workspace},1 --",
    },
    Sandbox {
        name: "landrun",
        program: "landrun",
        words: "--rox /usr --ro /etc --rw /dev/null --rwx {workspace} --",
    },
];

/// The answers under one sandbox, by probe.
struct Column {
    name: &'static str,
    answers: BTreeMap<&'static str, String>,
}

fn main() {
    assert!(
        !rustix::process::geteuid().is_root(),
        "run it as an ordinary user: what no sandbox stops, it does to this system"
    );
    let top = tempfile::tempdir().expect("a directory for the targets");
    fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let places = OutsideTargets::create(top.path(), ProverNetwork::Host).expect("targets");
    let built = std::env::current_exe().expect("the path of this program");
    let built = built.parent().expect("a directory").to_owned();
    let program = places.install(&built.join("palisade")).expect("a copy of palisade");
    // Not every sandbox has a /tmp of its own, so that controls write to the workspace.
    let held = Confinement {
        missing: BTreeSet::from(["mount".to_owned()]),
        scopes: ["Signal", "AbstractUnixSocket"].map(str::to_owned).into(),
        network: "loopback".to_owned(),
        ports: Vec::new(),
    };
    let trial = Trial::new(&places, &held);
    let attempts: Vec<_> = trial.attempts().collect();
    let column = |sandbox: &Sandbox| {
        let words = prefix(sandbox, &built, &places.workspace())?;
        let answers = attempts
            .iter()
            .map(|(probe, word, control)| (probe.name, answer(&words, &program, word, control)));
        Some(Column { name: sandbox.name, answers: answers.collect() })
    };
    let columns: Vec<Column> = SANDBOXES.iter().filter_map(column).collect();
    print!("{}", table(&attempts, &columns));
}

/// Returns the words that start a sandbox, or `None` if it is not installed.
fn prefix(sandbox: &Sandbox, built: &Path, workspace: &Path) -> Option<Vec<String>> {
    let fill = |word: &str| {
        let (built, workspace) = (built.display().to_string(), workspace.display().to_string());
        word.replace("{palisade}", &built).replace("{workspace}", &workspace)
    };
    let program = fill(sandbox.program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |directory: PathBuf| directory.join(&program).is_file();
    let installed = std::env::split_paths(&path).any(is_there);
    let words = sandbox.words.split_whitespace().map(fill);
    installed.then(|| std::iter::once(program).chain(words).collect())
}

/// Makes an attempt and its control, each in a sandbox of its own. Returns the answer, or the
/// reason why it says nothing.
fn answer(words: &[String], program: &Path, attempt: &str, control: &str) -> String {
    let target = attempt.strip_prefix("make-directory ").map(Path::new);
    let said = run(words, program, attempt);
    let made = target.is_some_and(|target| fs::remove_dir(target).is_ok());
    let allowed = run(words, program, control);
    if let Some(own) = control.strip_prefix("make-directory ") {
        // The next sandbox makes it again.
        fs::remove_dir(own).unwrap_or_default();
    }
    match (said.as_str(), allowed.as_str()) {
        (_, "") => "does not start".to_owned(),
        (_, other) if other != "ok" => format!("untested ({other})"),
        ("ok", _) if target.is_some() && !made => "own".to_owned(),
        ("ok", _) => "**succeeds**".to_owned(),
        ("", _) => "killed".to_owned(),
        (said, _) => said.to_owned(),
    }
}

fn run(words: &[String], program: &Path, attempt: &str) -> String {
    let (first, rest) = words.split_first().expect("a program");
    let mut command = Command::new(first);
    command.args(rest).arg(program).args(["attempt", attempt]).stdin(Stdio::null());
    command.current_dir(program.parent().expect("the workspace")).stderr(Stdio::null());
    let output = command.env("PALISADE_LINGER", "none").output().expect("the sandbox starts");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn table(attempts: &[(&'static Probe, &str, &str)], columns: &[Column]) -> String {
    let names: Vec<_> = columns.iter().map(|column| column.name).collect();
    let mut table = format!("| probe | tries to | {} |\n", names.join(" | "));
    table += &format!("|---|---|{}\n", "---|".repeat(columns.len()));
    for (probe, ..) in attempts {
        let answers = columns.iter().map(|column| column.answers[probe.name].as_str());
        let answers: Vec<_> = answers.collect();
        table += &format!("| {} | {} | {} |\n", probe.name, probe.tries, answers.join(" | "));
    }
    let succeeded = columns.iter().map(|column| {
        let all = column.answers.values();
        let count = all.clone().filter(|answer| answer.starts_with("**")).count();
        format!("{count} of {}", all.len())
    });
    let succeeded: Vec<_> = succeeded.collect();
    table + &format!("| | succeeded | {} |\n", succeeded.join(" | "))
}
