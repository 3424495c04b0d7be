//! The programs of the profile's checkers, and the paths that they are asked about. Broker, pure.

use crate::{
    session::Session,
    task::{Directory, Manner, Program, Typing, invalid},
};
use palisade_policy::Checker;
use palisade_protocol::WireError;

/// The programs that a call may run: what is judged, whichever of them then has something to check.
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
                directory: Directory::Left,
                manner: Manner::Foreground,
                typing: Typing::Closed,
                lifetime: None,
                terminal: None,
                route: Default::default(),
            };
            (checker.clone(), program)
        })
        .collect()
}

/// The paths below the workspace; none of them if one is the workspace itself.
pub(super) fn named(session: &Session, paths: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, WireError> {
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

/// A path from the workspace on, with `.` and `..` taken out of it as text: it only chooses between
/// things that are said, and opens nothing.
pub(super) fn below(workspace: &[u8], path: &[u8]) -> Option<Vec<u8>> {
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
