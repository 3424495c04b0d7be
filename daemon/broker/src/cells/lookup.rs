//! The search for programs that the daemon starts by name: never in a directory that the session
//! may write. Runs in the broker. Pure: no I/O.

use crate::{
    base::{
        error::CallError,
        task::{DirectoryPolicy, Program},
    },
    cells::session::Session,
};
use palisade_policy::{EnvironmentError, PlanError, Profile, Scene, Search};

/// Returns which directories go into the `PATH` of a program. A shell line gets the profile's whole
/// `PATH`, since the author of the line chose its programs.
pub(crate) const fn of(program: &Program) -> Search {
    match program.directory {
        DirectoryPolicy::Left => Search::Fixed,
        DirectoryPolicy::Kept => Search::Whole,
    }
}

/// Returns the `PATH` in which the shell of a line is looked up.
pub(crate) fn shell_path(profile: &Profile, scene: &Scene) -> Result<Vec<u8>, PlanError> {
    let system = profile.search_path(scene, Search::System)?;
    Ok([system, profile.search_path(scene, Search::Fixed)?].join(&b':'))
}

/// Returns the `PATH` in which the program itself is looked up. A shell line's shell is always the
/// system's, whatever the line's own `PATH` is. For a program without a shell, the caller may set
/// `PATH`.
pub(crate) fn path(
    program: &Program,
    session: &Session,
    search: Search,
) -> Result<Vec<u8>, CallError> {
    let path = |search| session.profile.search_path(&session.scene, search);
    let found = match (program.directory, program.environment.get("PATH")) {
        (DirectoryPolicy::Kept, _) => shell_path(&session.profile, &session.scene),
        (DirectoryPolicy::Left, Some(path)) => return Ok(path.clone().into_bytes()),
        (DirectoryPolicy::Left, None) => path(search),
    };
    Ok(found.map_err(EnvironmentError::from)?)
}
