//! `palisade setup`: the configuration that makes an agent use Palisade instead of its own tools.

mod agents;
mod listed;
mod place;
mod settings;
mod text;

use crate::{
    failure::Failure,
    paint::{self, Style, harmless},
    print, programs,
};
use agents::{Agent, AgentSetup, ServerCommand};
use clap::Args;
use listed::ListedServer;
use palisade_options::WorkspaceError;
use place::PreparedFile;
use std::{path::PathBuf, time::Duration};

/// The time that an agent may take to list its servers. Some of them start each server for it.
const LISTING: Duration = Duration::from_secs(60);

/// Print, write or check the configuration that makes an agent use Palisade
#[derive(Debug, Args)]
#[command(after_help = "\
Prints the files that the agent needs, each with its path, and the command to start it with. With
--write the settings are put into the files. Everything else in them stays as it is, comments too. A
file that changes is first copied to NAME.before-palisade. A file that can not be read as what it is
supposed to be, or that says something that can not be kept, is not changed, and then none is.

--check says which settings are missing, starts the agent's own list of servers if it has one, and
names what still reaches the host unconfined.

Each configuration says whether it was tried with the agent or taken from its documentation.

Exit status: 0 success; 1 with --check, a setting is missing or the agent does not say that it can
use the server; 2 invalid command line; 125 Palisade failed.

Examples:
  palisade setup claude
  palisade setup codex --workspace ~/src/project --write
  palisade setup gemini --check")]
pub(crate) struct Setup {
    /// The agent
    #[arg(value_enum)]
    agent: Agent,
    /// The directory that the agent works in
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// The session's profile [default: the daemon's default profile]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The daemon's socket [default: a running daemon, or a private daemon]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Write the files
    #[arg(long)]
    write: bool,
    /// Check the files, and ask the agent itself
    #[arg(long, conflicts_with = "write")]
    check: bool,
}

impl Setup {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        // An agent would only say that its server did not start.
        programs::find_companion("palisade-mcp")?;
        let server = self.server()?;
        let setup = self.agent.setup(&server)?;
        if self.write {
            write(&setup)
        } else if self.check {
            check(&setup, &server).await
        } else {
            show(&setup)
        }
    }

    /// Returns the command that starts the server.
    fn server(&self) -> Result<ServerCommand, Failure> {
        let workspace = self.workspace.canonicalize().map_err(|source| {
            Failure::from(WorkspaceError { path: self.workspace.clone(), source })
        })?;
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("can not find this program: {error}"), ""))?;
        let text = |path: PathBuf| {
            path.into_os_string().into_string().map_err(|path| {
                let message = format!("{} is not UTF-8", PathBuf::from(path).display());
                Failure::new(message, "an agent's configuration can not name it")
            })
        };
        let mut arguments = vec!["mcp".to_owned(), "--workspace".to_owned()];
        arguments.push(text(workspace.clone())?);
        if let Some(profile) = &self.profile {
            arguments.extend(["--profile".to_owned(), profile.clone()]);
        }
        if let Some(socket) = &self.socket {
            let socket = std::path::absolute(socket)
                .map_err(|error| Failure::new(format!("can not use --socket: {error}"), ""))?;
            arguments.extend(["--socket".to_owned(), text(socket)?]);
        }
        Ok(ServerCommand { program: text(program)?, arguments, workspace })
    }
}

/// Prints the configuration, as it would be in new files.
fn show(setup: &AgentSetup) -> Result<u8, Failure> {
    print::line(&format!("# {}, {}", setup.title, setup.evidence))?;
    for file in &setup.files {
        print::line(&format!("\n# {}", file.path.display()))?;
        print::bytes(text::fresh(file)?.as_bytes())?;
    }
    tell(setup)
}

fn write(setup: &AgentSetup) -> Result<u8, Failure> {
    // All of them are read and changed in memory before the first is written.
    let prepared: Vec<PreparedFile> =
        setup.files.iter().map(place::prepare).collect::<Result<_, _>>()?;
    for file in prepared {
        let path = file.path().display().to_string();
        match file.write()? {
            place::Written::Unchanged => print::line(&format!("unchanged {path}"))?,
            place::Written::Created => print::line(&format!("created {path}"))?,
            place::Written::Changed { backup } => {
                print::line(&format!("changed {path}, backup in {}", backup.display()))?;
            }
        }
    }
    tell(setup)
}

/// Says how to start the agent, and what the configuration does not cover.
fn tell(setup: &AgentSetup) -> Result<u8, Failure> {
    print::line(&format!("\n# Start: {}", setup.start))?;
    for gap in setup.gaps {
        print::line(&format!("# Not covered: {gap}"))?;
    }
    Ok(0)
}

async fn check(setup: &AgentSetup, server: &ServerCommand) -> Result<u8, Failure> {
    let paint = paint::stdout();
    let mut is_complete = true;
    let mut report = |is_good: bool, text: &str| {
        is_complete &= is_good;
        let (style, word) = if is_good { (Style::Good, "ok") } else { (Style::Error, "missing") };
        print::line(&format!("{} {}", paint.apply(style, word), harmless(text)))
    };
    for file in &setup.files {
        let missing = place::missing(file)?;
        let path = file.path.display();
        if missing.is_empty() {
            report(true, &path.to_string())?;
        }
        for setting in missing {
            report(false, &format!("{path}: {setting}"))?;
        }
    }
    if let Some((program, arguments)) = setup.listing {
        let command = format!("{program} {}", arguments.join(" "));
        match programs::list(program, arguments, &setup.directory, LISTING).await {
            Ok(text) => match listed::find(&text, &server.words()) {
                ListedServer::Usable(line) => report(true, &format!("{command}: {line}"))?,
                ListedServer::Unusable(line) => {
                    report(false, &format!("{command} does not say that it is connected: {line}"))?;
                }
                ListedServer::Absent => {
                    report(false, &format!("{command}: palisade is not in the list"))?;
                }
            },
            Err(why) => report(false, &format!("{command}: {why}"))?,
        }
    }
    for gap in setup.gaps {
        print::line(&format!("{} {gap}", paint.apply(Style::Warning, "not covered")))?;
    }
    Ok(if is_complete { 0 } else { crate::exit::TOOL })
}
