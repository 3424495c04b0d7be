//! The paths and addresses recorded so far: each once, bounded in number, with the links on the way
//! recorded separately. Runs in the cell.

use super::calls::Follow;
use palisade_plan::{
    Path as Raw,
    record::{MOST_BYTES, MOST_NOTED, Recorded, RecordedUse, ResourceUsage, Right, TargetKind},
};
use rustix::{
    fs::{FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    ffi::OsString,
    fs::File,
    io::Read as _,
    os::{
        fd::AsRawFd as _,
        unix::{ffi::OsStrExt as _, fs::FileExt as _},
    },
    path::{Component, Path, PathBuf},
};

/// Directories that are not recorded: what is in them belongs to the kernel or the session, and its
/// names depend on the process.
const PASSED_OVER: [&str; 3] = ["/proc", "/dev", "/sys"];

/// The maximum number of links in one path, as in the kernel.
const MOST_LINKS: usize = 40;

/// The maximum number of interpreters in a row, each of which may be a script.
const MOST_INTERPRETERS: usize = 4;

/// The paths and addresses recorded so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    own: Vec<PathBuf>,
    bound: Vec<PathBuf>,
    /// Paths as the programs gave them, so that each is examined once.
    seen: HashSet<(Right, PathBuf)>,
    noted: BTreeSet<RecordedUse>,
    bytes: usize,
    lost: u64,
    processes: u64,
}

impl Notes {
    pub(super) fn new(own: &[Raw], bound: &[Raw]) -> Self {
        let all = |paths: &[Raw]| paths.iter().map(|path| path.as_path().to_owned()).collect();
        Self { own: all(own), bound: all(bound), ..Self::default() }
    }

    pub(super) fn finish(self) -> Recorded {
        let used = ResourceUsage { processes: self.processes, ..ResourceUsage::default() };
        Recorded { noted: self.noted.into_iter().collect(), lost: self.lost, used }
    }

    /// Records the use of a path.
    pub(super) fn used(&mut self, right: Right, path: &Path, follow: Follow) {
        if right == Right::Execute {
            self.processes = self.processes.max(processes());
        }
        if !self.is_new(right, path) {
            return;
        }
        if let Some((found, TargetKind::File)) = self.walk(right, path, follow)
            && right == Right::Execute
        {
            self.interpreters(&found);
        }
    }

    /// Records the execution of a program.
    pub(super) fn executed(&mut self, path: &Path) {
        self.used(Right::Execute, path, Follow::Yes);
    }

    /// Records the use of an address.
    pub(super) fn addressed(&mut self, right: Right, address: String) {
        self.add(right, Path::new(&address), TargetKind::Address);
    }

    /// Records an attempt to trace a process that does not belong to the call: the runner, which is
    /// the first process of the call's namespace, or one that can not be seen.
    pub(super) fn traced(&mut self, pid: u64) {
        let is_seen = Path::new(&format!("/proc/{pid}")).exists();
        if pid == u64::from(std::process::id()) || !is_seen {
            self.add(Right::Trace, Path::new(&format!("process {pid}")), TargetKind::Process);
        }
    }

    fn is_new(&mut self, right: Right, path: &Path) -> bool {
        let key = (right, path.to_owned());
        if self.seen.contains(&key) {
            return false;
        }
        if self.seen.len() >= 4 * MOST_NOTED {
            self.lost += 1;
            return false;
        }
        self.seen.insert(key)
    }

    fn add(&mut self, right: Right, path: &Path, kind: TargetKind) {
        let note = RecordedUse { right, path: path.into(), kind };
        if self.noted.contains(&note) {
            return;
        }
        let bytes = note.path.0.len();
        if self.noted.len() >= MOST_NOTED || self.bytes + bytes > MOST_BYTES {
            self.lost += 1;
            return;
        }
        self.bytes += bytes;
        self.noted.insert(note);
    }

