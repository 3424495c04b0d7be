//! A session's memory use, and whether the kernel killed one of its processes for lack of memory.
//! Runs in the broker.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// The count of out-of-memory kills in a session's cgroup, and the count last seen.
#[derive(Debug)]
pub(crate) struct OomCounter {
    file: Option<File>,
    /// The directory of the session's cgroup.
    group: PathBuf,
    seen: AtomicU64,
}

impl OomCounter {
    /// Starts counting kills from now on. An empty path means no cgroup: nothing is counted.
    pub(crate) fn open(path: &str) -> Self {
        let file = if path.is_empty() {
            None
        } else {
            File::open(path)
                .inspect_err(|error| tracing::warn!(path, %error, "OOM kills will not be counted"))
                .ok()
        };
        let group = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
        let counter = Self { file, group, seen: AtomicU64::new(0) };
        counter.has_new_kills();
        counter
    }

    /// Returns `true` if a process was killed since the last call of this function.
    pub(crate) fn has_new_kills(&self) -> bool {
        let now = self.file.as_ref().map_or(0, read);
        self.seen.swap(now, Ordering::Relaxed) < now
    }

    /// Returns the memory use of the session's processes in bytes, for cgroup v1 and v2; `None`
    /// without a cgroup.
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

/// Returns the `oom_kill` count of `memory.events` (v2) or `memory.oom_control` (v1).
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
        assert!(!counter.has_new_kills());
        std::fs::write(&path, "oom_kill 2\n").unwrap();
        assert!(counter.has_new_kills());
        assert!(!counter.has_new_kills());
        assert!(!OomCounter::open("").has_new_kills());
        assert_eq!(counter.memory(), None);
        std::fs::write(directory.path().join("memory.current"), "4096\n").unwrap();
        assert_eq!(counter.memory(), Some(4096));
        assert_eq!(OomCounter::open("").memory(), None);
    }
}
