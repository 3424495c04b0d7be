//! What a session has in memory, and whether the kernel killed something of it for want of more.
//! Broker.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// The count of kills, as far as it was seen.
#[derive(Debug)]
pub(crate) struct OomCounter {
    file: Option<File>,
    /// The session's cgroup.
    group: PathBuf,
    seen: AtomicU64,
}

impl OomCounter {
    /// Counts from now on. Without a cgroup there is nothing to count.
    pub(crate) fn open(path: &str) -> Self {
        let file = if path.is_empty() {
            None
        } else {
            File::open(path)
                .inspect_err(|error| tracing::warn!(path, %error, "kills will not be counted"))
                .ok()
        };
        let group = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
        let counter = Self { file, group, seen: AtomicU64::new(0) };
        counter.grew();
        counter
    }

    /// Whether something was killed since the last time this was asked.
    pub(crate) fn grew(&self) -> bool {
        let now = self.file.as_ref().map_or(0, read);
        self.seen.swap(now, Ordering::Relaxed) < now
    }

    /// What the session's processes have in memory, in either version; none without a cgroup.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.file.as_ref()?;
        let used = ["memory.current", "memory.usage_in_bytes"]
            .into_iter()
            .find_map(|name| fs::read_to_string(self.group.join(name)).ok())?;
        used.trim().parse().ok()
    }
}

fn read(file: &File) -> u64 {
    let mut buffer = [0; 512];
    let length = file.read_at(&mut buffer, 0).unwrap_or(0);
    count(&String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()))
}

/// The `oom_kill` line of `memory.events` (v2) or `memory.oom_control` (v1).
fn count(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_both_versions() {
        assert_eq!(count("low 0\nhigh 0\nmax 4\noom 2\noom_kill 3\noom_group_kill 0\n"), 3);
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"), 5);
        assert_eq!(count(""), 0);
    }

    #[test]
    fn growth_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory.events");
        std::fs::write(&path, "oom_kill 1\n").unwrap();
        let counter = OomCounter::open(path.to_str().unwrap());
        assert!(!counter.grew());
        std::fs::write(&path, "oom_kill 2\n").unwrap();
        assert!(counter.grew());
        assert!(!counter.grew());
        assert!(!OomCounter::open("").grew());
        assert_eq!(counter.memory(), None);
        std::fs::write(directory.path().join("memory.current"), "4096\n").unwrap();
        assert_eq!(counter.memory(), Some(4096));
        assert_eq!(OomCounter::open("").memory(), None);
    }
}