    /// Follows a path to its end. Records each link on the way, and the file at the end.
    fn walk(&mut self, right: Right, path: &Path, follow: Follow) -> Option<(PathBuf, TargetKind)> {
        let mut ahead: VecDeque<OsString> = parts(path);
        let (mut at, mut kind, mut links) = (PathBuf::from("/"), TargetKind::Directory, 0);
        loop {
            if let Some(own) = self.own_of(&at, &ahead) {
                let whole: PathBuf = std::iter::once(at.as_os_str())
                    .chain(ahead.iter().map(OsString::as_os_str))
                    .collect();
                if !self.leads_out(&own, &whole, follow) {
                    self.add(right, &own, TargetKind::Directory);
                    // The host may have what is missing here: the profile hides it, or offers a
                    // private directory instead.
                    if matches!(right, Right::Read | Right::Execute)
                        && look(&whole) == TargetKind::Missing
                    {
                        self.add(right, &whole, TargetKind::Missing);
                    }
                    return (right == Right::Execute).then_some((whole, TargetKind::File));
                }
                // Only a link of this directory is used.
                self.add(Right::Look, &own, TargetKind::Directory);
            }
            let Some(part) = ahead.pop_front() else { break };
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            if PASSED_OVER.iter().any(|own| next.starts_with(own)) && !self.is_own(&next) {
                return None;
            }
            kind = look(&next);
            if kind == TargetKind::Link && (!ahead.is_empty() || follow == Follow::Yes) {
                self.add(Right::Look, &next, TargetKind::Link);
                links += 1;
                let target = std::fs::read_link(&next).unwrap_or_default();
                if links > MOST_LINKS || target.as_os_str().is_empty() {
                    return None;
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for part in parts(&target).into_iter().rev() {
                    ahead.push_front(part);
                }
                kind = TargetKind::Directory;
                continue;
            }
            at = next;
            if kind == TargetKind::Missing {
                // Nothing can be made in a directory that is missing: the host may have it.
                if right == Right::Write && !ahead.is_empty() {
                    self.add(Right::Look, &at, TargetKind::Missing);
                }
                at.extend(ahead.drain(..));
                break;
            }
        }
        self.add(right, &at, kind);
        Some((at, kind))
    }

    /// Returns `true` if one of the session's own directories is above, at or below a path.
    fn is_own(&self, path: &Path) -> bool {
        self.own.iter().any(|own| own.starts_with(path) || path.starts_with(own))
    }

    /// Returns the innermost of the session's own directories that the path leads into, once `at`
    /// is inside it.
    fn own_of(&self, at: &Path, ahead: &VecDeque<OsString>) -> Option<PathBuf> {
        let mut whole = at.to_owned();
        whole.extend(ahead);
        let over = |path: &&PathBuf| whole.starts_with(path);
        let deep = |path: &&PathBuf| path.components().count();
        let own = self.own.iter().filter(over).max_by_key(deep)?;
        let bound = self.bound.iter().filter(over).any(|bound| bound.starts_with(own));
        (at.starts_with(own) && !bound).then(|| own.clone())
    }

    /// Returns `true` if a path into one of the session's own directories leads out of it through a
    /// link.
    fn leads_out(&self, own: &Path, path: &Path, follow: Follow) -> bool {
        let last = match follow {
            Follow::Yes => OFlags::empty(),
            Follow::No => OFlags::NOFOLLOW,
        };
        let open = |path: &Path, flags: OFlags| {
            rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty()).ok()
        };
        // A file that does not exist yet counts as being where its directory is.
        let above = || path.parent().and_then(|above| open(above, OFlags::empty()));
        let Some(there) = open(path, last).or_else(above) else { return false };
        let shown = format!("/proc/self/fd/{}", there.as_raw_fd());
        let real = std::fs::read_link(shown).unwrap_or_default();
        real.is_absolute() && self.own_of(&real, &VecDeque::new()).as_deref() != Some(own)
    }

