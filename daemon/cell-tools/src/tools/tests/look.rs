//! Tests of examining a path, and of noticing when the entry was replaced.

use super::super::testing::{Broker, failed};
use palisade_plan::{
    Path,
    cell::{
        Contents, EntryDetails, EntryKind, FileErrorKind, FileReply, FileRequest, LOOK_BYTES, Link,
    },
};
use std::{fs, os::unix::fs::symlink};

fn look_with(broker: &Broker, path: &Path, link: Link, head: u32) -> FileReply {
    let contents = Contents::Read { head };
    broker.ask(&FileRequest::Look { path: path.clone(), link, contents })
}

fn look(broker: &Broker, name: &str, link: Link) -> Option<EntryDetails> {
    let reply = look_with(broker, &broker.path(name), link, 4);
    let FileReply::Looked { found, .. } = reply else { panic!("{reply:?}") };
    found.map(|looked| *looked)
}

fn hex(digest: Option<[u8; 32]>) -> String {
    digest.unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_file_has_its_size_head_and_digest() {
    let broker = Broker::new();
    fs::write(broker.dir.path().join("f"), "hello world").unwrap();
    let looked = look(&broker, "f", Link::Target).unwrap();
    assert_eq!((looked.kind, looked.size), (EntryKind::File, 11));
    assert_eq!(looked.head, b"hell");
    assert_eq!(
        hex(looked.digest),
        "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
    );
    assert_eq!(look(&broker, "f", Link::Target).unwrap(), looked);
    let (path, link) = (broker.path("f"), Link::Target);
    let request = FileRequest::Look { path, link, contents: Contents::Closed };
    let FileReply::Looked { found: Some(closed), .. } = broker.ask(&request) else { panic!() };
    assert_eq!(*closed, EntryDetails { digest: None, head: Vec::new(), ..looked });
    assert_eq!(broker.names(), ["f"]);
}

#[test]
fn what_is_replaced_or_changed_looks_different() {
    let broker = Broker::new();
    let file = broker.dir.path().join("f");
    fs::write(&file, "one").unwrap();
    let first = look(&broker, "f", Link::Target).unwrap();
    fs::write(&file, "two").unwrap();
    let second = look(&broker, "f", Link::Target).unwrap();
    assert_eq!(second.ino, first.ino);
    assert_ne!(second.digest, first.digest);
    fs::write(broker.dir.path().join("g"), "two").unwrap();
    fs::rename(broker.dir.path().join("g"), &file).unwrap();
    let third = look(&broker, "f", Link::Target).unwrap();
    assert_eq!(third.digest, second.digest);
    assert_ne!(third.ino, second.ino);
}

#[test]
fn nothing_is_an_answer() {
    let broker = Broker::new();
    fs::write(broker.dir.path().join("f"), "").unwrap();
    assert_eq!(look(&broker, "missing", Link::Target), None);
    assert_eq!(look(&broker, "missing/below", Link::Itself), None);
    assert_eq!(look(&broker, "f/below", Link::Target), None);
    assert_eq!(broker.names(), ["f"]);
}

#[test]
fn a_link_is_followed_only_where_it_is_meant() {
    let broker = Broker::new();
    fs::write(broker.dir.path().join("f"), "x").unwrap();
    symlink("f", broker.dir.path().join("l")).unwrap();
    symlink("nowhere", broker.dir.path().join("dangling")).unwrap();
    let target = look(&broker, "l", Link::Target).unwrap();
    assert_eq!(target, look(&broker, "f", Link::Target).unwrap());
    let itself = look(&broker, "l", Link::Itself).unwrap();
    assert_eq!((itself.kind, itself.digest, itself.head), (EntryKind::Symlink, None, Vec::new()));
    assert_eq!(look(&broker, "dangling", Link::Target), None);
    assert_eq!(look(&broker, "dangling", Link::Itself).unwrap().kind, EntryKind::Symlink);
}

#[test]
fn the_real_path_is_told_for_what_is_and_for_what_is_not() {
    let broker = Broker::new();
    fs::create_dir(broker.dir.path().join("d")).unwrap();
    fs::write(broker.dir.path().join("d/f"), "x").unwrap();
    symlink("d", broker.dir.path().join("l")).unwrap();
    symlink("../out", broker.dir.path().join("d/up")).unwrap();
    symlink("up", broker.dir.path().join("d/chain")).unwrap();
    symlink(broker.dir.path().join("l/gone"), broker.dir.path().join("whole")).unwrap();
    let top = broker.dir.path().canonicalize().unwrap();
    for (name, link, expected) in [
        ("l/f", Link::Target, "d/f"),
        ("d/../l/./f", Link::Target, "d/f"),
        ("l", Link::Target, "d"),
        ("l", Link::Itself, "l"),
        ("l/missing/below", Link::Target, "d/missing/below"),
        ("l/missing/../f/", Link::Itself, "d/f"),
        ("l/up", Link::Target, "out"),
        ("l/chain/missing", Link::Itself, "out/missing"),
        ("l/chain/../x", Link::Target, "x"),
        ("whole//.", Link::Target, "d/gone"),
    ] {
        let reply = look_with(&broker, &broker.path(name), link, 0);
        let FileReply::Looked { real, .. } = reply else { panic!("{reply:?}") };
        assert_eq!(real.as_path(), top.join(expected), "{name}");
    }
}

#[test]
fn a_chain_of_links_is_followed_as_far_as_the_kernel_follows_it() {
    let broker = Broker::new();
    symlink("missing", broker.dir.path().join("l0")).unwrap();
    for n in 1..60 {
        symlink(format!("l{}/x", n - 1), broker.dir.path().join(format!("l{n}"))).unwrap();
    }
    let reply = look_with(&broker, &broker.path("l9"), Link::Target, 0);
    let FileReply::Looked { real, found: None } = reply else { panic!("{reply:?}") };
    let top = broker.dir.path().canonicalize().unwrap();
    assert_eq!(real.as_path(), top.join("missing").join("x/".repeat(9)));
    let error = failed(look_with(&broker, &broker.path("l59"), Link::Target, 0));
    assert_eq!(error.errno, rustix::io::Errno::LOOP.raw_os_error());
}

#[test]
fn what_is_not_a_file_is_not_opened() {
    let broker = Broker::new();
    fs::create_dir(broker.dir.path().join("d")).unwrap();
    let fifo = broker.dir.path().join("p");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for (name, kind) in [("d", EntryKind::Directory), ("p", EntryKind::Other)] {
        let looked = look(&broker, name, Link::Target).unwrap();
        assert_eq!((looked.kind, looked.digest), (kind, None));
    }
}

#[test]
fn a_large_file_has_a_head_and_no_digest() {
    let broker = Broker::new();
    let file = fs::File::create(broker.dir.path().join("f")).unwrap();
    file.set_len(LOOK_BYTES).unwrap();
    assert!(look(&broker, "f", Link::Target).unwrap().digest.is_some());
    file.set_len(LOOK_BYTES + 1).unwrap();
    let looked = look(&broker, "f", Link::Target).unwrap();
    assert_eq!((looked.size, looked.digest, looked.head.len()), (LOOK_BYTES + 1, None, 4));
}

#[test]
fn a_magic_link_is_refused() {
    let broker = Broker::new();
    let path = Path(b"/proc/self/root/etc".to_vec());
    let error = failed(look_with(&broker, &path, Link::Target, 0));
    assert_eq!(error.kind, FileErrorKind::OutsidePolicy);
    assert_eq!(failed(look_with(&broker, &Path(b"a".to_vec()), Link::Target, 0)).errno, 0);
}
