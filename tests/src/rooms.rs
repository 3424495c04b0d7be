//! The rooms of a daemon as the host sees them, and what must not be left of them.

use crate::processes::{self, Process};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Waits for something that must come about, however busy the host is.
///
/// # Panics
/// If it does not.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    awaited(what, || is().then_some(()));
}

/// The same for something that is wanted.
///
/// # Panics
/// If it does not come.
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
    /// `palisaded`.
    pub broker: Process,
    /// The launcher that was started, which only waits.
    pub outer: Process,
    /// The launcher inside its PID namespace.
    pub inner: Process,
    /// Processes of cells, those that wait for a session among them.
    pub cells: Vec<Process>,
    /// What the cells run.
    pub payload: Vec<Process>,
}

impl Rooms {
    /// Those of a daemon that serves, where user namespaces are allowed.
    ///
    /// # Panics
    /// If one of them is missing, or there is something else.
    #[must_use]
    pub fn of(broker: u32) -> Self {
        let broker = i32::try_from(broker).expect("a pid");
        // The analyst stands beside the rooms.
        let mut all =
            processes::tree(broker).into_iter().filter(|p| !p.name.starts_with("palisade-anal"));
        let broker = all.next().expect("the broker");
        let outer = all.next().expect("a launcher");
        let inner = all.next().expect("a launcher inside");
        assert_eq!(broker.name, "palisaded");
        assert_eq!((outer.name.as_str(), outer.parent), ("palisade-launch", broker.pid));
        assert_eq!((inner.name.as_str(), inner.parent), ("palisade-launch", outer.pid));
        let (cells, payload) = all.partition(|process| process.parent == inner.pid);
        Self { broker, outer, inner, cells, payload }
    }

    /// The cell's process of this name.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn cell(&self, name: &str) -> &Process {
        self.cells.iter().find(|cell| cell.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// Every process of every room.
    pub fn all(&self) -> impl Iterator<Item = &Process> {
        [&self.broker, &self.outer, &self.inner].into_iter().chain(&self.cells).chain(&self.payload)
    }
}

/// A line of a process's `/proc/PID/status`.
///
/// # Panics
/// If there is no such process or line.
#[must_use]
pub fn status(pid: i32, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value.expect("a line of that name").trim().to_owned()
}

/// The cgroups that a launcher made.
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

/// What was on the host before a daemon was.
#[derive(Debug)]
pub struct Before {
    mounts: String,
    orphans: BTreeSet<i32>,
}

/// Launchers and cells without a parent of ours.
fn orphans() -> BTreeSet<i32> {
    let all = processes::all();
    let ours = |process: &&Process| {
        let program = process.command.split(' ').next().unwrap_or_default();
        program.ends_with("palisade-cell") || program.ends_with("palisade-launcher")
    };
    let own = i32::try_from(std::process::id()).expect("a pid");
    let known: BTreeSet<i32> = all
        .iter()
        .filter(|process| process.command.contains("palisade") || process.pid == own)
        .map(|process| process.pid)
        .collect();
    let orphans = all.iter().filter(ours).filter(|process| !known.contains(&process.parent));
    orphans.map(|process| process.pid).collect()
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").expect("mountinfo")
}

impl Before {
    /// Looks around.
    #[must_use]
    pub fn look() -> Self {
        Self { mounts: mounts(), orphans: orphans() }
    }

    /// That nothing is left of a daemon: no launcher or cell, no mount.
    pub fn assert_nothing_left(&self) {
        let mut left: BTreeSet<i32> = orphans().difference(&self.orphans).copied().collect();
        until(&format!("launchers and cells gone: {left:?}"), || {
            left = orphans().intersection(&left).copied().collect();
            left.is_empty()
        });
        until("mounts as before", || mounts() == self.mounts);
    }

    /// And no process with the mark either, which nothing else on the host may bear.
    pub fn assert_nothing_left_of(&self, mark: &str) {
        self.assert_nothing_left();
        until(&format!("processes marked {mark} gone"), || processes::marked(mark).is_empty());
    }
}
