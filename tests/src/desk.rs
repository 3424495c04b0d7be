//! A daemon, a session under a profile of the test's own, and an operator who answers its questions.

use crate::{Daemon, Mode, Sandbox, World};
use palisade_client::{Answer, Open, Operator, OperatorEvent, Question, Registration};
use palisade_protocol::CallResult;
use serde_json::{Value, json};
use std::{fs, path::PathBuf};

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
        let world = World::new(mode);
        world.add_profile("asking", profile);
        let daemon = world.daemon();
        let open = Open::new(world.workspace()).profile("asking");
        let sandbox = match Sandbox::over(daemon.connect(mode), None, open) {
            Ok(sandbox) => sandbox,
            Err(error) => panic!("{mode:?}: no session: {error}"),
        };
        let stream = mode.act(|| std::os::unix::net::UnixStream::connect(&daemon.operators));
        let operator = sandbox.wait(async {
            let stream = stream.expect("the operators' socket");
            stream.set_nonblocking(true).expect("non-blocking");
            let stream = tokio::net::UnixStream::from_std(stream).expect("a stream");
            Operator::from_stream(stream).await.expect("an operator")
        });
        Self { world, sandbox, operator, daemon }
    }

    /// Somebody answers from here on.
    pub fn attach(&self) {
        let registration = Registration::new("person:ann");
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
        self.call(json!({"command": line}), answer)
    }

    /// The same with other arguments.
    #[must_use]
    pub fn call(
        &self,
        arguments: Value,
        answer: impl Fn(&Question) -> Answer,
    ) -> (CallResult, Vec<Question>) {
        self.sandbox.wait(async {
            let call = self.sandbox.session.call("bash", &arguments);
            let call = async { call.await.expect("a result") };
            tokio::pin!(call);
            let mut asked = Vec::new();
            loop {
                tokio::select! {
                    result = &mut call => return (result, asked),
                    event = self.operator.next() => {
                        let Some(OperatorEvent::Question(question)) = event else { continue };
                        let given = answer(&question);
                        self.operator.answer(&question, given).await.expect("taken");
                        asked.push(*question);
                    }
                }
            }
        })
    }
}
