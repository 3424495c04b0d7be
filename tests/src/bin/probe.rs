//! Makes one attempt per argument, each in a child process, and prints the kernel's answer:
//! `attempt=ok`, `attempt=EPERM`, `attempt=SIGSYS`. It does not judge the answers: the tests do.
//!
//! An attempt is words joined by `:`. `sys:NAME:ARG…` is a system call by name; an argument is a
//! number, `@text` (a C string), `buf` (4096 zero bytes), or `self` (this process's id). The others
//! are listed in `try_it` and in `probe/`.
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    io::{Read as _, Write as _},
    os::{fd::FromRawFd as _, unix::ffi::OsStrExt as _},
    time::Duration,
};

#[path = "probe/tricks.rs"]
mod tricks;

#[path = "probe/bombs.rs"]
mod bombs;
#[path = "probe/domains.rs"]
mod domains;
#[path = "probe/peers.rs"]
mod peers;

type Answer = Result<(), i32>;

fn main() {
    for attempt in std::env::args_os().skip(1) {
        let words: Vec<String> =
            String::from_utf8_lossy(attempt.as_bytes()).split(':').map(str::to_owned).collect();
        let answer = in_child(|| try_it(&words));
        println!("{}={answer}", attempt.to_string_lossy());
    }
}

/// Makes an attempt in a child process, so that irreversible effects end with it.
fn in_child(act: impl FnOnce() -> Answer) -> String {
    let mut pipe = [0; 2];
    // SAFETY: `pipe` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    std::io::stdout().flush().expect("flush");
    // SAFETY: this process has one thread.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let number = match act() {
            Ok(()) => 0i32,
            Err(errno) => errno,
        };
        // SAFETY: four bytes from a live value.
        unsafe { libc::write(pipe[1], (&raw const number).cast(), 4) };
        // SAFETY: the child ends.
        unsafe { libc::_exit(0) }
    }
    if pid < 0 {
        return format!("fork-{}", name(last()));
    }
    // SAFETY: the write end is not used here any more.
    unsafe { libc::close(pipe[1]) };
    // SAFETY: nobody else owns the read end.
    let mut reader = unsafe { std::fs::File::from_raw_fd(pipe[0]) };
    let mut told = [0; 4];
    let heard = reader.read_exact(&mut told).is_ok();
    let mut status = 0;
    // SAFETY: `status` is an int.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if libc::WIFSIGNALED(status) {
        return format!("SIG{}", signal(libc::WTERMSIG(status)));
    }
    match i32::from_ne_bytes(told) {
        _ if !heard => "silent".to_owned(),
        0 => "ok".to_owned(),
        errno => name(errno),
    }
}

fn signal(number: i32) -> String {
    match number {
        libc::SIGSYS => "SYS".to_owned(),
        libc::SIGKILL => "KILL".to_owned(),
        libc::SIGSEGV => "SEGV".to_owned(),
        other => other.to_string(),
    }
}

