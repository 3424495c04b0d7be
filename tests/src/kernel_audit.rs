//! The kernel's audit system, which belongs to the host: turned on or off for one test at a time,
//! and restored afterwards.

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    setsockopt, socket, sockopt,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::{
    cell::RefCell,
    fs::File,
    os::fd::{AsRawFd as _, OwnedFd},
    time::{Duration, Instant},
};

const GET: u16 = 1000;
const SET: u16 = 1001;
const HEADER: usize = 16;
/// The bits of the mask that selects which words of the status to set.
const ENABLED: u32 = 1;
const BACKLOG: u32 = 16;
/// The number of words in the status, and the positions of two: whether auditing is on, and how
/// many records may wait.
const WORDS: usize = 11;
const ENABLED_AT: usize = 1;
const BACKLOG_AT: usize = 5;

/// The number of records that may wait while a test runs.
const ROOM: u32 = 8192;

/// Exclusive control of the kernel's audit system. No other test has it while this value lives.
#[derive(Debug)]
pub struct KernelAudit {
    control: OwnedFd,
    before: [u32; WORDS],
    // Unlocked last, when everything is restored.
    _lock: File,
}

impl KernelAudit {
    /// Turns kernel auditing on.
    ///
    /// # Errors
    /// Why it can not be turned on: not root, or not in the host's namespaces.
    pub fn on() -> Result<Self, String> {
        Self::take(1)
    }

    /// Turns kernel auditing off.
    ///
    /// # Errors
    /// Why it can not be turned off: not root, or not in the host's namespaces.
    pub fn off() -> Result<Self, String> {
        Self::take(0)
    }

    fn take(enabled: u32) -> Result<Self, String> {
        // A directory that exists on every host and that nobody else locks.
        let lock = File::open("/sys/kernel").map_err(|error| error.to_string())?;
        lock.lock().map_err(|error| error.to_string())?;
        let flags = SockFlag::SOCK_CLOEXEC;
        let control =
            socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkAudit)
                .map_err(|error| error.to_string())?;
        bind(control.as_raw_fd(), &NetlinkAddr::new(0, 0)).map_err(|error| error.to_string())?;
        let before = ask(&control, GET, &[])?;
        let audit = Self { control, before, _lock: lock };
        audit.set(enabled, before[BACKLOG_AT].max(ROOM))?;
        Ok(audit)
    }

    fn set(&self, enabled: u32, backlog: u32) -> Result<(), String> {
        let mut words = [0; WORDS];
        words[0] = ENABLED | BACKLOG;
        words[ENABLED_AT] = enabled;
        words[BACKLOG_AT] = backlog;
        ask(&self.control, SET, &words).map(drop)
    }

    /// Turns kernel auditing off for a while.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn pause(&self) {
        self.set(0, ROOM).expect("off");
    }

    /// Turns kernel auditing on again.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn resume(&self) {
        self.set(1, ROOM).expect("on");
    }

    /// Returns `true` if kernel auditing is on now.
    #[must_use]
    pub fn is_on(&self) -> bool {
        ask(&self.control, GET, &[]).expect("its status")[ENABLED_AT] != 0
    }

    /// Receives all records from now on.
    #[must_use]
    pub fn listen(&self) -> Listener {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket =
            socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkAudit)
                .expect("a socket");
        setsockopt(&socket, sockopt::RcvBufForce, &(1 << 22)).expect("room");
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 1)).expect("listen for audit records");
        Listener { socket, heard: RefCell::default() }
    }
}

impl Drop for KernelAudit {
    fn drop(&mut self) {
        let put_back = self.set(self.before[ENABLED_AT], self.before[BACKLOG_AT]);
        if let Err(error) = put_back {
            eprintln!("the kernel's audit is not as it was: {error}");
        }
    }
}

/// Sends a request to the kernel; returns the status if that was requested.
fn ask(control: &OwnedFd, kind: u16, words: &[u32]) -> Result<[u32; WORDS], String> {
    const REQUEST_AND_ACKNOWLEDGE: u16 = 5;
    const ERROR: u16 = 2;
    let length = u32::try_from(HEADER + size_of_val(words)).expect("short");
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    send(control.as_raw_fd(), &message, MsgFlags::empty()).map_err(|error| error.to_string())?;
    let mut answer = [0; 8192];
    let mut acknowledged = false;
    loop {
        let length = recv(control.as_raw_fd(), &mut answer, MsgFlags::empty())
            .map_err(|error| error.to_string())?;
        let body = &answer[HEADER..length];
        let word = |at: usize| {
            let bytes = body.get(at * 4..).and_then(|rest| rest.first_chunk::<4>());
            bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        match u16::from_ne_bytes([answer[4], answer[5]]) {
            ERROR => match word(0).cast_signed() {
                0 if kind == SET => return Ok([0; WORDS]),
                0 => acknowledged = true,
                errno => return Err(std::io::Error::from_raw_os_error(-errno).to_string()),
            },
            GET if acknowledged => return Ok(std::array::from_fn(word)),
            _ => {}
        }
    }
}

/// A receiver of kernel audit records.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    heard: RefCell<Vec<(u16, String)>>,
}

impl Listener {
    /// Waits for the next record of this type, without sleeping in between.
    ///
    /// # Panics
    /// If none comes.
    pub fn next(&self, kind: u16) {
        let limit = Instant::now() + Duration::from_secs(20);
        let mut message = [0; 8192];
        while Instant::now() < limit {
            let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
            rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }))
                .expect("poll");
            let got = recv(self.socket.as_raw_fd(), &mut message, MsgFlags::empty());
            if got.is_ok() && u16::from_ne_bytes([message[4], message[5]]) == kind {
                return;
            }
        }
        panic!("no record {kind} has come");
    }

    /// Discards the records received so far.
    pub fn clear(&self) {
        while recv(self.socket.as_raw_fd(), &mut [0; 8192], MsgFlags::empty()).is_ok() {}
        self.heard.borrow_mut().clear();
    }

    /// Waits for a record of this type that contains this text, unless it was already received;
    /// returns its text.
    ///
    /// # Panics
    /// If none comes.
    #[must_use]
    pub fn until(&self, kind: u16, part: &str) -> String {
        let limit = Instant::now() + Duration::from_secs(20);
        let mut heard = self.heard.borrow_mut();
        loop {
            let known = heard.iter().find(|(other, text)| *other == kind && text.contains(part));
            if let Some((_, text)) = known {
                return text.clone();
            }
            assert!(Instant::now() < limit, "no record {kind} has {part:?} in it: {heard:#?}");
            let mut message = [0; 8192];
            match recv(self.socket.as_raw_fd(), &mut message, MsgFlags::empty()) {
                Ok(length) => {
                    let text = String::from_utf8_lossy(&message[HEADER..length]).into_owned();
                    heard.push((u16::from_ne_bytes([message[4], message[5]]), text));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}
