//! A broker that was taken over sends a real launcher hostile requests: foreign descriptors, forged
//! hidden names, too many sessions, and bytes that are no request.

use palisade_channel::Channel;
use palisade_plan::{
    Access, BUILD_ID, LaunchPlan, Path,
    cell::{End, FILE_CHANNELS, Run, RunReply, RunRequest, Stdin, Streams},
    codec,
    launcher::{Refusal, Reply, Request, SessionOwner},
    names::NameList,
};
use palisade_tests::{
    Mode, World, own, plan, run,
    taken_over::{AgentSocket, TakenOverBroker, client_uid, give_to_client, pair},
};
use rustix::{
    fs::{MemfdFlags, OFlags},
    net::SocketType,
};
use std::{
    fs,
    io::Write as _,
    os::{fd::OwnedFd, unix::net::UnixStream},
};

fn world(mode: Mode) -> World {
    let world = World::new(mode);
    give_to_client(&world.workspace());
    world
}

fn open(path: &str, flags: OFlags) -> OwnedFd {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, rustix::fs::Mode::empty()).unwrap()
}

fn memory_file(contents: &[u8]) -> OwnedFd {
    let fd = rustix::fs::memfd_create("hidden", MemfdFlags::CLOEXEC).unwrap();
    let mut file = fs::File::from(fd);
    file.write_all(contents).unwrap();
    file.into()
}

/// Asks for a session with these descriptors, and returns why it is refused.
fn refused(
    broker: &TakenOverBroker,
    whose: SessionOwner,
    plan: &LaunchPlan,
    fds: &[&OwnedFd],
) -> Refusal {
    let plan = Box::new(plan.clone());
    broker.send(&Request::Session { session: 7, whose, plan }, fds);
    match broker.hear_of(7) {
        Reply::Refused { refusal, .. } => refusal,
        other => panic!("{other:?}"),
    }
}

