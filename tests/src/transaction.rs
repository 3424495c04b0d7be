//! Drives a transaction without broker and launcher: runs a program in one, and commits or discards
//! it.

use crate::{Cell, Pids, own, plan};
use palisade_channel::Channel;
use palisade_plan::{
    LaunchPlan, Path as PlanPath, Role, Step, Store,
    cell::{End, FileError, FileReply, FileRequest, RunReply},
    change::{
        Act, Before, Change, Changed, Conflicts, EffectKind, EvidenceDepth, Keep, Prepared, Print,
        Restoration, State,
    },
};
use std::{collections::HashMap, path::Path};

/// A transaction on a workspace.
#[derive(Debug)]
pub struct Transaction {
    /// The cell of the transaction.
    pub cell: Cell,
}

/// A prepared change: what it would do, and what it would lose.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The state and contents before the change.
    pub befores: Vec<(Before, Vec<u8>)>,
    /// The prepared change.
    pub prepared: Prepared,
}

/// The reason there is no transaction: the step that failed, and why.
type Refused = (String, String);

impl Transaction {
    /// Starts a transaction with the plan of the built-in profile.
    ///
    /// # Errors
    /// The step that failed, and why.
    pub fn new(workspace: &Path) -> Result<Self, Refused> {
        Self::of(&plan(workspace), |_, steps| steps)
    }

    /// Starts a transaction with any plan, and changed steps.
    ///
    /// # Errors
    /// The step that failed, and why.
    pub fn of(
        plan: &LaunchPlan,
        change: impl Fn(Role, Vec<Step>) -> Vec<Step>,
    ) -> Result<Self, Refused> {
        let cell = Cell::session_of(Role::Transaction, plan, Pids::Own, change)?;
        Ok(Self { cell })
    }

    /// Returns the process of the transaction.
    ///
    /// # Panics
    /// If it is gone.
    #[must_use]
    pub fn process(&self) -> rustix::process::Pid {
        let mut processes = self.cell.processes().into_iter();
        let once = processes.find(|process| process.name == "cell 1 once").expect("a process");
        rustix::process::Pid::from_raw(once.pid).expect("not 0")
    }

    /// Starts a transaction that is stored on disk, in a directory of this name in `store`.
    ///
    /// # Errors
    /// The step that failed, and why.
    pub fn stored(plan: &LaunchPlan, store: &Path, name: &str) -> Result<Self, Refused> {
        let (directory, name) = (PlanPath::from(store), name.to_owned());
        let store = Store { directory, name, identity: own() };
        Self::of(plan, |role, mut steps| {
            if role == Role::Transaction {
                steps.insert(0, Step::Store(store.clone()));
            }
            steps
        })
    }

    /// Runs a shell line in the transaction; returns its status and its output.
    #[must_use]
    pub fn bash(&self, line: &str, workspace: &Path) -> (i32, String) {
        let (reply, output) = self.cell.run(&["bash", "-c", line], workspace);
        match reply {
            RunReply::Ended { end: End::Exit(status), .. } => (status, output),
            other @ (RunReply::Ended { .. }
            | RunReply::NotStarted { .. }
            | RunReply::Streams { .. }
            | RunReply::Frozen(_)
            | RunReply::Recorded(_)) => {
                panic!("{other:?}: {output}")
            }
        }
    }

    /// Returns the channel on which the transaction is committed or discarded.
    #[must_use]
    pub fn settling(&self) -> Settling<'_> {
        Settling(self.cell.settling.as_ref().expect("a transaction has one"))
    }

    /// Prepares the program's changes, except those at the paths to leave out.
    ///
    /// # Errors
    /// The cell's error.
    pub fn prepare(&self, leave: &[PlanPath]) -> Result<Draft, FileError> {
        self.settling().prepare(leave)
    }

    /// Returns the program's changes without committing them.
    ///
    /// # Errors
    /// The cell's error.
    pub fn trial(&self) -> Result<Prepared, FileError> {
        self.settling().trial()
    }

    /// Commits the program's changes, except those at the paths to leave out.
    ///
    /// # Errors
    /// The cell's error.
    pub fn commit(&self, leave: &[PlanPath]) -> Result<(Draft, Changed), FileError> {
        self.settling().commit(leave)
    }

    /// Lets the session's file tools revert commits that were interrupted.
    ///
    /// # Errors
    /// The cell's error.
    pub fn resolve(&self, begun: &[[u8; 32]]) -> Result<Changed, FileError> {
        let act = Act::Resolve { begun: Some(begun.to_vec()) };
        let change = Change {
            act,
            most: u64::MAX,
            keep: Keep::Nothing,
            diff: 0,
            evidence: EvidenceDepth::Full,
        };
        prepare(self.cell.file_channel(), change, &[])?;
        commit(self.cell.file_channel())
    }

    /// Undoes a draft with the session's file tools.
    ///
    /// # Errors
    /// The cell's error.
    pub fn undo(&self, draft: &Draft, force: bool) -> Result<Changed, FileError> {
        let (entries, contents) = draft.restorations();
        let keep = Keep::Nothing;
        let change = Change {
            act: Act::Restore { entries, force },
            most: u64::MAX,
            keep,
            diff: 0,
            evidence: EvidenceDepth::Full,
        };
        prepare(self.cell.file_channel(), change, &contents)?;
        commit(self.cell.file_channel())
    }
}

