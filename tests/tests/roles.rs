//! Roles and quotas of the configuration: who is let in to do what, and what one user may have; the
//! error of what is refused is typed, and says when to try again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can not go on fails"
)]

use palisade_client::{Client, Error, Open, Operator, Provider, Registration};
use palisade_protocol::{ErrorCode, WireError};
use palisade_tests::{Daemon, Mode, UNASKED, World, rooms::until};
use rustix::process::Signal;
use serde_json::json;
use std::{fs, os::unix::net::UnixStream, path::PathBuf, time::Duration};
use tokio::runtime::Runtime;

/// A daemon with a configuration of its own.
struct Configured {
    daemon: Daemon,
    world: World,
    runtime: Runtime,
    log: PathBuf,
}

impl Configured {
    fn new(mode: Mode, text: &str) -> Self {
        let world = World::new(mode);
        world.configure(text);
        let log = world.outside().with_file_name("log");
        let stderr = fs::File::create(&log).unwrap();
        let daemon = world.configured_daemon(|command| {
            command.stderr(stderr);
        });
        Self { daemon, world, runtime: Runtime::new().expect("a runtime"), log }
    }

    /// Another configuration from now on.
    fn reload(&self, text: &str) {
        let reloaded = || {
            let log = fs::read_to_string(&self.log).unwrap();
            log.matches("configuration and profiles were read again").count()
        };
        let before = reloaded();
        self.world.configure(text);
        self.daemon.signal(Signal::HUP);
        until("it is reloaded", || reloaded() > before);
    }

    fn stream(&self, socket: &str) -> tokio::net::UnixStream {
        let path = self.world.run().join(socket);
        let stream = self.world.mode.act(|| UnixStream::connect(path).expect("connect"));
        stream.set_nonblocking(true).unwrap();
        let _guard = self.runtime.enter();
        tokio::net::UnixStream::from_std(stream).unwrap()
    }

    fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn client(&self) -> Result<Client, Error> {
        let stream = self.stream("agent.sock");
        self.wait(Client::from_stream(stream))
    }

    fn operator(&self) -> Operator {
        let stream = self.stream("operator.sock");
        self.wait(Operator::from_stream(stream)).expect("an operator")
    }

    fn open(&self) -> Open {
        Open::new(self.world.workspace()).profile(UNASKED)
    }
}

/// What the daemon said.
fn wire<T>(result: Result<T, Error>) -> WireError {
    match result {
        Err(error) => error.wire().unwrap_or_else(|| panic!("{error}")).clone(),
        Ok(_) => panic!("it was let"),
    }
}

#[test]
fn a_role_is_for_whom_it_names() {
    for mode in Mode::all() {
        let uid = mode.uid();
        let configured = Configured::new(mode, &format!("[roles]\nconnect = [\"uid:{uid}\"]\n"));
        let client = configured.client().expect("it is named");
        let session = configured.wait(client.open(configured.open())).expect("a session");

        // Nobody that this test can be.
        configured.reload("[roles]\nconnect = [\"uid:4294967294\", \"unit:no-such.service\"]\n");
        let error = wire(configured.client().and_then(|client| configured.wait(client.ping())));
        assert_eq!(error.code, ErrorCode::Forbidden);
        let begin = format!("this peer (uid {uid}, gid ");
        assert!(error.message.starts_with(&begin), "{}", error.message);
        assert!(error.message.ends_with(") may not connect as an agent"), "{}", error.message);
        // What is open goes on.
        let result = configured.wait(async { session.bash("echo on").await }).expect("a result");
        assert_eq!(result.stdout, "on\n");

        let others = ["handle", "observe", "administer"];
        for denied in others {
            configured.reload(&format!("[roles]\n{denied} = []\n"));
            let operator = configured.operator();
            let answers = configured.wait(async {
                [
                    operator.register(Registration::new("test")).await.map(drop),
                    operator.subscribe(None).await,
                    operator.grants().await.map(drop),
                ]
            });
            for (role, answer) in others.into_iter().zip(answers) {
                if role == denied {
                    let error = wire(answer);
                    assert_eq!(error.code, ErrorCode::Forbidden, "{role}");
                    let hint = format!("roles.{role} of the daemon's configuration names who may");
                    assert_eq!(error.hint, hint);
                } else {
                    answer.unwrap_or_else(|error| panic!("{role} without {denied}: {error}"));
                }
            }
        }
        configured.reload("[roles]\nprovide = []\n");
        let stream = configured.stream("provider.sock");
        let provider = configured.wait(Provider::from_stream(stream));
        assert_eq!(wire(provider).code, ErrorCode::Forbidden);
        configured.reload("");
        let stream = configured.stream("provider.sock");
        configured.wait(Provider::from_stream(stream)).expect("a provider");
    }
}

#[test]
fn past_a_quota_the_error_says_when_to_try_again() {
    for mode in Mode::all() {
        let configured = Configured::new(mode, "[quotas]\nsessions = 2\ncalls = 2\njobs = 1\n");
        let clients: Vec<_> = (0..3).map(|_| configured.client().expect("a client")).collect();
        let open = |client: &Client| configured.wait(client.open(configured.open()));
        let (first, second) = (open(&clients[0]).expect("one"), open(&clients[1]).expect("two"));
        let error = wire(open(&clients[2]));
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::LimitReached, Some(1000)));
        assert_eq!(error.message, "2 sessions are open already, which is the limit for one user");

        // Calls of both sessions together.
        let running = configured.wait(async {
            let mut one = first.bash("echo; sleep 600").stream().start().await.expect("started");
            let mut two = second.bash("echo; sleep 600").stream().start().await.expect("started");
            // Each has said something: both are under way.
            assert!(one.next().await.is_some() && two.next().await.is_some());
            (one, two)
        });
        let error = wire(configured.wait(async { second.bash("true").await }));
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::LimitReached, Some(1000)));
        assert_eq!(error.message, "2 calls of this user are under way already");
        drop(running);
        until("one is over", || configured.wait(async { second.bash("true").await }).is_ok());

        // Jobs of both together.
        let job = json!({"command": "sleep 600", "background": true});
        let begun =
            configured.wait(async { first.call("bash", job.clone()).await }).expect("a job");
        assert!(begun.success, "{begun:?}");
        let refused = configured.wait(async { second.call("bash", job).await }).expect("a result");
        let error = refused.error.expect("an error");
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::LimitReached, Some(1000)));
        assert_eq!(error.message, "1 jobs of this user run already");
    }
}

#[test]
fn who_asks_too_fast_is_told_how_long_to_wait() {
    for mode in Mode::all() {
        let configured = Configured::new(mode, "[quotas]\nrequests_per_second = 5\n");
        let client = configured.client().expect("a client");
        let error = configured.wait(async {
            loop {
                if let Err(error) = client.ping().await {
                    return wire::<()>(Err(error));
                }
            }
        });
        assert_eq!(error.code, ErrorCode::LimitReached);
        let wait = error.retry_after_ms.expect("when");
        assert!((1..=200).contains(&wait), "{wait}");
        configured.wait(async {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            client.ping().await.expect("it waited");
        });
        // The connection goes on, and without the quota as fast as it likes.
        configured.reload("");
        configured.wait(async {
            for _ in 0..100 {
                client.ping().await.expect("no quota");
            }
        });
    }
}
