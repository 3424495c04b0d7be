//! Stops every process of a call where it is, and lets it go on. Room: the cell, the first process of
//! its PID namespace.

use crate::tree::Tree;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    collections::BTreeSet,
    fs, io,
    thread::sleep,
    time::{Duration, Instant},
};

/// How long it may take until all of them stand still.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long one attempt may take. A process in the middle of `vfork` waits for its child, which is
/// stopped: then all go on for a moment.
const ATTEMPT: Duration = Duration::from_millis(250);

const PAUSE: Duration = Duration::from_millis(2);

/// Processes that stand still.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// Those that were stopped already, by somebody of their own.
    before: BTreeSet<i32>,
}

impl Frozen {
    /// Stops all of them, and waits until they stand still.
    pub(crate) fn freeze(tree: Tree) -> io::Result<Self> {
        match tree {
            Tree::Namespace => {}
            Tree::Children => return Err(io::Error::other("its processes have no PID namespace")),
        }
        let before: BTreeSet<i32> =
            processes()?.into_iter().filter(|pid| is_stopped(*pid)).collect();
        let until = Instant::now() + PATIENCE;
        loop {
            signal(Pid::from_raw(-1), Signal::SIGSTOP);
            if all_stopped(Instant::now() + ATTEMPT)? {
                return Ok(Self { before });
            }
            let frozen = Self { before: before.clone() };
            frozen.thaw()?;
            if Instant::now() > until {
                return Err(io::Error::other("its processes could not be stopped in time"));
            }
            sleep(PAUSE);
        }
    }

    /// Lets them go on, but for those that were stopped before. Children before their parents, which
    /// would else learn that they are stopped.
    pub(crate) fn thaw(self) -> io::Result<()> {
        for pid in processes()?.into_iter().rev().filter(|pid| !self.before.contains(pid)) {
            signal(Pid::from_raw(pid), Signal::SIGCONT);
        }
        Ok(())
    }
}

/// A process that has ended needs no signal.
fn signal(pid: Pid, signal: Signal) {
    match kill(pid, signal) {
        Ok(()) | Err(_) => {}
    }
}

/// Every process of the namespace but this one.
fn processes() -> io::Result<BTreeSet<i32>> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        found.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    found.remove(&own);
    Ok(found)
}

fn all_stopped(until: Instant) -> io::Result<bool> {
    loop {
        if processes()?.into_iter().all(stands_still) {
            return Ok(true);
        }
        if Instant::now() > until {
            return Ok(false);
        }
        sleep(PAUSE);
    }
}

/// Whether every thread of a process is stopped, or nothing of it runs any more.
fn stands_still(pid: i32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat"));
        stat.map_or(true, |stat| matches!(state(&stat), Some('T' | 't' | 'Z' | 'X') | None))
    })
}

/// Whether a process is stopped already.
fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| state(&stat) == Some('T'))
}

/// The letter after the name, which may have anything in it.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use super::state;

    #[test]
    fn a_name_does_not_pass_for_a_state() {
        assert_eq!(state("7 (a) T) R 1 7 7 0"), Some('R'));
        assert_eq!(state("7 (sh) T 1 7 7 0"), Some('T'));
        assert_eq!(state("7 (sh"), None);
    }
}
