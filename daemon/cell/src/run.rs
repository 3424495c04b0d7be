//! Runs the process of a cell from its start to its end: it is confined, and then serves its
//! session. Runs in the cell.

use crate::{
    overlays::{self, ProgramState},
    runner::{self, CommitResources, RunnerError, RunnerExit, RunnerResources},
};
use palisade_cell_setup::{
    ConfinedProcess, GitConfiguration, SetupError, StartIdentity, failure::StepFailure, kernel,
    steps::StepResults,
};
use palisade_cell_tools::{
    files::{self, FilesError},
    git_author,
};
use palisade_channel::{Channel, Datagrams};
use palisade_plan::{Role, cell::Setup};

/// The reason why a cell's process ended.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// The process could not be confined.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The setup announced another number of channels than a process of this role has.
    #[error("a process of this role can not have {0} channels")]
    Channels(usize),
    /// The steps of a transaction laid no overlay over the workspace.
    #[error("a transaction's steps laid no layer over the workspace")]
    NoLayers,
    /// The file tools failed.
    #[error("channel to the broker: {0}")]
    Files(#[from] FilesError),
    /// The runner failed.
    #[error(transparent)]
    Runner(#[from] RunnerError),
}

/// Runs a cell's process from its start to its end.
///
/// # Errors
/// Whatever ended the process, except the end of its session.
pub fn run(identity: StartIdentity) -> Result<(), CellError> {
    match palisade_cell_setup::enter(identity, prepare)? {
        Some(process) => serve(process),
        None => Ok(()),
    }
}

/// Gives the session's home what its programs expect there.
fn prepare(results: &StepResults) -> Result<(), StepFailure> {
    let Some(GitConfiguration { home, files }) = &results.git else { return Ok(()) };
    git_author::write_author(home.as_path(), files)
        .map_err(StepFailure::kernel("write git's configuration"))
}

fn serve(process: ConfinedProcess) -> Result<(), CellError> {
    let ConfinedProcess { role, mut channels, control, results, oom_score } = process;
    let view = results.workspace_view();
    let resources = RunnerResources::new(results.landlock, oom_score, results.recording);
    match role {
        Role::Files | Role::Trial | Role::Sweep => {
            drop(resources);
            kernel::ignore_file_size_signal();
            watch(control);
            Ok(files::serve(channels, view)?)
        }
        Role::Runner | Role::Reader => {
            let channel = channels.pop().ok_or(CellError::Channels(0))?;
            runner::serve(channel, control, resources, None)?;
            Ok(())
        }
        Role::Transaction => {
            let [channel, file] = <[Channel; 2]>::try_from(channels)
                .map_err(|channels| CellError::Channels(channels.len()))?;
            let Some(mut layers) = results.layers else { return Err(CellError::NoLayers) };
            let settling = CommitResources { layers: &mut layers, view: &view, file: &file };
            match runner::serve(channel, control, resources, Some(settling))? {
                RunnerExit::Nobody => return Ok(()),
                RunnerExit::Launcher { control, since } => {
                    layers.access = overlays::make_read_only(&control, ProgramState::Ended);
                    watch(control);
                    layers.set_since(since);
                }
            }
            kernel::ignore_file_size_signal();
            Ok(files::settle(&file, view, layers)?)
        }
    }
}

/// Ends the process when the launcher ends. The death signal alone is not enough: it is lost if the
/// launcher ended before it was requested.
fn watch(control: Datagrams) {
    std::thread::spawn(move || {
        // From here on the launcher is asked nothing and sends nothing, so any message, or the end
        // of the connection, means the end.
        drop(control.receive::<Setup>());
        kernel::exit_now(0);
    });
}
