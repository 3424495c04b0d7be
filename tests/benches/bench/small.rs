//! Calls that start no program.

use super::{Bench, interleave};
use palisade_client::{Client, Session};
use std::fs;

const GROUP: &str = "calls";

impl Bench {
    /// Measures calls that start no program.
    pub(super) fn small_calls(&self, client: &Client, session: &Session) {
        let file = self.world.workspace().join("four");
        let contents = "x".repeat(4096);
        fs::write(&file, &contents).unwrap();
        let temp = self.world.workspace().join("bare.tmp");
        let read = || fs::read(&file).unwrap();
        let rounds = self.rounds * 10;
        let times = interleave(
            rounds,
            &mut [
                &mut || self.runtime.block_on(client.ping()).unwrap(),
                &mut || assert_eq!(read().len(), 4096),
                &mut || {
                    let text = self.runtime.block_on(session.read_file("four")).unwrap();
                    assert_eq!(text.len(), 4096);
                },
                &mut || {
                    fs::write(&temp, &contents).unwrap();
                    fs::rename(&temp, &file).unwrap();
                },
                &mut || {
                    let written =
                        self.runtime.block_on(session.write_file("four", &contents)).unwrap();
                    assert!(written.success);
                },
            ],
        );
        self.baseline(GROUP, "ping", &times[0]);
        self.baseline(GROUP, "read of 4 KiB, bare", &times[1]);
        self.show(GROUP, "read_file", &times[2], &times[0], "ping");
        self.baseline(GROUP, "write and rename of 4 KiB, bare", &times[3]);
        self.show(GROUP, "write_file", &times[4], &times[3], "bare");
    }
}
