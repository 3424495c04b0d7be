//! The processes of a daemon (broker, launcher, cells) as the host sees them, and checks that
//! nothing is left of them.

use crate::processes::{self, Process};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Waits for a condition that must become true, however busy the host is.
///
/// # Panics
/// If it does not.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    awaited(what, || is().then_some(()));
}

/// Waits for a value that must become available.
///
/// # Panics
/// If it does not.
pub fn awaited<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3600 {
        if let Some(found) = found() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("still not: {what}");
}

/// The processes of one daemon.
#[derive(Debug, Clone)]
pub struct Rooms {
    /// The broker, `palisaded`.
    pub broker: Process,
    /// The outer launcher process, which only waits.
    pub outer: Process,
    /// The launcher inside its PID namespace.
    pub inner: Process,
    /// The processes of cells, including those that wait for a session.
    pub cells: Vec<Process>,
    /// The programs that the cells run. Shells that wait for a call are not among them.
    pub payload: Vec<Process>,
}

impl Rooms {
    /// Finds the processes of a running daemon, on a host that allows user namespaces.
    ///
    /// # Panics
    /// If one of them is missing, or there is an unexpected process.
    #[must_use]
    pub fn of(broker: u32) -> Self {
        let broker = i32::try_from(broker).expect("a pid");
        // The analyst is not one of these rooms.
        let is_analyst = |process: &Process| process.name.starts_with("palisade-anal");
        let all = awaited("a broker that is not just starting its analyst", || {
            let mut all = processes::tree(broker);
            all.retain(|process| !is_analyst(process));
            // Between fork and exec a process still has its parent's name, and a program that was
            // started by descriptor has the descriptor's number for a name until it takes its own.
            let is_named = |process: &Process| process.name == "palisade-launch";
            let mut children = all.iter().filter(|process| process.parent == broker);
            children.all(is_named).then_some(all)
        });
        let mut all = all.into_iter();
        let broker = all.next().expect("the broker");
        let outer = all.next().expect("a launcher");
        let inner = all.next().expect("a launcher inside");
        assert_eq!(broker.name, "palisaded");
        assert_eq!((outer.name.as_str(), outer.parent), ("palisade-launch", broker.pid));
        assert_eq!((inner.name.as_str(), inner.parent), ("palisade-launch", outer.pid));
        let (cells, programs): (Vec<_>, Vec<_>) =
            all.partition(|process| process.parent == inner.pid);
        let is_program = |process: &Process| !process.is_spare() && !process.is_cell();
        let payload = programs.into_iter().filter(is_program).collect();
        Self { broker, outer, inner, cells, payload }
    }

    /// Returns the cell's process of this name.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn cell(&self, name: &str) -> &Process {
        self.cells.iter().find(|cell| cell.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// Returns all these processes.
    pub fn all(&self) -> impl Iterator<Item = &Process> {
        [&self.broker, &self.outer, &self.inner].into_iter().chain(&self.cells).chain(&self.payload)
    }
}

/// Returns a field of a process's `/proc/PID/status`.
///
/// # Panics
/// If there is no such process or field.
#[must_use]
pub fn status(pid: i32, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value.expect("a line of that name").trim().to_owned()
}

/// Returns the cgroups that a launcher created.
#[must_use]
pub fn cgroups(launcher: i32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(Path::new("/sys/fs/cgroup"), &format!("palisade-{launcher}"), &mut found);
    found
}

fn collect(directory: &Path, name: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir())) {
        if entry.file_name() == name {
            found.push(entry.path());
        } else {
            collect(&entry.path(), name, found);
        }
    }
}

/// The state of the host before a daemon was started.
#[derive(Debug)]
pub struct Before {
    mounts: BTreeSet<String>,
    orphans: BTreeSet<i32>,
}

/// Returns launchers and cells whose parent has ended. The kernel gives these to the first process
/// or to a sub-reaper above this one. Another test's systemd, or a shell that started a daemon, is
/// neither.
fn orphans() -> BTreeSet<i32> {
    let all = processes::all();
    let ours = |process: &&Process| {
        let program = process.command.split(' ').next().unwrap_or_default();
        program.ends_with("palisade-cell") || program.ends_with("palisade-launcher")
    };
    let above = ancestors(&all);
    let orphans = all.iter().filter(ours).filter(|process| above.contains(&process.parent));
    orphans.map(|process| process.pid).collect()
}

/// Returns the first process, and every process above this one.
fn ancestors(all: &[Process]) -> BTreeSet<i32> {
    let mut pid = i32::try_from(std::process::id()).expect("a pid");
    let mut found = BTreeSet::from([1]);
    while let Some(process) = all.iter().find(|process| process.pid == pid) {
        pid = process.parent;
        found.insert(pid);
    }
    found
}

fn mounts() -> BTreeSet<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    mounts.lines().map(str::to_owned).collect()
}

impl Before {
    /// Records the current state.
    #[must_use]
    pub fn look() -> Self {
        Self { mounts: mounts(), orphans: orphans() }
    }

    /// Asserts that nothing is left of a daemon: no launcher or cell, no mount.
    pub fn assert_nothing_left(&self) {
        let mut left: BTreeSet<i32> = orphans().difference(&self.orphans).copied().collect();
        until(&format!("launchers and cells gone: {left:?}"), || {
            left = orphans().intersection(&left).copied().collect();
            left.is_empty()
        });
        let mut left: BTreeSet<String> = mounts().difference(&self.mounts).cloned().collect();
        until(&format!("mounts gone: {left:?}"), || {
            left = mounts().intersection(&left).cloned().collect();
            left.is_empty()
        });
    }

    /// Asserts that nothing is left of a daemon, and that no process has this mark, which must be
    /// unique on the host.
    pub fn assert_nothing_left_of(&self, mark: &str) {
        self.assert_nothing_left();
        until(&format!("processes marked {mark} gone"), || processes::marked(mark).is_empty());
    }
}
