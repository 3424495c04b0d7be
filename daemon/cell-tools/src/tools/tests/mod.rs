//! Tests of the tools through the broker's channel, on real files.

mod change;
mod delete;
mod glob;
mod grep;
mod hidden;
mod list;
mod look;
mod notebook;
mod patch;
mod read;
mod rules;
mod tree;
mod undo;
mod write;

use super::{checked, shown, split, testing::Broker};
use palisade_plan::{
    Path,
    cell::{FileErrorKind, Part},
    change::WriteMode,
};

#[test]
fn a_path_that_can_not_be_one_is_refused_by_every_tool() {
    let broker = Broker::new();
    let long_name = format!("/{}", "n".repeat(256));
    let long_path = "/d".repeat(2048);
    let cases: [(&[u8], &str); 6] = [
        (b"", "it is empty"),
        (b"/a\0b", "it has a NUL byte"),
        (b"a/b", "it is not absolute"),
        (b"./a", "it is not absolute"),
        (long_path.as_bytes(), "it is longer than 4095 bytes"),
        (long_name.as_bytes(), "a name in it is longer than 255 bytes"),
    ];
    for (bytes, why) in cases {
        let path = Path(bytes.to_vec());
        let read = broker.read(&path, Part::All, 1).unwrap_err();
        let write = super::testing::failed(broker.write(&path, WriteMode::Create, b""));
        let delete = super::testing::failed(broker.delete(&path, true));
        let list = super::testing::failed(broker.list(&path, false, 0, 1));
        for error in [read, write, delete, list] {
            assert_eq!((error.kind, error.errno), (FileErrorKind::Invalid, 0));
            assert!(error.message.ends_with(why), "{}", error.message);
        }
    }
}

#[test]
fn the_longest_path_and_name_are_not_refused() {
    let longest = "/d".repeat(2047);
    for path in [format!("{longest}x"), format!("/{}", "n".repeat(255))] {
        assert_eq!(checked(&Path(path.clone().into_bytes())).unwrap(), path.as_bytes());
    }
}

#[test]
fn a_path_has_a_directory_and_a_name() {
    let cases: [(&[u8], &[u8], &[u8]); 5] = [
        (b"/a/b", b"/a", b"b"),
        (b"/a", b"/", b"a"),
        (b"/", b"/", b""),
        (b"a", b".", b"a"),
        (b"/a/", b"/a", b""),
    ];
    for (path, parent, name) in cases {
        assert_eq!(split(path), (parent, name));
    }
}

#[test]
fn a_message_can_not_write_to_a_terminal() {
    let path = Path(b"/a\x1b[2J\nb\xffc\xc3\xa9".to_vec());
    assert_eq!(shown(&path), "/a\\u{1b}[2J\\nb\u{fffd}c\u{e9}");
}
