//! What it costs to find hidden names in a workspace of 100,000 files: at first, again, after a
//! change, and in a later session. Room: none; it is run by hand.
#![allow(clippy::expect_used, clippy::print_stdout, clippy::panic, reason = "a measurement")]

use palisade_cell::{View, files::serve};
use palisade_channel::Channel;
use palisade_plan::{
    cell::{FileReply, FileRequest},
    names::{NameList, Names},
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    fs,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    thread,
    time::{Duration, Instant},
};

const DIRECTORIES: usize = 1000;
const FILES: usize = 100;

/// As long a list as a profile would have.
const HIDE: [&str; 12] = [
    ".env",
    ".env.*",
    "!.env.example",
    ".ssh/",
    "*.pem",
    "*.key",
    "*credentials*",
    "!*.rs",
    ".aws/",
    ".gnupg/",
    ".netrc",
    "secrets/**",
];

fn session(workspace: &Path) -> Channel {
    let names = Names { hide: vec![NameList(HIDE.map(str::to_owned).to_vec())], protect: vec![] };
    let view = View::new(workspace, names).expect("patterns");
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("a pair");
    thread::spawn(move || serve(vec![Channel::new(theirs)], view).expect("served"));
    Channel::new(ours)
}

fn scan(channel: &Channel, keep: bool, known: Option<&OwnedFd>) -> (Duration, FileReply, OwnedFd) {
    let start = Instant::now();
    let known: Vec<_> = known.iter().map(|known| known.as_fd()).collect();
    channel.send_with(&FileRequest::Scan { keep }, &known).expect("sent");
    let (reply, mut fds) = channel.receive::<FileReply>().expect("heard").expect("open");
    (start.elapsed(), reply, fds.pop().expect("a file"))
}

fn main() {
    let top = tempfile::tempdir().expect("a directory");
    for number in 0..DIRECTORIES {
        let directory = top.path().join(format!("a{}/b{number}", number % 20));
        fs::create_dir_all(&directory).expect("mkdir");
        for file in 0..FILES {
            fs::write(directory.join(format!("file-{file}.rs")), "").expect("write");
        }
    }
    fs::write(top.path().join("a0/b0/.env"), "").expect("write");
    // So that no directory is too new for its times to be trusted.
    thread::sleep(Duration::from_secs(3));
    let first = session(top.path());
    let say = |what: &str, (time, reply, _): &(Duration, FileReply, OwnedFd)| {
        println!("{what}: {:.2} ms, {reply:?}", time.as_secs_f64() * 1e3);
    };
    say("first", &scan(&first, false, None));
    let mut again: Vec<_> = (0..21).map(|_| scan(&first, false, None)).collect();
    again.sort_by_key(|one| one.0);
    say("again, the median of 21", &again[10]);
    let kept = scan(&first, true, None);
    let second = session(top.path());
    say("first of a later session", &scan(&second, false, Some(&kept.2)));
    fs::write(top.path().join("a3/b3/new.pem"), "").expect("write");
    say("after a change", &scan(&second, false, None));
}
