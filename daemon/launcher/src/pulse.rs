//! Tells the service manager that the launcher is ready and alive. The inner launcher, which does
//! the work, writes beats to its standard output. The outer one, which the manager knows, passes
//! them on. A launcher without an inner one tells the manager itself.

use rustix::event::Timespec;
use std::{
    env,
    io::{self, Read, Write as _},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::{Duration, Instant},
};

/// The option that tells the inner launcher how often to beat, in milliseconds.
pub(crate) const PULSE: &str = "--pulse";

/// The beat that the inner launcher sends once, when it is ready.
const READY: u8 = b'R';
/// The beat that it repeats while it is alive.
const ALIVE: u8 = b'A';
/// The interval if the manager has no watchdog.
const SELDOM: Duration = Duration::from_secs(3600);

/// The beats of the launcher that does the work.
#[derive(Debug, Default)]
pub(crate) struct WatchdogBeat {
    every: Option<Duration>,
    last: Option<Instant>,
    /// The manager, if there is no outer launcher to pass beats on.
    manager: Option<ServiceManager>,
}

impl WatchdogBeat {
    /// Creates a pulse that beats at this interval, or never.
    pub(crate) const fn new(every: Option<Duration>) -> Self {
        Self { every, last: None, manager: None }
    }

    /// Creates the pulse of a launcher that has no inner one, because it can not enter a PID
    /// namespace.
    pub(crate) fn alone(manager: Option<ServiceManager>) -> Self {
        Self { every: manager.as_ref().map(|manager| manager.every), last: None, manager }
    }

    /// Returns how long the launcher may wait for an event.
    pub(crate) fn patience(&self) -> Option<Timespec> {
        self.every.and_then(|every| Timespec::try_from(every).ok())
    }

    /// Sends a beat if it is due. The first beat says that the launcher is ready.
    pub(crate) fn beat(&mut self) {
        let Some(every) = self.every else { return };
        let now = Instant::now();
        let beat = match self.last {
            None => READY,
            Some(last) if now.duration_since(last) >= every / 2 => ALIVE,
            Some(_) => return,
        };
        self.last = Some(now);
        if let Some(manager) = &self.manager {
            return manager.forward(&[beat]);
        }
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(&[beat]).and_then(|()| stdout.flush()) {
            eprintln!("palisade-launcher: can not write to the outer launcher: {error}");
            self.every = None;
        }
    }
}

/// The service manager.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
    every: Duration,
}

impl ServiceManager {
    /// Finds the manager that started this program, if it wants notifications.
    pub(crate) fn of_environment() -> io::Result<Option<Self>> {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&name)?,
        };
        let watchdog = env::var("WATCHDOG_USEC").ok().and_then(|usec| usec.parse().ok());
        let every = watchdog.map_or(SELDOM, |usec| Duration::from_micros(usec) / 3);
        Ok(Some(Self { socket: UnixDatagram::unbound()?, address, every }))
    }

    /// Returns the interval of beats for the inner launcher, in milliseconds.
    pub(crate) fn millis(&self) -> String {
        self.every.as_millis().max(1).to_string()
    }

    /// Passes on the inner launcher's beats until it ends.
    pub(crate) fn relay(&self, mut inner: impl Read) {
        let mut beats = [0; 64];
        loop {
            let said = match inner.read(&mut beats) {
                Ok(0) => return,
                Ok(length) => beats.get(..length).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    eprintln!("palisade-launcher: can not read from the inner launcher: {error}");
                    return;
                }
            };
            self.forward(said);
        }
    }

    /// Translates beats into notifications.
    fn forward(&self, said: &[u8]) {
        if said.contains(&READY) {
            self.notify("READY=1\nSTATUS=ready to start cells");
        }
        self.notify("WATCHDOG=1");
    }

    fn notify(&self, state: &str) {
        if let Err(error) = self.socket.send_to_addr(state.as_bytes(), &self.address) {
            eprintln!("palisade-launcher: the service manager could not be notified: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_inner_launcher_says_is_passed_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let outer = ServiceManager {
            socket: UnixDatagram::unbound().unwrap(),
            address: SocketAddr::from_pathname(&path).unwrap(),
            every: Duration::from_secs(1),
        };
        outer.relay(&[ALIVE][..]);
        outer.relay(&[READY][..]);
        let heard = || {
            let mut buffer = [0; 256];
            let length = manager.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        assert_eq!(heard(), "WATCHDOG=1");
        assert_eq!(heard(), "READY=1\nSTATUS=ready to start cells");
        assert_eq!(heard(), "WATCHDOG=1");
    }

    #[test]
    fn one_that_stands_alone_says_it_itself() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let listening = UnixDatagram::bind(&path).unwrap();
        let mut pulse = WatchdogBeat::alone(Some(ServiceManager {
            socket: UnixDatagram::unbound().unwrap(),
            address: SocketAddr::from_pathname(&path).unwrap(),
            every: Duration::from_secs(3600),
        }));
        // The second beat is not due yet.
        pulse.beat();
        pulse.beat();
        let mut heard = [0; 64];
        let length = listening.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"READY=1\nSTATUS=ready to start cells");
        assert_eq!(listening.recv(&mut heard).unwrap(), "WATCHDOG=1".len());
        listening.set_nonblocking(true).unwrap();
        let none = listening.recv(&mut heard).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        assert!(WatchdogBeat::alone(None).patience().is_none());
    }

    #[test]
    fn nobody_listens_to_a_launcher_without_a_manager() {
        let mut pulse = WatchdogBeat::default();
        pulse.beat();
        assert_eq!((pulse.last, pulse.patience().is_none()), (None, true));
    }
}
