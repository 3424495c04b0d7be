//! Serves a session's file tools: one thread per channel, in the confined process. Runs in the
//! cell.
//!
//! Each request has one reply, except `Read`, whose pieces are sent before it. A write that fails
//! is answered at once, and content that the broker sent before it learned of that is skipped.

use crate::{
    change_parts::ChangeParts,
    hidden::{self, Scan},
    tools::{self, Listing, Stop},
};
use palisade_channel::{Channel, ChannelError};
use palisade_plan::cell::{FileError, FileErrorKind, FileReply, FileRequest};
use palisade_workspace::{Layers, View};
use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// The stack size of a thread. Patterns are compiled by recursion.
const STACK: usize = 2 * 1024 * 1024;

/// The time limit for the other channels to roll back their work when the session ends.
const GRACE: Duration = Duration::from_secs(1);

/// The reason why the file tools are not served, or are no longer served.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The list of channels is empty.
    #[error("no channel to serve")]
    NoChannels,
    /// A thread could not be started.
    #[error("can not start a thread for a channel: {0}")]
    Thread(#[source] io::Error),
    /// A channel could not be shut down.
    #[error("can not end a channel: {0}")]
    Shut(#[source] ChannelError),
    /// Every channel broke; the text is the reason of the last one.
    #[error("every channel broke, the last one so: {0}")]
    Broken(String),
}

/// The way in which a channel ended.
enum ChannelEnd {
    /// The broker closed it: the session is over.
    Closed,
    /// A message made no sense, or the channel failed. Other channels are not affected.
    Broken(String),
}

/// Serves the channels until the broker closes one of them, or all are broken.
///
/// # Errors
/// If serving could not be started, or every channel broke and none was closed.
pub fn serve(channels: Vec<Channel>, view: View) -> Result<(), FilesError> {
    if channels.is_empty() {
        return Err(FilesError::NoChannels);
    }
    let channels: Vec<Arc<Channel>> = channels.into_iter().map(Arc::new).collect();
    let (report, ends) = mpsc::channel();
    let (view, scan) = (Arc::new(view), Arc::new(Mutex::new(Scan::default())));
    for (number, channel) in channels.iter().enumerate() {
        let (channel, report) = (Arc::clone(channel), report.clone());
        let (view, scan) = (Arc::clone(&view), Arc::clone(&scan));
        thread::Builder::new()
            .name(format!("files-{number}"))
            .stack_size(STACK)
            .spawn(move || {
                let end = attend(&channel, &view, &scan, None);
                // The receiver is dropped only when the process is about to end.
                report.send(end).ok();
            })
            .map_err(FilesError::Thread)?;
    }
    drop(report);
    let mut last = String::from("its thread ended");
    for (ended, end) in ends.iter().enumerate() {
        match end {
            ChannelEnd::Closed => return finish(&channels, &ends, channels.len() - ended - 1),
            ChannelEnd::Broken(why) => last = why,
        }
    }
    Err(FilesError::Broken(last))
}

/// Shuts the other channels down, and waits up to `GRACE` for their writes to be rolled back.
fn finish(
    channels: &[Arc<Channel>],
    ends: &mpsc::Receiver<ChannelEnd>,
    running: usize,
) -> Result<(), FilesError> {
    for channel in channels {
        channel.shut().map_err(FilesError::Shut)?;
    }
    let until = Instant::now() + GRACE;
    for _thread in 0..running {
        match ends.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(ChannelEnd::Closed | ChannelEnd::Broken(_)) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(())
}

/// Serves the commit or discard of a transaction until the broker closes the channel.
///
/// # Errors
/// If the channel broke.
pub fn settle(channel: &Channel, view: View, mut layers: Layers) -> Result<(), FilesError> {
    match attend(channel, &view, &Mutex::default(), Some(&mut layers)) {
        ChannelEnd::Closed => Ok(()),
        ChannelEnd::Broken(why) => Err(FilesError::Broken(why)),
    }
}

/// Answers one message about a transaction whose program is frozen.
///
/// # Errors
/// If the channel was closed or broke.
pub fn settle_one(
    channel: &Channel,
    view: &View,
    layers: &mut Layers,
    pending: &mut PendingInput,
) -> Result<(), FilesError> {
    let scan = Mutex::default();
    let mut desk = ChannelServer {
        channel,
        view,
        scan: &scan,
        layers: Some(layers),
        pending: std::mem::take(pending),
    };
    let done = desk.one();
    *pending = desk.pending;
    match done {
        Ok(()) => Ok(()),
        Err(stop) => Err(FilesError::Broken(why(stop))),
    }
}

/// Serves one channel until it ends, and shuts it down.
fn attend(
    channel: &Channel,
    view: &View,
    scan: &Mutex<Scan>,
    layers: Option<&mut Layers>,
) -> ChannelEnd {
    let mut desk = ChannelServer { channel, view, scan, layers, pending: PendingInput::default() };
    let stop = loop {
        if let Err(stop) = desk.one() {
            break stop;
        }
    };
    let end = match stop {
        Stop::Closed => ChannelEnd::Closed,
        stop @ (Stop::Broken(_) | Stop::OutOfOrder(_) | Stop::Abandoned | Stop::Failed(_)) => {
            ChannelEnd::Broken(why(stop))
        }
    };
    if let ChannelEnd::Broken(why) = &end {
        let message = format!("this channel is closed: {why}");
        let told =
            FileError { kind: FileErrorKind::Broken, errno: 0, message, about: None, diff: None };
        // A channel that broke may be unable to carry this message.
        channel.send(&FileReply::Failed(told)).ok();
    }
    match channel.shut() {
        Ok(()) => end,
        Err(error) => ChannelEnd::Broken(error.to_string()),
    }
}

/// Describes why a channel can not be used any more.
fn why(stop: Stop) -> String {
    match stop {
        Stop::Closed => "the broker closed it".to_owned(),
        Stop::Broken(error) => error.to_string(),
        Stop::OutOfOrder(why) => why.to_owned(),
        Stop::Abandoned => "nothing was under way that could be given up".to_owned(),
        Stop::Failed(error) => error.message,
    }
}

/// Input that may still arrive on a channel.
#[derive(Debug, Default)]
pub struct PendingInput {
    leftovers: Leftovers,
    /// The parts received so far of a change that is sent in several messages.
    parts: ChangeParts,
}

/// The possibility that content or `Abandon` still arrives for a change that is over.
#[derive(Debug, Clone, Copy, Default)]
enum Leftovers {
    #[default]
    None,
    Possible,
}

struct ChannelServer<'a> {
    channel: &'a Channel,
    view: &'a View,
    /// The hidden names found so far.
    scan: &'a Mutex<Scan>,
    /// The layers of a transaction. If set, only requests about the transaction are answered.
    layers: Option<&'a mut Layers>,
    pending: PendingInput,
}

impl ChannelServer<'_> {
    /// Receives one message and answers it.
    fn one(&mut self) -> Result<(), Stop> {
        let Some((request, fds)) = self.channel.receive::<FileRequest>()? else {
            return Err(Stop::Closed);
        };
        if !fds.is_empty() && !matches!(request, FileRequest::Scan { .. }) {
            return Err(ChannelError::Descriptors { expected: 0, received: fds.len() }.into());
        }
        if let (FileRequest::Content { .. }, Leftovers::Possible) =
            (&request, self.pending.leftovers)
        {
            return Ok(());
        }
        self.pending.leftovers = Leftovers::None;
        let Some(request) = self.pending.parts.take(request)? else { return Ok(()) };
        if request == FileRequest::Abandon {
            // The call ended before this message came, or stopped because of it.
            return Ok(());
        }
        if matches!(request, FileRequest::Change(_)) {
            self.pending.leftovers = Leftovers::Possible;
        }
        let failure = match contained(|| self.answer(&request, fds)) {
            Err(Stop::Failed(failure)) => failure,
            Err(Stop::Abandoned) => {
                self.pending.leftovers = Leftovers::None;
                return Ok(self.channel.send(&FileReply::Abandoned)?);
            }
            done @ (Ok(()) | Err(Stop::Broken(_) | Stop::OutOfOrder(_) | Stop::Closed)) => {
                return done;
            }
        };
        Ok(self.channel.send(&FileReply::Failed(failure))?)
    }

    fn answer(&mut self, request: &FileRequest, fds: Vec<OwnedFd>) -> Result<(), Stop> {
        if let Some(layers) = &mut self.layers {
            return match request {
                FileRequest::Change(change) => {
                    tools::settle(self.channel, change, self.view, layers)
                }
                FileRequest::Read { .. }
                | FileRequest::List { .. }
                | FileRequest::Look { .. }
                | FileRequest::Glob(_)
                | FileRequest::Grep(_)
                | FileRequest::Scan { .. }
                | FileRequest::Noise { .. }
                | FileRequest::Content { .. }
                | FileRequest::Part(_)
                | FileRequest::Abandon
                | FileRequest::Commit => {
                    Err(Stop::OutOfOrder("a transaction is settled, and nothing else"))
                }
            };
        }
        let reply = match request {
            FileRequest::Read { path, part, most, form } => {
                return tools::read(self.channel, path, *part, *most, *form, self.view);
            }
            FileRequest::List { path, recursive, skip, limit, choice } => {
                let reach = tools::WalkDepth::from_recursive(*recursive);
                let asked = Listing { path, reach, skip: *skip, limit: *limit, choice };
                tools::list(self.channel, &asked, self.view)?
            }
            FileRequest::Look { path, link, contents } => {
                tools::look(path, *link, *contents, self.view)?
            }
            FileRequest::Change(change) => {
                return tools::change(self.channel, change, self.view);
            }
            FileRequest::Glob(asked) => tools::glob(self.channel, asked, self.view)?,
            FileRequest::Grep(asked) => tools::grep(self.channel, asked, self.view)?,
            FileRequest::Noise { patterns } => tools::noise(patterns, self.view)?,
            FileRequest::Scan { keep } => return self.look_for_hidden(*keep, fds),
            FileRequest::Content { .. }
            | FileRequest::Part(_)
            | FileRequest::Abandon
            | FileRequest::Commit => {
                return Err(Stop::OutOfOrder("content came, and no change was begun"));
            }
        };
        Ok(self.channel.send(&reply)?)
    }
}

