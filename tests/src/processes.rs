//! The processes on the host, seen from outside of the sandbox.

use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
};

/// A process as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The process id on the host.
    pub pid: i32,
    /// The parent's process id.
    pub parent: i32,
    /// The process name.
    pub name: String,
    /// The arguments, separated by spaces.
    pub command: String,
}

/// Returns every process that is not a zombie.
#[must_use]
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(read)
        .collect()
}

fn read(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
    Some(Process { pid, parent, name: name.to_owned(), command })
}

impl Process {
    /// Returns `true` if this is a shell that waits for a call.
    #[must_use]
    pub fn is_spare(&self) -> bool {
        self.command == "bash -c exit 125"
    }

    /// Returns `true` for a process of a cell, or a child of one that has not executed a program yet.
    #[must_use]
    pub fn is_cell(&self) -> bool {
        self.command.starts_with("palisade-cell")
    }
}

/// Returns a process and all its descendants.
#[must_use]
pub fn tree(root: i32) -> Vec<Process> {
    let all = all();
    let mut found: Vec<Process> = all.iter().filter(|p| p.pid == root).cloned().collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|p| p.pid) {
        found.extend(all.iter().filter(|p| p.parent == parent).cloned());
        next += 1;
    }
    found
}

/// Returns a word that no other process on the host has in its arguments. All marks of a test
/// program have the same length, so that none is the beginning of another.
#[must_use]
pub fn mark() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("palisade-mark-{}-{number:06}", std::process::id())
}

/// Returns the processes whose arguments contain `mark`.
#[must_use]
pub fn marked(mark: &str) -> Vec<Process> {
    all().into_iter().filter(|p| p.command.contains(mark)).collect()
}
