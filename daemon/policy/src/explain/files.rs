//! Explains access to paths: the mount that a path is on, the Landlock rules that apply to it, and
//! the decision. Pure: no I/O.

use super::{Act, Decision, ExplainError, Explanation, TargetOwner, change};
use crate::{
    Origin, Profile, Scene,
    entries::{TMP, VARIABLES},
    names::{self, NameListKey},
    planning::ReachablePaths,
};
use palisade_plan::{Access, Layer, ceiling};
use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Devices that every session has, and links to a program's own descriptors.
const DEVICES: [&str; 11] =
    ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "fd", "stdin", "stdout", "stderr"];

/// The mount that a path is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathMount {
    /// A host directory, mounted with this access.
    Host(Access),
    /// A private file system, initially empty.
    Private,
    /// A directory for programs that stays empty unless the host's directory is bound there.
    Empty,
    /// A directory that exists only as the parent of others.
    Between,
    /// `/dev`.
    Devices,
    /// `/proc`.
    Processes,
    /// No mount: the path does not exist in the session.
    Nothing,
}

/// The facts about a path.
struct PathFacts {
    path: PathBuf,
    ground: PathMount,
    /// The profile line that the mount comes from.
    at: Option<Origin>,
    /// True if the Landlock rules allow executing the path; `writes` says the same of writing to
    /// it.
    executes: bool,
    writes: bool,
    /// True if the path is in the workspace, whose programs may be executed everywhere below it.
    in_workspace: bool,
}

pub(super) fn explain(
    profile: &Profile,
    scene: &Scene,
    act: Act,
    target: &str,
) -> Result<Explanation, ExplainError> {
    let path = resolve(scene, target)?;
    let spot = find(profile, scene, path)?;
    if let Some(named) = by_name(profile, scene, act, &spot.path) {
        return Ok(named);
    }
    let (decision, layer, rule) = decide(profile.name(), act, &spot);
    let change = match decision {
        Decision::Allow => Ok(None),
        Decision::Ask | Decision::Deny => {
            change::smallest(profile, scene, act, &spot.path).map(Some)
        }
    };
    let (change, mut note) = match change {
        Ok(change) => (change, String::new()),
        Err(why) => (None, format!("no profile can allow it: {why}")),
    };
    let private = match spot.ground {
        PathMount::Private => true,
        PathMount::Between => act == Act::Write && decision == Decision::Allow,
        PathMount::Host(_)
        | PathMount::Empty
        | PathMount::Devices
        | PathMount::Processes
        | PathMount::Nothing => false,
    };
    if private && note.is_empty() {
        note = "it is private to the session and deleted with it; the host's is not touched"
            .to_owned();
    }
    let target = spot.path.display().to_string();
    let place = match spot.ground {
        PathMount::Host(_) | PathMount::Nothing => TargetOwner::Host,
        PathMount::Private
        | PathMount::Empty
        | PathMount::Between
        | PathMount::Devices
        | PathMount::Processes => TargetOwner::Session,
    };
    Ok(Explanation { act, target, decision, place, layer, at: spot.at, rule, change, note })
}

/// Explains a denial because the name is hidden, or protected and to be written.
fn by_name(profile: &Profile, scene: &Scene, act: Act, path: &Path) -> Option<Explanation> {
    let below = path.strip_prefix(&scene.workspace).ok()?.as_os_str().as_bytes();
    let files = &profile.settings.fs;
    let writes = act == Act::Write && profile.writes_workspace();
    let protected =
        || names::deciding_entry(&files.protect, below).map(|said| (said, NameListKey::Protect));
    let hidden = names::deciding_entry(&files.hide, below).map(|said| (said, NameListKey::Hide));
    let (said, which) = hidden.or_else(|| protected().filter(|_| writes))?;
    let (text, shown) = (&said.value.0, path.display());
    let (layer, rule) = match which {
        NameListKey::Hide => (Layer::Hide, format!("{shown} is hidden by {text:?} in fs.hide")),
        NameListKey::Protect => (
            Layer::Protect,
            format!(
                "{shown} is protected by {text:?} in fs.protect: it can be read but not changed"
            ),
        ),
    };
    let lists = match which {
        NameListKey::Hide => &files.hide,
        NameListKey::Protect => &files.protect,
    };
    // If a directory above is hidden or protected, the exception must name that directory.
    let mut ends = below.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let whole = ends.find_map(|(end, _)| {
        let above = below.get(..end)?;
        names::deciding_entry(lists, above).map(|_| above)
    });
    let change = change::named(profile, which, said, whole.unwrap_or(below));
    Some(Explanation {
        act,
        target: shown.to_string(),
        decision: Decision::Deny,
        place: TargetOwner::Host,
        layer,
        at: said.at.clone(),
        rule,
        change: Some(change),
        note: String::new(),
    })
}