impl ChannelServer<'_> {
    /// Searches for hidden names, and sends them or, with `keep`, the whole scan for a later
    /// session.
    fn look_for_hidden(&self, keep: bool, mut fds: Vec<OwnedFd>) -> Result<(), Stop> {
        let failed = |error: io::Error| {
            let message = format!("the hidden names can not be determined: {error}");
            let (kind, errno) = (FileErrorKind::FileSystem, error.raw_os_error().unwrap_or(0));
            FileError { kind, errno, message, about: None, diff: None }
        };
        let mut scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
        let names = &self.view.names;
        if let Some(known) = fds.pop().and_then(|file| Scan::restore(&file, names)) {
            *scan = known;
        }
        let counts = scan.refresh(self.view).map_err(|errno| failed(errno.into()))?;
        let generation = scan.generation();
        let file = if keep { hidden::keep(&scan, names) } else { hidden::found(&scan) };
        drop(scan);
        let reply = FileReply::Scanned { found: counts.found, read: counts.read, generation };
        Ok(self.channel.send_with(&reply, &[file.map_err(failed)?.as_fd()])?)
    }
}

/// Runs a tool. A panic fails this call alone, because a tool keeps no state between calls.
fn contained(tool: impl FnOnce() -> Result<(), Stop>) -> Result<(), Stop> {
    panic::catch_unwind(AssertUnwindSafe(tool)).unwrap_or_else(|_panic| {
        let message = "the tool failed because of an internal error, and may have made a part of \
                       the change: check the file before you try again"
            .into();
        Err(FileError {
            kind: FileErrorKind::FileSystem,
            errno: 0,
            message,
            about: None,
            diff: None,
        }
        .into())
    })
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