    /// Records what the kernel runs besides the program itself: a script's interpreter, the dynamic
    /// loader.
    fn interpreters(&mut self, program: &Path) {
        let mut program = program.to_owned();
        for _ in 0..MOST_INTERPRETERS {
            let Some(next) = interpreter(&program) else { return };
            if !next.is_absolute() || !self.is_new(Right::Execute, &next) {
                return;
            }
            match self.walk(Right::Execute, &next, Follow::Yes) {
                Some((found, TargetKind::File)) => program = found,
                Some(_) | None => return,
            }
        }
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

fn look(path: &Path) -> TargetKind {
    match rustix::fs::lstat(path) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => TargetKind::Directory,
            FileType::Symlink => TargetKind::Link,
            FileType::RegularFile
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => TargetKind::File,
        },
        Err(Errno::NOENT | Errno::NOTDIR) => TargetKind::Missing,
        Err(_) => TargetKind::File,
    }
}

/// Returns the interpreter of a script, or the dynamic loader of an ELF program.
fn interpreter(program: &Path) -> Option<PathBuf> {
    let file = File::open(program).ok()?;
    let mut head = Vec::with_capacity(256);
    (&file).take(256).read_to_end(&mut head).ok()?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next()?;
        let mut words = line.split(|byte| *byte == b' ' || *byte == b'\t');
        let name = words.find(|word| !word.is_empty())?;
        return Some(Raw(name.to_vec()).as_path().to_owned());
    }
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |bytes: &[u8], at: usize, size: usize| -> Option<u64> {
        let bytes = bytes.get(at..at + size)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let (table, size) = (number(&head, 32, 8)?, number(&head, 54, 2)?);
    for index in 0..number(&head, 56, 2)?.min(64) {
        let mut entry = [0; 56];
        file.read_exact_at(&mut entry, table.checked_add(index * size)?).ok()?;
        // PT_INTERP
        if number(&entry, 0, 4)? == 3 {
            let (at, length) = (number(&entry, 8, 8)?, number(&entry, 32, 8)?);
            let mut name = vec![0; usize::try_from(length).ok()?.min(256)];
            file.read_exact_at(&mut name, at).ok()?;
            let end = name.iter().position(|byte| *byte == 0)?;
            name.truncate(end);
            return Some(Raw(name).as_path().to_owned());
        }
    }
    None
}

