//! Where the programs are looked for that the daemon starts by their name: never in a directory that
//! the session may write. Broker, pure.

use crate::{
    error::CallError,
    session::Session,
    task::{Directory, Program},
};
use palisade_policy::{EnvironmentError, Search};

/// What a program's own `PATH` has: a shell line's all that the profile says, since whoever wrote
/// the line chose its programs.
pub(crate) const fn of(program: &Program) -> Search {
    match program.directory {
        Directory::Left => Search::Fixed,
        Directory::Kept => Search::Whole,
    }
}

/// Where the program itself is looked for. The shell of a line is the system's, whatever is on the
/// line's own `PATH`; for a program of the caller's, the caller may say.
pub(crate) fn path(
    program: &Program,
    session: &Session,
    search: Search,
) -> Result<Vec<u8>, CallError> {
    let path = |search| session.profile.search_path(&session.scene, search);
    let found = match (program.directory, program.environment.get("PATH")) {
        (Directory::Kept, _) => {
            path(Search::System).and_then(|system| Ok([system, path(Search::Fixed)?].join(&b':')))
        }
        (Directory::Left, Some(path)) => return Ok(path.clone().into_bytes()),
        (Directory::Left, None) => path(search),
    };
    Ok(found.map_err(EnvironmentError::from)?)
}
