//! The search for programs that the daemon starts by name: never in a directory that the session
//! may write. Runs in the broker. Pure: no I/O.

use crate::base::task::{DirectoryPolicy, Program};
use palisade_policy::{PlanError, Profile, Scene, Search};

/// The values of `PATH` for a session's programs, made once when the session is opened.
#[derive(Debug)]
pub(crate) struct SearchPaths {
    /// For a shell line, whose author chose its programs: everything that the profile has.
    line: Vec<u8>,
    /// For a program without a shell.
    argv: Vec<u8>,
    /// For the shell of a line, which is always the system's.
    shell: Vec<u8>,
}

impl SearchPaths {
    pub(crate) fn new(profile: &Profile, scene: &Scene) -> Result<Self, PlanError> {
        let path = |search| profile.search_path(scene, search);
        let (line, argv) = (path(Search::Whole)?, path(Search::Fixed)?);
        let shell = [path(Search::System)?, argv.clone()].join(&b':');
        Ok(Self { line, argv, shell })
    }

    /// Returns the `PATH` in a program's environment, unless its call sets another.
    pub(crate) fn environment(&self, program: &Program) -> &[u8] {
        match program.directory {
            DirectoryPolicy::Left => &self.argv,
            DirectoryPolicy::Kept => &self.line,
        }
    }

    /// Returns the `PATH` in which a program itself is looked up. A shell line's shell is always the
    /// system's, whatever the line's own `PATH` is. For a program without a shell, the caller may
    /// set `PATH`.
    pub(crate) fn program<'a>(&'a self, program: &'a Program) -> &'a [u8] {
        match (program.directory, program.environment.get("PATH")) {
            (DirectoryPolicy::Kept, _) => &self.shell,
            (DirectoryPolicy::Left, Some(path)) => path.as_bytes(),
            (DirectoryPolicy::Left, None) => &self.argv,
        }
    }

    /// Returns the `PATH` in which the shell of a line is looked up.
    pub(crate) fn shell(&self) -> &[u8] {
        &self.shell
    }
}
