//! The broker's side of a file channel, for tests: the tools run behind it as in a cell, without
//! capabilities.

use crate::{
    channel::Channel,
    files::{FilesError, serve},
};
use palisade_plan::{
    Path,
    cell::{FileError, FileReply, FileRequest, Form, Part, WriteMode},
    search::Choice,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, thread};

pub(crate) struct Broker {
    pub(crate) channels: Vec<Channel>,
    pub(crate) server: Option<thread::JoinHandle<Result<(), FilesError>>>,
    /// The workspace.
    pub(crate) dir: tempfile::TempDir,
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
        let dir = tempfile::tempdir().unwrap();
        let (channels, theirs): (Vec<_>, Vec<_>) = (0..count).map(|_| pair()).unzip();
        let workspace = dir.path().to_owned();
        let server = thread::spawn(move || {
            caps::clear(None, caps::CapSet::Effective).unwrap();
            serve(theirs, &workspace)
        });
        Self { channels, server: Some(server), dir }
    }

    /// A path in the workspace.
    pub(crate) fn path(&self, name: impl AsRef<OsStr>) -> Path {
        let mut bytes = self.dir.path().as_os_str().as_bytes().to_vec();
        if !name.as_ref().is_empty() {
            bytes.push(b'/');
            bytes.extend(name.as_ref().as_bytes());
        }
        Path(bytes)
    }

    /// The names in the workspace, sorted.
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

    pub(crate) fn next(&self) -> FileReply {
        self.channels[0].receive().unwrap().unwrap().0
    }

    pub(crate) fn ask(&self, request: &FileRequest) -> FileReply {
        self.send(request);
        self.next()
    }

    /// The content and the last answer.
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
                | FileReply::Written { .. }
                | FileReply::Deleted { .. }
                | FileReply::Listed { .. }
                | FileReply::Looked { .. }
                | FileReply::Before(_)
                | FileReply::Prepared(_)
                | FileReply::Changed(_)
                | FileReply::Globbed(_)
                | FileReply::Grepped(_)
                | FileReply::Progress { .. }
                | FileReply::Abandoned) => return Ok((content, reply)),
            }
        }
    }

    pub(crate) fn write(&self, path: &Path, mode: WriteMode, data: &[u8]) -> FileReply {
        self.send(&FileRequest::Write { path: path.clone(), mode, most: 1 << 30 });
        self.ask(&content(data, true))
    }

    pub(crate) fn delete(&self, path: &Path, recursive: bool) -> FileReply {
        self.answer(&FileRequest::Delete { path: path.clone(), recursive })
    }

    pub(crate) fn list(&self, path: &Path, recursive: bool, skip: u64, limit: u64) -> FileReply {
        let choice = Choice { glob: None, hidden: true, ignored: false };
        self.answer(&FileRequest::List { path: path.clone(), recursive, skip, limit, choice })
    }

    /// The answer, after what is said of how far it is.
    pub(crate) fn answer(&self, request: &FileRequest) -> FileReply {
        let mut reply = self.ask(request);
        while let FileReply::Progress { .. } = reply {
            reply = self.next();
        }
        reply
    }
}

/// The error in an answer.
pub(crate) fn failed(reply: FileReply) -> FileError {
    let FileReply::Failed(error) = reply else { panic!("{reply:?}") };
    error
}

/// The size in the answer to a write, and whether the file is new.
pub(crate) fn written(reply: FileReply) -> (u64, bool) {
    let FileReply::Written { size, created, .. } = reply else { panic!("{reply:?}") };
    (size, created)
}
