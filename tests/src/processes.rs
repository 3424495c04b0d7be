//! What runs on the host, seen from outside.

use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
};

/// A process as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id on the host.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// Its name.
    pub name: String,
    /// Its arguments, separated by spaces.
    pub command: String,
}

/// Every process that is not a zombie.
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

/// A process and everything below it.
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

/// A word that no other process on the host has in its arguments, not even as the beginning of a
/// longer one: all of a test program are of one length.
#[must_use]
pub fn mark() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("palisade-mark-{}-{number:06}", std::process::id())
}

/// The processes whose arguments contain `mark`.
#[must_use]
pub fn marked(mark: &str) -> Vec<Process> {
    all().into_iter().filter(|p| p.command.contains(mark)).collect()
}
