//! Judges what a recorded program attempted: what its profile refused, and what the profile leaves
//! out of the session although it exists on this host. Whether something exists is found out by this
//! process, so nobody learns of a path that they could not look at themselves.

use super::{
    refusals::{RefusalContext, Refusals},
    remedy::{self, Enforcement, PathState, WriteMethod},
};
use palisade_audit::{CleanText, LayerDenial};
use palisade_client::{CallResult, Denial};
use palisade_policy::{
    Access, Act, Decision, Explanation, Profile, Right, Scene, TargetKind, TargetOwner, explain,
    explain_bind, on_host,
    refused::{KernelRefusal, RefusalTarget, denial_of},
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// The mode bits of a program that gives its caller another identity.
const SET_ID: u32 = 0o6000;

/// The most denials that are reported of one run; the rest is counted.
const MOST: usize = 64;

/// The accesses of a program, as its session recorded them.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRun {
    pub(crate) accesses: Vec<Access>,
    /// The number of accesses that were not recorded.
    pub(crate) lost: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) processes: u64,
}

impl RecordedRun {
    /// Reads the record in a result; `None` if the result has none.
    pub(crate) fn of(result: &CallResult) -> Option<Self> {
        let data: Value = serde_json::from_str(result.data.as_ref()?.as_str()).ok()?;
        let recorded = data.get("recorded")?;
        let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
        let used = recorded.get("used")?;
        Some(Self {
            accesses: recorded.get("accesses")?.as_array()?.iter().filter_map(access).collect(),
            lost: number(recorded, "lost")?,
            memory_bytes: number(used, "memory_bytes")?,
            processes: number(used, "processes")?,
        })
    }
}

fn access(value: &Value) -> Option<Access> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let right = Right::ALL.into_iter().find(|right| Some(right.name()) == text("right"))?;
    let kind = TargetKind::ALL.into_iter().find(|kind| Some(kind.name()) == text("kind"))?;
    Some(Access { right, path: text("path")?.to_owned(), kind })
}

/// The attempts of a program that did not reach their target.
#[derive(Debug, Default)]
pub(crate) struct FailedAttempts {
    /// The refused accesses, and those that the profile leaves out; each once.
    pub(crate) denied: Vec<(Enforcement, LayerDenial)>,
    /// The number of further denials.
    pub(crate) more: usize,
    /// Paths that the profile leaves out, and that do not exist on this host either.
    pub(crate) nowhere: Vec<String>,
}

impl FailedAttempts {
    /// Groups what was denied by the change that would allow it.
    pub(super) fn refusals(&self, place: &RefusalContext<'_>) -> Refusals {
        let mut refusals = Refusals::default();
        for (met, denial) in &self.denied {
            refusals.add(place, denial, *met);
        }
        refusals
    }
}

/// The facts about this host that a judgement needs.
pub(crate) struct HostView<'a> {
    pub(crate) state: &'a dyn Fn(&Path) -> PathState,
    /// Returns `true` if the program gives its caller another identity.
    pub(crate) sets_id: &'a dyn Fn(&Path) -> bool,
}

/// Returns `true` if a program of this host is set-user-ID or set-group-ID.
pub(super) fn sets_id(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & SET_ID != 0)
}

/// Judges the accesses of a program by the profile of its session.
pub(super) fn judge(
    profile: &Profile,
    scene: &Scene,
    accesses: &[Access],
    host: &HostView<'_>,
) -> FailedAttempts {
    let mut judge = Judge { profile, scene, host, served: served(accesses), found: Vec::new() };
    let mut attempts = FailedAttempts::default();
    for access in accesses {
        match access.kind {
            TargetKind::Address => judge.address(access),
            TargetKind::Process => judge.process(&access.path),
            TargetKind::Missing | TargetKind::Directory | TargetKind::Link | TargetKind::File => {
                if judge.path(access) == Absence::Everywhere {
                    attempts.nowhere.push(access.path.clone());
                }
            }
        }
    }
    let found = judge.without_steps();
    attempts.more = found.len().saturating_sub(MOST);
    attempts.denied = found.into_iter().take(MOST).collect();
    attempts
}

/// Returns the ports that the program listened on.
fn served(accesses: &[Access]) -> BTreeSet<u16> {
    let bound = accesses.iter().filter(|access| access.right == Right::Bind);
    bound.filter_map(|access| Some(access.path.parse::<SocketAddr>().ok()?.port())).collect()
}

/// The places that a path is absent from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absence {
    /// The path exists, or its absence is no matter of the profile.
    None,
    /// The profile leaves the path out, and it does not exist on this host either.
    Everywhere,
}

/// A denial, and the path that was only looked for to get it.
type Found = (Enforcement, LayerDenial, Option<PathBuf>);

/// A judgement in progress.
struct Judge<'a> {
    profile: &'a Profile,
    scene: &'a Scene,
    host: &'a HostView<'a>,
    served: BTreeSet<u16>,
    found: Vec<Found>,
}