/// Resolves a target to an absolute path.
fn resolve(scene: &Scene, target: &str) -> Result<PathBuf, ExplainError> {
    let wrong = |why: &str| ExplainError::Path { target: target.to_owned(), why: why.to_owned() };
    let (variable, rest) = target.find('/').map_or((target, ""), |at| target.split_at(at));
    let base = match variable {
        "" if rest.is_empty() => return Err(wrong("it is empty")),
        "" => PathBuf::from("/"),
        "$WORKSPACE" => scene.workspace.clone(),
        "$HOME" => scene
            .private_home()
            .map(Path::to_owned)
            .ok_or_else(|| wrong("the user has no home directory"))?,
        "$TMP" => PathBuf::from(TMP),
        "~" => return Err(wrong("write $HOME instead of ~, in single quotes")),
        _ => match palisade_text::nearest(variable, VARIABLES) {
            Some(near) if variable.starts_with('$') => {
                return Err(wrong(&format!("did you mean {near}?")));
            }
            Some(_) | None => {
                return Err(wrong("it is not absolute and not below $WORKSPACE, $HOME or $TMP"));
            }
        },
    };
    let rest = rest.trim_start_matches('/');
    let path = if rest.is_empty() { base } else { base.join(rest) };
    if !ceiling::is_plain(&path) {
        return Err(wrong("it has a `.`, a `..`, a `//`, a NUL or a trailing slash"));
    }
    Ok(path)
}

fn find(profile: &Profile, scene: &Scene, path: PathBuf) -> Result<PathFacts, ExplainError> {
    let reach = profile.reach(scene)?;
    let (ground, at) = innermost_mount(profile, &reach, &path);
    let over = |access: fn(Access) -> bool| {
        let mut grants = reach.grants.iter().filter(|grant| access(grant.access));
        grants.any(|grant| is_in(&path, grant.path.as_path()))
    };
    let executes = over(|access| matches!(access, Access::Execute | Access::Write));
    let writes = over(|access| matches!(access, Access::Write));
    let in_workspace = is_in(&path, &scene.workspace);
    Ok(PathFacts { ground, at, executes, writes, in_workspace, path })
}

/// Returns `true` if a path is a directory or below it. Both are plain paths, so comparing their
/// text rules out most of them. That is much faster, and a profile has many entries.
fn is_in(path: &Path, directory: &Path) -> bool {
    let text = path.as_os_str().as_bytes();
    text.starts_with(directory.as_os_str().as_bytes()) && path.starts_with(directory)
}

/// Returns the innermost mount over a path. Of two mounts at the same place, the last one counts.
fn innermost_mount(
    profile: &Profile,
    reach: &ReachablePaths<'_>,
    path: &Path,
) -> (PathMount, Option<Origin>) {
    let binds =
        reach.binds.iter().zip(&reach.entries).map(|(bind, entry)| {
            (bind.path.as_path(), PathMount::Host(bind.access), Some(&entry.at))
        });
    let workspace = (
        reach.workspace.path.as_path(),
        PathMount::Host(reach.workspace.access),
        profile.settings.fs.workspace.at.as_ref(),
    );
    let private = reach.tmpfs.iter().map(|tmpfs| (tmpfs.path.as_path(), PathMount::Private, None));
    let bound = |path: &Path| reach.binds.iter().any(|bind| is_in(path, bind.path.as_path()));
    let empty = reach.empty.iter().map(|empty| empty.as_path()).filter(|empty| !bound(empty));
    let empty = empty.map(|empty| (empty, PathMount::Empty, None));
    let own = [("/dev", PathMount::Devices), ("/proc", PathMount::Processes)];
    let own = own.into_iter().map(|(path, ground)| (Path::new(path), ground, None));
    let mounts = || {
        binds
            .clone()
            .chain([workspace])
            .chain(private.clone())
            .chain(empty.clone())
            .chain(own.clone())
    };
    let leads = mounts().any(|(mount, ..)| is_in(mount, path));
    let over = mounts().enumerate().filter(|(_, (mount, ..))| is_in(path, mount));
    let innermost = over.max_by_key(|(number, (mount, ..))| (mount.components().count(), *number));
    match innermost {
        Some((_, (mount, PathMount::Private, _))) if leads || mount == path => {
            (PathMount::Between, None)
        }
        Some((_, (_, ground, at))) => (ground, at.cloned()),
        None if leads => (PathMount::Between, None),
        None => (PathMount::Nothing, None),
    }
}

