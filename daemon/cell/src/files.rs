//! Serves a session's file tools: one thread for each channel, in the confined process.
//! Room: the cell.
//!
//! A request has one answer, but for `Read`, whose pieces come before it. A write that fails is
//! answered at once; what the broker had sent of its content by then is passed over.

use crate::{
    channel::Channel,
    hidden::{self, Scan},
    overlay::Layers,
    parts::Parts,
    tools::{self, Listing, Stop},
    view::View,
};
use palisade_channel::ChannelError;
use palisade_plan::cell::{FileError, FileErrorKind, FileReply, FileRequest};
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

/// Patterns are compiled by recursion.
const STACK: usize = 2 * 1024 * 1024;

/// How long the other channels have to take back what they were doing when the session ends.
const GRACE: Duration = Duration::from_secs(1);

/// Why the file tools are not served, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// There was nothing to serve.
    #[error("no channel to serve")]
    NoChannels,
    /// The kernel gave no thread.
    #[error("can not start a thread for a channel: {0}")]
    Thread(#[source] io::Error),
    /// A channel could not be ended.
    #[error("can not end a channel: {0}")]
    Shut(#[source] ChannelError),
    /// Every channel broke; this is how the last did.
    #[error("every channel broke, the last one so: {0}")]
    Broken(String),
}

/// How a channel ended.
enum End {
    /// The broker closed it: the session is over.
    Closed,
    /// What came on it made no sense, or it could not be used. Others are not affected.
    Broken(String),
}

/// Serves the channels until the broker closes one of them, or all are broken.
///
/// # Errors
/// If it could not be begun, or no channel is left though none was closed.
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
                // The receiver is gone only when the process is about to end.
                report.send(end).ok();
            })
            .map_err(FilesError::Thread)?;
    }
    drop(report);
    let mut last = String::from("its thread ended");
    for (ended, end) in ends.iter().enumerate() {
        match end {
            End::Closed => return finish(&channels, &ends, channels.len() - ended - 1),
            End::Broken(why) => last = why,
        }
    }
    Err(FilesError::Broken(last))
}

/// Ends the other channels, and waits a little for their writes to be taken back.
fn finish(
    channels: &[Arc<Channel>],
    ends: &mpsc::Receiver<End>,
    running: usize,
) -> Result<(), FilesError> {
    for channel in channels {
        channel.shut().map_err(FilesError::Shut)?;
    }
    let until = Instant::now() + GRACE;
    for _thread in 0..running {
        match ends.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(End::Closed | End::Broken(_)) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(())
}

/// Settles a transaction until the broker closes the channel.
///
/// # Errors
/// If the channel broke.
pub fn settle(channel: &Channel, view: View, mut layers: Layers) -> Result<(), FilesError> {
    match attend(channel, &view, &Mutex::default(), Some(&mut layers)) {
        End::Closed => Ok(()),
        End::Broken(why) => Err(FilesError::Broken(why)),
    }
}

/// Settles a transaction whose program stands still: answers one message.
///
/// # Errors
/// If the channel was closed or broke.
pub(crate) fn settle_one(
    channel: &Channel,
    view: &View,
    layers: &mut Layers,
    pending: &mut Pending,
) -> Result<(), FilesError> {
    let scan = Mutex::default();
    let mut desk =
        Desk { channel, view, scan: &scan, layers: Some(layers), pending: std::mem::take(pending) };
    let done = desk.one();
    *pending = desk.pending;
    match done {
        Ok(()) => Ok(()),
        Err(stop) => Err(FilesError::Broken(why(stop))),
    }
}

/// Serves one channel to its end, and closes it.
fn attend(channel: &Channel, view: &View, scan: &Mutex<Scan>, layers: Option<&mut Layers>) -> End {
    let mut desk = Desk { channel, view, scan, layers, pending: Pending::default() };
    let stop = loop {
        if let Err(stop) = desk.one() {
            break stop;
        }
    };
    let end = match stop {
        Stop::Closed => End::Closed,
        stop @ (Stop::Broken(_) | Stop::OutOfOrder(_) | Stop::Abandoned | Stop::Failed(_)) => {
            End::Broken(why(stop))
        }
    };
    if let End::Broken(why) = &end {
        let message = format!("this channel is closed: {why}");
        let told = FileError { kind: FileErrorKind::Broken, errno: 0, message, about: None };
        // A channel that broke may well not carry this.
        channel.send(&FileReply::Failed(told)).ok();
    }
    match channel.shut() {
        Ok(()) => end,
        Err(error) => End::Broken(error.to_string()),
    }
}

/// Why a channel is of no use any more.
fn why(stop: Stop) -> String {
    match stop {
        Stop::Closed => "the broker closed it".to_owned(),
        Stop::Broken(error) => error.to_string(),
        Stop::OutOfOrder(why) => why.to_owned(),
        Stop::Abandoned => "nothing was under way that could be given up".to_owned(),
        Stop::Failed(error) => error.message,
    }
}

/// What may still come on a channel.
#[derive(Default)]
pub(crate) struct Pending {
    leftovers: Leftovers,
    /// Parts of a change that is to come.
    parts: Parts,
}

/// Whether content, or the word to give it up, may still come for a change that is over.
#[derive(Clone, Copy, Default)]
enum Leftovers {
    #[default]
    None,
    Possible,
}

struct Desk<'a> {
    channel: &'a Channel,
    view: &'a View,
    /// What is known of hidden names.
    scan: &'a Mutex<Scan>,
    /// A transaction's, of which nothing else is asked.
    layers: Option<&'a mut Layers>,
    pending: Pending,
}

impl Desk<'_> {
    /// Takes one message and answers it.
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
            // The call was over before it came, or was stopped by the sight of it.
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
                let reach = tools::Reach::from_recursive(*recursive);
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

impl Desk<'_> {
    /// Finds the hidden names, or hands over what there is to keep of them.
    fn look_for_hidden(&self, keep: bool, mut fds: Vec<OwnedFd>) -> Result<(), Stop> {
        let failed = |error: io::Error| {
            let message = format!("what the profile hides can not be found: {error}");
            let (kind, errno) = (FileErrorKind::FileSystem, error.raw_os_error().unwrap_or(0));
            FileError { kind, errno, message, about: None }
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

/// Runs a tool. Its panic is a failure of this call alone: a tool keeps nothing from one call to
/// the next.
fn contained(tool: impl FnOnce() -> Result<(), Stop>) -> Result<(), Stop> {
    panic::catch_unwind(AssertUnwindSafe(tool)).unwrap_or_else(|_panic| {
        let message = "the tool failed by a fault of its own, and may have done a part: look at \
                       the file before you try again"
            .into();
        Err(FileError { kind: FileErrorKind::FileSystem, errno: 0, message, about: None }.into())
    })
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
