//! Calls that start no program.

use super::{Bench, interleave, show};
use palisade_client::{Client, Session};
use std::fs;

impl Bench {
    /// Calls that start no program.
    pub(super) fn small_calls(&self, client: &Client, session: &Session) {
        println!("\nsmall calls, 4 KiB");
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
        show("  ping", &times[0], times[0].median());
        show("  read, bare", &times[1], times[1].median());
        show("  read_file", &times[2], times[1].median());
        show("  write + rename, bare", &times[3], times[3].median());
        show("  write_file", &times[4], times[3].median());
    }
}
