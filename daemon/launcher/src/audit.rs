//! Keeps the kernel's audit enabled while a launcher lives, and restores it afterwards, however the
//! launcher ends. A separate process does this, with that one capability and without listening to
//! anybody. It never becomes the host's audit daemon. Started by the launcher, before it gives up
//! privilege.

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::{
    signal::{SigSet, Signal},
    socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
        socket,
    },
};
use std::{
    io::{self, Read as _, Write as _},
    os::fd::{AsRawFd as _, OwnedFd},
};

const GET: u16 = 1000;
const SET: u16 = 1001;
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const HEADER: usize = 16;
/// Bits of the mask that selects which fields of a status are set.
const ENABLED: u32 = 1;
const BACKLOG: u32 = 16;

/// The least number of records that the kernel should queue. Its default of 64 is soon exceeded.
const ROOM: u32 = 8192;

/// The line that a keeper prints when audit is enabled.
pub(crate) const ON: &str = "on";

/// An error from enabling the kernel's audit.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The kernel refused an operation.
    #[error("{0}: {1}")]
    Kernel(&'static str, #[source] io::Error),
    /// The kernel's answer is not valid.
    #[error("the kernel's answer is invalid")]
    Nonsense,
    /// The capabilities could not be dropped.
    #[error("capabilities: {0}")]
    Capabilities(#[from] caps::errors::CapsError),
}

fn refused<E: Into<io::Error>>(act: &'static str) -> impl FnOnce(E) -> AuditError {
    move |error| AuditError::Kernel(act, error.into())
}

/// The part of the audit status that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// The state of audit: 0 off, 1 on, 2 on and locked.
    enabled: u32,
    /// The pid of the audit daemon; 0 if there is none.
    daemon: u32,
    backlog: u32,
}

/// Returns the state to set so that records are delivered; `None` if they already are.
fn wanted(before: State) -> Option<State> {
    let enabled = before.enabled.max(1);
    // A backlog of 0 means no limit.
    let backlog = if before.backlog == 0 { 0 } else { before.backlog.max(ROOM) };
    let wanted = State { enabled, backlog, ..before };
    (wanted != before && before.enabled != 2).then_some(wanted)
}

/// Returns the state to set to restore the earlier one; settings that somebody else has changed
/// meanwhile stay.
fn restored(before: State, set: State, now: State) -> Option<State> {
    // An audit daemon that was started since needs the records.
    let own = now.enabled == set.enabled && now.daemon == 0;
    let enabled = if own { before.enabled } else { now.enabled };
    let backlog = if now.backlog == set.backlog && own { before.backlog } else { now.backlog };
    let restored = State { enabled, backlog, ..now };
    (restored != now && now.enabled != 2).then_some(restored)
}

/// Runs a keeper: enables audit, says so, waits for the end of its input, and restores the state.
///
/// # Errors
/// If audit can not be enabled or restored.
pub fn keep() -> Result<(), AuditError> {
    // A service manager ends all processes of a unit at once. This one must end last, on its own.
    let mut signals = SigSet::empty();
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().for_each(|s| signals.add(s));
    signals.thread_block().map_err(refused("block signals"))?;
    let one: CapsHashSet = [Capability::CAP_AUDIT_CONTROL].into();
    if caps::has_cap(None, CapSet::Permitted, Capability::CAP_AUDIT_CONTROL)? {
        caps::clear(None, CapSet::Ambient)?;
        caps::set(None, CapSet::Inheritable, &CapsHashSet::new())?;
        caps::set(None, CapSet::Effective, &one)?;
        caps::set(None, CapSet::Permitted, &one)?;
    }
    let control = open()?;
    let before = state(&control)?;
    let set = wanted(before);
    if let Some(set) = set {
        put(&control, set)?;
    }
    let mut out = io::stdout();
    writeln!(out, "{ON}").and_then(|()| out.flush()).map_err(refused("report that audit is on"))?;
    io::stdin().read_to_end(&mut Vec::new()).map_err(refused("wait"))?;
    match set.map(|set| state(&control).map(|now| restored(before, set, now))).transpose()? {
        Some(Some(restored)) => put(&control, restored),
        Some(None) | None => Ok(()),
    }
}

