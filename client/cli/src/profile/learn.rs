//! `palisade profile learn`: runs a command, records what it used, writes the narrowest profile for
//! it, and runs the command again under that.

use super::{
    Directories,
    attempts::{self, HostView, RecordedRun},
    draft, load,
    refusals::RefusalContext,
    remedy,
    remedy::Enforcement,
};
use crate::{
    approve::own,
    disconnect::disconnect,
    exit,
    failure::Failure,
    paint::{self, Style, harmless},
    print,
    stream::escape::Controls,
    stream::{self, Bytes},
};
use clap::Args;
use palisade_client::{CallResult, Embedded, Open};
use palisade_policy::{Access, LearnedProfile, Profile, Run, Scene, TargetKind};
use std::{
    env, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The exit status if nothing was learned, or the command behaves differently under the learned
/// profile.
const FAILED: u8 = 1;

/// Run a command and write the narrowest profile that it needs
#[derive(Debug, Args)]
#[command(after_help = "\
The command runs in a session of a private daemon, confined by the wider profile, and what it uses
is recorded. Then a profile is written that extends the wider one and narrows it to what was used,
with a reason for each line. The command runs again under that profile. All approval requests are
approved, because you run the command yourself, twice. What the wider profile denies stays denied;
each denied access is a comment in the file.

Files are grouped by directory, and caches and toolchains by the entries of the wider profile, so
that the next version and the next temporary name are covered. Reads of environment variables can
not be recorded: the variables are those of the wider profile.

If the command fails, nothing is learned. What it was refused is listed, and what exists on this
host but not in the session, each with the smallest change that would allow it. --widen writes a
profile with these changes to FILE, as `palisade profile suggest -o` does.

Exit status: 0 the command succeeded both times; 1 a run failed, or behaves differently under the
learned profile.

Examples:
  palisade profile learn -o git-status.toml -- git status
  palisade profile learn --widen -o wider.toml -- pytest
  palisade profile learn --from build -o ci.toml --timeout 10m -- 'cargo build && cargo test'")]
pub(super) struct Learn {
    /// The wider profile: a name, or a file
    #[arg(long, value_name = "PROFILE", default_value = "workspace")]
    from: String,
    /// The file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// If the command fails, write a profile that allows what it was refused
    #[arg(long, requires = "output")]
    widen: bool,
    /// The directory to work in
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// How long each run may take: 500ms, 30s, 2m
    #[arg(long, value_name = "TIME", value_parser = palisade_options::duration::parse)]
    timeout: Option<Duration>,
    #[command(flatten)]
    directories: Directories,
    /// A shell line, or a program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

/// The choice to record what a run uses, or not to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recording {
    Yes,
    No,
}

/// The outcome of a run of the command.
struct RunOutcome {
    result: CallResult,
    elapsed: Duration,
}

impl Learn {
    pub(super) async fn perform(self) -> Result<u8, Failure> {
        let workspace = self.workspace.canonicalize().map_err(|error| {
            let told = format!("can not use {}: {error}", self.workspace.display());
            Failure::new(told, "name a directory that exists with --workspace")
        })?;
        let wide = load::find(&self.directories, [self.from.as_str()])?;
        let Some(wide) = wide.first() else { return Ok(FAILED) };
        self.writable()?;
        let scene = scene(&workspace);
        let first = self.go(&workspace, wide.name(), self.private(), Recording::Yes).await?;
        let recorded = RecordedRun::of(&first.result);
        if !first.result.success {
            tell("nothing was learned", &failure(&first.result, None));
            self.explain_failure(wide, &scene, recorded.as_ref())?;
            return Ok(FAILED);
        }
        let Some(recorded) = recorded else {
            let told = "the daemon recorded nothing about the run";
            return Err(Failure::new(told, "check that palisaded has the same version"));
        };
        let run = self.used(recorded, first.elapsed);
        let learned = palisade_policy::learn(wide, &scene, &run).map_err(|error| {
            Failure::new(error.to_string(), "name a project's directory with --workspace")
        })?;
        self.keep(&learned)?;
        let again = self.again(&workspace, &learned).await?;
        Ok(self.report(wide, &run, &learned, &first, &again))
    }

    /// Returns the directories of profiles, with the one of the wider profile if that is a file.
    fn profile_directories(&self) -> Vec<PathBuf> {
        let mut directories = load::directories(&self.directories);
        if load::is_file(&self.from) {
            let parent = Path::new(&self.from).parent().filter(|p| !p.as_os_str().is_empty());
            directories.push(parent.unwrap_or(Path::new(".")).to_owned());
        }
        directories
    }

    fn private(&self) -> Embedded {
        self.profile_directories().iter().fold(Embedded::new(), |daemon, directory| {
            daemon.profiles(std::path::absolute(directory).unwrap_or_else(|_| directory.clone()))
        })
    }

    /// Runs the command once.
    async fn go(
        &self,
        workspace: &Path,
        profile: &str,
        private: Embedded,
        recording: Recording,
    ) -> Result<RunOutcome, Failure> {
        let (client, approving) = own::start(private, "program:palisade-profile-learn").await?;
        let mut open = Open::new(workspace).profile(profile);
        if recording == Recording::Yes {
            open = open.record();
        }
        let begun = Instant::now();
        let went = async {
            let session = client.open(open).await?;
            let mut call = match self.command.as_slice() {
                [line] => session.bash(line),
                argv => session.exec(argv),
            };
            if let Some(timeout) = self.timeout {
                call = call.timeout(timeout);
            }
            let call = call.reason("palisade profile learn").stream();
            // Without an output file, standard output is for the profile. Showing the command's
            // output once is enough.
            let shown = match (&self.output, recording) {
                (Some(_), Recording::Yes) => Bytes::Shown(Controls::Shown),
                (Some(_) | None, _) => Bytes::Left,
            };
            let (result, _) = stream::watch(call.start().await?, shown).await?;
            Ok(RunOutcome { result, elapsed: begun.elapsed() })
        };
        let went = went.await;
        drop(approving);
        disconnect(&client, went).await
    }
}

impl Learn {
    /// Returns what the first run used. Paths that the session looked for and did not find count
    /// only if they exist on the host.
    fn used(&self, recorded: RecordedRun, elapsed: Duration) -> Run {
        let on_host = |access: &Access| {
            access.kind != TargetKind::Missing || fs::symlink_metadata(&access.path).is_ok()
        };
        Run {
            command: self.command.join(" "),
            accesses: recorded.accesses.into_iter().filter(on_host).collect(),
            lost: recorded.lost,
            memory_bytes: recorded.memory_bytes,
            processes: recorded.processes,
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Says what a run that failed was refused, and writes a profile that allows it if wanted.
    fn explain_failure(
        &self,
        wide: &Profile,
        scene: &Scene,
        recorded: Option<&RecordedRun>,
    ) -> Result<(), Failure> {
        let Some(recorded) = recorded else { return Ok(()) };
        let host = HostView { state: &remedy::there, sets_id: &attempts::sets_id };
        let attempts = attempts::judge(wide, scene, &recorded.accesses, &host);
        for (met, denial) in &attempts.denied {
            let what = match met {
                Enforcement::Refused | Enforcement::WouldBe => "refused",
                Enforcement::LeftOut => "left out",
            };
            let [rule, target, remedy] =
                [&denial.rule, &denial.target, &denial.remedy].map(|text| harmless(text.as_str()));
            tell(what, &format!("{target}: {rule}; {remedy}"));
        }
        if attempts.denied.is_empty() {
            tell("refused", "nothing is known to have been refused by the profile");
        } else if !self.widen {
            print::note("hint: --widen writes a profile that allows it");
        }
        let Some(path) = self.output.as_ref().filter(|_| self.widen) else { return Ok(()) };
        if attempts.denied.is_empty() {
            return Ok(());
        }
        let directories = Directories::new(self.profile_directories());
        let files = load::files(&load::directories(&directories))?;
        let set = load::set(&files).map_err(|error| load::bad(&error))?;
        let place = RefusalContext {
            profile: wide.name(),
            call: "",
            tool: "bash",
            scene: Some(scene),
            set: Some(&set),
        };
        draft::write(path, &attempts.refusals(&place), &directories)
    }

    /// Checks that the learned profile can be written, before anything is run.
    fn writable(&self) -> Result<(), Failure> {
        let Some(path) = &self.output else { return Ok(()) };
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        match fs::metadata(above.unwrap_or(Path::new("."))) {
            Ok(_) if path.is_dir() => Err(unwritten(path, "it is a directory")),
            Ok(_) => Ok(()),
            Err(error) => Err(unwritten(path, &error.to_string())),
        }
    }

    fn keep(&self, learned: &LearnedProfile) -> Result<(), Failure> {
        match &self.output {
            None => print::bytes(learned.text.as_bytes()),
            Some(path) => {
                fs::write(path, &learned.text).map_err(|error| unwritten(path, &error.to_string()))
            }
        }
    }

    /// Runs the command again, under the learned profile.
    async fn again(
        &self,
        workspace: &Path,
        learned: &LearnedProfile,
    ) -> Result<RunOutcome, Failure> {
        let failed = |error: std::io::Error| {
            let told = format!("can not create a directory for the learned profile: {error}");
            Failure::new(told, "set TMPDIR to a directory that can be written to")
        };
        let directory =
            tempfile::Builder::new().prefix("palisade-learn-").tempdir().map_err(failed)?;
        fs::write(directory.path().join("learned-again.toml"), &learned.text).map_err(failed)?;
        let private = self.private().profiles(directory.path());
        self.go(workspace, "learned-again", private, Recording::No).await
    }

    fn report(
        &self,
        wide: &Profile,
        run: &Run,
        learned: &LearnedProfile,
        first: &RunOutcome,
        again: &RunOutcome,
    ) -> u8 {
        let lost = match run.lost {
            0 => String::new(),
            lost => format!("; {lost} more were not recorded"),
        };
        tell("recorded", &format!("{} accesses{lost}", run.accesses.len()));
        for wanted in &learned.refused {
            let (right, target) = (wanted.right.name(), harmless(&wanted.target));
            tell("refused", &format!("{right} {target}, by {} too", wide.name()));
        }
        let file = self.output.as_ref().map(|path| format!(" in {}", path.display()));
        tell("learned", &format!("{} paths{}", learned.entries, file.unwrap_or_default()));
        if again.result.success {
            tell("again", "the command succeeds under the learned profile");
            return 0;
        }
        tell("again", &failure(&again.result, first.result.exit_code));
        FAILED
    }
}

fn unwritten(path: &Path, why: &str) -> Failure {
    let told = format!("can not write {}: {why}", path.display());
    Failure::new(told, "name a file in a directory that can be written to")
}

/// Says why a run did not succeed.
fn failure(result: &CallResult, before: Option<i32>) -> String {
    let told = match &result.error {
        Some(error) => harmless(&error.message),
        None => "the command failed".to_owned(),
    };
    let status = exit::of_result(result);
    let was = before
        .filter(|_| !result.success)
        .map(|code| format!(" (status {status}; before it was {code})"));
    let said = result.stderr.lines().last().map(harmless).unwrap_or_default();
    let said = if said.is_empty() { said } else { format!(": {said}") };
    format!("{told}{}{said}", was.unwrap_or_default())
}

fn tell(what: &str, text: &str) {
    print::note(&format!("{} {text}", paint::stderr().apply(Style::Strong, &format!("{what}:"))));
}

/// Returns the session's workspace and identity. Sessions of root run as the owner of the
/// workspace.
pub(super) fn scene(workspace: &Path) -> Scene {
    let own = rustix::process::geteuid().as_raw();
    let uid = match own {
        0 => fs::metadata(workspace).map_or(0, |found| found.uid()),
        uid => uid,
    };
    let named = env::var_os("HOME").map(PathBuf::from).filter(|_| uid == own);
    let home = home_of(uid).or(named).filter(|home| home.is_absolute());
    let gid = rustix::process::getegid().as_raw();
    Scene { workspace: workspace.to_owned(), home, user: String::new(), uid, gid }
}

/// Returns a user's home directory from the host's accounts.
pub(super) fn home_of(uid: u32) -> Option<PathBuf> {
    let accounts = fs::read_to_string("/etc/passwd").ok()?;
    accounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields.as_slice() {
            [_, _, number, _, _, home, _] if number.parse() == Ok(uid) => Some(PathBuf::from(home)),
            _ => None,
        }
    })
}
