//! The programs of the profile's checkers, and the paths that they are asked about. Pure: no I/O.

use crate::{
    base::task::{DirectoryPolicy, Program, StdinMode, WaitMode, invalid},
    cells::session::Session,
};
use palisade_policy::Checker;
use palisade_protocol::WireError;

/// The programs that a call may run. All are judged, even if some then have nothing to check.
pub(crate) fn programs(session: &Session, paths: &[Vec<u8>]) -> Vec<(Checker, Program)> {
    let named = named(session, paths).unwrap_or_default();
    let checkers = session.profile.checkers().iter().filter(|checker| checker.covers(&named));
    checkers
        .map(|checker| {
            let program = Program {
                argv: checker.argv().to_vec(),
                script: None,
                cwd: Some(session.workspace.0.clone()),
                environment: Default::default(),
                stdin: None,
                directory: DirectoryPolicy::Left,
                manner: WaitMode::Foreground,
                typing: StdinMode::Closed,
                lifetime: None,
                terminal: None,
                route: Default::default(),
            };
            (checker.clone(), program)
        })
        .collect()
}

/// The paths relative to the workspace; an empty list if one of them is the workspace itself.
pub(crate) fn named(session: &Session, paths: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, WireError> {
    let mut named = Vec::new();
    for path in paths {
        let Some(below) = below(&session.workspace.0, &session.absolute(path)) else {
            let why = format!("{:?} is not in the workspace", String::from_utf8_lossy(path));
            return Err(invalid("paths", &why, "name files and directories of the workspace"));
        };
        if below.is_empty() {
            return Ok(Vec::new());
        }
        named.push(below);
    }
    Ok(named)
}

/// A path relative to the workspace, with `.` and `..` removed as text. That is safe: it only
/// selects diagnostics, and opens nothing.
pub(crate) fn below(workspace: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let plain = [b"/".as_slice(), &names.join(&b'/')].concat();
    let rest = plain.strip_prefix(workspace)?;
    match rest {
        [] => Some(Vec::new()),
        [b'/', rest @ ..] => Some(rest.to_vec()),
        _ => None,
    }
}
