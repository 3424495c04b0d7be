//! A daemon, a session under a profile of the test, and an operator who answers approval requests.

use crate::{Daemon, Mode, Sandbox, World, profile_with};
use palisade_client::{
    Answer, ApprovalRequest, Event, Open, Operator, OperatorEvent, Registration,
};
use palisade_protocol::{Ask, CallResult, ErrorCode, Review};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tokio::io::AsyncWriteExt as _;

/// A session and the operator who answers its approval requests.
#[derive(Debug)]
pub struct Desk {
    /// The test's directories and mode.
    pub world: World,
    /// The session.
    pub sandbox: Sandbox,
    /// The operator; registered as an approver by [`Desk::attach`].
    pub operator: Operator,
    /// The daemon, which ends with this value.
    pub daemon: Daemon,
}

impl Desk {
    /// Opens a session under a profile with this text.
    #[must_use]
    pub fn new(mode: Mode, profile: &str) -> Self {
        Self::asking(mode, profile, Ask::Destructive)
    }

    /// Opens a session under a profile with this text, and this setting of when approval is
    /// required.
    #[must_use]
    pub fn asking(mode: Mode, profile: &str, ask: Ask) -> Self {
        Self::started(World::new(mode), profile, ask, World::daemon)
    }

    /// Opens a session under a profile with this text, of a daemon with this configuration.
    #[must_use]
    pub fn configured(mode: Mode, profile: &str, configuration: &str) -> Self {
        let world = World::new(mode);
        world.configure(configuration);
        Self::started(world, profile, Ask::Destructive, |world| world.configured_daemon(|_| {}))
    }

    fn started(
        world: World,
        profile: &str,
        ask: Ask,
        start: impl FnOnce(&World) -> Daemon,
    ) -> Self {
        world.add_profile("asking", profile);
        let daemon = start(&world);
        let sandbox = session(&daemon, world.mode, &world.workspace(), ask);
        let operator = operator(&sandbox, &daemon, world.mode);
        Self { world, sandbox, operator, daemon }
    }

    /// Opens another session in another directory, without an approver, and ends this one.
    pub fn move_to(&mut self, directory: &Path) {
        let sandbox = session(&self.daemon, self.world.mode, directory, Ask::Destructive);
        self.operator = operator(&sandbox, &self.daemon, self.world.mode);
        self.sandbox = sandbox;
    }

    /// Connects another operator.
    #[must_use]
    pub fn operator(&self) -> Operator {
        operator(&self.sandbox, &self.daemon, self.world.mode)
    }

    /// Registers an approver, for the default kinds of review.
    pub fn attach(&self) {
        self.register(Registration::new("person:ann"));
    }

    /// Registers an approver for these kinds of review.
    pub fn attach_for(&self, reviews: &[Review]) {
        self.register(Registration::new("person:ann").reviews(reviews.to_vec()));
    }

    fn register(&self, registration: Registration) {
        self.sandbox.wait(self.operator.register(registration)).expect("registered");
    }

