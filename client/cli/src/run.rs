//! `palisade run`: runs one command, confined.

mod background;
mod repository;

use crate::{
    approve::asking::{self, Approvers},
    call::follow_up,
    disconnect::disconnect,
    exit,
    failure::Failure,
    options::{LONGEST, SessionOptions, TimeLimit},
    paint, print, receipt,
    stream::escape::Controls,
    stream::{self, Bytes, OutputShown},
    visible::visible,
};
use clap::Args;
use palisade_client::{Call, CallResult, ChangeSet, Session, SessionLimits, arguments::Bash};
use palisade_options::duration;
use std::{ffi::OsString, io::IsTerminal as _, path::PathBuf, time::Duration};

/// The time that a command may take if none is given and the profile's default is shorter.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// Run a command in a sandbox; its output is shown live and its exit status is returned
#[derive(Debug, Args)]
#[command(after_help = "\
COMMAND given as one word is a shell line for bash. Several words are a program and its arguments.

Exit status: the command's own (128+n if signal n ended it); 124 timed out; 125 Palisade failed;
126 denied by policy or an approver; 127 no such program; 130 interrupted. With --json, a failure
without a result is {\"success\": false, \"error\": {code, message, hint}}.

With --background the command becomes a job: its id is printed, and its changes are committed when
it has ended. It has no time limit unless --timeout is given. A process stays behind that keeps the
session; SIGTERM to that process ends the job. See palisade jobs and palisade output.

Without --timeout the command may take two minutes, or the profile's limits.timeout_ms if that is
longer. With --timeout none, a private daemon lets it run for 24 hours, or limits.job_ms if the
profile has that. A running daemon ends it after limits.max_timeout_ms, which is printed.

The command's standard input is empty unless --stdin is given, so a script that runs `palisade run`
in a loop keeps its own input. Ctrl-C ends the command; a second one exits without waiting for it.

On a terminal, colours and cursor movement in the command's output are passed on. Other control
sequences (titles, clipboard, links, screen and key modes) are shown as text, such as ␛]0;title␇.
--raw passes all of them on. Files and pipes always get every byte.

On a terminal, or with --verbose, a follow-up command is printed after a call: how to undo its
changes, how to see why it was denied, or how to open the repository around the workspace for git.

If the daemon is private and this is a terminal, approval requests are shown here. Otherwise an
approver answers them (see palisade approve); without an approver the call is denied.

While a call waits for approval elsewhere, a line on standard error says so, with the time left.

If no daemon is running and this is not a terminal, a private daemon is left running for commands
that follow with the same profile, programs, profile files and limits of this user. It needs
$XDG_RUNTIME_DIR, or root, and ends after five minutes without a command. $PALISADE_LINGER sets
another time (30s, 1h), or none; --no-linger is none for this command. palisade stop ends it.

Examples:
  palisade run -- 'make && ./check | tail -5'
  palisade run --timeout 2m --workspace ~/src/project -- cargo test
  palisade run --env CI=1 --env TERM --cwd sub -- ./configure
  tar c . | palisade run --stdin -- tar t
  palisade run --json -- true | jq .receipt
  palisade run --ask always --dry-run -- 'rm -r build'
  palisade run --dry-run -- make clean
  palisade run --diff -- ./format.sh
  palisade run --guard transaction -- ./untrusted
  palisade run --background -- ./serve.sh")]
pub(crate) struct Run {
    #[command(flatten)]
    session: SessionOptions,
    /// Set an environment variable; without a value, pass on the caller's own
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// The directory to start in; relative to the workspace
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Pass standard input to the command; it must not be a terminal
    #[arg(long)]
    stdin: bool,
    /// Run in a transaction that is discarded, and print the diff of the changes
    #[arg(long)]
    diff: bool,
    /// Start the command as a job, print its id and return; if no daemon is running, one stays for it
    #[arg(long, conflicts_with_all = ["stdin", "diff", "raw", "dry_run", "verbose"])]
    background: bool,
    /// Be the process that keeps the session of a background run
    #[arg(long, hide = true, requires = "background")]
    keep: bool,
    /// Pass on all control sequences to a terminal, not only colours and cursor movement
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// A shell line, or a program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

impl Run {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        if self.keep {
            // The process that started this one prints the failure.
            return match self.keep().await {
                Ok(status) => Ok(status),
                Err(failure) => print::json(&failure.to_json()).map(|()| failure.status),
            };
        }
        let outcome = match self.background {
            true => background::start(self.session.json).await,
            false => self.attempt().await,
        };
        print::failure_as_json(outcome, self.session.json)
    }

    #[cfg(test)]
    pub(crate) fn words(&self) -> &[String] {
        &self.command
    }

    async fn attempt(&self) -> Result<u8, Failure> {
        let open = self.session.terms.open()?;
        let variables = variables(&self.env, |name| std::env::var_os(name))?;
        let terms = &self.session.terms;
        let (client, asking, session) =
            asking::open_for(terms, self.session.linger(), open).await?;
        let status = match session {
            Ok(session) => self.call(&session, variables, &asking).await,
            Err(error) => Err(error.into()),
        };
        drop(asking);
        disconnect(&client, status).await
    }