/// Returns how many processes there are now, without this one.
fn processes() -> u64 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let is_process = |name: &[u8]| name.iter().all(u8::is_ascii_digit);
    let count = entries.flatten().filter(|entry| is_process(entry.file_name().as_bytes())).count();
    u64::try_from(count.saturating_sub(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(notes: Notes) -> Vec<(Right, String, TargetKind)> {
        let show =
            |note: RecordedUse| (note.right, note.path.as_path().display().to_string(), note.kind);
        notes.finish().noted.into_iter().map(show).collect()
    }

    #[test]
    fn links_on_the_way_are_noted_by_themselves_and_what_is_own_by_its_top() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("real/sub")).unwrap();
        std::fs::write(top.join("real/sub/file"), "x").unwrap();
        std::os::unix::fs::symlink("real", top.join("link")).unwrap();
        std::os::unix::fs::symlink("file", top.join("real/sub/other")).unwrap();
        let name = |rest: &str| top.join(rest).display().to_string();
        let mut notes = Notes::new(&[], &[]);
        notes.used(Right::Read, &top.join("link/sub/../sub/other"), Follow::Yes);
        notes.used(Right::Read, &top.join("link/sub/../sub/other"), Follow::Yes);
        notes.used(Right::Look, &top.join("real/sub/other"), Follow::No);
        notes.used(Right::Look, &top.join("real/none/x"), Follow::Yes);
        notes.used(Right::Read, Path::new("/proc/self/maps"), Follow::Yes);
        assert_eq!(
            noted(notes),
            [
                (Right::Look, name("link"), TargetKind::Link),
                (Right::Look, name("real/none/x"), TargetKind::Missing),
                (Right::Look, name("real/sub/other"), TargetKind::Link),
                (Right::Read, name("real/sub/file"), TargetKind::File),
            ]
        );
        let mut notes = Notes::new(&[Raw::from(top.join("real"))], &[]);
        notes.used(Right::Write, &top.join("link/sub/new"), Follow::Yes);
        assert_eq!(
            noted(notes),
            [
                (Right::Look, name("link"), TargetKind::Link),
                (Right::Write, name("real"), TargetKind::Directory),
            ]
        );
        // A workspace inside a directory that is otherwise private.
        let mut notes = Notes::new(
            &[Raw::from(&top), Raw::from(top.join("real"))],
            &[Raw::from(top.join("link"))],
        );
        notes.used(Right::Write, &top.join("real/new"), Follow::Yes);
        notes.used(Right::Write, &top.join("other"), Follow::Yes);
        notes.used(Right::Look, &top.join("link"), Follow::No);
        assert_eq!(
            noted(notes),
            [
                (Right::Look, name("link"), TargetKind::Link),
                (Right::Write, name("").trim_end_matches('/').to_owned(), TargetKind::Directory),
                (Right::Write, name("real"), TargetKind::Directory),
            ]
        );
    }

    #[test]
    fn a_link_out_of_what_is_own_is_followed_and_a_script_in_it_needs_its_interpreter() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("own/sub")).unwrap();
        std::fs::create_dir(top.join("out")).unwrap();
        std::fs::write(top.join("out/file"), "x").unwrap();
        for (target, link) in [("../out", "own/away"), ("sub", "own/within")] {
            std::os::unix::fs::symlink(target, top.join(link)).unwrap();
        }
        let name = |rest: &str| top.join(rest).display().to_string();
        let own = || Notes::new(&[Raw::from(top.join("own"))], &[]);
        let mut notes = own();
        notes.used(Right::Read, &top.join("own/within/none"), Follow::Yes);
        notes.used(Right::Look, &top.join("own/away"), Follow::No);
        assert_eq!(
            noted(notes),
            [
                (Right::Look, name("own"), TargetKind::Directory),
                (Right::Read, name("own"), TargetKind::Directory),
                (Right::Read, name("own/within/none"), TargetKind::Missing),
            ]
        );
        let mut notes = own();
        notes.used(Right::Read, &top.join("own/away/file"), Follow::Yes);
        notes.used(Right::Write, &top.join("own/away/new"), Follow::Yes);
        assert_eq!(
            noted(notes),
            [
                (Right::Look, name("own"), TargetKind::Directory),
                (Right::Look, name("own/away"), TargetKind::Link),
                (Right::Read, name("out/file"), TargetKind::File),
                (Right::Write, name("out/new"), TargetKind::Missing),
            ]
        );
        std::fs::write(top.join("own/script"), "#!/bin/sh\n").unwrap();
        let mut notes = own();
        notes.executed(&top.join("own/script"));
        let executed: Vec<_> =
            noted(notes).into_iter().filter(|(right, ..)| *right == Right::Execute).collect();
        assert_eq!(executed.len(), 3, "the directory, the shell, its loader: {executed:?}");
        assert!(executed.contains(&(Right::Execute, name("own"), TargetKind::Directory)));
    }

    #[test]
    fn a_script_needs_its_interpreter_and_that_its_loader() {
        let top = tempfile::tempdir().unwrap();
        let script = top.path().canonicalize().unwrap().join("script");
        std::fs::write(&script, "#! /bin/sh -e\n").unwrap();
        assert_eq!(interpreter(&script), Some("/bin/sh".into()));
        let shell = interpreter(Path::new("/bin/sh")).unwrap();
        assert!(shell.starts_with("/lib64") || shell.starts_with("/lib"), "{shell:?}");
        let mut notes = Notes::new(&[], &[]);
        notes.executed(&script);
        let executed = noted(notes).into_iter().filter(|(right, ..)| *right == Right::Execute);
        assert_eq!(executed.count(), 3);
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let mut notes = Notes::new(&[], &[]);
        for number in 0..MOST_NOTED + 3 {
            notes.addressed(Right::Connect, number.to_string());
        }
        let recorded = notes.finish();
        assert_eq!((recorded.noted.len(), recorded.lost), (MOST_NOTED, 3));
    }
}
