use super::*;
use palisade_plan::cell::{FileReply, FileRequest};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::{
    fs::File,
    io::{Read, Write},
    thread,
};

fn pair() -> (Channel, Channel) {
    let (a, b) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    (Channel::new(a), Channel::new(b))
}

/// Writes the bytes as they are, without a frame.
fn raw(channel: &Channel, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let sent = rustix::io::write(&channel.socket, rest).unwrap();
        rest = &rest[sent..];
    }
}

#[test]
fn messages_arrive_in_order_and_then_the_end() {
    let (a, b) = pair();
    a.send_all(&[FileReply::Content(vec![7; 3]), FileReply::Abandoned]).unwrap();
    a.send(&FileReply::Content(vec![7; 9])).unwrap();
    drop(a);
    let next = || b.receive::<FileReply>().unwrap().map(|(message, fds)| (message, fds.len()));
    assert_eq!(next(), Some((FileReply::Content(vec![7; 3]), 0)));
    assert_eq!(next(), Some((FileReply::Abandoned, 0)));
    assert_eq!(next(), Some((FileReply::Content(vec![7; 9]), 0)));
    assert_eq!(next(), None);
}

#[test]
fn a_frame_in_single_bytes_is_a_frame() {
    let (a, b) = pair();
    let body = codec::encode(&FileReply::Content(vec![7; 300])).unwrap();
    let mut bytes = codec::header(body.len(), 0).unwrap().to_vec();
    bytes.extend(body);
    let sender = thread::spawn(move || {
        for byte in bytes {
            raw(&a, &[byte]);
            thread::yield_now();
        }
    });
    let (message, _) = b.receive::<FileReply>().unwrap().unwrap();
    assert_eq!(message, FileReply::Content(vec![7; 300]));
    sender.join().unwrap();
}

#[test]
fn a_message_near_the_limit_passes_and_one_over_it_is_not_sent() {
    let (a, b) = pair();
    let content = vec![0xa5; codec::MAX_MESSAGE - 64];
    let sent = content.clone();
    let sender = thread::spawn(move || {
        a.send(&FileReply::Content(sent)).unwrap();
        let over = a.send(&FileReply::Content(vec![0; codec::MAX_MESSAGE]));
        assert!(matches!(over, Err(ChannelError::Codec(CodecError::TooLarge(_, _)))), "{over:?}");
    });
    let (message, _) = b.receive::<FileReply>().unwrap().unwrap();
    assert_eq!(message, FileReply::Content(content));
    sender.join().unwrap();
    assert!(b.receive::<FileReply>().unwrap().is_none());
}

#[test]
fn a_large_buffer_is_given_back() {
    let (a, b) = pair();
    let sender = thread::spawn(move || {
        a.send(&FileReply::Content(vec![1; 200_000])).unwrap();
        a.send(&FileReply::Abandoned).unwrap();
        a
    });
    assert!(b.receive::<FileReply>().unwrap().is_some());
    let a = sender.join().unwrap();
    assert!(b.receive::<FileReply>().unwrap().is_some());
    a.send(&FileReply::Abandoned).unwrap();
    assert!(b.receive::<FileReply>().unwrap().is_some());
    assert_eq!(b.incoming.lock().unwrap().buffer.len(), AT_REST);
}

#[test]
fn descriptors_come_with_their_message_and_close_on_exec() {
    let (a, b) = pair();
    let (reader, writer) = std::io::pipe().unwrap();
    a.send(&FileReply::Abandoned).unwrap();
    a.send_with(&FileReply::Content(vec![7; 1]), &[writer.as_fd()]).unwrap();
    a.send(&FileReply::Content(vec![7; 2])).unwrap();
    drop(writer);
    let (_, none) = b.receive::<FileReply>().unwrap().unwrap();
    assert_eq!(none.len(), 0);
    let (message, mut fds) = b.receive::<FileReply>().unwrap().unwrap();
    assert_eq!((message, fds.len()), (FileReply::Content(vec![7; 1]), 1));
    let fd = fds.pop().unwrap();
    let flags = rustix::io::fcntl_getfd(&fd).unwrap();
    assert_eq!(flags, rustix::io::FdFlags::CLOEXEC);
    File::from(fd).write_all(b"through").unwrap();
    let mut text = String::new();
    let mut reader = reader;
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through");
    let (message, none) = b.receive::<FileReply>().unwrap().unwrap();
    assert_eq!((message, none.len()), (FileReply::Content(vec![7; 2]), 0));
}

#[test]
fn descriptors_that_were_not_announced_are_refused() {
    let (a, b) = pair();
    let body = codec::encode(&FileReply::Abandoned).unwrap();
    let head = codec::header(body.len(), 0).unwrap();
    let own = a.socket.try_clone().unwrap();
    let parts = [IoSlice::new(&head), IoSlice::new(&body)];
    a.put(&parts, &[own.as_fd()]).unwrap();
    let got = b.receive::<FileReply>();
    assert!(matches!(got, Err(ChannelError::Descriptors { expected: 0, received: 1 })), "{got:?}");
}

#[test]
fn announced_descriptors_that_did_not_come_are_missed() {
    let (a, b) = pair();
    let body = codec::encode(&FileReply::Abandoned).unwrap();
    raw(&a, &codec::header(body.len(), 2).unwrap());
    raw(&a, &body);
    let got = b.receive::<FileReply>();
    assert!(matches!(got, Err(ChannelError::Descriptors { expected: 2, received: 0 })), "{got:?}");
}

#[test]
fn a_frame_cut_short_is_an_error() {
    for cut in [1, 4, 5, 7] {
        let (a, b) = pair();
        let body = codec::encode(&FileReply::Content(vec![1; 20])).unwrap();
        let mut frame = codec::header(body.len(), 0).unwrap().to_vec();
        frame.extend(body);
        raw(&a, &frame[..cut]);
        drop(a);
        let got = b.receive::<FileReply>();
        assert!(matches!(got, Err(ChannelError::Truncated)), "{cut}: {got:?}");
    }
}

#[test]
fn garbage_is_an_error_and_nothing_is_allocated_for_it() {
    let (a, b) = pair();
    raw(&a, &[0xff; 5]);
    let got = b.receive::<FileRequest>();
    assert!(matches!(got, Err(ChannelError::Codec(CodecError::TooLarge(_, _)))), "{got:?}");
    assert_eq!(b.incoming.lock().unwrap().buffer.len(), AT_REST);

    let (a, b) = pair();
    raw(&a, &codec::header(3, 0).unwrap());
    raw(&a, &[0xee; 3]);
    let got = b.receive::<FileRequest>();
    assert!(matches!(got, Err(ChannelError::Codec(CodecError::Malformed(_)))), "{got:?}");
}

#[test]
fn sending_to_nobody_is_epipe_and_no_signal() {
    let (a, b) = pair();
    drop(b);
    let got = a.send(&FileReply::Abandoned);
    assert!(matches!(got, Err(ChannelError::Send(Errno::PIPE))), "{got:?}");
}

#[test]
fn shutting_wakes_a_thread_that_waits() {
    let (_a, b) = pair();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| b.receive::<FileReply>().unwrap().is_none());
        b.shut().unwrap();
        assert!(waiting.join().unwrap());
    });
}
