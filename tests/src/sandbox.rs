//! A session, for tests that are not about concurrency: every call waits for its result.

use crate::World;
use palisade_client::{Client, Error, Open, Session};
use palisade_protocol::CallResult;
use std::{os::unix::net::UnixStream, process::Child, time::Duration};
use tokio::runtime::Runtime;

/// A session and its daemon.
#[derive(Debug)]
pub struct Sandbox {
    runtime: Runtime,
    /// The session itself, for what the methods here do not offer.
    pub session: Session,
    /// The session's connection.
    pub client: Client,
    /// The session's embedded daemon, if it has one of its own.
    pub daemon: Option<Child>,
}

impl Sandbox {
    pub(crate) fn open(world: &World, profile: &str) -> Self {
        let (stream, daemon) = world.embedded(&[]);
        match Self::over(stream, Some(daemon), Open::new(world.workspace()).profile(profile)) {
            Ok(sandbox) => sandbox,
            Err(error) => panic!("{:?}: no session: {error}", world.mode),
        }
    }

    /// Opens a session over an existing connection.
    ///
    /// # Errors
    /// The daemon's error.
    pub fn over(stream: UnixStream, daemon: Option<Child>, open: Open) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (client, session) = runtime.block_on(async {
            stream.set_nonblocking(true).expect("non-blocking");
            let stream = tokio::net::UnixStream::from_std(stream).expect("a stream");
            let client = Client::from_stream(stream).await?;
            let session = client.open(open).await?;
            Ok::<_, Error>((client, session))
        })?;
        Ok(Self { runtime, session, client, daemon })
    }

    /// Waits for a future.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Runs a shell line.
    #[must_use]
    pub fn bash(&self, command: &str) -> CallResult {
        self.wait(async { self.session.bash(command).timeout(Duration::from_secs(300)).await })
            .unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Runs a shell line that must succeed; returns its standard output.
    #[must_use]
    pub fn ok(&self, command: &str) -> String {
        let result = self.bash(command);
        assert!(
            result.success,
            "{command}: {:?}\n{}\n{}",
            result.error, result.stdout, result.stderr
        );
        result.stdout
    }

    /// Makes attempts with `probe` inside; returns a line of output for each.
    #[must_use]
    pub fn probe(&self, attempts: &str) -> Vec<String> {
        let result = self.bash(&format!("./probe {attempts}"));
        assert!(result.success, "probe {attempts}: {:?}\n{}", result.error, result.stderr);
        result.stdout.lines().map(str::to_owned).collect()
    }

    /// Makes attempts with `probe` inside and compares the kernel's answers with the expected ones.
    pub fn holds(&self, expected: &[(&str, &str)]) {
        let attempts: Vec<_> = expected.iter().map(|(attempt, _)| *attempt).collect();
        let lines = self.probe(&attempts.join(" "));
        let expected: Vec<_> = expected.iter().map(|(a, answer)| format!("{a}={answer}")).collect();
        assert_eq!(lines, expected);
    }

    /// Calls a tool with JSON arguments.
    #[must_use]
    pub fn call(&self, tool: &str, arguments: serde_json::Value) -> CallResult {
        self.wait(async { self.session.call(tool, &arguments).await })
            .unwrap_or_else(|error| panic!("{tool}: {error}"))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let close = self.session.close();
        // A session that a test has broken can not be closed; its daemon is ended below.
        self.runtime.block_on(async { close.await.unwrap_or_default() });
        if let Some(mut daemon) = self.daemon.take() {
            self.runtime.block_on(async { self.client.shutdown().await.unwrap_or_default() });
            daemon.wait().map(drop).unwrap_or_default();
        }
    }
}
