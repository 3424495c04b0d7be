//! `palisade shell`, also installed as `palisade-sh`: stands where a program expects a shell, and
//! runs confined what the shell would run.

mod interactive;
mod screen;
mod words;

use crate::{
    approve::asking,
    disconnect::disconnect,
    exit,
    failure::Failure,
    options::{LONGEST, SessionOptions},
    paint, receipt,
    run::configured,
    stream::{self, Bytes, escape::Controls},
};
use clap::Args;
use palisade_client::{Call, Session, arguments::Bash};
use std::{
    env,
    io::IsTerminal as _,
    path::{Path, PathBuf},
};
use words::{ShellInput, ShellWords};

/// Variables of the caller that a shell gets besides those that are named.
const PASSED: [&str; 6] = ["CI", "FORCE_COLOR", "LANG", "LC_ALL", "NO_COLOR", "TERM"];

/// Variables of the caller that a shell without a terminal of its own gets, too.
const SIZE: [&str; 2] = ["COLUMNS", "LINES"];

/// Where a shell reads and prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShellPlace {
    /// At the standard streams of this program.
    Streams,
    /// At a terminal of its own, which is shown at this one.
    Terminal,
}

/// Run a shell line, a script, standard input or an interactive shell confined, in place of a shell
#[derive(Debug, Args)]
#[command(after_help = "\
For programs that start a shell: agents, Makefiles, editors, CI steps. The script `palisade-sh`
starts it for those that take one word:

  SHELL := palisade-sh                      in a Makefile
  palisade-sh 'make && ./check'             as a prefix: the line is the only argument

Takes -c LINE [NAME ARGUMENT...], SCRIPT [ARGUMENT...], a line as the only argument, or standard
input. The options -a, -b, -e, -f, -h, -n, -t, -u, -v, -x, -B, -C, -E, -P, -T, -o NAME and -O NAME
go to bash, and with + in place of - too; -l has no effect. The directory is the caller's. Standard
input is passed on unless it is a terminal.

At a terminal, without a line or a script or with -i, it is an interactive shell on a terminal of
its own. What a command changes is committed when the next prompt appears. What is not approved then
stays as it is for the shell alone, and is reviewed again with the next command. It reads no
start-up files.

The workspace is $PALISADE_WORKSPACE, or the nearest directory above that has a .git, or the
directory itself. $PALISADE_PROFILE names the profile. $PALISADE_SHELL_ENV lists more variables to
pass on, separated by commas.

If Palisade fails, nothing runs and the exit status is 125. A line never runs unconfined.

Exit status: the line's own (128+n if signal n ended it); 124 timed out; 125 Palisade failed; 126
denied by policy or an approver; 127 no such program.

Examples:
  palisade shell
  palisade shell -c 'make && ./check'
  palisade shell --profile readonly -- -c 'git log | head'
  make SHELL=palisade-sh
  echo 'ls -l' | palisade shell")]
pub(crate) struct Shell {
    #[command(flatten)]
    session: SessionOptions,
    /// The shell's own options and operands
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    words: Vec<String>,
}

