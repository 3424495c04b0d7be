//! Ten plain refusals of ten ordinary programs, each explained with its target, the line that decides
//! and the smallest change: from the kernel's records where these are on, else by a second run of
//! the call. As root's session and as an ordinary user's.

use palisade_client::CallResult;
use palisade_tests::{KernelAudit, Mode, Sandbox, World, rooms, tree};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Output,
};

/// The profile of all sessions here: the default one, without a network.
const PROFILE: &str = "narrow";

/// A program's command line, the target that its refusal names, and part of the change.
struct Case {
    name: &'static str,
    line: String,
    target: String,
    change: &'static str,
}

/// A file in the directory for caches of the session's user, deleted afterwards.
struct CachedFile {
    file: PathBuf,
    made: Vec<PathBuf>,
}

impl CachedFile {
    fn new(world: &World) -> Self {
        let home = match world.mode {
            Mode::System => PathBuf::from("/root"),
            // This user has no account, and so no home.
            Mode::User => world.outside(),
        };
        let own = format!("palisade-test-{}", std::process::id());
        let directories = [home.join(".cache"), home.join(".cache").join(own)];
        let mut made = Vec::new();
        for directory in &directories {
            if !directory.exists() {
                fs::create_dir(directory).unwrap();
                world.give(directory);
                made.push(directory.clone());
            }
        }
        let file = directories[1].join("model.bin");
        fs::write(&file, "weights").unwrap();
        world.give(&file);
        Self { file, made }
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        fs::remove_file(&self.file).unwrap_or_default();
        for directory in self.made.iter().rev() {
            fs::remove_dir(directory).unwrap_or_default();
        }
    }
}

/// Puts an executable file somewhere.
fn script(world: &World, path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    world.give(path);
}

fn cases(world: &World, cached: &Path) -> Vec<Case> {
    let canary = world.canary().display().to_string();
    let tool = world.outside().join("tool");
    script(world, &tool, "#!/bin/sh\nexit 0\n");
    script(world, &world.workspace().join("script"), &format!("#!/bin/sh\n{}\n", tool.display()));
    let tool = tool.display().to_string();
    let cached = cached.display().to_string();
    let data = data(world).display().to_string();
    let bind = "import socket; socket.socket().bind((\"127.0.0.1\", 80))";
    let case = |name, line: String, target: &str, change| Case {
        name,
        line,
        target: target.to_owned(),
        change,
    };
    vec![
        case("read", format!("cat {canary}"), &canary, "to fs.read"),
        case(
            "write",
            format!("echo x | tee {data}/new; false"),
            &format!("{data}/new"),
            "fs.unguarded",
        ),
        case(
            "rename",
            format!("mv {data}/file {data}/other"),
            &format!("{data}/file"),
            "fs.unguarded",
        ),
        case("delete", format!("rm -f {data}/file"), &format!("{data}/file"), "fs.unguarded"),
        case("exec", "./script".into(), &tool, "to fs.execute"),
        case("connect", "curl -sS -m 60 http://192.0.2.1/".into(), "192.0.2.1:80", "to net.allow"),
        case("bind", format!("python3 -c '{bind}'"), "127.0.0.1:80", "use a port of 1024 or above"),
        case("ptrace", "strace -p 1".into(), "process 1", "no profile can allow it"),
        case("mount", "mount -t tmpfs none /mnt".into(), "mount", "no profile can allow it"),
        case(
            "missing path",
            format!("python3 -c 'open(\"{cached}\").read()'"),
            &cached,
            "to fs.read",
        ),
    ]
}

/// Returns the directory outside of the workspace that the profile lets programs only read.
fn data(world: &World) -> PathBuf {
    world.outside().join("data")
}

fn narrow(world: &World) {
    fs::create_dir(data(world)).unwrap();
    fs::write(data(world).join("file"), "data").unwrap();
    world.give(&data(world));
    world.give(&data(world).join("file"));
    let text = fs::read_to_string(world.profiles().join("unasked.toml")).unwrap();
    let narrow = text.replacen("mode = \"loopback\"", "mode = \"none\"", 1);
    let narrow = narrow.replacen("    \"connect 127.0.0.1:8080: allow\",\n", "", 1);
    let read = format!("\nread = [\n    {:?},", data(world).display().to_string());
    let narrow = narrow.replacen("\nread = [", &read, 1);
    assert!(narrow != text && narrow.contains(&read));
    world.add_profile(PROFILE, &narrow);
}

fn why(world: &World, words: &[&str]) -> Output {
    world.mode.act(|| {
        let mut command = world.command("palisade");
        if world.mode == Mode::User {
            command.env_remove("HOME");
        }
        command.arg("why").args(words).arg("--dir").arg(world.state().join("audit"));
        command.arg("--profiles").arg(world.profiles()).output().unwrap()
    })
}