fn name(errno: i32) -> String {
    // The error's message ("Operation not permitted (os error 1)") is not a name; these are the
    // names that tests expect.
    let known = [
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::ESRCH, "ESRCH"),
        (libc::EACCES, "EACCES"),
        (libc::EEXIST, "EEXIST"),
        (libc::EXDEV, "EXDEV"),
        (libc::EINVAL, "EINVAL"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EROFS, "EROFS"),
        (libc::ENOTSUP, "ENOTSUP"),
        (libc::ECONNREFUSED, "ECONNREFUSED"),
        (libc::EADDRINUSE, "EADDRINUSE"),
        (libc::ENETUNREACH, "ENETUNREACH"),
        (libc::EHOSTUNREACH, "EHOSTUNREACH"),
        (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
        (libc::ETIMEDOUT, "ETIMEDOUT"),
        (libc::EBADF, "EBADF"),
        (libc::EFAULT, "EFAULT"),
        (libc::ENXIO, "ENXIO"),
        (libc::EOVERFLOW, "EOVERFLOW"),
        (libc::ELOOP, "ELOOP"),
        (libc::ENOTTY, "ENOTTY"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::EFBIG, "EFBIG"),
        (libc::EMFILE, "EMFILE"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EISDIR, "EISDIR"),
        (libc::ENOSPC, "ENOSPC"),
        (libc::EBUSY, "EBUSY"),
        (libc::E2BIG, "E2BIG"),
        (libc::ECHILD, "ECHILD"),
        (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
        (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
        (libc::ENOTCONN, "ENOTCONN"),
        (libc::EDESTADDRREQ, "EDESTADDRREQ"),
        (libc::EIO, "EIO"),
        (libc::ENOTEMPTY, "ENOTEMPTY"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == errno)
        .map_or_else(|| format!("errno-{errno}"), |(_, name)| (*name).to_owned())
}

fn last() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn check(result: libc::c_long) -> Answer {
    if result < 0 { Err(last()) } else { Ok(()) }
}

fn io<T>(result: std::io::Result<T>) -> Answer {
    result.map(drop).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

fn try_it(words: &[String]) -> Answer {
    let word = |n: usize| words.get(n).map_or("", String::as_str);
    let number = |n: usize| parse(word(n));
    match word(0) {
        "sys" => {
            let Some(number) = syscall_number(word(1)) else { return Err(9999) };
            raw(number, &words[2..])
        }
        // x32: the same number with the bit that the seccomp filter must check.
        "x32" => {
            let Some(number) = syscall_number(word(1)) else { return Err(9999) };
            raw(number | 0x4000_0000, &words[2..])
        }
        "int80" => int80(number(1)),
        "read" => io(std::fs::read(word(1))),
        "list" => io(std::fs::read_dir(word(1))),
        "stat" => io(std::fs::symlink_metadata(word(1))),
        "write" => io(std::fs::write(word(1), "written by probe\n")),
        "append" => io(std::fs::OpenOptions::new().append(true).open(word(1))),
        "remove" => io(std::fs::remove_file(word(1))),
        "mkdir" => io(std::fs::create_dir(word(1))),
        "rename" => io(std::fs::rename(word(1), word(2))),
        "link" => io(std::fs::hard_link(word(1), word(2))),
        "symlink" => io(std::os::unix::fs::symlink(word(1), word(2))),
        "chmod" => chmod(word(1), number(2)),
        "chown" => io(std::os::unix::fs::chown(word(1), Some(0), Some(0))),
        "exec" => Err(exec(&words[1..])),
        "tcp" => tcp(word(1), number(2)),
        "udp" => udp(word(1), number(2)),
        "unix" => io(std::os::unix::net::UnixStream::connect(word(1))),
        "unixgram" => unixgram(word(1)),
        "abstract" => connect_abstract(word(1)),
        "socket" => check(
            // SAFETY: socket touches no memory.
            unsafe { libc::socket(number(1) as i32, number(2) as i32, number(3) as i32) }.into(),
        ),
        // SAFETY: kill touches no memory.
        "kill" => check(unsafe { libc::kill(number(1) as i32, number(2) as i32) }.into()),
        "loopback" => loopback(),
        "ioctl" => ioctl(word(1), number(2)),
        "env" => {
            if std::env::var_os(word(1)).is_some() {
                Ok(())
            } else {
                Err(libc::ENOENT)
            }
        }
        "threads" => threads(number(1)),
        "memory" => memory(number(1)),
        "forks" => forks(number(1)),
        "files" => files(number(1)),
        "descriptors" => descriptors(number(1)),
        "truncate" => io(std::fs::OpenOptions::new().write(true).truncate(true).open(word(1))),
        "tmpfile_link" => tmpfile_link(word(1), word(2)),
        "traceme" => check(
            // SAFETY: PTRACE_TRACEME takes no memory.
            unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) },
        ),
        "umask" => umask(number(1)),
        "memfd_exec" => memfd_exec(word(1)),
        "fastopen" => fastopen(number(1)),
        // SAFETY: getuid touches no memory.
        "uid" => yes(libc::c_long::from(unsafe { libc::getuid() }) == number(1)),
        // Checks that every capability set is empty.
        "no_capabilities" => status(&["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]),
        "no_groups" => status(&["Groups"]),
        "own" => own(word(1)),
        // SAFETY: getsid touches no memory. The leader of a session has its own id.
        "session" => yes(unsafe { libc::getsid(0) } == unsafe { libc::getppid() }),
        "hostname" => yes(std::fs::read_to_string("/proc/sys/kernel/hostname")
            .is_ok_and(|name| name.trim() == word(1))),
        "shm" => shm(number(1)),
        "line" => line(word(1), word(2)),
        "watch" => watch(word(1)),
        "filecap" => filecap(word(1)),
        _ => (peers::attempt(words).or_else(|| bombs::attempt(words)))
            .or_else(|| domains::attempt(words))
            .unwrap_or_else(|| tricks::try_it(words)),
    }
}

fn parse(word: &str) -> libc::c_long {
    if word == "self" {
        return std::process::id().into();
    }
    let (negative, digits) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
    let value = digits
        .strip_prefix("0x")
        .map_or_else(|| digits.parse::<u64>(), |hex| u64::from_str_radix(hex, 16))
        .unwrap_or(0)
        .cast_signed();
    if negative { -value } else { value }
}

/// Makes a system call with up to six arguments.
fn raw(number: libc::c_long, words: &[String]) -> Answer {
    let mut buffer = vec![0u8; 4096];
    let strings: Vec<Option<CString>> = words
        .iter()
        .map(|word| word.strip_prefix('@').and_then(|text| CString::new(text).ok()))
        .collect();
    let mut arguments = [0; 6];
    for ((slot, word), string) in arguments.iter_mut().zip(words).zip(&strings) {
        *slot = match string {
            Some(string) => string.as_ptr() as libc::c_long,
            None if word == "buf" => buffer.as_mut_ptr() as libc::c_long,
            None => parse(word),
        };
    }
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: pointers are to live strings or to 4096 writable bytes; the child ends right after.
    check(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}

#[cfg(target_arch = "x86_64")]
fn int80(number: libc::c_long) -> Answer {
    let result: libc::c_long;
    // SAFETY: getpid and its like touch no memory; rbx is not used.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") number => result, options(nostack));
    }
    if result < 0 { Err((-result) as i32) } else { Ok(()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn int80(_number: libc::c_long) -> Answer {
    Err(libc::ENOSYS)
}

fn chmod(path: &str, mode: libc::c_long) -> Answer {
    let Ok(path) = CString::new(path) else { return Err(libc::EINVAL) };
    // SAFETY: `path` is a C string.
    check(unsafe { libc::chmod(path.as_ptr(), mode as libc::mode_t) }.into())
}

fn exec(words: &[String]) -> i32 {
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new(&words[0]);
    command.args(&words[1..]).exec().raw_os_error().unwrap_or(0)
}

fn tcp(host: &str, port: libc::c_long) -> Answer {
    let address = format!("{}:{port}", host.replace('_', ":"));
    let Ok(address) = address.parse() else { return Err(libc::EINVAL) };
    io(std::net::TcpStream::connect_timeout(&address, Duration::from_secs(3)))
}

fn udp(host: &str, port: libc::c_long) -> Answer {
    let socket = match std::net::UdpSocket::bind("0.0.0.0:0") {
        Ok(socket) => socket,
        Err(error) => return Err(error.raw_os_error().unwrap_or(libc::EIO)),
    };
    io(socket.send_to(b"probe", format!("{host}:{port}")))
}

fn unixgram(path: &str) -> Answer {
    io(std::os::unix::net::UnixDatagram::unbound()
        .and_then(|socket| socket.send_to(b"probe", path)))
}

fn connect_abstract(name: &str) -> Answer {
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name);
    io(address.and_then(|address| std::os::unix::net::UnixStream::connect_addr(&address)))
}

/// Connects to itself over the session's own loopback.
fn loopback() -> Answer {
    let listener = match std::net::TcpListener::bind("127.0.0.1:0") {
        Ok(listener) => listener,
        Err(error) => return Err(error.raw_os_error().unwrap_or(libc::EIO)),
    };
    io(listener.local_addr().and_then(std::net::TcpStream::connect).and_then(|_| listener.accept()))
}

fn ioctl(path: &str, command: libc::c_long) -> Answer {
    let file = match std::fs::OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) => return Err(error.raw_os_error().unwrap_or(libc::EIO)),
    };
    let byte = [0u8; 64];
    use std::os::fd::AsRawFd as _;
    // SAFETY: 64 bytes are enough for the commands that tests try (a byte, an int, a termios).
    check(unsafe { libc::syscall(libc::SYS_ioctl, file.as_raw_fd(), command, byte.as_ptr()) })
}

fn threads(count: libc::c_long) -> Answer {
    let mut running = Vec::new();
    for _ in 0..count {
        let thread = std::thread::Builder::new()
            .stack_size(16 * 1024)
            .spawn(|| std::thread::sleep(Duration::from_secs(30)));
        match thread {
            Ok(thread) => running.push(thread),
            Err(error) => return Err(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }
    Ok(())
}

/// Allocates and touches this many megabytes.
fn memory(megabytes: libc::c_long) -> Answer {
    let mut held = Vec::new();
    for _ in 0..megabytes {
        let mut block = Vec::new();
        if block.try_reserve_exact(1 << 20).is_err() {
            return Err(libc::ENOMEM);
        }
        block.resize(1 << 20, 1u8);
        held.push(std::hint::black_box(block));
    }
    Ok(())
}

fn forks(count: libc::c_long) -> Answer {
    for _ in 0..count {
        // SAFETY: this process has one thread; the child only sleeps.
        match unsafe { libc::fork() } {
            0 => {
                std::thread::sleep(Duration::from_secs(30));
                std::process::exit(0);
            }
            pid if pid < 0 => return Err(last()),
            _ => {}
        }
    }
    Ok(())
}

/// Writes a file of this many megabytes in the current directory.
fn files(megabytes: libc::c_long) -> Answer {
    // SAFETY: SIG_IGN is not a pointer. A write over the limit then fails instead of killing the
    // process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let file = std::fs::File::create("probe-file");
    let result =
        file.and_then(|mut file| (0..megabytes).try_for_each(|_| file.write_all(&[1; 1 << 20])));
    std::fs::remove_file("probe-file").unwrap_or_default();
    io(result)
}

fn descriptors(count: libc::c_long) -> Answer {
    let mut held = Vec::new();
    for _ in 0..count {
        match std::fs::File::open("/dev/null") {
            Ok(file) => held.push(file),
            Err(error) => return Err(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }
    Ok(())
}

/// Creates an unnamed file in a directory and links it to a name elsewhere.
fn tmpfile_link(directory: &str, target: &str) -> Answer {
    let (Ok(directory), Ok(target)) = (CString::new(directory), CString::new(target)) else {
        return Err(libc::EINVAL);
    };
    // SAFETY: C strings, and a mode as O_TMPFILE wants.
    let fd = unsafe { libc::open(directory.as_ptr(), libc::O_TMPFILE | libc::O_RDWR, 0o600) };
    check(fd.into())?;
    let Ok(link) = CString::new(format!("/proc/self/fd/{fd}")) else { return Err(libc::EINVAL) };
    // SAFETY: C strings.
    check(
        unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                link.as_ptr(),
                libc::AT_FDCWD,
                target.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        }
        .into(),
    )
}

/// Checks whether the umask is this one.
fn umask(expected: libc::c_long) -> Answer {
    // SAFETY: umask touches no memory.
    let found = unsafe { libc::umask(0) };
    if libc::c_long::from(found) == expected { Ok(()) } else { Err(libc::EINVAL) }
}

/// Copies a program into memory and executes it from there.
fn memfd_exec(program: &str) -> Answer {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"probe".as_ptr(), 0) };
    check(fd.into())?;
    // SAFETY: `fd` was just made.
    let mut file = unsafe { std::fs::File::from_raw_fd(fd) };
    let bytes = std::fs::read(program).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
    io(file.write_all(&bytes))?;
    let argv = [c"x".as_ptr().cast_mut(), std::ptr::null_mut()];
    let envp = &argv[1..];
    // SAFETY: null-terminated arrays of C strings, which execveat only reads.
    unsafe {
        libc::execveat(fd, c"".as_ptr(), argv.as_ptr(), envp.as_ptr(), libc::AT_EMPTY_PATH);
    }
    Err(last())
}

/// Connects by `sendto` with TCP Fast Open, which bypasses a filter on `connect`.
fn fastopen(port: libc::c_long) -> Answer {
    // SAFETY: socket touches no memory.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
    check(fd.into())?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: (port as u16).to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    // SAFETY: a byte of a literal, and an address of the size given.
    check(unsafe {
        libc::sendto(
            fd,
            b"x".as_ptr().cast(),
            1,
            libc::MSG_FASTOPEN,
            (&raw const address).cast(),
            size_of::<libc::sockaddr_in>() as u32,
        )
    } as libc::c_long)
}

fn yes(is: bool) -> Answer {
    if is { Ok(()) } else { Err(libc::EINVAL) }
}

/// Checks whether these lines of `/proc/self/status` contain nothing but zeroes.
fn status(keys: &[&str]) -> Answer {
    let text = std::fs::read_to_string("/proc/self/status")
        .map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    let empty = |key: &&str| {
        text.lines()
            .find_map(|line| line.strip_prefix(*key)?.strip_prefix(':'))
            .is_some_and(|value| value.trim().chars().all(|c| c == '0'))
    };
    yes(keys.iter().all(empty))
}

/// Checks whether this user owns a file of `/proc`.
fn own(path: &str) -> Answer {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(path).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
    // SAFETY: getuid touches no memory.
    yes(found.uid() == unsafe { libc::getuid() })
}

/// Checks whether a System V shared memory segment with this key exists.
fn shm(key: libc::c_long) -> Answer {
    // SAFETY: shmget touches no memory.
    check(unsafe { libc::shmget(key as libc::key_t, 1, 0) }.into())
}

/// Checks whether a file has a line with this text.
fn line(path: &str, text: &str) -> Answer {
    let found = std::fs::read_to_string(path).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
    yes(found.lines().any(|line| line.contains(text)))
}

/// Watches a file for changes.
fn watch(path: &str) -> Answer {
    let Ok(path) = CString::new(path) else { return Err(libc::EINVAL) };
    // SAFETY: inotify_init1 touches no memory.
    let fd = unsafe { libc::inotify_init1(0) };
    check(fd.into())?;
    // SAFETY: `path` is a C string.
    check(unsafe { libc::inotify_add_watch(fd, path.as_ptr(), libc::IN_ALL_EVENTS) }.into())
}

/// Gives a program CAP_NET_RAW, for whoever runs it.
fn filecap(path: &str) -> Answer {
    let Ok(path) = CString::new(path) else { return Err(libc::EINVAL) };
    // Revision 2: a header, then permitted and inheritable, low words first.
    let words: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];
    // SAFETY: C strings, and the 20 bytes of a live array.
    check(
        unsafe {
            libc::setxattr(
                path.as_ptr(),
                c"security.capability".as_ptr(),
                words.as_ptr().cast(),
                size_of_val(&words),
                0,
            )
        }
        .into(),
    )
}

macro_rules! numbers {
    ($name:expr; $($call:ident),* $(,)?) => {
        match $name { $(stringify!($call) => Some(libc::$call),)* _ => None }
    };
}

/// Returns the number of a system call, given by name without `SYS_` or by number.
fn syscall_number(name: &str) -> Option<libc::c_long> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let full = format!("SYS_{name}");
    numbers!(full.as_str();
        SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_mount, SYS_umount2, SYS_pivot_root,
        SYS_chroot, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount,
        SYS_fspick, SYS_mount_setattr, SYS_unshare, SYS_setns, SYS_clone, SYS_clone3,
        SYS_kexec_load, SYS_kexec_file_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
        SYS_reboot, SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_sethostname,
        SYS_setdomainname, SYS_syslog, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex,
        SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_vhangup, SYS_bpf, SYS_perf_event_open,
        SYS_lookup_dcookie, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_userfaultfd,
        SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise, SYS_process_mrelease,
        SYS_pidfd_open, SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_kcmp, SYS_get_robust_list,
        SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_fanotify_init,
        SYS_fanotify_mark, SYS_mknod, SYS_mknodat, SYS_ptrace, SYS_personality, SYS_prlimit64,
        SYS_setpriority, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
        SYS_sched_setaffinity, SYS_ioprio_set, SYS_migrate_pages, SYS_move_pages, SYS_prctl,
        SYS_seccomp, SYS_capset, SYS_setuid, SYS_setresuid, SYS_setgroups, SYS_setgid,
        SYS_setxattr, SYS_utimensat, SYS_fchmodat, SYS_chmod, SYS_chown, SYS_getpid, SYS_socket,
        SYS_socketpair, SYS_ioctl, SYS_shmget, SYS_msgget, SYS_semget, SYS_mq_open, SYS_mlock,
        SYS_inotify_add_watch, SYS_inotify_init1, SYS_access, SYS_openat, SYS_openat2, SYS_execveat,
        SYS_setsockopt, SYS_getrandom, SYS_memfd_create, SYS_landlock_create_ruleset, SYS_setsid,
        SYS_tgkill, SYS_rt_sigqueueinfo, SYS_truncate, SYS_creat, SYS_mkdir, SYS_uselib,
        SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_mq_unlink,
        SYS_ustat, SYS_sysfs, SYS_getpriority, SYS_sched_getscheduler, SYS_nfsservctl,
        SYS_clock_adjtime, SYS_setresgid, SYS_restart_syscall, SYS_umask,
        SYS_quotactl_fd, SYS_fcntl,
    )
}