fn decide(profile: &str, act: Act, spot: &PathFacts) -> (Decision, Layer, String) {
    let (allow, deny) = (Decision::Allow, Decision::Deny);
    let path = spot.path.display();
    let mount = |decision, why: String| (decision, Layer::Mount, why);
    match (spot.ground, act) {
        (PathMount::Nothing, _) => {
            mount(deny, format!("profile {profile} does not include {path}"))
        }
        (PathMount::Host(_), Act::Read | Act::Connect) => {
            (allow, Layer::Landlock, format!("{path} can be read"))
        }
        (PathMount::Host(Access::Write), Act::Write) => {
            (allow, Layer::Landlock, format!("{path} can be changed"))
        }
        (PathMount::Host(_), Act::Write) => mount(deny, format!("{path} is mounted read-only")),
        (PathMount::Host(Access::List | Access::Read), Act::Execute)
            if spot.executes && !spot.in_workspace =>
        {
            mount(deny, format!("{path} can be read but not run: it is mounted noexec"))
        }
        (PathMount::Host(_), Act::Execute) if spot.executes => {
            (allow, Layer::Landlock, format!("{path} can be run"))
        }
        (PathMount::Host(_), Act::Execute) => {
            (deny, Layer::Landlock, format!("{path} can be read but not run"))
        }
        (PathMount::Private | PathMount::Between, Act::Write) if spot.writes => {
            (allow, Layer::Landlock, format!("{path} is on a private file system of the session"))
        }
        (PathMount::Between, Act::Write) if private(&spot.path) => {
            (deny, Layer::Landlock, format!("{path} is private to the session and stays empty"))
        }
        (PathMount::Empty, _) => mount(
            deny,
            format!("{path} is in a directory of env.path, which is empty and read-only"),
        ),
        (PathMount::Private, Act::Write) => {
            (deny, Layer::Landlock, format!("{path} is on a file system that stays empty"))
        }
        (PathMount::Private, Act::Read | Act::Execute | Act::Connect) => mount(
            deny,
            format!(
                "{path} is on a private file system of the session: the host's is not included"
            ),
        ),
        (PathMount::Between, Act::Read | Act::Connect) => {
            mount(allow, format!("{path} is a directory above paths that the profile includes"))
        }
        (PathMount::Between, Act::Write) => {
            mount(deny, format!("{path} is a directory of the session's root, which is read-only"))
        }
        (PathMount::Between, Act::Execute) => mount(deny, format!("{path} is a directory")),
        (PathMount::Devices, _) => device(act, &spot.path),
        (PathMount::Processes, Act::Read | Act::Connect) => {
            (allow, Layer::Landlock, "/proc shows the session's own processes".to_owned())
        }
        (PathMount::Processes, Act::Write) => mount(deny, "/proc is mounted read-only".to_owned()),
        (PathMount::Processes, Act::Execute) => {
            (deny, Layer::Landlock, "nothing in /proc can be run".to_owned())
        }
    }
}

/// Returns `true` if a path is a private directory without a Landlock grant, such as `/run`.
fn private(path: &Path) -> bool {
    path == Path::new("/run")
}

fn device(act: Act, path: &Path) -> (Decision, Layer, String) {
    let shown = path.display();
    let name = path.strip_prefix("/dev").unwrap_or(path);
    let first = name.components().next().map(|part| part.as_os_str().to_owned());
    let known = first.as_ref().is_some_and(|first| DEVICES.iter().any(|device| first == *device));
    let directory = first.is_none() || name == Path::new("pts");
    let there = known || directory || first.is_some_and(|first| first == "pts");
    match act {
        _ if !there => {
            (Decision::Deny, Layer::Mount, format!("{shown} is not among the session's devices"))
        }
        Act::Read | Act::Connect => {
            (Decision::Allow, Layer::Landlock, format!("{shown} is a device of every session"))
        }
        Act::Write if directory => {
            (Decision::Deny, Layer::Mount, format!("{shown} is mounted read-only"))
        }
        Act::Write => {
            (Decision::Allow, Layer::Landlock, format!("{shown} is a device of every session"))
        }
        Act::Execute => (Decision::Deny, Layer::Landlock, "no device can be run".to_owned()),
    }
}