fn open() -> Result<OwnedFd, AuditError> {
    let (flags, audit) = (SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkAudit);
    let control = socket(AddressFamily::Netlink, SockType::Raw, flags, audit)
        .map_err(refused("audit socket"))?;
    bind(control.as_raw_fd(), &NetlinkAddr::new(0, 0)).map_err(refused("bind"))?;
    Ok(control)
}

fn state(control: &OwnedFd) -> Result<State, AuditError> {
    let answer = ask(control, GET, REQUEST, &[])?;
    let word = |at: usize| {
        let bytes = answer.get(HEADER + at * 4..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map(|bytes| u32::from_ne_bytes(*bytes)).ok_or(AuditError::Nonsense)
    };
    Ok(State { enabled: word(1)?, daemon: word(3)?, backlog: word(5)? })
}

fn put(control: &OwnedFd, state: State) -> Result<(), AuditError> {
    let words = [ENABLED | BACKLOG, state.enabled, 0, 0, 0, state.backlog, 0, 0, 0, 0];
    ask(control, SET, REQUEST | ACKNOWLEDGE, &words).map(drop)
}

/// Sends a request to the kernel, and returns its answer or acknowledgement.
fn ask(control: &OwnedFd, kind: u16, flags: u16, words: &[u32]) -> Result<Vec<u8>, AuditError> {
    let length = u32::try_from(HEADER + size_of_val(words)).map_err(|_| AuditError::Nonsense)?;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    send(control.as_raw_fd(), &message, MsgFlags::empty())
        .map_err(refused("send to kernel audit"))?;
    loop {
        let mut answer = vec![0; 8192];
        let length = recv(control.as_raw_fd(), &mut answer, MsgFlags::empty())
            .map_err(refused("receive from kernel audit"))?;
        answer.truncate(length);
        let half = answer.get(4..).and_then(|rest| rest.first_chunk::<2>());
        match half.map(|half| u16::from_ne_bytes(*half)) {
            Some(ERROR) => {
                let errno = answer.get(HEADER..).and_then(|rest| rest.first_chunk::<4>());
                match errno.map(|errno| i32::from_ne_bytes(*errno)) {
                    Some(0) => return Ok(answer),
                    Some(errno) => {
                        return Err(refused("kernel audit")(io::Error::from_raw_os_error(
                            errno.saturating_neg(),
                        )));
                    }
                    None => return Err(AuditError::Nonsense),
                }
            }
            Some(found) if found == kind => return Ok(answer),
            Some(_) => {}
            None => return Err(AuditError::Nonsense),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(enabled: u32, daemon: u32, backlog: u32) -> State {
        State { enabled, daemon, backlog }
    }

    #[test]
    fn only_what_is_missing_is_set() {
        assert_eq!(wanted(at(0, 0, 64)), Some(at(1, 0, ROOM)));
        assert_eq!(wanted(at(1, 7, 64)), Some(at(1, 7, ROOM)));
        assert_eq!(wanted(at(0, 0, 0)), Some(at(1, 0, 0)));
        assert_eq!(wanted(at(1, 0, 9000)), None);
        // Audit is locked until the host restarts.
        assert_eq!(wanted(at(2, 0, 64)), None);
    }

    #[test]
    fn only_what_was_set_here_is_put_back() {
        let (before, set) = (at(0, 0, 64), at(1, 0, ROOM));
        assert_eq!(restored(before, set, set), Some(before));
        // Somebody has disabled or locked it, an audit daemon was started, or the backlog was set.
        assert_eq!(restored(before, set, at(0, 0, ROOM)), None);
        assert_eq!(restored(before, set, at(2, 0, ROOM)), None);
        assert_eq!(restored(before, set, at(1, 9, ROOM)), None);
        assert_eq!(restored(before, set, at(1, 0, 9000)), Some(at(0, 0, 9000)));
        assert_eq!(restored(at(1, 0, 64), at(1, 0, ROOM), at(1, 0, ROOM)), Some(at(1, 0, 64)));
    }
}
