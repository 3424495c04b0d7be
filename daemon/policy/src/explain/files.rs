//! Paths: which mount a path lies on, what Landlock's rules add up to there, and what follows.

use super::{Act, Decision, ExplainError, Explanation, Place, change};
use crate::{
    Origin, Profile, Scene,
    entries::{TMP, VARIABLES},
    keys::nearest,
    names::{self, Which},
    planning::Reach,
};
use palisade_plan::{Access, Layer, ceiling};
use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Devices that are in every session, and links to a program's own descriptors.
const DEVICES: [&str; 11] =
    ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "fd", "stdin", "stdout", "stderr"];

/// What a path lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    /// Something of the host's, mounted with this access.
    Host(Access),
    /// A private file system, empty at first.
    Private,
    /// A directory for programs that stays empty where the host's is not bound.
    Empty,
    /// A directory that only leads to others.
    Between,
    /// `/dev`.
    Devices,
    /// `/proc`.
    Processes,
    /// Nothing.
    Nothing,
}

/// What is known of a path.
struct Spot {
    path: PathBuf,
    ground: Ground,
    /// The line that brings what it lies on.
    at: Option<Origin>,
    /// Whether Landlock's rules let it be executed, or written.
    executes: bool,
    writes: bool,
    /// Whether it is in the workspace, whose programs run wherever they are.
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
    let (decision, layer, rule) = decide(act, &spot);
    let change = match decision {
        Decision::Allow => Ok(None),
        Decision::Deny => change::smallest(profile, scene, act, &spot.path).map(Some),
    };
    let (change, mut note) = match change {
        Ok(change) => (change, String::new()),
        Err(why) => (None, format!("no profile can allow it: {why}")),
    };
    let private = match spot.ground {
        Ground::Private => true,
        Ground::Between => act == Act::Write && decision == Decision::Allow,
        Ground::Host(_) | Ground::Empty | Ground::Devices | Ground::Processes | Ground::Nothing => {
            false
        }
    };
    if private && note.is_empty() {
        note = "it is private to the session and ends with it; the host's own is not touched"
            .to_owned();
    }
    let target = spot.path.display().to_string();
    let place = match spot.ground {
        Ground::Host(_) | Ground::Nothing => Place::Host,
        Ground::Private | Ground::Empty | Ground::Between | Ground::Devices | Ground::Processes => {
            Place::Session
        }
    };
    Ok(Explanation { act, target, decision, place, layer, at: spot.at, rule, change, note })
}

/// What is hidden, or protected from what is tried.
fn by_name(profile: &Profile, scene: &Scene, act: Act, path: &Path) -> Option<Explanation> {
    let below = path.strip_prefix(&scene.workspace).ok()?.as_os_str().as_bytes();
    let files = &profile.settings.fs;
    let writes = act == Act::Write && profile.writes_workspace();
    let protected = || names::deciding(&files.protect, below).map(|said| (said, Which::Protect));
    let hidden = names::deciding(&files.hide, below).map(|said| (said, Which::Hide));
    let (said, which) = hidden.or_else(|| protected().filter(|_| writes))?;
    let (text, shown) = (&said.value.0, path.display());
    let (layer, rule) = match which {
        Which::Hide => (Layer::Hide, format!("{shown} is hidden by {text:?} of fs.hide")),
        Which::Protect => (
            Layer::Protect,
            format!(
                "{shown} is protected by {text:?} of fs.protect: it can be read and not be changed"
            ),
        ),
    };
    let lists = match which {
        Which::Hide => &files.hide,
        Which::Protect => &files.protect,
    };
    // What is in a directory that is meant can not be taken back without it.
    let mut ends = below.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let whole = ends.find_map(|(end, _)| {
        let above = below.get(..end)?;
        names::deciding(lists, above).map(|_| above)
    });
    let change = change::named(profile, which, said, whole.unwrap_or(below));
    Some(Explanation {
        act,
        target: shown.to_string(),
        decision: Decision::Deny,
        place: Place::Host,
        layer,
        at: said.at.clone(),
        rule,
        change: Some(change),
        note: String::new(),
    })
}