    async fn call(
        &self,
        session: &Session,
        variables: Vec<(String, String)>,
        approvers: &Approvers,
    ) -> Result<u8, Failure> {
        let mut call = self.bash(session, variables);
        if self.stdin {
            call = with_stdin(call);
        }
        call = configured(approvers.announce(call), &self.session)
            .timeout(self.time(session.limits()));
        if self.diff {
            call = call.dry_run();
        }
        let controls = Controls::of(self.raw);
        let tried = self.diff || self.session.dry_run;
        // With `--json` the output is only in the result. For a dry run or diff, the output is not
        // what the user wants.
        if !self.session.json && !tried {
            call = call.stream();
        }
        let (result, shown) = stream::watch(call.start().await?, Bytes::Shown(controls)).await?;
        if self.session.json {
            print::json(&result)?;
        } else if tried {
            self.tried(&result)?;
        } else if shown == OutputShown::Nothing && result.success {
            print::output(result.output.as_bytes(), controls)?;
        }
        let (detail, paint) = (self.session.verbose.into(), paint::stderr());
        receipt::tell(&result, detail, paint);
        follow_up::print(&result, detail, paint);
        let hint = repository::hint(&result, &self.session.terms.workspace, paint);
        hint.filter(|_| follow_up::is_shown(detail)).iter().for_each(|line| print::note(line));
        Ok(exit::of_result(&result))
    }
}

impl Run {
    /// Returns the call of the command, with its directory and variables.
    fn bash(&self, session: &Session, variables: Vec<(String, String)>) -> Call<Bash> {
        let mut call = match self.command.as_slice() {
            [line] => session.bash(line),
            argv => session.exec(argv),
        };
        if let Some(directory) = &self.cwd {
            call = call.cwd(directory);
        }
        for (name, value) in variables {
            call = call.env(name, value);
        }
        call
    }

    /// Returns the time that the command may take: the one that was given, or two minutes, or the
    /// profile's own default if that is longer. Says so where an unlimited time is cut.
    fn time(&self, limits: &SessionLimits) -> Duration {
        let longest = Duration::from_millis(limits.max_timeout_ms);
        match self.session.timeout {
            Some(TimeLimit::Of(time)) => time,
            Some(TimeLimit::Longest) => {
                if longest < LONGEST {
                    print::note(&format!(
                        "note: the profile ends the command after {} (limits.max_timeout_ms, or \
                         limits.job_ms with a private daemon); see --background",
                        duration::text(longest)
                    ));
                }
                longest
            }
            None => DEFAULT_TIMEOUT.max(Duration::from_millis(limits.timeout_ms)).min(longest),
        }
    }

    /// Prints what a dry run changed: like `git status --short`, or like `git diff`.
    fn tried(&self, result: &CallResult) -> Result<(), Failure> {
        let Some(set) = ChangeSet::of(result) else { return report(result) };
        for line in result.output.lines() {
            print::note(&visible(line));
        }
        if self.diff {
            if set.diff_complete == Some(false) {
                print::note("note: the diff was cut; it is longer than shown");
            }
            let diff = set.diff.unwrap_or_default();
            return print::output(diff.as_bytes(), Controls::of(self.raw));
        }
        let base = self.session.terms.workspace.canonicalize().unwrap_or_default();
        set.short(&base).iter().try_for_each(|line| print::line(&visible(line)))
    }
}

fn with_stdin(call: Call<Bash>) -> Call<Bash> {
    if std::io::stdin().is_terminal() {
        print::note("note: standard input is a terminal and is not passed on; pipe something in");
        return call;
    }
    call.attach_reader(tokio::io::stdin())
}

/// Sets the options that every call has.
pub(crate) fn configured<A>(mut call: Call<A>, options: &SessionOptions) -> Call<A> {
    if let Some(timeout) = options.timeout {
        call = call.timeout(timeout.duration());
    }
    if let Some(reason) = &options.reason {
        call = call.reason(reason);
    }
    if options.dry_run {
        call = call.dry_run();
    }
    call
}

/// Prints what a dry run found: its text, and what would be done.
pub(crate) fn report(result: &CallResult) -> Result<(), Failure> {
    print::output(result.output.as_bytes(), Controls::Shown)?;
    let Some(data) = &result.data else { return Ok(()) };
    let plan = serde_json::from_str::<serde_json::Value>(data.as_str())
        .and_then(|value| serde_json::to_string_pretty(&value));
    let plan = format!("{}\n", plan.as_deref().unwrap_or(data.as_str()));
    print::output(plan.as_bytes(), Controls::Shown)
}

/// Parses variables: `NAME=VALUE` as given, `NAME` with the value from the caller's environment.
fn variables(
    given: &[String],
    own: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<(String, String)>, Failure> {
    let read = |text: &String| match text.split_once('=') {
        Some(("", _)) => Err(Failure::new(
            format!("--env {text}: a variable needs a name"),
            "write --env NAME=VALUE",
        )),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match own(text).map(OsString::into_string) {
            Some(Ok(value)) => Ok((text.clone(), value)),
            Some(Err(_)) => Err(Failure::new(
                format!("--env {text}: its value is not UTF-8"),
                "give a value: --env NAME=VALUE",
            )),
            None => Err(Failure::new(
                format!("--env {text}: this variable is not set"),
                "give a value: --env NAME=VALUE",
            )),
        },
    };
    given.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_given_or_passed_on() {
        let own = |name: &str| (name == "TERM").then(|| OsString::from("xterm"));
        let given = ["CI=1", "EMPTY=", "URL=a=b", "TERM"].map(str::to_owned);
        let read = variables(&given, own).unwrap();
        let pairs = [("CI", "1"), ("EMPTY", ""), ("URL", "a=b"), ("TERM", "xterm")];
        assert_eq!(read, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_variable_that_is_not_there_is_a_mistake() {
        for text in ["SECRET", "=x", ""] {
            let failure = variables(&[text.to_owned()], |_| None).unwrap_err();
            assert_eq!(failure.status, 125, "{text}");
        }
    }
}
