//! The Debian package: what is in it, its manual and completions; and in a systemd booted for the
//! test, which takes root, that a machine goes from nothing to a proved service by it, and back.

use palisade_tests::{Booted, KERNEL_AUDIT, Mode, UNITS, binary, readme_blocks, text};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The sources of the package besides programs and units.
const SOURCES: [(&str, &str); 48] = [
    ("systemd/palisade-sh", include_str!("../../../systemd/palisade-sh")),
    ("systemd/package", include_str!("../../../systemd/package")),
    ("systemd/manual", include_str!("../../../systemd/manual")),
    ("systemd/palisaded.toml", include_str!("../../../systemd/palisaded.toml")),
    ("systemd/debian/postinst", include_str!("../../../systemd/debian/postinst")),
    ("systemd/debian/prerm", include_str!("../../../systemd/debian/prerm")),
    ("systemd/debian/postrm", include_str!("../../../systemd/debian/postrm")),
    ("daemon/broker/Cargo.toml", include_str!("../../../daemon/broker/Cargo.toml")),
    ("Cargo.toml", include_str!("../../../Cargo.toml")),
    ("README.md", include_str!("../../../README.md")),
    ("SECURITY.md", include_str!("../../../SECURITY.md")),
    ("CHANGELOG.md", include_str!("../../../CHANGELOG.md")),
    ("LICENSE-MIT", include_str!("../../../LICENSE-MIT")),
    ("LICENSE-APACHE", include_str!("../../../LICENSE-APACHE")),
    ("protocol/PROTOCOL.md", include_str!("../../../protocol/PROTOCOL.md")),
    ("docs/agents.md", include_str!("../../../docs/agents.md")),
    ("docs/approvals.md", include_str!("../../../docs/approvals.md")),
    ("docs/architecture.md", include_str!("../../../docs/architecture.md")),
    ("docs/performance.md", include_str!("../../../docs/performance.md")),
    ("docs/escape-bench.md", include_str!("../../../docs/escape-bench.md")),
    ("docs/glossary.md", include_str!("../../../docs/glossary.md")),
    ("docs/network.md", include_str!("../../../docs/network.md")),
    ("docs/losses.md", include_str!("../../../docs/losses.md")),
    ("docs/operations.md", OPERATIONS),
    ("docs/profiles.md", include_str!("../../../docs/profiles.md")),
    ("docs/audit.md", include_str!("../../../docs/audit.md")),
    ("docs/changes.md", include_str!("../../../docs/changes.md")),
    ("docs/jobs.md", include_str!("../../../docs/jobs.md")),
    ("docs/proof.md", include_str!("../../../docs/proof.md")),
    ("docs/python.md", include_str!("../../../docs/python.md")),
    ("docs/transactions.md", include_str!("../../../docs/transactions.md")),
    (
        "systemd/apparmor/palisade-launcher",
        include_str!("../../../systemd/apparmor/palisade-launcher"),
    ),
    ("systemd/user/palisaded.service", include_str!("../../../systemd/user/palisaded.service")),
    (
        "systemd/monitoring/palisade.rules.yml",
        include_str!("../../../systemd/monitoring/palisade.rules.yml"),
    ),
    (
        "systemd/monitoring/palisade-dashboard.json",
        include_str!("../../../systemd/monitoring/palisade-dashboard.json"),
    ),
    ("daemon/profiles/autonomous.toml", include_str!("../../../daemon/profiles/autonomous.toml")),
    ("daemon/profiles/container.toml", include_str!("../../../daemon/profiles/container.toml")),
    ("daemon/profiles/build.toml", include_str!("../../../daemon/profiles/build.toml")),
    ("daemon/profiles/environment.toml", include_str!("../../../daemon/profiles/environment.toml")),
    ("daemon/profiles/guarded.toml", include_str!("../../../daemon/profiles/guarded.toml")),
    ("daemon/profiles/noise.toml", include_str!("../../../daemon/profiles/noise.toml")),
    ("daemon/profiles/readonly.toml", include_str!("../../../daemon/profiles/readonly.toml")),
    ("daemon/profiles/strict.toml", include_str!("../../../daemon/profiles/strict.toml")),
    ("daemon/profiles/syscalls.toml", include_str!("../../../daemon/profiles/syscalls.toml")),
    ("daemon/profiles/trusted-net.toml", include_str!("../../../daemon/profiles/trusted-net.toml")),
    ("daemon/profiles/workspace.toml", include_str!("../../../daemon/profiles/workspace.toml")),
    ("systemd/README.md", include_str!("../../../systemd/README.md")),
    (".gitignore", include_str!("../../../.gitignore")),
];
const OPERATIONS: &str = include_str!("../../../docs/operations.md");
const PROGRAMS: [&str; 7] = [
    "palisade",
    "palisade-analyst",
    "palisade-cell",
    "palisade-egress",
    "palisade-launcher",
    "palisade-mcp",
    "palisaded",
];

