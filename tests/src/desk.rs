//! A daemon, a session under a profile of the test's own, and an operator who answers its questions.

use crate::{Daemon, Mode, Sandbox, World, profile_with};
use palisade_client::{Answer, Event, Open, Operator, OperatorEvent, Question, Registration};
use palisade_protocol::{Ask, CallResult, ErrorCode, Review};
use serde::Serialize;
use serde_json::{Value, json};
use std::{fs, path::PathBuf};
use tokio::io::AsyncWriteExt as _;

/// A session and whoever answers its questions.
#[derive(Debug)]
pub struct Desk {
    /// Where it is.
    pub world: World,
    /// The session.
    pub sandbox: Sandbox,
    /// Who may answer; attached as a handler by [`Desk::attach`].
    pub operator: Operator,
    /// The daemon, which ends with this.
    pub daemon: Daemon,
}

impl Desk {
    /// A session under a profile of this text.
    #[must_use]
    pub fn new(mode: Mode, profile: &str) -> Self {
        Self::asking(mode, profile, Ask::Destructive)
    }

    /// The same, with what is to be asked about.
    #[must_use]
    pub fn asking(mode: Mode, profile: &str, ask: Ask) -> Self {
        let world = World::new(mode);
        world.add_profile("asking", profile);
        let daemon = world.daemon();
        let open = Open::new(world.workspace()).profile("asking").ask(ask);
        let sandbox = match Sandbox::over(daemon.connect(mode), None, open) {
            Ok(sandbox) => sandbox,
            Err(error) => panic!("{mode:?}: no session: {error}"),
        };
        let operator = operator(&sandbox, &daemon, mode);
        Self { world, sandbox, operator, daemon }
    }

    /// Another operator's connection.
    #[must_use]
    pub fn operator(&self) -> Operator {
        operator(&self.sandbox, &self.daemon, self.world.mode)
    }

    /// Somebody answers from here on, whatever is to be reviewed.
    pub fn attach(&self) {
        self.register(Registration::new("person:ann"));
    }

    /// Somebody answers these reviews from here on.
    pub fn attach_for(&self, reviews: &[Review]) {
        self.register(Registration::new("person:ann").reviews(reviews.to_vec()));
    }

    fn register(&self, registration: Registration) {
        self.sandbox.wait(self.operator.register(registration)).expect("registered");
    }

    /// A path of the workspace.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.world.workspace().join(name)
    }

    /// Puts a file there from outside, with the directories above it.
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

    /// What is in a file; none if it is not there.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    /// Runs a shell line and meanwhile answers what is asked.
    #[must_use]
    pub fn bash(
        &self,
        line: &str,
        answer: impl Fn(&Question) -> Answer,
    ) -> (CallResult, Vec<Question>) {
        self.call("bash", json!({"command": line}), |question| Some(answer(question)))
    }

    /// Makes a call and meanwhile answers what is asked, or keeps silent.
    #[must_use]
    pub fn call(
        &self,
        tool: &str,
        arguments: impl Serialize,
        answer: impl Fn(&Question) -> Option<Answer>,
    ) -> (CallResult, Vec<Question>) {
        let call = self.sandbox.session.call(tool, &arguments);
        self.during(async { call.await.expect("a result") }, async |question| {
            if let Some(given) = answer(question) {
                self.operator.answer(question, given).await.expect("taken");
            }
        })
    }

    /// Runs a line; when it has said `ready`, something else happens; then its input ends, and what is
    /// asked is answered.
    #[must_use]
    pub fn meanwhile(
        &self,
        line: &str,
        other: impl FnOnce(),
        answer: impl Fn(&Question) -> Answer,
    ) -> (CallResult, Vec<Question>) {
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
        self.during(call, async |question| {
            self.operator.answer(question, answer(question)).await.expect("taken");
        })
    }

    /// Makes a call that nobody answers for, and says why it was denied.
    #[must_use]
    pub fn refused(&self, tool: &str, arguments: impl Serialize) -> (ErrorCode, String) {
        let (result, _) = self.call(tool, arguments, |_| None);
        let checkpoint = result.checkpoint.expect("a checkpoint");
        assert_eq!((checkpoint.decision.as_str(), checkpoint.by.as_str()), ("denied", "default"));
        (result.error.expect("an error").code, checkpoint.reason)
    }

    /// Waits for a call, and does something about each question meanwhile.
    #[must_use]
    pub fn during(
        &self,
        call: impl Future<Output = CallResult>,
        mut asked: impl AsyncFnMut(&Question),
    ) -> (CallResult, Vec<Question>) {
        self.sandbox.wait(async {
            tokio::pin!(call);
            let mut questions = Vec::new();
            loop {
                tokio::select! {
                    result = &mut call => return (result, questions),
                    event = self.operator.next() => {
                        let Some(OperatorEvent::Question(question)) = event else { continue };
                        asked(&question).await;
                        questions.push(*question);
                    }
                }
            }
        })
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

/// A profile with these settings of its handlers.
#[must_use]
pub fn handlers(text: &str) -> String {
    profile_with(&[("[tools]\n", &format!("[handlers]\n{text}\n\n[tools]\n"))])
}

/// Calls that destroy the file `f`, one of each kind of tool.
#[must_use]
pub fn destructive() -> [(&'static str, Value); 4] {
    [
        ("write_file", json!({"path": "f", "content": "new"})),
        ("delete_file", json!({"path": "f"})),
        ("bash", json!({"command": "echo new > f"})),
        ("bash", json!({"argv": ["rm", "f"]})),
    ]
}