/// A target from the root on.
fn resolve(scene: &Scene, target: &str) -> Result<PathBuf, ExplainError> {
    let wrong = |why: &str| ExplainError::Path { target: target.to_owned(), why: why.to_owned() };
    let (variable, rest) = target.find('/').map_or((target, ""), |at| target.split_at(at));
    let base = match variable {
        "" if rest.is_empty() => return Err(wrong("it is empty")),
        "" => PathBuf::from("/"),
        "$WORKSPACE" => scene.workspace.clone(),
        "$HOME" => {
            scene.private_home().map(Path::to_owned).ok_or_else(|| wrong("the user has no home"))?
        }
        "$TMP" => PathBuf::from(TMP),
        "~" => return Err(wrong("write $HOME in place of ~, in single quotes")),
        _ => match nearest(variable, VARIABLES) {
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
        return Err(wrong("it has a `.`, a `..`, a `//`, a NUL or a slash at its end"));
    }
    Ok(path)
}

fn find(profile: &Profile, scene: &Scene, path: PathBuf) -> Result<Spot, ExplainError> {
    let reach = profile.reach(scene)?;
    let (ground, at) = ground(profile, &reach, &path);
    let over = |access: fn(Access) -> bool| {
        let mut grants = reach.grants.iter().filter(|grant| access(grant.access));
        grants.any(|grant| is_in(&path, grant.path.as_path()))
    };
    let executes = over(|access| matches!(access, Access::Execute | Access::Write));
    let writes = over(|access| matches!(access, Access::Write));
    let in_workspace = is_in(&path, &scene.workspace);
    Ok(Spot { ground, at, executes, writes, in_workspace, path })
}

/// Whether a path is a directory or below it. Both are plain, so most are told apart by their text,
/// which is much quicker: a profile has many entries.
fn is_in(path: &Path, directory: &Path) -> bool {
    let text = path.as_os_str().as_bytes();
    text.starts_with(directory.as_os_str().as_bytes()) && path.starts_with(directory)
}

/// The innermost mount over a path; of two at one place, the one that is mounted last.
fn ground(profile: &Profile, reach: &Reach<'_>, path: &Path) -> (Ground, Option<Origin>) {
    let binds = reach
        .binds
        .iter()
        .zip(&reach.entries)
        .map(|(bind, entry)| (bind.path.as_path(), Ground::Host(bind.access), Some(&entry.at)));
    let workspace = (
        reach.workspace.path.as_path(),
        Ground::Host(reach.workspace.access),
        profile.settings.fs.workspace.at.as_ref(),
    );
    let private = reach.tmpfs.iter().map(|tmpfs| (tmpfs.path.as_path(), Ground::Private, None));
    let bound = |path: &Path| reach.binds.iter().any(|bind| is_in(path, bind.path.as_path()));
    let empty = reach.empty.iter().map(|empty| empty.as_path()).filter(|empty| !bound(empty));
    let empty = empty.map(|empty| (empty, Ground::Empty, None));
    let own = [("/dev", Ground::Devices), ("/proc", Ground::Processes)];
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
        Some((_, (mount, Ground::Private, _))) if leads || mount == path => (Ground::Between, None),
        Some((_, (_, ground, at))) => (ground, at.cloned()),
        None if leads => (Ground::Between, None),
        None => (Ground::Nothing, None),
    }
}

fn decide(act: Act, spot: &Spot) -> (Decision, Layer, String) {
    let (allow, deny) = (Decision::Allow, Decision::Deny);
    let path = spot.path.display();
    let mount = |decision, why: String| (decision, Layer::Mount, why);
    match (spot.ground, act) {
        (Ground::Nothing, _) => {
            mount(deny, format!("nothing in the profile names {path}, so it is not there"))
        }
        (Ground::Host(_), Act::Read | Act::Connect) => {
            (allow, Layer::Landlock, format!("{path} can be read"))
        }
        (Ground::Host(Access::Write), Act::Write) => {
            (allow, Layer::Landlock, format!("{path} can be changed"))
        }
        (Ground::Host(_), Act::Write) => mount(deny, format!("{path} is mounted read-only")),
        (Ground::Host(Access::List | Access::Read), Act::Execute)
            if spot.executes && !spot.in_workspace =>
        {
            mount(deny, format!("{path} can be read and not run: it is mounted noexec"))
        }
        (Ground::Host(_), Act::Execute) if spot.executes => {
            (allow, Layer::Landlock, format!("{path} can be run"))
        }
        (Ground::Host(_), Act::Execute) => {
            (deny, Layer::Landlock, format!("{path} can be read and not run"))
        }
        (Ground::Private | Ground::Between, Act::Write) if spot.writes => {
            (allow, Layer::Landlock, format!("{path} is on a private file system of the session's"))
        }
        (Ground::Between, Act::Write) if private(&spot.path) => {
            (deny, Layer::Landlock, format!("{path} is the session's own and stays empty"))
        }
        (Ground::Empty, _) => mount(
            deny,
            format!("{path} is in a directory of env.path, which is empty and read-only"),
        ),
        (Ground::Private, Act::Write) => {
            (deny, Layer::Landlock, format!("{path} is on a file system that stays empty"))
        }
        (Ground::Private, Act::Read | Act::Execute | Act::Connect) => mount(
            deny,
            format!("{path} is on a private file system of the session's: the host's is not there"),
        ),
        (Ground::Between, Act::Read | Act::Connect) => {
            mount(allow, format!("{path} is a directory that leads to what the profile names"))
        }
        (Ground::Between, Act::Write) => {
            mount(deny, format!("{path} is a directory of the session's root, which is read-only"))
        }
        (Ground::Between, Act::Execute) => mount(deny, format!("{path} is a directory")),
        (Ground::Devices, _) => device(act, &spot.path),
        (Ground::Processes, Act::Read | Act::Connect) => {
            (allow, Layer::Landlock, "/proc shows the session's own processes".to_owned())
        }
        (Ground::Processes, Act::Write) => mount(deny, "/proc is mounted read-only".to_owned()),
        (Ground::Processes, Act::Execute) => {
            (deny, Layer::Landlock, "nothing of /proc can be run".to_owned())
        }
    }
}

/// Whether a directory is a private one that nothing grants, as `/run` is.
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
