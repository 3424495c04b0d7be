//! Attempts of `probe` to exhaust resources, and to outlive the end of a call.

use crate::{Answer, check, io, last, parse};
use std::{
    hint::black_box,
    io::Write as _,
    net::{TcpListener, TcpStream, UdpSocket},
    os::fd::FromRawFd as _,
    time::Duration,
};

pub(crate) fn attempt(words: &[String]) -> Option<Answer> {
    let word = |n: usize| words.get(n).map_or("", String::as_str);
    let number = |n: usize| parse(word(n));
    Some(match word(0) {
        "deaf" => deaf(),
        "chain" => chain(),
        "orphans" => orphans(number(1)),
        "mlock" => mlock(number(1)),
        "memfd" => memfd(number(1), number(2)),
        "tcp_buffers" => io(tcp_buffers(number(1))),
        "udp_buffers" => io(udp_buffers(number(1))),
        "stack" => {
            black_box(descend(black_box(1)));
            Ok(())
        }
        "inodes" => io((0..number(2))
            .try_for_each(|n| std::fs::File::create(format!("{}/inode-{n}", word(1))).map(drop))),
        _ => return None,
    })
}

/// Fills the buffers of this many TCP connections to itself, which nobody reads.
fn tcp_buffers(count: libc::c_long) -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (piece, mut open) = (vec![0; 1 << 16], Vec::new());
    for _ in 0..count {
        let mut stream = TcpStream::connect(listener.local_addr()?)?;
        stream.set_nonblocking(true)?;
        while stream.write(&piece).is_ok() {}
        open.push((stream, listener.accept()?));
    }
    Ok(())
}

/// Fills the buffers of this many UDP sockets, which nobody reads.
fn udp_buffers(count: libc::c_long) -> std::io::Result<()> {
    let (piece, mut open) = (vec![0; 1 << 13], Vec::new());
    for _ in 0..count {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        // The kernel cuts it to what it allows.
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 1 << 30)?;
        socket.set_nonblocking(true)?;
        let own = socket.local_addr()?;
        // What does not fit is dropped without an error.
        for _ in 0..100 {
            if socket.send_to(&piece, own).is_err() {
                break;
            }
        }
        open.push(socket);
    }
    Ok(())
}

/// Blocks every signal that can be blocked, and stays.
fn deaf() -> Answer {
    // SAFETY: all-zero is a value of this plain structure.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set lives through the call.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: the set lives through the call; the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) };
    std::thread::sleep(Duration::from_secs(1000));
    Ok(())
}

/// Forks, ends, and continues in the child, without end, so that the process id always changes.
fn chain() -> Answer {
    loop {
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            0 => {}
            pid if pid < 0 => std::thread::sleep(Duration::from_millis(1)),
            // SAFETY: ends without running any code of the parent.
            _ => unsafe { libc::_exit(0) },
        }
    }
}

/// Creates this many processes whose parent ends first. Waits if the limit is reached for the
/// moment.
fn orphans(count: libc::c_long) -> Answer {
    for _ in 0..count {
        let mut tries = 0;
        let child = loop {
            // SAFETY: this process has one thread.
            match unsafe { libc::fork() } {
                pid if pid >= 0 => break pid,
                _ if tries == 10_000 => return Err(last()),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
            tries += 1;
        };
        if child == 0 {
            // SAFETY: this process has one thread.
            unsafe { libc::fork() };
            // SAFETY: both end without running any code of the parent.
            unsafe { libc::_exit(0) }
        }
        let mut status = 0;
        // SAFETY: `status` is an int.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
    }
    Ok(())
}

fn mlock(kilobytes: libc::c_long) -> Answer {
    let held = vec![1u8; (kilobytes as usize) << 10];
    // SAFETY: the bytes are live.
    check(unsafe { libc::mlock(held.as_ptr().cast(), held.len()) }.into())
}

/// Creates this many files in memory, of this many megabytes each.
fn memfd(count: libc::c_long, megabytes: libc::c_long) -> Answer {
    // SAFETY: SIG_IGN is not a pointer.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let mut held = Vec::new();
    for _ in 0..count {
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"probe".as_ptr(), 0) };
        check(fd.into())?;
        // SAFETY: the descriptor was just created and nothing else owns it.
        let mut file = unsafe { std::fs::File::from_raw_fd(fd) };
        io((0..megabytes).try_for_each(|_| file.write_all(&[1; 1 << 20])))?;
        held.push(file);
    }
    Ok(())
}

/// Calls itself until the stack is exhausted.
fn descend(depth: u64) -> u64 {
    let room = black_box([depth; 512]);
    if depth == u64::MAX { 0 } else { descend(depth + 1) + room[(depth % 512) as usize] }
}