/// Runs something that must succeed and has nothing to complain of.
fn quiet(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{command:?}: {}\n{said}", output.status);
    text(&output.stdout)
}

/// A source tree after a build, and the package that its README's line makes there.
struct Packaged {
    source: TempDir,
    package: PathBuf,
}

impl Packaged {
    fn new() -> Self {
        let source = tempfile::Builder::new().prefix("palisade-test-").tempdir().unwrap();
        let at = |name: &str| source.path().join(name);
        for (name, text) in SOURCES {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        }
        let drop_ins = KERNEL_AUDIT.map(|(_, name, text)| (name, text));
        for (name, text) in UNITS.into_iter().chain(drop_ins) {
            fs::write(at("systemd").join(name), text).unwrap();
        }
        fs::create_dir_all(at("target/release")).unwrap();
        for name in PROGRAMS {
            symlink(binary(name), at("target/release").join(name)).unwrap();
        }
        for script in ["systemd/package", "systemd/manual"] {
            fs::set_permissions(at(script), fs::Permissions::from_mode(0o755)).unwrap();
        }
        // Compressing hundreds of megabytes would show nothing that is worth its time.
        let line = format!("{} --fast", readme_blocks()[2].trim());
        let made = quiet(Command::new("bash").args(["-euc", &line]).current_dir(source.path()));
        let package = PathBuf::from(made.trim());
        assert!(package.starts_with(source.path().join("target/debian")), "{package:?}");
        Self { source, package }
    }

    /// A page of the manual, as a terminal shows it. Groff has nothing against it.
    fn page(&self, name: &str) -> String {
        let path = self.source.path().join("target/package/man").join(name);
        let mut man = Command::new("man");
        man.args(["--warnings=w", "--local-file"]).arg(path);
        quiet(man.env("MANWIDTH", "500").env("LC_ALL", "C.UTF-8").env("MAN_KEEP_FORMATTING", ""))
    }
}

/// The lines of `dpkg-deb --contents`: mode, owner and path of each.
fn contents(package: &Path) -> Vec<(String, String, String)> {
    let listed = quiet(Command::new("dpkg-deb").arg("--contents").arg(package));
    let parse = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        (words[0].to_owned(), words[1].to_owned(), words[5].trim_start_matches('.').to_owned())
    };
    listed.lines().map(parse).collect()
}

