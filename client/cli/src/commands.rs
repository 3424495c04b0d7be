//! The command line's definition, and the file that implements each subcommand.

use crate::{
    analyze, approve, attempt, audit, call, completions, doctor,
    exit::{FAILED, USAGE},
    failure::Failure,
    jobs, linger, man, mcp, net,
    operator::{answer, forget, grants, kill, pending, sessions, top, tx},
    output, print, profile, run, setup, shell, status, tools, why,
};
use clap::{CommandFactory as _, Parser, Subcommand};
use std::ffi::OsString;

/// Runs shell commands and file tools confined, through the Palisade daemon.
#[derive(Debug, Parser)]
#[command(
    name = "palisade",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  palisade run -- 'cargo test 2>&1 | tail'    one word: a shell line
  palisade run -- cargo test                  several: a program and its arguments
  palisade call read_file --args '{\"path\": \"README.md\"}'
  palisade undo last                          undo the changes of the last call
  palisade tools --format openai
  palisade doctor                             what this host can enforce

If no --socket or $PALISADE_SOCKET is given and no daemon is running, a private daemon with the
same confinement is started for this command. It ends with the command, or serves this user's next
ones and ends after five minutes without one: see palisade run and palisade stop.

Colours are used only on a terminal, and not if NO_COLOR is set."
)]
pub(crate) struct Palisade {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands, one file each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Run),
    Shell(shell::Shell),
    Call(call::CallTool),
    Undo(call::undo::Undo),
    Tools(tools::Tools),
    Mcp(mcp::Mcp),
    Setup(setup::Setup),
    Output(output::Output),
    Approve(approve::Approve),
    Pending(pending::ShowPending),
    Answer(answer::AnswerCommand),
    Grants(grants::GrantsCommand),
    Tx(tx::Tx),
    Status(status::ShowStatus),
    Stop(linger::stop::Stop),
    Jobs(jobs::ShowJobs),
    Net(net::ShowConnections),
    Sessions(sessions::ShowSessions),
    Top(top::Top),
    Kill(kill::KillCommand),
    Forget(forget::ForgetCommand),
    Doctor(doctor::Doctor),
    Audit(audit::Audit),
    Why(why::Why),
    Analyze(analyze::Analyze),
    Profile(profile::Profile),
    Completions(completions::Completions),
    Man(man::Man),
    #[command(hide = true)]
    Complete(completions::Complete),
    #[command(hide = true)]
    Attempt(attempt::Attempt),
}

/// Returns clap's definition of the command line, for completions and man pages.
pub(crate) fn definition() -> clap::Command {
    Palisade::command()
}

/// Parses the command line. For help or a usage error, prints that and returns the exit status.
fn parse<I: IntoIterator<Item = OsString>>(words: I) -> Result<Command, u8> {
    let words: Vec<OsString> = words.into_iter().collect();
    match Palisade::try_parse_from(&words) {
        Ok(palisade) => Ok(palisade.command),
        Err(error) => {
            // If even this can not be printed, there is nobody to tell.
            drop(error.print());
            Err(if error.use_stderr() { mistake(&words) } else { 0 })
        }
    }
}

/// Returns the exit status for a usage error. `run`, `shell` and `call` exit with their command's status, so
/// they need a different one.
fn mistake(words: &[OsString]) -> u8 {
    match words.get(1).and_then(|word| word.to_str()) {
        Some("run" | "shell" | "call") => FAILED,
        Some(_) | None => USAGE,
    }
}

/// Runs the command of a command line and returns the exit status.
pub(crate) fn run_line<I: IntoIterator<Item = OsString>>(words: I) -> u8 {
    parse(words).map_or_else(|status| status, perform)
}

/// Runs a subcommand and returns the exit status.
fn perform(command: Command) -> u8 {
    match attempt(command) {
        Ok(status) => status,
        Err(failure) => {
            print::failure(&failure);
            failure.status
        }
    }
}

fn attempt(command: Command) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("can not start: {error}"), ""))?;
    let status = runtime.block_on(async {
        match command {
            Command::Run(run) => run.perform().await,
            Command::Shell(shell) => shell.perform().await,
            Command::Call(call) => call.perform().await,
            Command::Undo(undo) => undo.perform().await,
            Command::Tools(tools) => tools.perform().await,
            Command::Mcp(mcp) => mcp.perform(),
            Command::Setup(setup) => setup.perform().await,
            Command::Output(output) => output.perform().await,
            Command::Approve(approve) => approve.perform().await,
            Command::Pending(pending) => pending.perform().await,
            Command::Answer(answer) => answer.perform().await,
            Command::Grants(grants) => grants.perform().await,
            Command::Tx(tx) => tx.perform().await,
            Command::Status(status) => status.perform().await,
            Command::Stop(stop) => stop.perform().await,
            Command::Jobs(jobs) => jobs.perform().await,
            Command::Net(net) => net.perform().await,
            Command::Sessions(sessions) => sessions.perform().await,
            Command::Top(top) => top.perform().await,
            Command::Kill(kill) => kill.perform().await,
            Command::Forget(forget) => forget.perform().await,
            Command::Doctor(doctor) => doctor.perform().await,
            Command::Audit(audit) => audit.perform().await,
            Command::Why(why) => why.perform().await,
            Command::Analyze(analyze) => analyze.perform(),
            Command::Profile(profile) => profile.perform().await,
            Command::Completions(completions) => completions.perform(definition()),
            Command::Complete(complete) => complete.perform(&definition()).await,
            Command::Man(man) => man.perform(definition()),
            Command::Attempt(attempt) => attempt.perform(),
        }
    });
    // A pending read of standard input must not delay the exit.
    runtime.shutdown_background();
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        definition().debug_assert();
    }

    #[test]
    fn every_subcommand_has_examples() {
        for command in definition().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("palisade {}", command.get_name())), "{command}");
        }
    }

    #[test]
    fn no_line_of_help_is_wider_than_the_page() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines() {
                assert!(line.chars().count() <= 100, "{command}: {line}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&definition());
    }

    #[test]
    fn everything_behind_the_program_is_its_own() {
        for words in [&["run", "--", "ls", "-l", "--json"][..], &["run", "ls", "-l", "--json"]] {
            let words = ["palisade"].iter().chain(words).map(OsString::from);
            let Ok(Command::Run(run)) = parse(words) else { panic!("not a run") };
            assert_eq!(run.words(), ["ls", "-l", "--json"]);
        }
    }

    #[test]
    fn a_mistake_in_run_is_not_mistaken_for_its_command() {
        let status = |words: &[&str]| parse(words.iter().map(OsString::from)).unwrap_err();
        assert_eq!(status(&["palisade", "run", "--no-such-option"]), 125);
        assert_eq!(status(&["palisade", "call"]), 125);
        assert_eq!(status(&["palisade", "tools", "--no-such-option"]), 2);
        assert_eq!(status(&["palisade", "run", "--help"]), 0);
        assert_eq!(status(&["palisade", "--version"]), 0);
    }
}