/// Returns what is told of a call with `--json`: by its records, or else by a second run of it.
fn explained(world: &World, case: &Case, result: &CallResult) -> Vec<Value> {
    let id = result.call_id.as_str();
    // The log is read as a file: the result's record may come after the reply.
    let (told, records) = rooms::awaited("the result is in the log", || {
        let told = why(world, &[id, "--json"]);
        let records: Value = serde_json::from_slice(&told.stdout).unwrap();
        (records["found"] == true).then_some((told, records))
    });
    let known = records["denials"].as_array().unwrap();
    if !known.is_empty() {
        assert_eq!(told.status.code(), Some(0), "{}", case.name);
        return known.clone();
    }
    // Nothing is known: that is said, with the command that finds out.
    let told = why(world, &[id]);
    assert_eq!(told.status.code(), Some(1), "{}", case.name);
    let text = String::from_utf8(told.stdout).unwrap();
    let short = id.split('-').take(3).collect::<Vec<_>>().join("-");
    assert!(text.contains(&format!("`palisade why --trace {short}`")), "{}: {text}", case.name);
    let before = tree(&world.workspace());
    let told = why(world, &["--trace", &short, "--json"]);
    let (text, errors) =
        (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert_eq!(told.status.code(), Some(0), "{:?} {}: {text}{errors}", world.mode, case.name);
    assert_eq!(tree(&world.workspace()), before, "{}", case.name);
    let traced: Value = serde_json::from_str(&text).unwrap();
    assert_ne!(traced["traced_by"], Value::from(id), "{}", case.name);
    ["refused", "left_out"].iter().flat_map(|key| traced[key].as_array().unwrap().clone()).collect()
}

/// The refusal is told with the line of the profile that decides it, where one does: its file, and
/// the text there. People are told the same.
fn assert_says_where(world: &World, case: &Case, denial: &Value, shown: &str) {
    let text = |key: &str| denial[key].as_str().unwrap_or_default().to_owned();
    let at = text("at");
    let context = format!("{:?} {}: {denial:#?}\n{shown}", world.mode, case.name);
    let file = world.profiles().join(format!("{PROFILE}.toml"));
    let data = format!("{:?},", data(world).display().to_string());
    let decided_by = match case.name {
        "write" | "rename" | "delete" => Some(data.as_str()),
        "connect" => Some("mode = \"none\""),
        // The profile says nothing of the others, or could not allow them.
        _ => None,
    };
    if let Some(decided_by) = decided_by {
        let profile = fs::read_to_string(&file).unwrap();
        let place = at.strip_prefix(&format!("{}:", file.display())).expect(&context);
        let (line, column) = place.split_once(':').expect(&context);
        let line = profile.lines().nth(line.parse::<usize>().unwrap() - 1).expect(&context);
        assert_eq!(line.trim(), decided_by, "{context}");
        assert!((1..=line.len()).contains(&column.parse().unwrap()), "{context}");
    } else {
        let is_of_the_profile = at.starts_with(&format!("{}:", file.display()));
        assert!(at.is_empty() || is_of_the_profile, "{context}");
    }
    let at = if at.is_empty() { "none: the default applies" } else { &at };
    for line in [
        format!("  because    {}\n", text("rule")),
        format!("  line       {at}\n"),
        format!("  to allow   {}\n", text("remedy")),
        format!(": {}\n", text("target")),
    ] {
        assert!(shown.contains(&line), "{line:?} is not told: {context}");
    }
}

/// Returns what people are told of a call, by its records or by a second run.
fn shown(world: &World, result: &CallResult) -> String {
    let id = result.call_id.as_str();
    let told = why(world, &[id]);
    let told = if told.status.code() == Some(0) { told } else { why(world, &["--trace", id]) };
    assert_eq!(told.status.code(), Some(0), "{:?}: {told:?}", world.mode);
    String::from_utf8(told.stdout).unwrap()
}

fn attempt(world: &World, sandbox: &Sandbox, case: &Case) {
    let result = sandbox.bash(&case.line);
    assert!(!result.success, "{:?} {}: {}", world.mode, case.name, result.output);
    let told = explained(world, case, &result);
    let text = |denial: &Value, key: &str| denial[key].as_str().unwrap_or_default().to_owned();
    let opens_nothing = ["bind", "ptrace", "mount"].contains(&case.name);
    let fits = |denial: &&Value| {
        let named = text(denial, "target").contains(&case.target)
            || text(denial, "rule").starts_with(&format!("{}: ", case.name));
        named
            && text(denial, "remedy").contains(case.change)
            && text(denial, "opens").is_empty() == opens_nothing
    };
    let fitting = told.iter().find(fits);
    let fitting = fitting.unwrap_or_else(|| panic!("{:?} {}: {told:#?}", world.mode, case.name));
    let shown = shown(world, &result);
    assert_says_where(world, case, fitting, &shown);
}

fn ten(world: &World) {
    narrow(world);
    let cached = CachedFile::new(world);
    let sandbox = world.open_with(PROFILE);
    for case in cases(world, &cached.file) {
        attempt(world, &sandbox, &case);
    }
    let left: Vec<_> =
        fs::read_dir(data(world)).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["file"], "{:?}", world.mode);
    assert_eq!(fs::read_to_string(&cached.file).unwrap(), "weights");
}

#[test]
fn ten_refusals_are_explained_without_kernel_records() {
    let audit = KernelAudit::off();
    for mode in Mode::all() {
        assert!(audit.is_ok() || mode == Mode::User);
        ten(&World::new(mode));
    }
}

#[test]
fn ten_refusals_are_explained_with_kernel_records() {
    let Ok(_audit) = KernelAudit::on() else { return };
    for mode in Mode::all() {
        ten(&World::new(mode));
    }
}