#[test]
fn everything_is_in_the_package_and_belongs_to_root() {
    let packaged = Packaged::new();
    let contents = contents(&packaged.package);
    let has = |path: &str, mode: &str| {
        let found = contents.iter().find(|(_, _, known)| known == path);
        let (found, owner, _) = found.unwrap_or_else(|| panic!("{path} is not in the package"));
        assert_eq!((found.as_str(), owner.as_str()), (mode, "root/root"), "{path}");
    };
    for program in PROGRAMS {
        has(&format!("/usr/bin/{program}"), "-rwxr-xr-x");
        let section = if ["palisade", "palisade-mcp"].contains(&program) { 1 } else { 8 };
        has(&format!("/usr/share/man/man{section}/{program}.{section}.gz"), "-rw-r--r--");
    }
    has("/usr/bin/palisade-sh", "-rwxr-xr-x");
    for (name, _) in &UNITS[..10] {
        has(&format!("/usr/lib/systemd/system/{name}"), "-rw-r--r--");
    }
    for path in [
        "/usr/lib/sysusers.d/palisade.conf",
        "/usr/lib/tmpfiles.d/palisade.conf",
        "/etc/palisade/palisaded.toml",
        "/usr/lib/systemd/user/palisaded.service",
        "/usr/share/doc/palisade/examples/palisade.rules.yml",
        "/usr/share/doc/palisade/examples/palisade-dashboard.json",
        "/usr/share/doc/palisade/profiles/workspace.toml",
        "/usr/share/doc/palisade/profiles/syscalls.toml",
        "/usr/share/doc/palisade/examples/kernel-audit.conf",
        "/usr/share/doc/palisade/examples/kernel-audit-broker.conf",
        "/usr/share/man/man5/palisaded.toml.5.gz",
        "/usr/share/man/man5/palisade-profiles.5.gz",
        "/usr/share/bash-completion/completions/palisade",
        "/usr/share/zsh/vendor-completions/_palisade",
        "/usr/share/fish/vendor_completions.d/palisade.fish",
        "/usr/share/doc/palisade/docs/operations.md",
        "/usr/share/doc/palisade/copyright",
    ] {
        has(path, "-rw-r--r--");
    }
    assert!(contents.iter().all(|(mode, owner, _)| owner == "root/root" && !mode.contains('s')));
    let conffiles = Command::new("dpkg-deb")
        .args(["--info"])
        .arg(&packaged.package)
        .arg("conffiles")
        .output()
        .unwrap();
    assert_eq!(text(&conffiles.stdout), "/etc/palisade/palisaded.toml\n");
    // The configuration that is shipped says what is usual, in force or behind its #.
    let shipped = include_str!("../../../systemd/palisaded.toml");
    let config = packaged.source.path().join("palisaded.toml");
    for said in [shipped.to_owned(), shipped.replace("\n# connect", "\n#connect")] {
        fs::write(&config, said.replace("group:palisade-", "gid:7 ")).unwrap();
        let mut check = Command::new(binary("palisaded"));
        check.arg("--check").arg("--config").arg(&config);
        check.args(["--socket", "/run/palisade-test/agent.sock"]);
        quiet(&mut check);
    }
}