/// The channel on which a transaction is committed or discarded.
#[derive(Debug, Clone, Copy)]
pub struct Settling<'a>(pub &'a Channel);

impl Settling<'_> {
    /// Prepares the program's changes, except those at the paths to leave out.
    ///
    /// # Errors
    /// The cell's error.
    pub fn prepare(self, leave: &[PlanPath]) -> Result<Draft, FileError> {
        let keep = Keep::Sent { bytes: 1 << 30, entries: 1_000_000 };
        self.prepare_with(leave, keep, 0)
    }

    /// Prepares the program's changes, with these settings for the undo record and the length of
    /// the diff.
    ///
    /// # Errors
    /// The cell's error.
    pub fn prepare_with(
        self,
        leave: &[PlanPath],
        keep: Keep,
        diff: u32,
    ) -> Result<Draft, FileError> {
        let act = Act::Settle { leave: leave.to_vec(), conflicts: Conflicts::Refused };
        prepare(
            self.0,
            Change { act, most: u64::MAX, keep, diff, evidence: EvidenceDepth::Full },
            &[],
        )
    }

    /// Returns the program's changes without committing them.
    ///
    /// # Errors
    /// The cell's error.
    pub fn trial(self) -> Result<Prepared, FileError> {
        let draft = self.prepare_with(&[], Keep::Nothing, 1 << 20)?;
        self.0.send(&FileRequest::Abandon).expect("abandon");
        assert_eq!(next(self.0), FileReply::Abandoned);
        Ok(draft.prepared)
    }

    /// Requests the commit of what was prepared.
    ///
    /// # Panics
    /// If the request can not be sent.
    pub fn begin_commit(self) {
        self.0.send(&FileRequest::Commit).expect("commit");
    }

    /// Returns the reply to the commit; `None` if the process is gone.
    #[must_use]
    pub fn end_commit(self) -> Option<FileReply> {
        self.0.receive::<FileReply>().ok().flatten().map(|(reply, _)| reply)
    }

    /// Returns what was changed, after the commit was requested.
    ///
    /// # Errors
    /// The cell's error.
    pub fn changed(self) -> Result<Changed, FileError> {
        changed(self.0)
    }

    /// Commits the program's changes, except those at the paths to leave out.
    ///
    /// # Errors
    /// The cell's error.
    pub fn commit(self, leave: &[PlanPath]) -> Result<(Draft, Changed), FileError> {
        let draft = self.prepare(leave)?;
        Ok((draft, commit(self.0)?))
    }
}

fn next(channel: &Channel) -> FileReply {
    channel.receive::<FileReply>().expect("a channel").expect("an answer").0
}

/// Prepares a change.
fn prepare(channel: &Channel, change: Change, contents: &[Vec<u8>]) -> Result<Draft, FileError> {
    channel.send(&FileRequest::Change(change)).expect("a change");
    for content in contents {
        let mut pieces = content.chunks(palisade_plan::cell::CHUNK).peekable();
        if pieces.peek().is_none() {
            let last = FileRequest::Content { data: Vec::new(), end: true };
            channel.send(&last).expect("content");
        }
        while let Some(data) = pieces.next() {
            let piece = FileRequest::Content { data: data.to_vec(), end: pieces.peek().is_none() };
            channel.send(&piece).expect("content");
        }
    }
    let mut befores: Vec<(Before, Vec<u8>)> = Vec::new();
    let mut effects = Vec::new();
    loop {
        match next(channel) {
            FileReply::Effects(part) => effects.extend(part),
            FileReply::Evidence(_) | FileReply::Attributes(_) => {}
            FileReply::Before(before) => befores.push((before, Vec::new())),
            FileReply::Content(piece) => befores.last_mut().expect("of a file").1.extend(piece),
            FileReply::Prepared(mut prepared) => {
                effects.append(&mut prepared.effects);
                return Ok(Draft { befores, prepared: Prepared { effects, ..prepared } });
            }
            FileReply::Failed(error) => return Err(error),
            other @ (FileReply::Read { .. }
            | FileReply::Changed(_)
            | FileReply::Wrote(_)
            | FileReply::Listed { .. }
            | FileReply::Looked { .. }
            | FileReply::Abandoned
            | FileReply::Progress { .. }
            | FileReply::Globbed(_)
            | FileReply::Scanned { .. }
            | FileReply::Noise(_)
            | FileReply::Grepped(_)) => panic!("{other:?}"),
        }
    }
}