impl Judge<'_> {
    fn add(&mut self, met: Enforcement, denial: LayerDenial, looked_for: Option<PathBuf>) {
        if !self.found.iter().any(|(_, known, _)| *known == denial) {
            self.found.push((met, denial, looked_for));
        }
    }

    fn explained(&mut self, met: Enforcement, told: &Explanation, looked_for: Option<PathBuf>) {
        let (profile, scene) = (self.profile, self.scene);
        let remedy = remedy::remedy(profile, scene, told, WriteMethod::InPlace, |path| {
            (self.host.state)(path)
        });
        let denial = LayerDenial {
            layer: told.layer.name().into(),
            rule: CleanText::new(&format!("{}: {}", told.act, told.rule)),
            target: CleanText::new(&told.target),
            remedy: CleanText::new(&remedy.how),
            at: CleanText::new(&told.at.as_ref().map_or_else(String::new, ToString::to_string)),
            opens: CleanText::new(&remedy.opens),
        };
        self.add(met, denial, looked_for);
    }

    fn path(&mut self, access: &Access) -> Absence {
        let act = match access.right {
            Right::Look | Right::Read => Act::Read,
            Right::Write => Act::Write,
            Right::Execute => Act::Execute,
            Right::Connect | Right::Bind | Right::Trace => return Absence::None,
        };
        let path = Path::new(&access.path);
        let Ok(told) = explain(self.profile, self.scene, act, &access.path) else {
            return Absence::None;
        };
        let (denied, looked) = (told.decision == Decision::Deny, access.right == Right::Look);
        match (access.kind, act) {
            (TargetKind::Missing, Act::Read | Act::Execute) if denied => {
                match (self.host.state)(path) {
                    PathState::Directory | PathState::File => {
                        let looked_for = looked.then(|| path.to_owned());
                        self.explained(Enforcement::LeftOut, &told, looked_for);
                    }
                    PathState::Missing if !looked => return Absence::Everywhere,
                    PathState::Missing | PathState::Unknown => {}
                }
            }
            (_, Act::Write) if denied => self.explained(Enforcement::Refused, &told, None),
            // What a program made in a private directory it can read.
            (TargetKind::File | TargetKind::Directory | TargetKind::Link, _)
                if denied && !looked && told.place == TargetOwner::Host =>
            {
                self.explained(Enforcement::Refused, &told, None);
            }
            (TargetKind::File, Act::Execute) if (self.host.sets_id)(path) => {
                let path = &access.path;
                let rule = format!(
                    "exec: {path} is set-user-ID or set-group-ID, and programs of a session gain no \
                     privileges"
                );
                self.add(Enforcement::Refused, unchangeable("no_new_privs", &rule, path), None);
            }
            (_, _) => {}
        }
        Absence::None
    }

    fn address(&mut self, access: &Access) {
        match access.right {
            Right::Bind => {
                if let Some(refused) = explain_bind(self.profile, &access.path) {
                    self.add(Enforcement::Refused, logged(&refused), None);
                }
            }
            Right::Connect => self.connection(&access.path),
            Right::Look | Right::Read | Right::Write | Right::Execute | Right::Trace => {}
        }
    }

    fn connection(&mut self, target: &str) {
        let Ok(told) = explain(self.profile, self.scene, Act::Connect, target) else { return };
        let port = target.parse::<SocketAddr>().map_or(0, |address| address.port());
        let own = told.place == TargetOwner::Session;
        match told.decision {
            Decision::Deny => self.explained(Enforcement::Refused, &told, None),
            // With hosts by name, the session's own loopback also leads to those.
            Decision::Allow
                if own && !self.served.contains(&port) && self.profile.egress().is_none() =>
            {
                let told = on_host(self.profile, self.scene, told);
                self.explained(Enforcement::LeftOut, &told, None);
            }
            Decision::Allow | Decision::Ask => {}
        }
    }

    fn process(&mut self, name: &str) {
        let (rights, target) = (vec!["ptrace".to_owned()], RefusalTarget::Process(name.to_owned()));
        let refused = KernelRefusal::Landlock { rights, target };
        if let Some(denial) = denial_of(self.profile, self.scene, &refused) {
            self.add(Enforcement::Refused, logged(&denial), None);
        }
    }

    /// Returns what was found, without the directories that were only looked for on the way to
    /// something else.
    fn without_steps(self) -> Vec<(Enforcement, LayerDenial)> {
        let targets: Vec<PathBuf> =
            self.found.iter().map(|(_, denial, _)| PathBuf::from(denial.target.as_str())).collect();
        let is_step = |looked_for: &PathBuf| {
            targets.iter().any(|target| target != looked_for && target.starts_with(looked_for))
        };
        let wanted =
            self.found.into_iter().filter(|(_, _, step)| !step.as_ref().is_some_and(is_step));
        wanted.map(|(met, denial, _)| (met, denial)).collect()
    }
}

/// Converts a denial to the form of the audit log.
fn logged(denial: &Denial) -> LayerDenial {
    let Denial { layer, rule, target, remedy, at, opens } = denial;
    let [layer, rule, target, remedy, at, opens] =
        [layer, rule, target, remedy, at, opens].map(|text| CleanText::new(text));
    LayerDenial { layer, rule, target, remedy, at, opens }
}

