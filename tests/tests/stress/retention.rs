//! The audit log's end: a long log is archived, verified across the cut, restored and searched; an
//! archiver that is killed at any moment loses nothing; and the daemon keeps what its configuration
//! says.

use palisade_audit::{
    ARCHIVE_DIRECTORY, Call, CallResult, CleanJson, CleanText, Hash, Judgement, Log, LogVolume,
    Options, ReadError, Reader, Record, verify,
};
use palisade_tests::{Dice, Mode, Place, World, binary, effort, report, rooms::until};
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

/// The most memory that a command may use, however long the log is.
const MEMORY: u64 = 128 << 20;

fn call_id(number: usize) -> String {
    format!("01990f3e-71d2-7000-8000-{number:012}")
}

/// Writes calls and results until the log has `bytes`, and returns how many calls there are.
fn write(directory: &Path, bytes: u64, rotate_at: u64) -> usize {
    let log = Log::open(directory, Options { rotate_at, ..Options::new("test") }).unwrap();
    let mut calls = 0;
    while calls % 100 > 0 || LogVolume::of(directory).unwrap().log_bytes < bytes {
        let id = call_id(calls);
        let command =
            format!("cargo test --package p{} -- {}", calls % 97, Hash::of(id.as_bytes()));
        let arguments = serde_json::json!({ "command": command }).to_string();
        let output: String =
            (0..20).map(|line| format!("test t{line}::{} ... ok\n", calls * line)).collect();
        let call = Record::Call(Call {
            call_id: id.clone(),
            session: "s1".into(),
            uid: 1000,
            pid: Some(7),
            tool: "bash".into(),
            digest: Hash::of(arguments.as_bytes()),
            arguments: CleanJson::new(&arguments),
            altered: None,
            claims: Vec::new(),
            cwd: "/w".into(),
            reason: None,
            dry_run: false,
            judgement: Judgement::Allow,
            findings: Vec::new(),
            thinking: None,
        });
        let result = Record::Result(CallResult {
            call_id: id,
            session: "s1".into(),
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
            duration_us: 900,
            denials: Vec::new(),
            observed: Vec::new(),
        });
        for record in [call, result] {
            drop(log.append(&record).unwrap());
        }
        calls += 1;
    }
    calls
}

fn audit(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(binary("palisade"));
    command.arg("audit").args(words).arg("--dir").arg(directory);
    command
}

/// Runs a command to its end, and reports its time and the most memory that was seen.
fn measure(what: &str, mut command: Command) -> Output {
    let began = Instant::now();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let (most, output) = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| child.wait_with_output().unwrap());
        let mut most = 0;
        while !waiting.is_finished() {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            most = most.max(peak.unwrap_or_default() * 1024);
            std::thread::sleep(Duration::from_millis(5));
        }
        (most, waiting.join().unwrap())
    });
    let seconds = began.elapsed().as_secs_f64();
    report(what, format!("{seconds:.1} s, {} MiB", most >> 20));
    assert!(most < MEMORY, "{what}: {most} bytes");
    output
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_long_log_is_archived_verified_restored_and_searched() {
    let place = Place::new();
    let log = place.path().join("audit");
    let (bytes, rotate_at) = effort((4 << 20, 256 << 10), (1 << 30, 64 << 20));
    let calls = write(&log, bytes, rotate_at);
    let whole = verify(&log, &[]).unwrap();
    assert!(whole.is_good(), "{whole:?}");
    let size = LogVolume::of(&log).unwrap().log_bytes;
    report("audit log: size, records", format!("{} MiB, {}", size >> 20, whole.chains[0].head.seq));
    let original = place.path().join("original");
    fs::create_dir(&original).unwrap();
    for entry in fs::read_dir(&log).unwrap().flatten() {
        fs::copy(entry.path(), original.join(entry.file_name())).unwrap();
    }

    succeeds(&measure("audit log: archived", audit(&log, &["archive", "--json"])));
    let volume = LogVolume::of(&log).unwrap();
    assert!(volume.log_bytes <= rotate_at + 8192, "only the current file is left: {volume:?}");
    report("audit log: archives", format!("{} MiB", volume.archive_bytes >> 20));
    let said = succeeds(&measure("audit log: verified across the cut", audit(&log, &["verify"])));
    assert!(said.contains(&format!("head {}\n", whole.chains[0].head)), "{said}");

    // In the first archive, in one in the middle, and in the log itself.
    for (place, number) in [("first", 0), ("middle", calls / 2), ("last", calls - 1)] {
        let id = call_id(number);
        let words = ["show", &id, "--json"];
        let said =
            succeeds(&measure(&format!("audit log: {place} call shown"), audit(&log, &words)));
        let found: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(found["records"].as_array().unwrap().len(), 2, "{place}");
    }

    // Restored with gunzip alone, it is what it was.
    let restored = place.path().join("restored");
    fs::create_dir(&restored).unwrap();
    let mut archives = 0;
    for entry in fs::read_dir(log.join(ARCHIVE_DIRECTORY)).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if let Some(name) = name.strip_suffix(".gz") {
            let to = fs::File::create(restored.join(name)).unwrap();
            let status = Command::new("gunzip").arg("-c").arg(entry.path()).stdout(to).status();
            assert!(status.unwrap().success());
            let restored = Hash::of(&fs::read(restored.join(name)).unwrap());
            assert_eq!(restored, Hash::of(&fs::read(original.join(name)).unwrap()), "{name}");
            archives += 1;
        }
    }
    assert!(archives >= 10, "{archives}");
    for entry in fs::read_dir(&log).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), restored.join(entry.file_name())).unwrap();
    }
    assert_eq!(verify(&restored, &[]).unwrap().chains[0].head, whole.chains[0].head);
}

