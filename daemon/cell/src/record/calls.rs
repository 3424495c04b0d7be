//! Lists the system calls that are recorded, and where their paths are. Runs in the cell.

use palisade_plan::{Instruction, record::Right};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The place of a system call's path or address.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// A path in an argument.
    Path {
        right: PathUse,
        /// The argument with the directory that the path starts from; `None` for the current one.
        directory: Option<usize>,
        path: usize,
        follow: FollowRule,
    },
    /// An address in the second argument.
    Address { right: Right },
    /// A process in the second argument, if the first one asks to trace it.
    Process,
}

/// The use that a call makes of its path.
#[derive(Debug, Clone, Copy)]
pub(super) enum PathUse {
    /// Always with this right.
    Right(Right),
    /// By the `open` flags in this argument.
    Flags(usize),
    /// By the `open` flags in memory, at the address in this argument.
    FlagsAt(usize),
    /// A new directory. What exists already is not made, and only looked at.
    Directory,
}

/// The treatment of a symbolic link at the end of a path: followed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    Yes,
    No,
}

/// The rule by which a call follows a final symbolic link.
#[derive(Debug, Clone, Copy)]
pub(super) enum FollowRule {
    Always,
    Never,
    /// Followed unless this argument has `AT_SYMLINK_NOFOLLOW`.
    Unless(usize),
}

impl FollowRule {
    pub(super) fn of(self, arguments: [u64; 6]) -> Follow {
        let nofollow = u64::from(libc::AT_SYMLINK_NOFOLLOW.unsigned_abs());
        match self {
            Self::Always => Follow::Yes,
            Self::Never => Follow::No,
            Self::Unless(place) => match arguments.get(place) {
                Some(flags) if flags & nofollow != 0 => Follow::No,
                Some(_) | None => Follow::Yes,
            },
        }
    }
}

/// Returns the right that a set of `open` flags stands for.
pub(super) fn opened(flags: u64) -> Right {
    let has = |flag: i32| flags & u64::from(flag.unsigned_abs()) != 0;
    if has(libc::O_PATH) {
        Right::Look
    } else if has(libc::O_WRONLY) || has(libc::O_RDWR) || has(libc::O_CREAT) || has(libc::O_TRUNC) {
        Right::Write
    } else {
        Right::Read
    }
}

const fn at(right: PathUse, directory: usize, path: usize, follow: FollowRule) -> Shape {
    Shape::Path { right, directory: Some(directory), path, follow }
}

const fn here(right: PathUse, path: usize, follow: FollowRule) -> Shape {
    Shape::Path { right, directory: None, path, follow }
}

const LOOK: PathUse = PathUse::Right(Right::Look);
const READ: PathUse = PathUse::Right(Right::Read);
const WRITE: PathUse = PathUse::Right(Right::Write);
const EXECUTE: PathUse = PathUse::Right(Right::Execute);

use FollowRule::{Always, Never, Unless};