/// Returns a denial that no profile can change.
fn unchangeable(layer: &str, rule: &str, target: &str) -> LayerDenial {
    let clean = CleanText::new;
    LayerDenial {
        layer: clean(layer),
        rule: clean(rule),
        target: clean(target),
        remedy: clean("no profile can allow it"),
        at: clean(""),
        opens: clean(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"write\"\n\
        execute = [\"!/usr\"]\nread = [\"/opt/data\"]\nhide = [\"secret\"]\n[net]\nmode = \"loopback\"\n";

    fn host(path: &Path) -> PathState {
        match path.to_str().unwrap() {
            "/" | "/srv" | "/home/u" | "/home/u/.cache" | "/home/u/.cache/app" => {
                PathState::Directory
            }
            "/home/u/.cache/app/model.bin" | "/w/secret" | "/srv/tool" => PathState::File,
            "/root/x" => PathState::Unknown,
            _ => PathState::Missing,
        }
    }

    fn judged(accesses: &[(Right, &str, TargetKind)]) -> FailedAttempts {
        let profile = Profile::parse("mine", TEXT).unwrap();
        let (user, home) = (String::new(), Some(PathBuf::from("/home/u")));
        let scene = Scene { workspace: "/w".into(), home, user, uid: 1, gid: 1 };
        let of = |(right, path, kind): &(Right, &str, TargetKind)| Access {
            right: *right,
            path: (*path).to_owned(),
            kind: *kind,
        };
        let accesses: Vec<Access> = accesses.iter().map(of).collect();
        let sets_id = |path: &Path| path.ends_with("mount");
        judge(&profile, &scene, &accesses, &HostView { state: &host, sets_id: &sets_id })
    }

    fn told(attempts: &FailedAttempts) -> Vec<(Enforcement, &str, &str)> {
        attempts.denied.iter().map(|(met, d)| (*met, d.target.as_str(), d.layer.as_str())).collect()
    }

    #[test]
    fn what_the_profile_leaves_out_is_told_if_the_host_has_it_and_this_user_sees_it() {
        use {Right::*, TargetKind::*};
        let model = "/home/u/.cache/app/model.bin";
        let attempts = judged(&[
            (Look, "/home/u/.cache", Missing),
            (Look, "/home/u/.cache/app", Missing),
            (Look, model, Missing),
            (Read, "/home/u/.config/none", Missing),
            (Read, model, Missing),
            // Only looked for; not visible to this user; missing in a directory that is there.
            (Look, "/srv/none", Missing),
            (Read, "/root/x", Missing),
            (Read, "/opt/data/none", Missing),
            (Read, "/w/none", Missing),
            (Read, "/w/secret", Missing),
        ]);
        let left = Enforcement::LeftOut;
        assert_eq!(told(&attempts), [(left, model, "mount"), (left, "/w/secret", "hide")]);
        assert_eq!(attempts.nowhere, ["/home/u/.config/none"]);
        let remedy = attempts.denied[0].1.remedy.as_str();
        assert!(remedy.ends_with("add \"$HOME/.cache/app/model.bin\" to fs.read"), "{remedy}");
    }

    #[test]
    fn what_was_refused_is_told_and_what_is_the_sessions_own_is_not() {
        use {Right::*, TargetKind::*};
        let attempts = judged(&[
            (Read, "/home/u/own", File),
            (Read, "/usr/bin/env", File),
            (Write, "/usr/bin/env", File),
            (Write, "/srv/new", Missing),
            (Write, "/home/u/new", Missing),
            (Write, "/w", Directory),
            (Execute, "/opt/data/tool", File),
            (Execute, "/usr/bin/mount", File),
            (Execute, "/srv/tool", Missing),
            (Connect, "192.0.2.1:80", Address),
            (Connect, "127.0.0.1:5432", Address),
            (Connect, "127.0.0.1:8000", Address),
            (Bind, "127.0.0.1:8000", Address),
            (Bind, "0.0.0.0:80", Address),
            (Trace, "process 1", Process),
        ]);
        let (refused, left) = (Enforcement::Refused, Enforcement::LeftOut);
        assert_eq!(
            told(&attempts),
            [
                (refused, "/usr/bin/env", "mount"),
                (refused, "/srv/new", "mount"),
                (refused, "/opt/data/tool", "landlock"),
                (refused, "/usr/bin/mount", "no_new_privs"),
                (left, "/srv/tool", "mount"),
                (refused, "192.0.2.1:80", "network"),
                (left, "127.0.0.1:5432", "network"),
                (refused, "0.0.0.0:80", "network"),
                (refused, "process 1", "landlock"),
            ]
        );
        let change = |at: usize| attempts.denied[at].1.remedy.as_str();
        assert!(change(1).contains("\"/srv\" to fs.unguarded"), "{}", change(1));
        assert!(change(6).contains("net.ports"), "{}", change(6));
    }
}
