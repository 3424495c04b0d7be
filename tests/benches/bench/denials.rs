//! The cost of reporting what a program was refused.

use super::{Bench, Times, bare, interleave};
use landlock::{AccessFs, Ruleset, RulesetAttr as _};
use palisade_client::Session;
use palisade_tests::KernelAudit;
use std::time::{Duration, Instant};

const GROUP: &str = "refusals from the kernel's records";

impl Bench {
    /// Measures commands in a session that reads the kernel's records, and in one that does not.
    pub(super) fn denials(&self) {
        let audit = match KernelAudit::on() {
            Ok(audit) => audit,
            Err(why) => return eprintln!("{GROUP}: not measured: {why}"),
        };
        // A session that is opened while kernel audit is off reads no records later.
        audit.pause();
        let (client, daemon) = self.client();
        let untold = self.open(&client);
        audit.resume();
        let (other, second) = self.client();
        let told = self.open(&other);
        let workspace = self.world.workspace();
        let refused = ": > /run/x; exit 1";
        let times = interleave(
            self.rounds,
            &mut [
                &mut || bare(&workspace, &self.environment),
                &mut || self.bash(&untold),
                &mut || self.bash(&told),
                &mut || self.ends(&untold, "exit 1", 0),
                &mut || self.ends(&told, "exit 1", 0),
                &mut || self.ends(&untold, refused, 0),
                &mut || self.ends(&told, refused, 1),
            ],
        );
        self.baseline(GROUP, "bare", &times[0]);
        let names = [
            "it ends well, unread",
            "it ends well, read",
            "it fails, unread",
            "it fails, read",
            "it is refused, unread",
            "it is refused, and explained",
        ];
        for (name, row) in names.iter().zip(&times[1..]) {
            self.show(GROUP, name, row, &times[0], "bare");
        }
        let (refusal, record) = kernels_share(&audit, self.rounds);
        self.baseline(GROUP, "the kernel alone: a refusal", &refusal);
        self.baseline(GROUP, "the kernel alone: until its record arrives", &record);
        drop((untold, client, told, other));
        self.end(daemon);
        self.end(second);
    }

    fn ends(&self, session: &Session, command: &str, denials: usize) {
        let result = self.runtime.block_on(async { session.bash(command).await }).unwrap();
        assert_eq!(result.denials.len(), denials, "{command}: {:?}", result.denials);
    }
}

/// Measures the kernel's own time: to refuse something that leaves a record, and until a process
/// that listens has it.
fn kernels_share(audit: &KernelAudit, rounds: usize) -> (Times, Times) {
    let listener = audit.listen();
    // A domain is for good: in a thread that ends.
    let measured = std::thread::scope(|scope| {
        scope
            .spawn(move || {
                let domain = Ruleset::default().handle_access(AccessFs::ReadDir).unwrap();
                domain.create().unwrap().restrict_self().unwrap();
                let (mut refusals, mut records) = (Vec::new(), Vec::new());
                for _ in 0..rounds {
                    let start = Instant::now();
                    std::fs::read_dir("/").unwrap_err();
                    refusals.push(start.elapsed());
                    listener.next(1423);
                    records.push(start.elapsed());
                    std::thread::sleep(Duration::from_millis(1));
                    listener.clear();
                }
                (refusals, records)
            })
            .join()
    });
    let (refusals, records) = measured.unwrap();
    (Times(refusals), Times(records))
}