/// The recorded calls. All are recorded whatever their arguments, except the three that `program`
/// examines further.
const CALLS: &[(i64, &[Shape])] = &[
    (libc::SYS_open, &[here(PathUse::Flags(1), 0, Always)]),
    (libc::SYS_openat, &[at(PathUse::Flags(2), 0, 1, Always)]),
    (libc::SYS_openat2, &[at(PathUse::FlagsAt(2), 0, 1, Always)]),
    (libc::SYS_creat, &[here(WRITE, 0, Always)]),
    (libc::SYS_stat, &[here(LOOK, 0, Always)]),
    (libc::SYS_lstat, &[here(LOOK, 0, Never)]),
    (libc::SYS_access, &[here(LOOK, 0, Always)]),
    (libc::SYS_faccessat, &[at(LOOK, 0, 1, Always)]),
    (libc::SYS_faccessat2, &[at(LOOK, 0, 1, Unless(3))]),
    (libc::SYS_readlink, &[here(LOOK, 0, Never)]),
    (libc::SYS_readlinkat, &[at(LOOK, 0, 1, Never)]),
    (libc::SYS_statfs, &[here(LOOK, 0, Always)]),
    (libc::SYS_chdir, &[here(LOOK, 0, Always)]),
    (libc::SYS_inotify_add_watch, &[here(READ, 1, Always)]),
    (libc::SYS_mkdir, &[here(PathUse::Directory, 0, Never)]),
    (libc::SYS_mkdirat, &[at(PathUse::Directory, 0, 1, Never)]),
    (libc::SYS_mknod, &[here(WRITE, 0, Never)]),
    (libc::SYS_mknodat, &[at(WRITE, 0, 1, Never)]),
    (libc::SYS_rmdir, &[here(WRITE, 0, Never)]),
    (libc::SYS_unlink, &[here(WRITE, 0, Never)]),
    (libc::SYS_unlinkat, &[at(WRITE, 0, 1, Never)]),
    (libc::SYS_rename, &[here(WRITE, 0, Never), here(WRITE, 1, Never)]),
    (libc::SYS_renameat, &[at(WRITE, 0, 1, Never), at(WRITE, 2, 3, Never)]),
    (libc::SYS_renameat2, &[at(WRITE, 0, 1, Never), at(WRITE, 2, 3, Never)]),
    (libc::SYS_link, &[here(WRITE, 0, Never), here(WRITE, 1, Never)]),
    (libc::SYS_linkat, &[at(WRITE, 0, 1, Never), at(WRITE, 2, 3, Never)]),
    (libc::SYS_symlink, &[here(WRITE, 1, Never)]),
    (libc::SYS_symlinkat, &[at(WRITE, 1, 2, Never)]),
    (libc::SYS_truncate, &[here(WRITE, 0, Always)]),
    (libc::SYS_chmod, &[here(WRITE, 0, Always)]),
    (libc::SYS_fchmodat, &[at(WRITE, 0, 1, Always)]),
    (libc::SYS_fchmodat2, &[at(WRITE, 0, 1, Unless(3))]),
    (libc::SYS_chown, &[here(WRITE, 0, Always)]),
    (libc::SYS_lchown, &[here(WRITE, 0, Never)]),
    (libc::SYS_fchownat, &[at(WRITE, 0, 1, Unless(4))]),
    (libc::SYS_utimensat, &[at(WRITE, 0, 1, Unless(3))]),
    (libc::SYS_execveat, &[at(EXECUTE, 0, 1, Unless(4))]),
    (libc::SYS_connect, &[Shape::Address { right: Right::Connect }]),
    (libc::SYS_bind, &[Shape::Address { right: Right::Bind }]),
    (libc::SYS_ptrace, &[Shape::Process]),
    (libc::SYS_execve, &[here(EXECUTE, 0, Always)]),
    (libc::SYS_newfstatat, &[at(LOOK, 0, 1, Unless(3))]),
    (libc::SYS_statx, &[at(LOOK, 0, 1, Unless(2))]),
];

/// Returns where a call has its paths and addresses; empty for a call that is not recorded.
pub(super) fn shapes(number: i32) -> &'static [Shape] {
    let found = CALLS.iter().find(|(known, _)| *known == i64::from(number));
    found.map_or(&[], |(_, shapes)| shapes)
}

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const NOTIFY: u32 = 0x7fc0_0000;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;
const X86_64: u32 = 0xc000_003e;
const EMPTY_PATH: u32 = 0x1000;

/// Builds the filter that notifies the runner. It denies nothing: the other filter does that. `own`
/// is the address of the environment in the runner's own `execve`. That call must not notify,
/// because the runner is waiting for the child. Calls on a descriptor by number have no path and do
/// not notify either.
pub(super) fn program(own: u64) -> Vec<Instruction> {
    let (low, high) = ((own & u64::from(u32::MAX)) as u32, (own >> 32) as u32);
    let special =
        |number: i64| [libc::SYS_execve, libc::SYS_newfstatat, libc::SYS_statx].contains(&number);
    let is = |code, k, jt, jf| Instruction { code, jt, jf, k };
    let load = |k| is(LOAD, k, 0, 0);
    let part = |argument: u32, half: u32| load(ARGUMENTS + 8 * argument + 4 * half);
    let number = |number: i64| number as u32;
    // The last part is built first, because jumps are counted to its two ends.
    let tail = vec![
        is(JUMP_EQUAL, number(libc::SYS_execve), 0, 4),
        part(2, 0),
        is(JUMP_EQUAL, low, 0, 9),
        part(2, 1),
        is(JUMP_EQUAL, high, 6, 7),
        is(JUMP_EQUAL, number(libc::SYS_newfstatat), 0, 2),
        part(3, 0),
        is(JUMP_SET, EMPTY_PATH, 3, 4),
        is(JUMP_EQUAL, number(libc::SYS_statx), 0, 2),
        part(2, 0),
        is(JUMP_SET, EMPTY_PATH, 0, 1),
        is(RETURN, ALLOW, 0, 0),
        is(RETURN, NOTIFY, 0, 0),
    ];
    let plain: Vec<i64> = CALLS.iter().map(|(n, _)| *n).filter(|n| !special(*n)).collect();
    let count = plain.len();
    let far = |places: usize| u8::try_from(places).unwrap_or(u8::MAX);
    let mut code = vec![
        load(ARCH),
        // Another architecture's numbers mean something else. The other filter kills such a
        // process.
        is(JUMP_EQUAL, X86_64, 0, far(1 + count + tail.len() - 2)),
        load(0),
    ];
    for (place, call) in plain.into_iter().enumerate() {
        let left = count - place - 1;
        code.push(is(JUMP_EQUAL, number(call), far(left + tail.len() - 1), 0));
    }
    code.extend(tail);
    code
}