/// The files that a path of the metadata means, which may have a `*` in its last part.
fn matching(top: &Path, pattern: &str) -> Vec<PathBuf> {
    let (directory, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let Some((before, after)) = name.split_once('*') else { return vec![top.join(pattern)] };
    let entries = fs::read_dir(top.join(directory)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_meant = |name: &String| name.starts_with(before) && name.ends_with(after);
    let mut found: Vec<_> = names.filter(is_meant).collect();
    found.sort();
    found.into_iter().map(|name| top.join(directory).join(name)).collect()
}

/// `systemd/package` makes what `cargo deb` would make of its metadata, by its own rules: the same
/// files with the same modes, the same fields, configuration files and scripts; and of the tree as
/// it is, not only of what these tests know.
#[test]
fn it_is_what_the_metadata_of_cargo_deb_say() {
    let packaged = Packaged::new();
    let manifest = include_str!("../../../daemon/broker/Cargo.toml");
    let manifest: toml::Table = toml::from_str(manifest).unwrap();
    let deb = &manifest["package"]["metadata"]["deb"];
    let said = |key: &str| deb[key].as_str().unwrap();
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut expected = Vec::new();
    for asset in deb["assets"].as_array().unwrap() {
        let [source, to, mode] = [0, 1, 2].map(|at| asset[at].as_str().unwrap());
        let source = source.strip_prefix("../../").unwrap_or(source);
        let found = matching(packaged.source.path(), source);
        if !source.starts_with("target/") {
            let names = |paths: &[PathBuf]| -> Vec<_> {
                paths.iter().map(|path| path.file_name().unwrap().to_owned()).collect()
            };
            assert_eq!(names(&found), names(&matching(tree, source)), "{source}");
        }
        let mode = match mode {
            "755" => "-rwxr-xr-x",
            "644" => "-rw-r--r--",
            other => panic!("{other}"),
        };
        for path in found {
            let name = path.file_name().unwrap().to_str().unwrap();
            let to = if to.ends_with('/') { format!("{to}{name}") } else { to.to_owned() };
            let end = if to.contains("/share/man/") { ".gz" } else { "" };
            expected.push((mode.to_owned(), "root/root".to_owned(), format!("{to}{end}")));
        }
    }
    let copyright = format!("/usr/share/doc/{}/copyright", said("name"));
    expected.push(("-rw-r--r--".to_owned(), "root/root".to_owned(), copyright));
    let mut found = contents(&packaged.package);
    found.retain(|(mode, _, _)| !mode.starts_with('d'));
    expected.sort();
    found.sort();
    assert!(found.len() > 40, "{found:?}");
    assert_eq!(found, expected);
    let told = |words: &[&str]| {
        quiet(Command::new("dpkg-deb").arg(words[0]).arg(&packaged.package).args(&words[1..]))
    };
    for (field, key) in [
        ("Package", "name"),
        ("Depends", "depends"),
        ("Section", "section"),
        ("Priority", "priority"),
        ("Maintainer", "maintainer"),
    ] {
        assert_eq!(told(&["--field", field]).trim_end(), said(key), "{field}");
    }
    let version = concat!(env!("CARGO_PKG_VERSION"), "-1");
    assert_eq!(told(&["--field", "Version"]).trim_end(), version);
    let files: Vec<_> = deb["conf-files"].as_array().unwrap().iter().map(|f| f.as_str()).collect();
    let conffiles = told(&["--info", "conffiles"]);
    assert_eq!(conffiles.lines().map(Some).collect::<Vec<_>>(), files);
    let scripts = said("maintainer-scripts").strip_prefix("../../").unwrap();
    for script in matching(tree, &format!("{scripts}/*")) {
        let name = script.file_name().unwrap().to_str().unwrap();
        assert_eq!(told(&["--info", name]), fs::read_to_string(&script).unwrap(), "{name}");
    }
}

#[test]
fn the_manual_and_the_completions_know_everything() {
    let packaged = Packaged::new();
    let help = |program: &str| quiet(Command::new(binary(program)).arg("--help"));
    let options = |help: &str| {
        let words = help.lines().map(str::trim_start).filter(|line| line.starts_with("--"));
        words.map(|line| line.split([' ', ',']).next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (page, program, least) in
        [("palisaded.8", "palisaded", 12), ("palisade-launcher.8", "palisade-launcher", 7)]
    {
        let options = options(&help(program));
        let page = packaged.page(page);
        assert!(options.len() > least, "{options:?}");
        for option in options {
            assert!(page.contains(&option), "{option} is not in {page}");
        }
    }
    // Every key of the configuration, and every metric, by the rows of the documentation's tables.
    let rows = |text: &'static str| {
        text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|row| row.0))
    };
    let (configuration, service) = OPERATIONS.split_once("\n## The service\n").unwrap();
    assert!(rows(configuration).count() > 20 && rows(service).count() > 10);
    for (page, text) in [("palisaded.toml.5", configuration), ("palisaded.8", service)] {
        let page = packaged.page(page);
        for row in rows(text) {
            assert!(page.contains(row), "{row} is not in {page}");
        }
    }
    assert!(packaged.page("palisade-profiles.5").contains("PROFILES(5)"));
    let said = help("palisade");
    let commands = said.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let completions = packaged.source.path().join("target/package/completions/palisade");
    let completed = |word: &str| {
        let line = format!(
            "source '{}'; COMP_WORDS=(palisade {word}); COMP_CWORD=1; _palisade palisade {word} palisade; \
             echo ${{COMPREPLY[*]}}",
            completions.display()
        );
        quiet(Command::new("bash").args(["--norc", "-c", &line]))
    };
    let mut count = 0;
    for line in commands.lines() {
        let name = line.split_whitespace().next().unwrap();
        // A line that goes on with the one before.
        if line.starts_with("    ") || name == "help" {
            continue;
        }
        count += 1;
        assert!(packaged.page(&format!("palisade-{name}.1")).contains("SYNOPSIS"), "{name}");
        let all = completed(name);
        assert!(all.split_whitespace().any(|word| word == name), "{name}: {all}");
    }
    assert!(count > 12, "{commands}");
}

/// From nothing to a service that is proved, by the documented steps; a newer package over it; and
/// back to nothing.
#[test]
fn a_machine_is_served_by_the_package_and_rid_of_it() {
    if !Mode::all().contains(&Mode::System) {
        // Installing takes root. What dpkg would run is a shell's; it holds together.
        for script in ["postinst", "prerm", "postrm"] {
            let name = format!("systemd/debian/{script}");
            let source = SOURCES.iter().find(|(known, _)| *known == name).unwrap().1;
            assert!(source.starts_with("#!/bin/sh\n") && source.contains("\nset -e\n"), "{name}");
            quiet(Command::new("sh").args(["-nc", source]));
        }
        return;
    }
    let packaged = Packaged::new();
    let booted = Booted::with_package(&packaged.package);
    let sockets = ["palisaded.socket", "palisade-operator.socket", "palisade-provider.socket"];
    for socket in sockets.iter().chain(&["palisade-launcher.socket", "palisade-egress.socket"]) {
        assert_eq!(booted.ok(&["systemctl", "is-enabled", socket]), "enabled");
        assert_eq!(booted.ok(&["systemctl", "is-active", socket]), "active");
    }
    let alice = |line: &str| {
        let output = booted.line_of("alice", line).stdin(Stdio::null()).output().unwrap();
        assert!(
            output.status.success(),
            "{line}: {}",
            text(&output.stderr) + &text(&output.stdout)
        );
        text(&output.stdout)
    };
    assert_eq!(alice("palisade run -- 'id -un; echo kept >file'"), "alice\n");
    let proved = alice("palisade doctor --prove workspace");
    assert!(proved.contains("proved"), "{proved}");
    booted.ok(&["palisaded", "--check"]);
    assert_in_the_journal(&booted);
    let told =
        booted.ok(&["env", "WITHOUT_CREDENTIALS=1", "sh", "-c", include_str!("../../operator")]);
    let steps: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("== ")).collect();
    let expected = ["retention", "signatures", "metrics", "service", "dashboard", "back"];
    assert_eq!(steps, expected, "{told}");
    assert!(told.contains("\nserved\nactive\nactive\n"), "{told}");
    assert!(told.contains("all answered"), "{told}");

    // A higher version while a session runs: its client is told, the sockets are the same ones, the
    // programs are others, the log goes on.
    let pid = booted.main_pid("palisaded.service");
    let change = "s/^# drain_ms.*/drain_ms = 2000/";
    booted.ok(&["sed", "-i", change, "/etc/palisade/palisaded.toml"]);
    booted.ok(&["systemctl", "reload", "palisaded"]);
    let paths = ["agent", "operator", "provider"].map(|name| format!("/run/palisade/{name}.sock"));
    let inodes = || booted.ok(&["stat", "-c", "%i", &paths[0], &paths[1], &paths[2]]);
    let (before, mut running) = (inodes(), Waiting::begin(&booted));
    let name = packaged.package.file_name().unwrap().to_str().unwrap();
    booted.ok(&["bash", "-euc", &LATER.replace("PACKAGE", &format!("/src/{name}"))]);
    let version = booted.ok(&["dpkg-query", "-W", "-f", "${Version}", "palisade"]);
    assert!(version.ends_with("+later"), "{version}");
    running.assert_told();
    assert_eq!(inodes(), before);
    assert_eq!(alice("palisade run -- cat file"), "kept\n");
    assert_ne!(booted.main_pid("palisaded.service"), pid);
    booted.ok(&["grep", "-x", "drain_ms = 2000", "/etc/palisade/palisaded.toml"]);
    let verify = ["palisade", "audit", "verify", "--dir", "/var/lib/palisade/audit"];
    let verified = booted.ok(&verify);
    assert!(verified.starts_with("c0000: good, ") && !verified.contains('\n'), "{verified}");

    booted.ok(&["dpkg", "--remove", "palisade"]);
    assert_eq!(booted.run(&["pgrep", "palisade"]).status.code(), Some(1), "something runs");
    booted.ok(&["test", "-e", "/var/lib/palisade/audit"]);
    booted.ok(&["test", "-e", "/etc/palisade/palisaded.toml"]);
    booted.ok(&["dpkg", "--purge", "palisade"]);
    let left = "systemctl list-units --all --plain --no-legend '*palisade*'; \
                systemctl list-unit-files --no-legend '*palisade*'; true";
    assert_eq!(booted.ok(&["bash", "-c", left]), "");
    let left =
        booted.ok(&["bash", "-c", "find /etc /usr /var /run /dev /tmp -iname '*palisade*' -prune"]);
    // The machine stands on an overlay of this host, which may have something of the name: a checkout.
    let left: Vec<_> = left.lines().filter(|path| !Path::new(path).exists()).collect();
    assert_eq!(left, Vec::<&str>::new());
    assert_eq!(booted.ok(&["stat", "-c", "%U %s", "/home/alice/work/file"]), "alice 5");
}