fn commit(channel: &Channel) -> Result<Changed, FileError> {
    channel.send(&FileRequest::Commit).expect("commit");
    changed(channel)
}

/// Collects what a change did from all its messages.
fn changed(channel: &Channel) -> Result<Changed, FileError> {
    let mut all = Changed::default();
    loop {
        let reply = next(channel);
        if let FileReply::Effects(part) = reply {
            all.effects.extend(part);
        } else if let FileReply::Wrote(part) = reply {
            all.wrote.extend(part);
        } else if let FileReply::Failed(error) = reply {
            return Err(error);
        } else {
            let FileReply::Changed(mut changed) = reply else { panic!("{reply:?}") };
            all.effects.append(&mut changed.effects);
            all.wrote.append(&mut changed.wrote);
            return Ok(Changed { effects: all.effects, wrote: all.wrote, ..changed });
        }
    }
}

impl Draft {
    /// Returns the entries that undo the change, as the broker creates them, and their contents.
    fn restorations(&self) -> (Vec<Restoration>, Vec<Vec<u8>>) {
        let mut left = HashMap::new();
        for effect in &self.prepared.effects {
            if let EffectKind::Moved { from } = &effect.kind {
                left.insert(from.clone(), Print::Absent);
            }
            left.insert(effect.path.clone(), effect.print.clone());
        }
        let expect = |path: &PlanPath| left.get(path).cloned().unwrap_or(Print::Absent);
        let (mut entries, mut contents) = (Vec::new(), Vec::new());
        for (before, content) in self.befores.iter().rev() {
            match before {
                Before::State { path, state } => {
                    if matches!(state, State::File { .. }) {
                        contents.push(content.clone());
                    }
                    let (path, state) = (path.clone(), state.clone());
                    let (expect, attributes) = (expect(&path), Vec::new());
                    entries.push(Restoration::Put { expect, path, state, attributes });
                }
                Before::Moved { from, to } => {
                    let (to, from) = (from.clone(), to.clone());
                    entries.push(Restoration::Rename { expect: expect(&from), from, to });
                }
                Before::Same { path, was, .. } => {
                    let (path, was) = (path.clone(), *was);
                    entries.push(Restoration::Revert { expect: expect(&path), path, was });
                }
            }
        }
        (entries, contents)
    }

    /// Returns the kind and the path below the workspace of each effect, in order.
    #[must_use]
    pub fn words(&self, workspace: &Path) -> Vec<String> {
        self.prepared.words(workspace)
    }
}

/// Describes a change in words.
pub trait Words {
    /// Returns the kind and the path below the workspace of each effect, in order.
    fn words(&self, workspace: &Path) -> Vec<String>;
}

impl Words for Prepared {
    fn words(&self, workspace: &Path) -> Vec<String> {
        let below = |path: &PlanPath| {
            path.as_path().strip_prefix(workspace).expect("in it").display().to_string()
        };
        let word = |effect: &palisade_plan::change::Effect| {
            let path = below(&effect.path);
            match (&effect.kind, &effect.print) {
                (EffectKind::Created, Print::Tree { entries, .. }) => {
                    format!("created {path} {entries}")
                }
                (EffectKind::Created, _) => format!("created {path}"),
                (EffectKind::Replaced, _) => format!("replaced {path}"),
                (EffectKind::Appended, _) => format!("appended {path}"),
                (EffectKind::Edited, _) => format!("edited {path}"),
                (EffectKind::Deleted { entries }, _) => format!("deleted {path} {entries}"),
                (EffectKind::Moved { from }, _) => format!("moved {} {path}", below(from)),
                (EffectKind::Mode, _) => format!("mode {path}"),
                (EffectKind::Touched, _) => format!("touched {path}"),
                (EffectKind::Special, _) => format!("special {path}"),
            }
        };
        self.effects.iter().map(word).collect()
    }
}