impl Shell {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let words = words::parse(&self.words, |path| Path::new(path).is_file())?;
        let place = self.place(&words)?;
        let directory = env::current_dir()
            .map_err(|error| Failure::new(format!("can not find the directory: {error}"), ""))?;
        let workspace = self.workspace(&directory)?;
        let mut terms = self.session.terms.clone();
        terms.profile = terms.profile.or_else(|| env::var("PALISADE_PROFILE").ok());
        let open = terms.open_at(workspace);
        let (client, asking, session) =
            asking::open_for(&terms, self.session.linger(), open).await?;
        let status = match session {
            Ok(session) => {
                let call = self.prepared(place, start(&session, place, &words.input), &directory);
                match place {
                    ShellPlace::Streams => self.watch(asking.announce(call)).await,
                    ShellPlace::Terminal => interactive::run(&session, call, &asking).await,
                }
            }
            Err(error) => Err(error.into()),
        };
        drop(asking);
        disconnect(&client, status).await
    }

    /// Returns where the shell reads and prints.
    fn place(&self, words: &ShellWords) -> Result<ShellPlace, Failure> {
        let (input, output) = (std::io::stdin().is_terminal(), std::io::stdout().is_terminal());
        let has_no_input = matches!(words.input, ShellInput::Stdin { .. }) && input;
        let is_asked_for = words.is_interactive && input && output;
        if !has_no_input && !is_asked_for {
            return Ok(ShellPlace::Streams);
        }
        if !output {
            return Err(Failure::new(
                "an interactive shell needs a terminal for its output too",
                "give a line with -c, a script, or standard input that is not a terminal",
            ));
        }
        if self.session.json || self.session.dry_run {
            return Err(Failure::new(
                "--json and --dry-run are not for an interactive shell",
                "give a line with -c",
            ));
        }
        Ok(ShellPlace::Terminal)
    }

    /// Sets the directory, the variables and the options of a call.
    fn prepared(&self, place: ShellPlace, call: Call<Bash>, directory: &Path) -> Call<Bash> {
        let size: &[&str] = if place == ShellPlace::Streams { &SIZE } else { &[] };
        let named = env::var("PALISADE_SHELL_ENV").unwrap_or_default();
        let named = named.split(',').filter(|name| !name.is_empty());
        let names = PASSED.iter().chain(size).copied().chain(named);
        let variables = names.filter_map(|name| Some((name, env::var(name).ok()?)));
        let call = variables.fold(call, |call, (name, value)| call.env(name, value));
        configured(call.cwd(directory), &self.session)
    }

    /// Watches a call at the standard streams; returns its exit status.
    async fn watch(&self, mut call: Call<Bash>) -> Result<u8, Failure> {
        if self.session.timeout.is_none() {
            call = call.timeout(LONGEST);
        }
        if !std::io::stdin().is_terminal() {
            call = call.attach_reader(tokio::io::stdin());
        }
        let running = call.stream().start().await?;
        let (result, _) = stream::watch(running, Bytes::Shown(Controls::Shown)).await?;
        let paint = paint::stderr();
        receipt::tell(&result, self.session.verbose.into(), paint);
        Ok(exit::of_result(&result))
    }

    /// Returns the directory to work in: the one that is given, or found from the caller's.
    fn workspace(&self, directory: &Path) -> Result<PathBuf, Failure> {
        let given = &self.session.terms.workspace;
        let named = env::var_os("PALISADE_WORKSPACE").map(PathBuf::from);
        let path = match (given.as_os_str() == ".", named) {
            (false, _) => given.clone(),
            (true, Some(named)) => named,
            (true, None) => repository(directory).to_owned(),
        };
        let mut terms = self.session.terms.clone();
        terms.workspace = path;
        Ok(terms.workspace()?)
    }
}

/// Returns the nearest directory from here upwards that has a `.git`, or else this one.
fn repository(directory: &Path) -> &Path {
    directory.ancestors().find(|above| above.join(".git").exists()).unwrap_or(directory)
}

fn start(session: &Session, place: ShellPlace, input: &ShellInput) -> Call<Bash> {
    match (place, input) {
        (ShellPlace::Streams, ShellInput::Line { flags, line, operands })
            if flags.is_empty() && operands.is_empty() =>
        {
            session.bash(line)
        }
        (ShellPlace::Streams, input) => {
            session.exec(std::iter::once("bash".to_owned()).chain(options(input)))
        }
        (ShellPlace::Terminal, input) => session.exec(interactive::command(options(input))),
    }
}

/// Returns the options and operands for bash.
fn options(input: &ShellInput) -> impl Iterator<Item = String> {
    let (flags, source, operands) = match input {
        ShellInput::Line { flags, line, operands } => (flags, ["-c", line.as_str()], operands),
        ShellInput::Script { flags, path, operands } => (flags, ["--", path.as_str()], operands),
        ShellInput::Stdin { flags, operands } => (flags, ["-s", "--"], operands),
    };
    flags.iter().cloned().chain(source.map(str::to_owned)).chain(operands.iter().cloned())
}
