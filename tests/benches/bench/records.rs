//! The cost of the audit records of a call.

use super::{Bench, interleave, show};
use palisade_audit::{
    Call, CallResult, CleanJson, CleanText, Hash, Judgement, Log, Options, Record, Sync,
};
use std::{fs, io::Write as _};

impl Bench {
    /// The two records of a call, made and written, and what the bare writes of them cost.
    pub(super) fn audit(&self) {
        println!("\naudit, the two records of a call");
        let directory = self.world.workspace().join("audit");
        let log = Log::open(&directory, Options::new("bench")).unwrap();
        let line = vec![b'x'; 600];
        let mut bare = fs::File::create(directory.join("bare")).unwrap();
        let times = interleave(
            self.rounds * 10,
            &mut [
                &mut || {
                    bare.write_all(&line).unwrap();
                    bare.write_all(&line).unwrap();
                },
                &mut || {
                    drop(log.append(&call_record()).unwrap());
                    drop(log.append(&result_record()).unwrap());
                },
            ],
        );
        show("  two lines of 600 bytes, bare", &times[0], times[0].median());
        show("  call and result", &times[1], times[0].median());
        let always = Options { sync: Sync::Always, ..Options::new("bench") };
        let log = Log::open(&directory.join("always"), always).unwrap();
        let forced = &mut || drop(log.append(&call_record()).unwrap());
        let forced = interleave(self.rounds, &mut [forced]);
        show("  a call, forced to the disk", &forced[0], times[0].median());
    }
}

fn call_record() -> Record {
    let arguments = "{\"command\":\"cargo test --workspace 2>&1 | tail -n 20\"}";
    Record::Call(Call {
        call_id: "01890a5d-ac96-774b-bcce-b302099a8057".into(),
        session: "01890a5d-ac96-774b-bcce-b302099a8058".into(),
        uid: 1000,
        pid: Some(4711),
        tool: "bash".into(),
        digest: Hash::of(arguments.as_bytes()),
        arguments: CleanJson::new(arguments),
        cwd: CleanText::new("/home/somebody/project"),
        reason: Some(CleanText::new("to see whether the tests pass")),
        dry_run: false,
        judgement: Judgement::Allow,
        findings: Vec::new(),
        thinking: None,
        claims: Vec::new(),
    })
}

fn result_record() -> Record {
    let output = "test result: ok. 48 passed; 0 failed\n".repeat(10);
    Record::Result(CallResult {
        call_id: "01890a5d-ac96-774b-bcce-b302099a8057".into(),
        session: "01890a5d-ac96-774b-bcce-b302099a8058".into(),
        success: true,
        error: None,
        message: None,
        exit_code: Some(0),
        signal: None,
        output: Some(CleanText::new(&output)),
        output_bytes: output.len() as u64,
        output_digest: Hash::of(output.as_bytes()),
        data_digest: None,
        attachment: None,
        omitted_bytes: 0,
        duration_us: 1500,
        denials: Vec::new(),
        observed: Vec::new(),
    })
}