/// Returns `true` if a request of `ptrace` attaches to another process.
pub(super) fn attaches(request: u64) -> bool {
    [libc::PTRACE_ATTACH, libc::PTRACE_SEIZE].map(u64::from).contains(&request)
}

/// Formats a socket address; `None` if its family reaches no other process.
pub(super) fn address(bytes: &[u8]) -> Option<String> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = || Some(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?));
    match i32::from(family) {
        libc::AF_INET => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(format!("{}:{}", Ipv4Addr::from(octets), port()?))
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(format!("[{}]:{}", Ipv6Addr::from(octets), port()?))
        }
        libc::AF_UNIX => {
            let name = bytes.get(2..)?;
            let (sign, name) = match name {
                [0, rest @ ..] => ("@", rest),
                _ => ("", name),
            };
            let name = name.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
            Some(format!("unix:{sign}{}", String::from_utf8_lossy(name)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the kernel would decide for this call.
    fn run(code: &[Instruction], number: u32, arguments: [u64; 6]) -> u32 {
        let field = |offset: u32| match offset {
            0 => number,
            4 => X86_64,
            offset => {
                let place = (offset - ARGUMENTS) as usize;
                (arguments[place / 8] >> (8 * (place % 8))) as u32
            }
        };
        let (mut at, mut value) = (0, 0);
        loop {
            let i = code[at];
            at += 1;
            match i.code {
                LOAD => value = field(i.k),
                JUMP_EQUAL => at += usize::from(if value == i.k { i.jt } else { i.jf }),
                JUMP_SET => at += usize::from(if value & i.k != 0 { i.jt } else { i.jf }),
                RETURN => return i.k,
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn every_call_of_the_table_is_told_and_no_other() {
        let code = program(0x1234_5678_9abc_def0);
        for number in 0..500u32 {
            let known = !shapes(number as i32).is_empty();
            let expected = if known { NOTIFY } else { ALLOW };
            assert_eq!(run(&code, number, [0; 6]), expected, "{number}");
        }
    }

    #[test]
    fn the_runners_own_execution_and_descriptors_are_not_told() {
        let own = 0x1234_5678_9abc_def0;
        let code = program(own);
        let execve = libc::SYS_execve as u32;
        assert_eq!(run(&code, execve, [1, 2, own, 0, 0, 0]), ALLOW);
        assert_eq!(run(&code, execve, [1, 2, own + 1, 0, 0, 0]), NOTIFY);
        assert_eq!(run(&code, execve, [1, 2, own + (1 << 32), 0, 0, 0]), NOTIFY);
        let empty = u64::from(EMPTY_PATH);
        let (fstatat, statx) = (libc::SYS_newfstatat as u32, libc::SYS_statx as u32);
        assert_eq!(run(&code, fstatat, [3, 0, 0, empty, 0, 0]), ALLOW);
        assert_eq!(run(&code, fstatat, [3, 0, 0, 0x100, 0, 0]), NOTIFY);
        assert_eq!(run(&code, statx, [3, 0, empty, 0, 0, 0]), ALLOW);
        assert_eq!(run(&code, statx, [3, 0, 0, 0, 0, 0]), NOTIFY);
    }

    #[test]
    fn addresses_are_told_in_words() {
        let mut four = 2u16.to_ne_bytes().to_vec();
        four.extend([0x01, 0xbb, 1, 1, 1, 1]);
        assert_eq!(address(&four).as_deref(), Some("1.1.1.1:443"));
        let mut unix = 1u16.to_ne_bytes().to_vec();
        unix.extend(b"/run/x\0");
        assert_eq!(address(&unix).as_deref(), Some("unix:/run/x"));
        assert_eq!(address(&16u16.to_ne_bytes()), None);
        assert_eq!(address(&[]), None);
    }
}
