//! `palisade shell`, also installed as `palisade-sh`: stands where a program expects a shell, and
//! runs confined what the shell would run.

mod words;

use crate::{
    approve::asking::{self, Approvers},
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
use words::ShellInput;

/// Variables of the caller that a line gets besides those that are named.
const PASSED: [&str; 8] =
    ["CI", "COLUMNS", "FORCE_COLOR", "LANG", "LC_ALL", "LINES", "NO_COLOR", "TERM"];

/// Run a shell line, a script or standard input confined, in place of a shell
#[derive(Debug, Args)]
#[command(after_help = "\
For programs that start a shell: agents, Makefiles, editors, CI steps. The script `palisade-sh`
starts it for those that take one word:

  SHELL := palisade-sh                      in a Makefile
  palisade-sh 'make && ./check'             as a prefix: the line is the only argument

Takes -c LINE [NAME ARGUMENT...], SCRIPT [ARGUMENT...], a line as the only argument, or standard
input. The options -a, -b, -e, -f, -h, -n, -t, -u, -v, -x, -B, -C, -E, -P, -T, -o NAME and -O NAME
go to bash, and with + in place of - too; -l and -i have no effect. The directory is the caller's.
Standard input is passed on unless it is a terminal. There is no interactive shell.

The workspace is $PALISADE_WORKSPACE, or the nearest directory above that has a .git, or the
directory itself. $PALISADE_PROFILE names the profile. $PALISADE_SHELL_ENV lists more variables to
pass on, separated by commas.

If Palisade fails, nothing runs and the exit status is 125. A line never runs unconfined.

Exit status: the line's own (128+n if signal n ended it); 124 timed out; 125 Palisade failed; 126
denied by policy or an approver; 127 no such program.

Examples:
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
        let input = words::parse(&self.words, |path| Path::new(path).is_file())?;
        if matches!(input, ShellInput::Stdin { .. }) && std::io::stdin().is_terminal() {
            return Err(Failure::new(
                "there is no interactive shell",
                "give a line with -c, a script, or standard input that is not a terminal",
            ));
        }
        let directory = env::current_dir()
            .map_err(|error| Failure::new(format!("can not find the directory: {error}"), ""))?;
        let workspace = self.workspace(&directory)?;
        let mut terms = self.session.terms.clone();
        terms.profile = terms.profile.or_else(|| env::var("PALISADE_PROFILE").ok());
        let open = terms.open_at(workspace);
        let (client, asking, session) =
            asking::open_for(&terms, self.session.linger(), open).await?;
        let status = match session {
            Ok(session) => self.call(&session, &input, &directory, &asking).await,
            Err(error) => Err(error.into()),
        };
        drop(asking);
        disconnect(&client, status).await
    }

    async fn call(
        &self,
        session: &Session,
        input: &ShellInput,
        directory: &Path,
        approvers: &Approvers,
    ) -> Result<u8, Failure> {
        let mut call = start(session, input).cwd(directory).timeout(LONGEST);
        let more = env::var("PALISADE_SHELL_ENV").unwrap_or_default();
        let names = PASSED.into_iter().chain(more.split(',').filter(|name| !name.is_empty()));
        for name in names {
            if let Ok(value) = env::var(name) {
                call = call.env(name, value);
            }
        }
        if !std::io::stdin().is_terminal() {
            call = call.attach_reader(tokio::io::stdin());
        }
        call = configured(approvers.announce(call), &self.session).stream();
        let (result, _) = stream::watch(call.start().await?, Bytes::Shown(Controls::Shown)).await?;
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

fn start(session: &Session, input: &ShellInput) -> Call<Bash> {
    match input {
        ShellInput::Line { flags, line, operands } if flags.is_empty() && operands.is_empty() => {
            session.bash(line)
        }
        ShellInput::Line { flags, line, operands } => {
            let line = ["-c".to_owned(), line.clone()];
            session.exec(bash(flags).chain(line).chain(operands.iter().cloned()))
        }
        ShellInput::Script { flags, path, operands } => {
            let path = ["--".to_owned(), path.clone()];
            session.exec(bash(flags).chain(path).chain(operands.iter().cloned()))
        }
        ShellInput::Stdin { flags, operands } => {
            let input = ["-s".to_owned(), "--".to_owned()];
            session.exec(bash(flags).chain(input).chain(operands.iter().cloned()))
        }
    }
}

fn bash(flags: &[String]) -> impl Iterator<Item = String> {
    std::iter::once("bash".to_owned()).chain(flags.iter().cloned())
}