/// Wherever an archiver is killed, every record is there once, and the next run ends well.
#[test]
fn an_archiver_that_is_killed_loses_nothing() {
    let mut dice = Dice::new("retention");
    for _ in 0..effort(3, 40) {
        let place = Place::new();
        let log = place.path().join("audit");
        write(&log, 1 << 20, 64 << 10);
        let head = verify(&log, &[]).unwrap().chains[0].head;
        for _ in 0..4 {
            let mut child = audit(&log, &["archive"]).stdout(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(u64::try_from(dice.roll(60)).unwrap()));
            child.kill().unwrap();
            child.wait().unwrap();
            let found = verify(&log, &[]).unwrap();
            assert!(found.is_good() && found.chains[0].head == head, "{found:?}");
            let mut expected = 0;
            Reader::with_archives(&log, Vec::new())
                .read(|found| {
                    expected += 1;
                    assert_eq!(found?.entry.seq, expected);
                    Ok::<_, ReadError>(())
                })
                .unwrap();
            assert_eq!(expected, head.seq);
        }
        succeeds(&audit(&log, &["archive"]).output().unwrap());
        let found = verify(&log, &[]).unwrap();
        assert!(found.is_good() && found.chains[0].files == 1, "{found:?}");
        for entry in fs::read_dir(log.join(ARCHIVE_DIRECTORY)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            assert!(!name.ends_with(".new"), "{name} is left over");
        }
    }
}

/// The daemon archives what is beyond its configuration when it starts, signs what it writes, and
/// the log still verifies.
#[test]
fn the_daemon_keeps_what_its_configuration_says() {
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    for mode in Mode::all() {
        let world = World::new(mode);
        let log = world.state().join("audit");
        mode.act(|| {
            write(&log, 1 << 20, 64 << 10);
        });
        let before = verify(&log, &[]).unwrap().chains[0].clone();
        assert!(before.files > 8, "{before:?}");
        let credentials = Place::new();
        fs::write(credentials.path().join("audit.pem"), KEY).unwrap();
        world.configure("[audit]\nkeep_size = \"512 KiB\"\nkey = \"credential:audit.pem\"\n");
        let daemon = world.configured_daemon(|command| {
            command.env("CREDENTIALS_DIRECTORY", credentials.path());
        });
        until("the log is short enough", || LogVolume::of(&log).unwrap().log_bytes <= 512 << 10);
        drop(daemon);
        let found = verify(&log, &[before.head]).unwrap();
        assert!(found.is_good(), "{mode:?}: {found:?}");
        let chain = &found.chains[0];
        assert!(chain.archives > 0 && chain.files < before.files, "{mode:?}: {chain:?}");
        assert!(chain.signed.is_some_and(|head| head.seq > before.head.seq), "{mode:?}: {chain:?}");
    }
}