    /// Returns a path in the workspace.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.world.workspace().join(name)
    }

    /// Creates a file in the workspace from outside, with its parent directories.
    pub fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        let above: Vec<PathBuf> = path.ancestors().skip(1).map(Into::into).collect();
        for directory in above.iter().rev().filter(|above| !above.exists()) {
            fs::create_dir(directory).expect("mkdir");
            self.world.give(directory);
        }
        fs::write(&path, text).expect("write");
        self.world.give(&path);
    }

    /// Returns the text of a file; `None` if it is missing.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    /// Runs a shell line and answers its approval requests.
    #[must_use]
    pub fn bash(
        &self,
        line: &str,
        answer: impl Fn(&ApprovalRequest) -> Answer,
    ) -> (CallResult, Vec<ApprovalRequest>) {
        self.call("bash", json!({"command": line}), |request| Some(answer(request)))
    }

    /// Makes a call and answers its approval requests; `None` gives no answer.
    #[must_use]
    pub fn call(
        &self,
        tool: &str,
        arguments: impl Serialize,
        answer: impl Fn(&ApprovalRequest) -> Option<Answer>,
    ) -> (CallResult, Vec<ApprovalRequest>) {
        let call = self.sandbox.session.call(tool, &arguments);
        self.during(async { call.await.expect("a result") }, async |request| {
            if let Some(given) = answer(request) {
                self.operator.answer(request, given).await.expect("taken");
            }
        })
    }

    /// Runs a line and does something else once the line has printed `ready`. Then its input ends,
    /// and approval requests are answered.
    #[must_use]
    pub fn meanwhile(
        &self,
        line: &str,
        other: impl FnOnce(),
        answer: impl Fn(&ApprovalRequest) -> Answer,
    ) -> (CallResult, Vec<ApprovalRequest>) {
        let call = async {
            let (mut ours, theirs) = tokio::io::duplex(64);
            let call = self.sandbox.session.bash(line).stream().attach_reader(theirs);
            let mut running = call.start().await.expect("started");
            loop {
                match running.next().await {
                    Some(Event::Output { data, .. }) if data.starts_with(b"ready") => break,
                    Some(_) => {}
                    None => panic!("it ended"),
                }
            }
            other();
            ours.shutdown().await.expect("shut");
            drop(ours);
            running.result().await.expect("a result")
        };
        self.during(call, async |request| {
            self.operator.answer(request, answer(request)).await.expect("taken");
        })
    }

    /// Makes a call without an approver, and returns why it was denied.
    #[must_use]
    pub fn refused(&self, tool: &str, arguments: impl Serialize) -> (ErrorCode, String) {
        let (result, _) = self.call(tool, arguments, |_| None);
        let checkpoint = result.checkpoint.expect("a checkpoint");
        assert!(checkpoint.is_unanswered(), "{checkpoint:?}");
        (result.error.expect("an error").code, checkpoint.reason)
    }

    /// Waits for a call, and handles each approval request meanwhile.
    #[must_use]
    pub fn during(
        &self,
        call: impl Future<Output = CallResult>,
        asked: impl AsyncFnMut(&ApprovalRequest),
    ) -> (CallResult, Vec<ApprovalRequest>) {
        self.sandbox.wait(during(&self.operator, call, asked))
    }
}

/// Waits for a call, and handles each approval request that an approver gets meanwhile.
pub async fn during<T>(
    operator: &Operator,
    call: impl Future<Output = T>,
    mut asked: impl AsyncFnMut(&ApprovalRequest),
) -> (T, Vec<ApprovalRequest>) {
    tokio::pin!(call);
    let mut requests = Vec::new();
    loop {
        tokio::select! {
            result = &mut call => return (result, requests),
            event = operator.next() => {
                let Some(OperatorEvent::ApprovalRequest(request)) = event else { continue };
                asked(&request).await;
                requests.push(*request);
            }
        }
    }
}

fn session(daemon: &Daemon, mode: Mode, directory: &Path, ask: Ask) -> Sandbox {
    let open = Open::new(directory).profile("asking").ask(ask);
    match Sandbox::over(daemon.connect(mode), None, open) {
        Ok(sandbox) => sandbox,
        Err(error) => panic!("{mode:?}: no session: {error}"),
    }
}

fn operator(sandbox: &Sandbox, daemon: &Daemon, mode: Mode) -> Operator {
    let stream = mode.act(|| std::os::unix::net::UnixStream::connect(&daemon.operators));
    sandbox.wait(async {
        let stream = stream.expect("the operators' socket");
        stream.set_nonblocking(true).expect("non-blocking");
        let stream = tokio::net::UnixStream::from_std(stream).expect("a stream");
        Operator::from_stream(stream).await.expect("an operator")
    })
}

/// Returns a profile with these settings in its `handlers` section. If the text has a section
/// `remember`, that replaces the default profile's.
#[must_use]
pub fn handlers(text: &str) -> String {
    let own = format!("[handlers]\n{text}\n\n[tools]\n");
    let profile = profile_with(&[("[tools]\n", &own)]);
    if !text.contains("[remember]") {
        return profile;
    }
    let (head, rest) = profile.split_once("[remember]").expect("the default profile's section");
    let (_, rest) = rest.split_once("\n\n").expect("it ends");
    format!("{head}{rest}")
}

/// Returns calls that destroy the file `f`, one of each kind of tool.
#[must_use]
pub fn destructive() -> [(&'static str, Value); 4] {
    [
        ("write_file", json!({"path": "f", "content": "new"})),
        ("delete_file", json!({"path": "f"})),
        ("bash", json!({"command": "echo new > f"})),
        ("bash", json!({"argv": ["rm", "f"]})),
    ]
}
