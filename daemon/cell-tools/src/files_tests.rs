use super::*;
use crate::tools::testing::{Broker, content, pair, writing, written};
use palisade_plan::{
    cell::{CHUNK, FILE_CHANNELS, Form, Part},
    change::WriteMode,
    codec,
    search::Choice,
};
use std::fs;

#[test]
fn nothing_to_serve_is_an_error() {
    assert!(matches!(serve(Vec::new(), View::default()), Err(FilesError::NoChannels)));
}

#[test]
fn a_panic_is_a_failure_of_one_call() {
    let stop = contained(|| panic!("a fault")).unwrap_err();
    let Stop::Failed(error) = stop else { panic!("{stop:?}") };
    assert_eq!((error.kind, error.errno), (FileErrorKind::FileSystem, 0));
    assert!(contained(|| Ok(())).is_ok());
}

#[test]
fn the_end_of_one_channel_ends_the_session() {
    let mut broker = Broker::with_channels(FILE_CHANNELS);
    drop(broker.channels.pop());
    broker.server.take().unwrap().join().unwrap().unwrap();
    // The other channels were shut down with it.
    for channel in &broker.channels {
        assert!(channel.receive::<FileReply>().unwrap().is_none());
    }
}

#[test]
fn every_channel_answers_while_another_is_in_a_write() {
    let broker = Broker::with_channels(FILE_CHANNELS);
    let path = broker.path("slow");
    let request = writing(&path, WriteMode::Create, 100);
    broker.channels[0].send(&request).unwrap();
    fs::write(broker.path("there").as_path(), "x").unwrap();
    for channel in &broker.channels[1..] {
        let part = Part::All;
        channel
            .send(&FileRequest::Read {
                path: broker.path("there"),
                part,
                most: 9,
                form: Form::AsIs,
            })
            .unwrap();
        let (reply, _) = channel.receive::<FileReply>().unwrap().unwrap();
        assert_eq!(reply, FileReply::Content(b"x".to_vec()));
    }
    assert_eq!(written(broker.end(b"done")), (4, true));
}

/// Sends bytes on the first channel, and checks that it alone ends, with a reason.
fn breaks_only_its_own(bytes: &[u8], reason: &str) {
    let mut broker = Broker::with_channels(2);
    rustix::io::write(&broker.channels[0], bytes).unwrap();
    rustix::net::shutdown(&broker.channels[0], rustix::net::Shutdown::Write).unwrap();
    let (reply, _) = broker.channels[0].receive::<FileReply>().unwrap().unwrap();
    let FileReply::Failed(error) = reply else { panic!("{reply:?}") };
    assert_eq!(error.kind, FileErrorKind::Broken);
    assert_eq!(error.message, format!("this channel is closed: {reason}"));
    assert!(broker.channels[0].receive::<FileReply>().unwrap().is_none());
    broker.channels.remove(0);
    let listed = broker.ask(&FileRequest::List {
        path: broker.path(""),
        recursive: false,
        skip: 0,
        limit: 1,
        choice: Choice::default(),
    });
    let FileReply::Listed { entries, total, more, .. } = listed else { panic!("{listed:?}") };
    assert_eq!((entries, total, more), (vec![], 0, false));
}

#[test]
fn a_truncated_frame_ends_only_its_channel() {
    breaks_only_its_own(&[9, 0, 0], "a message was cut short");
}

#[test]
fn garbage_ends_only_its_channel() {
    let over = "a message of 4294967295 bytes is over the limit of 4194304";
    breaks_only_its_own(&[0xff; 64], over);
}

#[test]
fn content_without_a_write_ends_only_its_channel() {
    let body = codec::encode(&content(b"x", true)).unwrap();
    let mut frame = codec::header(body.len(), 0).unwrap().to_vec();
    frame.extend(body);
    breaks_only_its_own(&frame, "content came, and no change was begun");
}

#[test]
fn when_all_are_broken_it_says_how() {
    let (ours, theirs) = pair();
    rustix::io::write(&ours, &[0xff; 5]).unwrap();
    let error = serve(vec![theirs], View::default()).unwrap_err();
    assert!(matches!(&error, FilesError::Broken(why) if why.contains("over the limit")), "{error}");
}

#[test]
fn another_request_within_a_write_ends_the_channel_and_takes_the_write_back() {
    let broker = Broker::with_channels(1);
    let path = broker.path("file");
    let write = writing(&path, WriteMode::Overwrite, 100);
    broker.send(&write);
    broker.send(&content(b"half", false));
    broker.send(&write);
    let FileReply::Failed(error) = broker.next() else { panic!() };
    assert_eq!(
        error.message,
        "this channel is closed: another request came before the end of a change"
    );
    assert!(broker.channels[0].receive::<FileReply>().unwrap().is_none());
    assert_eq!(broker.names(), Vec::<String>::new());
}

#[test]
fn leftovers_of_a_failed_write_are_passed_over() {
    let broker = Broker::with_channels(1);
    fs::create_dir(broker.path("dir").as_path()).unwrap();
    let write = |name: &str| writing(&broker.path(name), WriteMode::Overwrite, 100);
    // The broker keeps sending until it learns of the failure, or abandons the call.
    broker.send(&write("dir"));
    broker.send(&content(b"one", false));
    broker.send(&content(b"two", true));
    broker.send(&write("dir"));
    broker.send(&content(b"one", false));
    broker.send(&FileRequest::Abandon);
    broker.send(&write("dir"));
    broker.send(&content(b"one", false));
    broker.send(&write("good"));
    broker.send(&content(b"good", true));
    for _failed in 0..3 {
        let FileReply::Failed(error) = broker.next() else { panic!() };
        assert_eq!(error.kind, FileErrorKind::NotRegular);
    }
    assert_eq!(written(broker.commit()), (4, true));
    assert_eq!(fs::read(broker.path("good").as_path()).unwrap(), b"good");
    assert_eq!(broker.names(), ["dir", "good"]);
}

#[test]
fn the_end_of_the_session_takes_a_write_back() {
    let mut broker = Broker::with_channels(2);
    broker.send(&writing(&broker.path("new/deep/file"), WriteMode::Create, 100));
    broker.send(&content(b"half", false));
    drop(broker.channels.pop());
    broker.server.take().unwrap().join().unwrap().unwrap();
    assert_eq!(broker.names(), Vec::<String>::new());
}

#[test]
fn fifty_mebibytes_go_there_and_back_byte_for_byte() {
    let broker = Broker::with_channels(1);
    let size = 50 * 1024 * 1024 + 17;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let data: Vec<u8> = (0..size / 8 + 1)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()
        })
        .take(size)
        .collect();
    let path = broker.path("large");
    let most = size as u64;
    broker.send(&writing(&path, WriteMode::Create, most));
    let mut pieces = data.chunks(CHUNK).peekable();
    while let Some(piece) = pieces.next() {
        broker.send(&content(piece, pieces.peek().is_none()));
    }
    assert_eq!(written(broker.commit()), (most, true));
    assert!(fs::read(path.as_path()).unwrap() == data);
    let (back, reply) = broker.read(&path, Part::All, most).unwrap();
    assert!(back == data);
    let FileReply::Read { bytes, size, complete, .. } = reply else { panic!("{reply:?}") };
    assert_eq!((bytes, size, complete), (most, most, true));
}
