//! The broker's side of a file channel, for tests. The tools run behind it as in a cell, without
//! capabilities.

use crate::files::{FilesError, serve};
use palisade_channel::Channel;
use palisade_plan::{
    Path,
    cell::{FileError, FileReply, FileRequest, Form, Part},
    change::{
        Act, Before, Change, Changed, EffectKind, EvidenceDepth, Keep, Prepared, Print,
        Restoration, State, WriteMode,
    },
    evidence::Evidence,
    names::Names,
    search::Choice,
};
use palisade_workspace::View;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt as _},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

pub(crate) struct Broker {
    pub(crate) channels: Vec<Channel>,
    pub(crate) server: Option<thread::JoinHandle<Result<(), FilesError>>>,
    /// The workspace.
    pub(crate) dir: tempfile::TempDir,
}

impl Drop for Broker {
    fn drop(&mut self) {
        open_up(self.dir.path());
    }
}

/// Makes everything in a directory deletable for its owner. Only root can delete what is in a
/// directory that may not be written.
pub(crate) fn open_up(directory: &std::path::Path) {
    let own = fs::Permissions::from_mode(0o700);
    // An entry that can not be opened stays, and whoever looks for leftovers finds it.
    fs::set_permissions(directory, own).unwrap_or_default();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

pub(crate) fn pair() -> (Channel, Channel) {
    let (a, b) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    (Channel::new(a), Channel::new(b))
}

pub(crate) fn content(data: &[u8], end: bool) -> FileRequest {
    FileRequest::Content { data: data.to_vec(), end }
}

impl Broker {
    pub(crate) fn new() -> Self {
        Self::with_channels(1)
    }

    pub(crate) fn with_channels(count: usize) -> Self {
        Self::at(tempfile::tempdir().unwrap(), count)
    }

    /// Uses an existing directory as the workspace.
    pub(crate) fn at(dir: tempfile::TempDir, count: usize) -> Self {
        Self::with_names(dir, count, Names::default())
    }

    /// Uses these hidden and protected names.
    pub(crate) fn with_names(dir: tempfile::TempDir, count: usize, names: Names) -> Self {
        let (channels, theirs): (Vec<_>, Vec<_>) = (0..count).map(|_| pair()).unzip();
        let view = View::new(dir.path(), names).unwrap();
        let server = thread::spawn(move || {
            caps::clear(None, caps::CapSet::Effective).unwrap();
            serve(theirs, view)
        });
        Self { channels, server: Some(server), dir }
    }

    /// Returns a path in the workspace.
    pub(crate) fn path(&self, name: impl AsRef<OsStr>) -> Path {
        let mut bytes = self.dir.path().as_os_str().as_bytes().to_vec();
        if !name.as_ref().is_empty() {
            bytes.push(b'/');
            bytes.extend(name.as_ref().as_bytes());
        }
        Path(bytes)
    }

    /// Returns the names in the workspace, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn send(&self, request: &FileRequest) {
        self.channels[0].send(request).unwrap();
    }

    /// Receives the next reply, and joins its parts.
    pub(crate) fn next(&self) -> FileReply {
        let (mut effects, mut wrote) = (Vec::new(), Vec::new());
        let mut evidence = Evidence::default();
        loop {
            let mut reply = self.channels[0].receive().unwrap().unwrap().0;
            if let FileReply::Effects(part) = reply {
                effects.extend(part);
                continue;
            }
            if let FileReply::Wrote(part) = reply {
                wrote.extend(part);
                continue;
            }
            if let FileReply::Evidence(part) = reply {
                evidence.extend(*part);
                continue;
            }
            if let FileReply::Prepared(prepared) = &mut reply {
                *prepared.evidence = std::mem::take(&mut evidence);
                effects.append(&mut prepared.effects);
                prepared.effects = effects;
            } else if let FileReply::Changed(changed) = &mut reply {
                effects.append(&mut changed.effects);
                wrote.append(&mut changed.wrote);
                (changed.effects, changed.wrote) = (effects, wrote);
            }
            return reply;
        }
    }

    pub(crate) fn ask(&self, request: &FileRequest) -> FileReply {
        self.send(request);
        self.next()
    }

    /// Reads a file, and returns its content and the last reply.
    pub(crate) fn read(
        &self,
        path: &Path,
        part: Part,
        most: u64,
    ) -> Result<(Vec<u8>, FileReply), FileError> {
        self.read_as(path, part, most, Form::AsIs)
    }

    pub(crate) fn read_as(
        &self,
        path: &Path,
        part: Part,
        most: u64,
        form: Form,
    ) -> Result<(Vec<u8>, FileReply), FileError> {
        self.send(&FileRequest::Read { path: path.clone(), part, most, form });
        let mut content = Vec::new();
        loop {
            match self.next() {
                FileReply::Content(piece) => {
                    assert!(!piece.is_empty() && piece.len() <= palisade_plan::cell::CHUNK);
                    content.extend(piece);
                }
                FileReply::Failed(error) => return Err(error),
                reply @ (FileReply::Read { .. }
                | FileReply::Listed { .. }
                | FileReply::Looked { .. }
                | FileReply::Before(_)
                | FileReply::Attributes(_)
                | FileReply::Effects(_)
                | FileReply::Evidence(_)
                | FileReply::Wrote(_)
                | FileReply::Prepared(_)
                | FileReply::Changed(_)
                | FileReply::Globbed(_)
                | FileReply::Grepped(_)
                | FileReply::Scanned { .. }
                | FileReply::Noise(_)
                | FileReply::Progress { .. }
                | FileReply::Abandoned) => return Ok((content, reply)),
            }
        }
    }

    /// Receives everything up to `Prepared`, or up to a failure.
    pub(crate) fn prepared(&self) -> Result<Draft, FileReply> {
        let mut befores: Vec<(Before, Vec<u8>)> = Vec::new();
        loop {
            match self.next() {
                FileReply::Before(before) => befores.push((before, Vec::new())),
                FileReply::Attributes(_) => {}
                FileReply::Content(piece) => befores.last_mut().unwrap().1.extend(piece),
                FileReply::Prepared(prepared) => {
                    for (before, content) in &befores {
                        let size = match before {
                            Before::State { state: State::File { size, .. }, .. } => *size,
                            Before::State { .. } | Before::Moved { .. } | Before::Same { .. } => 0,
                        };
                        assert_eq!(content.len() as u64, size);
                    }
                    return Ok(Draft { befores, prepared });
                }
                last @ (FileReply::Read { .. }
                | FileReply::Effects(_)
                | FileReply::Evidence(_)
                | FileReply::Wrote(_)
                | FileReply::Changed(_)
                | FileReply::Listed { .. }
                | FileReply::Looked { .. }
                | FileReply::Progress { .. }
                | FileReply::Globbed(_)
                | FileReply::Grepped(_)
                | FileReply::Scanned { .. }
                | FileReply::Noise(_)
                | FileReply::Abandoned
                | FileReply::Failed(_)) => return Err(last),
            }
        }
    }

    /// Commits the prepared change, and returns the last reply.
    pub(crate) fn commit(&self) -> FileReply {
        match self.prepared() {
            Ok(_) => self.ask(&FileRequest::Commit),
            Err(reply) => reply,
        }
    }

    /// Sends the last piece of the content, and commits.
    pub(crate) fn end(&self, data: &[u8]) -> FileReply {
        self.send(&content(data, true));
        self.commit()
    }

    /// Prepares an act with its content.
    pub(crate) fn prepare(&self, act: Act, contents: &[&[u8]]) -> Result<Draft, FileError> {
        self.send(&changing(act));
        for data in contents {
            self.send(&content(data, true));
        }
        self.prepared().map_err(failed)
    }

    /// Prepares an act and commits it.
    pub(crate) fn change(
        &self,
        act: Act,
        contents: &[&[u8]],
    ) -> Result<(Draft, Changed), FileError> {
        let draft = self.prepare(act, contents)?;
        let reply = self.ask(&FileRequest::Commit);
        let FileReply::Changed(changed) = reply else { return Err(failed(reply)) };
        assert_eq!(changed.effects, draft.prepared.effects);
        Ok((draft, changed))
    }

    /// Undoes the change of a draft.
    pub(crate) fn undo(&self, draft: &Draft, force: bool) -> Result<(Draft, Changed), FileError> {
        let (entries, contents) = draft.restorations();
        let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        self.change(Act::Restore { entries, force }, &contents)
    }

    pub(crate) fn write(&self, path: &Path, mode: WriteMode, data: &[u8]) -> FileReply {
        self.send(&writing(path, mode, 1 << 30));
        self.end(data)
    }

    pub(crate) fn delete(&self, path: &Path, recursive: bool) -> FileReply {
        self.send(&changing(Act::Delete { path: path.clone(), recursive }));
        self.commit()
    }

    /// Deletes a tree without an undo record.
    pub(crate) fn delete_for_good(&self, path: &Path) -> FileReply {
        let act = Act::Delete { path: path.clone(), recursive: true };
        let change =
            Change { act, most: 0, keep: Keep::Nothing, diff: 0, evidence: EvidenceDepth::Full };
        self.send(&FileRequest::Change(change));
        self.commit()
    }

    pub(crate) fn list(&self, path: &Path, recursive: bool, skip: u64, limit: u64) -> FileReply {
        let choice = Choice { glob: None, hidden: true, ignored: false };
        self.answer(&FileRequest::List { path: path.clone(), recursive, skip, limit, choice })
    }

    /// Sends a request, and returns the first reply that is not progress.
    pub(crate) fn answer(&self, request: &FileRequest) -> FileReply {
        let mut reply = self.ask(request);
        while let FileReply::Progress { .. } = reply {
            reply = self.next();
        }
        reply
    }
}

