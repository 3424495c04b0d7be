//! Stops every process of a call, and resumes it. Runs in the cell, as the first process of its PID
//! namespace.

use crate::tree::ProcessTree;
use nix::{
    errno::Errno,
    sys::{
        ptrace,
        signal::{Signal, kill},
    },
    unistd::Pid,
};
use std::{
    collections::BTreeSet,
    fs, io,
    thread::sleep,
    time::{Duration, Instant},
};

/// The time limit for freezing in all.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time limit of one attempt. A process inside `vfork` waits for its child, and never stops if
/// the child was stopped. All processes are then resumed for a moment.
const ATTEMPT: Duration = Duration::from_millis(250);

const PAUSE: Duration = Duration::from_millis(2);

/// The processes of a call, all of them stopped.
#[derive(Debug)]
pub(crate) struct FrozenProcesses {
    /// The processes that were stopped before by a process of the call.
    before: BTreeSet<i32>,
    /// The threads that are held as well.
    held: BTreeSet<i32>,
}

impl FrozenProcesses {
    /// Stops all processes, and waits until every one of them is stopped.
    pub(crate) fn freeze(tree: ProcessTree) -> io::Result<Self> {
        match tree {
            ProcessTree::Namespace => {}
            ProcessTree::Children => {
                return Err(io::Error::other("its processes have no PID namespace"));
            }
        }
        let before: BTreeSet<i32> =
            processes()?.into_iter().filter(|pid| is_stopped(*pid)).collect();
        let until = Instant::now() + PATIENCE;
        loop {
            signal(Pid::from_raw(-1), Signal::SIGSTOP);
            if all_stopped(Instant::now() + ATTEMPT)? {
                return Ok(Self { before, held: BTreeSet::new() });
            }
            let frozen = Self { before: before.clone(), held: BTreeSet::new() };
            frozen.thaw()?;
            if Instant::now() > until {
                return Err(io::Error::other("its processes could not be stopped in time"));
            }
            sleep(PAUSE);
        }
    }

    /// Holds every thread as a debugger does. A stopped process can be resumed by a signal, also one
    /// that the kernel sends for a timer; a held one only by this process.
    pub(crate) fn hold(&mut self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let threads = living_threads()?;
            let new: Vec<_> = threads.difference(&self.held).copied().collect();
            for thread in &new {
                let pid = Pid::from_raw(*thread);
                match ptrace::seize(pid, ptrace::Options::PTRACE_O_EXITKILL)
                    .and_then(|()| ptrace::interrupt(pid))
                {
                    // One that has ended meanwhile needs no holding, and is gone from the next list.
                    Ok(()) | Err(Errno::ESRCH) => {}
                    Err(error) => return Err(error.into()),
                }
                self.held.insert(*thread);
            }
            if new.is_empty() && threads.iter().all(|thread| is_held(*thread) || has_ended(*thread))
            {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sleep(PAUSE);
        }
    }

    /// Resumes all processes except those that were stopped before. Children are resumed before
    /// their parents, which would otherwise be told that a child is stopped.
    pub(crate) fn thaw(self) -> io::Result<()> {
        self.held.iter().try_for_each(|thread| release(*thread))?;
        for pid in processes()?.into_iter().rev().filter(|pid| !self.before.contains(pid)) {
            signal(Pid::from_raw(pid), Signal::SIGCONT);
        }
        Ok(())
    }
}

/// Sends a signal. Errors are ignored: a process that has ended needs none.
fn signal(pid: Pid, signal: Signal) {
    match kill(pid, signal) {
        Ok(()) | Err(_) => {}
    }
}

/// Returns every process of the namespace except this one.
pub(crate) fn processes() -> io::Result<BTreeSet<i32>> {
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
        if processes()?.into_iter().all(all_threads_stopped) {
            return Ok(true);
        }
        if Instant::now() > until {
            return Ok(false);
        }
        sleep(PAUSE);
    }
}

/// Returns `true` if every thread of the process is stopped or has ended.
fn all_threads_stopped(pid: i32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat"));
        stat.map_or(true, |stat| matches!(state(&stat), Some('T' | 't' | 'Z' | 'X') | None))
    })
}

/// Ends the holding of a thread. It is still stopped then, unless somebody resumed it meanwhile.
fn release(thread: i32) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ptrace::detach(Pid::from_raw(thread), None) {
            Ok(()) => return Ok(()),
            Err(Errno::ESRCH) if !has_ended(thread) && Instant::now() < until => {
                // It is only about to be held.
                sleep(PAUSE);
            }
            Err(Errno::ESRCH) if has_ended(thread) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns every thread of these processes that has not ended.
fn living_threads() -> io::Result<BTreeSet<i32>> {
    let mut found = BTreeSet::new();
    for pid in processes()? {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        let threads = threads.flatten();
        let threads = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
        found.extend(threads.filter(|thread| !has_ended(*thread)));
    }
    Ok(found)
}

/// Returns `true` if a thread is held.
fn is_held(thread: i32) -> bool {
    state_of(thread) == Some('t')
}

/// Returns `true` if a thread has ended.
fn has_ended(thread: i32) -> bool {
    matches!(state_of(thread), Some('Z' | 'X') | None)
}

/// Returns the state letter of a thread; `None` if it is gone.
fn state_of(thread: i32) -> Option<char> {
    state(&fs::read_to_string(format!("/proc/{thread}/stat")).ok()?)
}

/// Returns `true` if the process is stopped.
fn is_stopped(pid: i32) -> bool {
    state_of(pid) == Some('T')
}

/// Returns the state letter of a `stat` line. It follows the last `) `, because the process name
/// may contain any characters.
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