/// Descriptors that are no end of a socket pair.
fn foreign(other: &AgentSocket) -> Vec<(&'static str, OwnedFd)> {
    let (reader, writer) = std::io::pipe().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(other.path.with_extension("2")).unwrap();
    vec![
        ("a pipe", reader.into()),
        ("the other end of it", writer.into()),
        ("a directory that root opened", open("/", OFlags::RDONLY | OFlags::DIRECTORY)),
        ("a path", open("/etc/passwd", OFlags::PATH)),
        ("a descriptor of /proc", open("/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY)),
        ("a device", open("/dev/zero", OFlags::RDWR)),
        ("a memory file", memory_file(b"")),
        ("a datagram pair", pair(SocketType::DGRAM).0),
        ("a packet pair", pair(SocketType::SEQPACKET).0),
        ("a listening socket", listener.into()),
        ("a socket that is not connected", {
            let family = rustix::net::AddressFamily::UNIX;
            rustix::net::socket(family, SocketType::STREAM, None).unwrap()
        }),
        ("a TCP socket", {
            let family = rustix::net::AddressFamily::INET;
            rustix::net::socket(family, SocketType::STREAM, None).unwrap()
        }),
        ("a connection to a service", UnixStream::connect(&other.path).unwrap().into()),
        ("a connection of a service", other.accepted(client_uid()).0),
    ]
}

#[test]
fn channels_are_the_brokers_own_and_of_the_right_number() {
    for mode in Mode::all() {
        let world = world(mode);
        let (broker, agents) = TakenOverBroker::in_world(&world, &[]);
        let (client, _theirs) = agents.accepted(client_uid());
        let service = AgentSocket::listen(world.outside().join("service.sock"));
        let plan = plan(&world.workspace());
        let pairs: Vec<_> = (0..8).map(|_| pair(SocketType::STREAM)).collect();
        let ends: Vec<_> = pairs.iter().map(|(end, _)| end).collect();
        let with = |count: usize| [&[&client], &ends[..count]].concat();
        for count in [1, 2, 3, 5, 6, 8] {
            let said = refused(&broker, SessionOwner::Client, &plan, &with(count));
            let why = format!("{} is the wrong number of descriptors for a session", count + 1);
            assert_eq!(said, Refusal::Session(why), "{mode:?}");
        }
        let said = refused(&broker, SessionOwner::Client, &plan, &[]);
        assert!(matches!(said, Refusal::Spawn(_)), "{said:?}");
        // Without a client there is no place for one.
        let said = refused(&broker, SessionOwner::Nobody, &plan, &with(FILE_CHANNELS));
        let why = "5 is the wrong number of descriptors for a session".to_owned();
        assert_eq!(said, Refusal::Session(why), "{mode:?}");
        let why = "a channel is not one end of a stream socket pair".to_owned();
        for (what, fd) in foreign(&service) {
            for place in 0..FILE_CHANNELS {
                let mut fds = with(FILE_CHANNELS);
                fds[1 + place] = &fd;
                let said = refused(&broker, SessionOwner::Client, &plan, &fds);
                assert_eq!(said, Refusal::Session(why.clone()), "{mode:?}, {what}, {place}");
            }
            // Nor is it a client, unless it is a connection to the agent socket.
            let mut fds = with(FILE_CHANNELS);
            fds[0] = &fd;
            if mode == Mode::System {
                let said = refused(&broker, SessionOwner::Client, &plan, &fds);
                assert!(matches!(said, Refusal::Identity(_)), "{mode:?}, {what}: {said:?}");
            }
        }
        broker.assert_no_session();
    }
}

#[test]
fn a_runner_is_of_a_session_and_with_its_own_channels() {
    for mode in Mode::all() {
        let world = world(mode);
        let (broker, agents) = TakenOverBroker::in_world(&world, &[]);
        let (client, _theirs) = agents.accepted(client_uid());
        let service = AgentSocket::listen(world.outside().join("service.sock"));
        let plan = plan(&world.workspace());
        let ends: Vec<_> = (0..4).map(|_| pair(SocketType::STREAM).0).collect();
        let ends: Vec<_> = ends.iter().collect();
        let refusal = |request: Request, session: u32, fds: &[&OwnedFd]| {
            broker.send(&request, fds);
            match broker.hear_of(session) {
                Reply::Refused { refusal, .. } => refusal,
                other => panic!("{other:?}"),
            }
        };
        let session = 3;
        let unknown = Refusal::Session("there is no session 3".to_owned());
        for request in [Request::Runner { session }, Request::Reader { session }] {
            assert_eq!(refusal(request, session, &ends[..1]), unknown, "{mode:?}");
        }
        assert_eq!(refusal(Request::Transaction { session }, session, &ends[..2]), unknown);
        let started = broker.session(session, Some(&client), &plan).unwrap();
        started.ready.unwrap();
        let again = broker.session(session, Some(&client), &plan).unwrap_err();
        assert_eq!(again, Refusal::Session("session 3 already exists".to_owned()));
        let number = |count: usize| {
            Refusal::Session(format!("{count} is the wrong number of descriptors for a runner"))
        };
        for count in [2, 3] {
            assert_eq!(
                refusal(Request::Runner { session }, session, &ends[..count]),
                number(count)
            );
            assert_eq!(
                refusal(Request::Reader { session }, session, &ends[..count]),
                number(count)
            );
        }
        assert_eq!(refusal(Request::Transaction { session }, session, &ends[..1]), number(1));
        let watch = |directories: &[&str]| Request::Watch {
            session,
            directories: directories.iter().copied().map(Path::from).collect(),
        };
        assert_eq!(refusal(watch(&["a"]), session, &ends[..1]), number(1));
        let many: Vec<String> = (0..33).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for bad in [&["../x"][..], &["/etc"], &["a/../../x"], &["."], &[""], &["a//b"], &[], &many]
        {
            let said = refusal(watch(bad), session, &ends[..2]);
            assert!(matches!(said, Refusal::Transaction(_)), "{bad:?}: {said:?}");
        }
        // The last of four could be hidden names, but three channels are too many.
        assert_eq!(refusal(Request::Transaction { session }, session, &ends[..4]), number(3));
        let why = Refusal::Session("a channel is not one end of a stream socket pair".to_owned());
        let names = Refusal::Session("the hidden names are not in a memory file".to_owned());
        for (what, fd) in foreign(&service) {
            assert_eq!(refusal(Request::Runner { session }, session, &[&fd]), why, "{what}");
            assert_eq!(refusal(Request::Reader { session }, session, &[&fd]), why, "{what}");
            let fds = [ends[0], &fd];
            assert_eq!(refusal(Request::Transaction { session }, session, &fds), why, "{what}");
            if what != "a memory file" {
                let fds = [ends[0], ends[1], &fd];
                let said = refusal(Request::Transaction { session }, session, &fds);
                assert_eq!(said, names, "{what}");
            }
        }
        // The control, and what no program can be started with.
        let runner = broker.runner(session, None).unwrap();
        let (ended, _) = run(&runner, &["bash", "-c", "echo made > made"], &world.workspace());
        assert!(matches!(ended, RunReply::Ended { end: End::Exit(0), .. }), "{ended:?}");
        assert_eq!(fs::read_to_string(world.workspace().join("made")).unwrap(), "made\n");
        for (argv, environment) in [(&b"tr\0ue"[..], &b"A=1"[..]), (b"true", b"A=1\0B=2")] {
            let (said, _) = start(&runner, &world, argv, environment);
            assert!(matches!(said, RunReply::NotStarted { errno: 22, .. }), "{said:?}");
        }
        assert_eq!(start(&runner, &world, b"true", b"A=1").1, "ended");
        broker.end(session);
        // A number that is free again is another session.
        broker.session(session, Some(&client), &plan).unwrap().ready.unwrap();
        broker.end(session);
        broker.assert_no_session();
    }
}

fn start(
    runner: &Channel,
    world: &World,
    argv: &[u8],
    variable: &[u8],
) -> (RunReply, &'static str) {
    let run = RunRequest::Run(Run {
        argv: vec![argv.to_vec()],
        environment: vec![variable.to_vec()],
        search: b"/usr/bin:/bin".to_vec(),
        cwd: world.workspace().into(),
        script: None,
        streams: Streams::Pipes(Stdin::Null),
        mark: None,
    });
    runner.send_with(&run, &[]).unwrap();
    let receive = || runner.receive::<RunReply>().unwrap().unwrap();
    let (first, _ends) = receive();
    assert!(matches!(first, RunReply::Streams { .. }), "{first:?}");
    let (reply, _) = receive();
    let word = if matches!(reply, RunReply::Ended { .. }) { "ended" } else { "not started" };
    (reply, word)
}

/// Forged hidden names can hide less or more in the broker's own session. They lead nowhere else.
#[test]
fn forged_hidden_names_lead_nowhere() {
    for mode in Mode::all() {
        let world = world(mode);
        fs::write(world.workspace().join("secret"), "secret\n").unwrap();
        give_to_client(&world.workspace());
        let (broker, agents) = TakenOverBroker::in_world(&world, &[]);
        let (client, _theirs) = agents.accepted(client_uid());
        let mut plan = plan(&world.workspace());
        plan.names.hide.push(NameList(vec!["secret".to_owned()]));
        let started = broker.session(1, Some(&client), &plan).unwrap();
        started.ready.unwrap();
        let names = |hits: &[&str]| {
            let hits: Vec<Vec<u8>> = hits.iter().map(|hit| hit.as_bytes().to_vec()).collect();
            memory_file(&codec::encode(&hits).unwrap())
        };
        let outside = "a hidden name is no path below";
        for (what, hidden, why) in [
            ("above", names(&["../outside/made"]), outside),
            ("above, further down", names(&["secret", "a/../../outside/made"]), outside),
            ("absolute", names(&["/etc/made"]), outside),
            ("the workspace", names(&["."]), outside),
            ("nothing", names(&[""]), outside),
            ("a doubled slash", names(&["a//b"]), outside),
            ("NUL", names(&["a\0b"]), "nvalid argument"),
            ("no list", memory_file(&[0xff; 64]), "read what is hidden"),
            ("empty", memory_file(b""), "read what is hidden"),
            ("a length without contents", memory_file(&[0xfc, 0xff, 0xff, 0xff, 0x7f]), "hidden"),
            ("too large", memory_file(&vec![0; (4 << 20) + 1]), "read what is hidden"),
        ] {
            let (_, said) = broker.runner(1, Some(&hidden)).expect_err(what);
            assert!(said.contains(why), "{mode:?}, {what}: {said}");
        }
        // The control: the true name. The program does not see it.
        let runner = broker.runner(1, Some(&names(&["secret"]))).unwrap();
        let (_, seen) = run(&runner, &["ls"], &world.workspace());
        assert_eq!(seen, "probe\n", "{mode:?}");
        broker.end(1);
        world.assert_canary_untouched();
        assert!(fs::read_to_string(world.workspace().join("secret")).is_ok());
    }
}

#[test]
fn sessions_are_counted_by_the_launcher() {
    for mode in Mode::all() {
        let world = world(mode);
        let (broker, agents) = TakenOverBroker::in_world(&world, &["--max-sessions", "3"]);
        let (client, _theirs) = agents.accepted(client_uid());
        let plan = plan(&world.workspace());
        let held: Vec<_> =
            (1..=3).map(|number| broker.session(number, Some(&client), &plan).unwrap()).collect();
        let most = "3 sessions exist, and the launcher allows no more (--max-sessions)";
        for client in [Some(&client), None] {
            let refusal = broker.session(4, client, &plan).unwrap_err();
            assert_eq!(refusal, Refusal::Session(most.to_owned()), "{mode:?}");
        }
        broker.end(2);
        broker.session(4, Some(&client), &plan).unwrap().ready.unwrap();
        drop(held);
    }
}

/// Without a client a session is nobody's, and there are few of them.
#[test]
fn a_session_without_a_client_is_nobodys() {
    for mode in Mode::all() {
        let world = world(mode);
        let (broker, _agents) = TakenOverBroker::in_world(&world, &[]);
        let mut plan = plan(&world.workspace());
        plan.workspace.access = Access::Read;
        plan.grants.iter_mut().for_each(|grant| {
            if grant.path == plan.workspace.path {
                grant.access = Access::Execute;
            }
        });
        let started = broker.session(1, None, &plan).unwrap();
        started.ready.unwrap();
        let runner = broker.runner(1, None).unwrap();
        let (_, uid) = run(&runner, &["id", "-u"], &world.workspace());
        let nobody = if mode == Mode::System { 65534 } else { own().uid };
        assert_eq!(uid, format!("{nobody}\n"), "{mode:?}");
        let held: Vec<_> = (2..=16).map(|number| broker.session(number, None, &plan)).collect();
        assert!(held.iter().all(Result::is_ok), "{mode:?}");
        let refusal = broker.session(17, None, &plan).unwrap_err();
        assert_eq!(refusal, Refusal::Session("16 sessions without a client exist".to_owned()));
    }
}

/// Bytes that are no request, or one out of turn, end the launcher with its reason. It does not
/// crash.
#[test]
fn what_is_no_request_ends_the_conversation() {
    let hello = codec::encode(&Request::Hello { build_id: BUILD_ID.to_owned() }).unwrap();
    let other = codec::encode(&Request::Hello { build_id: "other".to_owned() }).unwrap();
    let end = codec::encode(&Request::End { session: 1 }).unwrap();
    let cut = |bytes: &[u8]| bytes[..bytes.len() - 1].to_vec();
    let long = [&hello[..], &vec![0; codec::MAX_PLAN]].concat();
    let hostile = [
        vec![end.clone()],
        vec![other],
        vec![hello.clone(), hello.clone()],
        vec![cut(&hello)],
        vec![[&hello[..], &[0]].concat()],
        vec![long],
        vec![hello.clone(), cut(&end)],
        vec![hello.clone(), vec![0xff; 4096]],
        vec![hello.clone(), vec![2, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]],
    ];
    for mode in Mode::all() {
        for (number, messages) in hostile.iter().enumerate() {
            let broker = TakenOverBroker::silent(mode, &[]);
            messages.iter().for_each(|message| broker.send_bytes(message));
            // It says why, or just leaves; it does not go on.
            while let Some(reply) = broker.hear() {
                assert!(matches!(reply, Reply::Welcome { .. } | Reply::Fatal { .. }), "{reply:?}");
            }
            assert_eq!(broker.close().code(), Some(1), "{mode:?}, {number}");
        }
    }
}