/// The reported effects of a change, and its undo record.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) befores: Vec<(Before, Vec<u8>)>,
    pub(crate) prepared: Prepared,
}

impl Draft {
    /// Returns what undoes the change, as the broker makes it.
    pub(crate) fn restorations(&self) -> (Vec<Restoration>, Vec<Vec<u8>>) {
        let mut left = std::collections::HashMap::new();
        for effect in &self.prepared.effects {
            if let EffectKind::Moved { from } = &effect.kind {
                left.insert(from.0.clone(), Print::Absent);
            }
            left.insert(effect.path.0.clone(), effect.print.clone());
        }
        let expect = |path: &Path| left.get(&path.0).cloned().unwrap_or(Print::Absent);
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
}

/// Returns the request for an act.
pub(crate) fn changing(act: Act) -> FileRequest {
    let keep = Keep::Sent { bytes: 1 << 30, entries: 1_000_000 };
    FileRequest::Change(Change { act, most: 1 << 30, keep, diff: 0, evidence: EvidenceDepth::Full })
}

/// Returns the request to write a file.
pub(crate) fn writing(path: &Path, mode: WriteMode, most: u64) -> FileRequest {
    let FileRequest::Change(change) = changing(Act::Write { path: path.clone(), mode }) else {
        panic!()
    };
    FileRequest::Change(Change { most, ..change })
}

/// Returns how many entries a reply reports as deleted.
pub(crate) fn deleted(reply: FileReply) -> u64 {
    let FileReply::Changed(changed) = reply else { panic!("{reply:?}") };
    let EffectKind::Deleted { entries } = changed.effects[0].kind else { panic!("{changed:?}") };
    entries
}

/// Tells a thread to end when it is dropped, even if the test fails.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the error in a reply.
pub(crate) fn failed(reply: FileReply) -> FileError {
    let FileReply::Failed(error) = reply else { panic!("{reply:?}") };
    error
}

/// Returns the size in the reply to a write, and whether the file is new.
pub(crate) fn written(reply: FileReply) -> (u64, bool) {
    let FileReply::Changed(changed) = reply else { panic!("{reply:?}") };
    let effect = changed.effects.last().unwrap();
    (effect.size_after, effect.kind == EffectKind::Created)
}