/// Installs the package with a higher version over the one that is there.
const LATER: &str = "mkdir /tmp/later; cd /tmp/later; ar x PACKAGE; mkdir control
    tar -xf control.tar* -C control; sed -i 's/^Version: .*/&+later/' control/control
    rm control.tar*; tar -cf control.tar -C control .
    ar rc later.deb debian-binary control.tar data.tar*
    dpkg --force-confold --install later.deb; rm -r /tmp/later";

/// A command of somebody's that would run on.
struct Waiting(Child);

impl Waiting {
    fn begin(booted: &Booted) -> Self {
        let mut command = booted.line_of("alice", "palisade run -- 'echo begun; sleep 300'");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
        Self(child)
    }

    /// Asserts that the command has ended, and says why and how to go on.
    fn assert_told(&mut self) {
        let status = self.0.wait().unwrap();
        let mut said = String::new();
        self.0.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(125), "{said}");
        assert!(said.contains("connect again"), "{said}");
    }
}

/// A call and a decision are lines of the journal, with fields, and without what was run.
fn assert_in_the_journal(booted: &Booted) {
    let denied = booted
        .line_of("alice", "touch keep && palisade run --json -- 'rm -rf keep # unspoken'")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&denied.stdout).expect("JSON");
    assert_eq!(result["error"]["code"], "denied", "{result}");
    let call = result["call_id"].as_str().unwrap();
    let matching = format!("PALISADE_CALL={call}");
    let mut lines = Vec::new();
    let begun = Instant::now();
    while lines.len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{lines:?}");
        let said = booted.ok(&["journalctl", "-o", "json", "-u", "palisaded", &matching]);
        lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
        assert!(!said.contains("unspoken"), "{said}");
    }
    lines.sort_by_key(|line| line["PALISADE_OUTCOME"].is_string());
    let [decided, ended] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(decided["PALISADE_BY"], "default");
    assert_eq!(decided["MESSAGE"], "bash was denied by default");
    assert_eq!(
        (&ended["PALISADE_OUTCOME"], &ended["MESSAGE"]),
        (&"denied".into(), &"bash ended: denied".into())
    );
    for line in &lines {
        for (field, value) in [
            ("PALISADE_PEER_UID", "4343"),
            ("PALISADE_TOOL", "bash"),
            ("PALISADE_DECISION", "denied"),
            ("PALISADE_PROFILE", "workspace"),
            ("SYSLOG_IDENTIFIER", "palisaded"),
            ("PRIORITY", "5"),
        ] {
            assert_eq!(line[field], value, "{field}");
        }
        assert_eq!(line["PALISADE_SESSION"].as_str().unwrap().len(), 36);
    }
}
