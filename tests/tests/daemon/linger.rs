//! A private daemon that a command leaves running serves the next commands of the same user on the same
//! terms, and nobody else. Whatever becomes of it, a command runs as if it had a daemon of its own.

use palisade_tests::{Mode, World, binary, processes, rooms};
use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read as _},
    os::unix::{
        fs::{DirBuilderExt as _, PermissionsExt as _},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The commands of one user, with a directory for sockets.
struct Commands {
    world: World,
    /// The time that daemons stay.
    rest: &'static str,
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.world
            .mode
            .act(|| self.command("palisade").arg("stop").output().map(drop).unwrap_or_default());
    }
}

impl Commands {
    fn new(mode: Mode, rest: &'static str) -> Self {
        let commands = Self { world: World::new(mode), rest };
        fs::DirBuilder::new().mode(0o700).create(commands.world.run()).unwrap();
        commands.world.give(&commands.world.run());
        // A daemon stays only if its state directory exists already.
        assert_eq!(commands.ok(&["--no-linger", "--", "echo first"]), "first\n", "{mode:?}");
        assert!(commands.daemons().is_empty());
        commands
    }

    fn command(&self, name: &str) -> Command {
        let mut command = self.world.command(name);
        command.env("PALISADE_LINGER", self.rest);
        command
    }

    /// Runs `palisade run` by a shell line that ends in `"$@"`, and may change what that inherits.
    fn run_by(&self, line: &str, words: &[&str]) -> Output {
        self.world.mode.act(|| {
            let palisade = self.command("palisade");
            let mut shell = Command::new("bash");
            shell.args(["-c", line, "bash"]).arg(palisade.get_program()).arg("run").args(words);
            shell.env_clear().current_dir(self.world.workspace());
            shell.envs(palisade.get_envs().filter_map(|(name, value)| Some((name, value?))));
            shell.output().unwrap()
        })
    }

    #[track_caller]
    fn ok_by(&self, line: &str, words: &[&str]) -> String {
        let output = self.run_by(line, words);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?}: {words:?}: {told}", self.world.mode);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[track_caller]
    fn ok(&self, words: &[&str]) -> String {
        self.ok_by(r#"exec "$@""#, words)
    }

    /// The output of another subcommand.
    fn tell(&self, word: &str) -> String {
        let output = self.world.mode.act(|| self.command("palisade").arg(word).output().unwrap());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.world.run().join("palisade")).into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect()
    }

    /// The processes that listen.
    fn daemons(&self) -> Vec<i32> {
        let pid = |socket: PathBuf| {
            let stream = self.world.mode.act(|| UnixStream::connect(socket)).ok()?;
            let peer = rustix::net::sockopt::socket_peercred(&stream).unwrap();
            assert_eq!(peer.uid.as_raw(), self.world.mode.uid());
            Some(peer.pid.as_raw_nonzero().get())
        };
        self.sockets().into_iter().filter_map(pid).collect()
    }

    #[track_caller]
    fn daemon(&self) -> i32 {
        let daemons = self.daemons();
        assert_eq!(daemons.len(), 1, "{:?}", self.world.mode);
        daemons[0]
    }
}

fn is_running(pid: i32) -> bool {
    processes::all().iter().any(|process| process.pid == pid)
}

#[test]
fn the_next_command_uses_the_daemon_and_stop_ends_it() {
    for mode in Mode::all() {
        let commands = Commands::new(mode, "1h");
        assert_eq!(commands.ok(&["--", "echo one > file; cat file"]), "one\n");
        let daemon = commands.daemon();
        assert_eq!(commands.ok(&["--", "cat file"]), "one\n");
        assert_eq!(commands.daemon(), daemon);
        let call = commands.world.mode.act(|| {
            let words = ["call", "read_file", "--args", r#"{"path": "file"}"#];
            commands.command("palisade").args(words).output().unwrap()
        });
        assert!(String::from_utf8_lossy(&call.stdout).contains("one"), "{call:?}");
        assert_eq!(commands.daemon(), daemon);
        // No session is left, and none of its processes.
        rooms::until("no program of a session is left", || {
            rooms::Rooms::of(u32::try_from(daemon).unwrap()).payload.is_empty()
        });
        // Its record is there at once.
        let result = commands.run_by(r#"exec "$@""#, &["--json", "--", "exit 7"]).stdout;
        let result: serde_json::Value = serde_json::from_slice(&result).unwrap();
        let call = result["call_id"].as_str().unwrap().to_owned();
        let shown = commands
            .world
            .mode
            .act(|| commands.command("palisade").args(["audit", "show", &call]).output().unwrap());
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains("exit 7") && shown.contains("command_failed"), "{mode:?}: {shown}");
        assert!(commands.tell("status").contains("\nlingering 1 left running"));
        assert!(commands.tell("doctor").contains("\nlingering 1 left running"));
        assert_eq!(commands.tell("stop"), "ended 1 daemon\n");
        assert!(!is_running(daemon), "{mode:?}");
        assert_eq!(commands.tell("stop"), "no daemon was left running\n");
        assert!(!commands.tell("status").contains("lingering"));
        assert_eq!(commands.ok(&["--no-linger", "--", "cat file"]), "one\n");
        assert_eq!(commands.ok_by(r#"PALISADE_LINGER=none "$@""#, &["--", "cat file"]), "one\n");
        assert!(commands.daemons().is_empty(), "{mode:?}");
        let wrong = commands.run_by(r#"PALISADE_LINGER=soon "$@""#, &["--", "true"]);
        assert_eq!(wrong.status.code(), Some(125));
        assert!(String::from_utf8_lossy(&wrong.stderr).contains("set it to a time such as 5m"));
    }
}

/// The environment, the directory and the descriptors of a daemon, which only root can see.
fn assert_clean(daemon: i32, kept: &Path, mode: Mode) {
    let of = |name: &str| format!("/proc/{daemon}/{name}");
    let environment = fs::read(of("environ")).unwrap();
    let names: BTreeSet<_> = environment
        .split(|byte| *byte == 0)
        .filter_map(|pair| Some(String::from_utf8_lossy(pair).split_once('=')?.0.to_owned()))
        .collect();
    let known = ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"];
    assert_eq!(names, known.into_iter().map(str::to_owned).collect(), "{mode:?}");
    assert_eq!(fs::read_link(of("cwd")).unwrap(), PathBuf::from("/"));
    for entry in fs::read_dir(of("fd")).unwrap() {
        let entry = entry.unwrap();
        let target = fs::read_link(entry.path()).unwrap_or_default();
        assert_ne!(target, *kept, "{mode:?}");
        if ["0", "1", "2"].iter().any(|name| entry.file_name() == *name) {
            assert_eq!(target, PathBuf::from("/dev/null"), "{mode:?}");
        }
    }
}

#[test]
fn nothing_of_the_first_command_stays_with_the_daemon() {
    for mode in Mode::all() {
        let commands = Commands::new(mode, "1h");
        let kept = commands.world.workspace().join("kept");
        let line = r#"SECRET=s LD_LIBRARY_PATH=/nowhere exec "$@" 7>kept 8<kept"#;
        assert_eq!(commands.ok_by(line, &["--env", "A=1", "--", "echo $A"]), "1\n");
        assert!(kept.exists());
        let daemon = commands.daemon();
        let of = |name: &str| format!("/proc/{daemon}/{name}");
        match Mode::all().contains(&Mode::System) {
            true => assert_clean(daemon, &kept, mode),
            false => {
                let closed = fs::read(of("environ")).unwrap_err();
                assert_eq!(closed.kind(), io::ErrorKind::PermissionDenied, "nobody looks into it");
            }
        }
        let stat = fs::read_to_string(of("stat")).unwrap();
        let fields: Vec<i32> = stat.rsplit_once(") ").unwrap().1[2..]
            .split(' ')
            .map_while(|field| field.parse().ok())
            .collect();
        // Its own process group and session, and no terminal.
        assert_eq!(fields[1..4], [daemon, daemon, 0], "{mode:?}: {stat}");
        let seen = commands
            .ok(&["--", "echo ${SECRET-} ${LD_LIBRARY_PATH-} ${A-}; ls /proc/self/fd | wc -l"]);
        assert_eq!(commands.daemon(), daemon);
        assert_eq!(
            seen,
            commands.ok(&["--no-linger", "--", "echo; ls /proc/self/fd | wc -l"]),
            "{mode:?}"
        );
    }
}

#[test]
fn a_command_on_other_terms_has_another_daemon() {
    for mode in Mode::all() {
        let commands = Commands::new(mode, "1h");
        let line = "umask; ulimit -Sn; nice; echo ${TZ-}; cat /proc/self/oom_score_adj; trap";
        let mut daemons = BTreeSet::new();
        let variants = [
            r#"exec "$@""#,
            r#"umask 0027; exec "$@""#,
            r#"ulimit -Sn 512; exec "$@""#,
            r#"exec nice -n 3 "$@""#,
            r#"TZ=Asia/Tokyo exec "$@""#,
            // Not HUP, which whoever runs these tests may ignore.
            r#"trap '' USR1; exec "$@""#,
        ];
        for (count, by) in variants.iter().enumerate() {
            let own = commands.ok_by(by, &["--no-linger", "--", line]);
            assert_eq!(commands.ok_by(by, &["--", line]), own, "{mode:?}: {by}");
            assert_eq!(commands.ok_by(by, &["--", line]), own, "{mode:?}: {by}");
            daemons.extend(commands.daemons());
            assert_eq!(daemons.len(), count + 1, "{mode:?}: {by}");
        }
        let build = ["--profile", "build", "--", "true"];
        assert_eq!(commands.ok(&build), "");
        assert_eq!(commands.daemons().len(), variants.len() + 1);
        // A host that one command may connect to is not allowed to the next.
        let hosts = |words: &[&str]| {
            let mut all = vec!["--json"];
            all.extend(words);
            all.extend(["--", "true"]);
            commands.ok(&all).contains("\"mode\":\"domains\"")
        };
        assert!(hosts(&["--allow-domain", "names.example"]), "{mode:?}");
        assert!(!hosts(&[]), "{mode:?}");
        // There is a bound, and beyond it a command has a daemon of its own.
        for number in 0..4 {
            let by = format!(r#"TZ=Zone/{number} exec "$@""#);
            assert_eq!(commands.ok_by(&by, &["--", "echo $TZ"]), format!("Zone/{number}\n"));
        }
        assert_eq!(commands.daemons().len(), 8, "{mode:?}");
        assert_eq!(commands.tell("stop"), "ended 8 daemons\n");
    }
}

#[test]
fn a_changed_profile_counts_at_once() {
    // The profiles of root's daemon are in /etc, which tests do not write.
    let commands = Commands::new(Mode::User, "1h");
    let profiles = commands.world.user_configuration().join("profiles");
    let built_in = include_str!("../../../daemon/profiles/workspace.toml");
    let write = |value: &str| {
        let passed =
            "pass = [\"RUSTUP_HOME\", \"RUSTUP_TOOLCHAIN\", \"JAVA_HOME\", \"GOROOT\", \"TZ\"]";
        assert_eq!(built_in.matches(passed).count(), 1);
        let text = built_in.replace(passed, "pass = [\"MINE\"]");
        let text = text.replace("\nset = {}\n", &format!("\nset = {{ VALUE = \"{value}\" }}\n"));
        fs::write(profiles.join("mine.toml"), text).unwrap();
    };
    fs::create_dir_all(&profiles).unwrap();
    for path in profiles.ancestors().take(3) {
        commands.world.give(path);
    }
    let run =
        || commands.ok_by(r#"MINE=m exec "$@""#, &["--profile", "mine", "--", "echo $VALUE $MINE"]);
    for value in ["1", "2", "1", "3"] {
        commands.world.mode.act(|| write(value));
        assert_eq!(run(), format!("{value} m\n"));
        assert_eq!(run(), format!("{value} m\n"));
    }
    // What a profile passes on is the caller's, not the daemon's.
    let other = commands.ok_by(r#"MINE=n exec "$@""#, &["--profile", "mine", "--", "echo $MINE"]);
    assert_eq!(other, "n\n");
    commands
        .world
        .mode
        .act(|| fs::write(profiles.join("mine.toml"), "version = 1\nnonsense = 1\n"))
        .unwrap();
    let broken = commands.run_by(r#"exec "$@""#, &["--profile", "mine", "--", "true"]);
    assert_eq!(broken.status.code(), Some(125));
    let told = String::from_utf8_lossy(&broken.stderr);
    assert!(told.contains("mine.toml:2:1: nonsense: unknown key"), "{told}");
    // With a configuration file, each command has a daemon of its own.
    commands.tell("stop");
    let file = commands.world.user_configuration().join("palisaded.toml");
    commands.world.mode.act(|| fs::write(file, "drain_ms = 1000\n")).unwrap();
    assert_eq!(commands.ok(&["--", "echo served"]), "served\n");
    assert!(commands.daemons().is_empty());
}

#[test]
fn replaced_programs_are_not_served_by_the_old_daemon() {
    for mode in Mode::all() {
        let commands = Commands::new(mode, "1h");
        let programs = commands.world.outside().join("programs");
        fs::create_dir(&programs).unwrap();
        fs::set_permissions(&programs, fs::Permissions::from_mode(0o755)).unwrap();
        let names = [
            "palisaded",
            "palisade-launcher",
            "palisade-cell",
            "palisade-analyst",
            "palisade-egress",
        ];
        let install = |name: &str| {
            // As packages do: a new file takes the place of the old one, which may be running.
            fs::copy(binary(name), programs.join("new")).unwrap();
            fs::rename(programs.join("new"), programs.join(name)).unwrap();
        };
        names.into_iter().for_each(install);
        let by = format!(r#"PALISADE_DAEMON={} exec "$@""#, programs.join("palisaded").display());
        let mut daemons = BTreeSet::new();
        for (count, name) in
            [None, Some("palisaded"), Some("palisade-cell")].into_iter().enumerate()
        {
            name.into_iter().for_each(install);
            assert_eq!(commands.ok_by(&by, &["--", "echo served"]), "served\n", "{mode:?}");
            assert_eq!(commands.ok_by(&by, &["--", "echo served"]), "served\n", "{mode:?}");
            daemons.extend(commands.daemons());
            assert_eq!(daemons.len(), count + 1, "{mode:?}: {name:?}");
        }
    }
}

#[test]
fn commands_that_start_at_once_leave_one_daemon() {
    for mode in Mode::all() {
        let commands = Commands::new(mode, "1h");
        std::thread::scope(|scope| {
            for number in 0..6 {
                let commands = &commands;
                scope.spawn(move || {
                    let line = format!("echo {number}");
                    assert_eq!(commands.ok(&["--", &line]), format!("{number}\n"), "{mode:?}");
                });
            }
        });
        commands.daemon();
    }
}

#[test]
fn a_daemon_that_ends_or_is_killed_costs_time_only() {
    for mode in Mode::all() {
        // It ends at any moment of the next command.
        let mut commands = Commands::new(mode, "1ms");
        for number in 0..12 {
            assert_eq!(commands.ok(&["--", &format!("echo {number}")]), format!("{number}\n"));
        }
        rooms::until("all have ended by themselves", || commands.daemons().is_empty());
        commands.rest = "1h";
        assert_eq!(commands.ok(&["--", "echo one"]), "one\n");
        let daemon = commands.daemon();
        let pid = rustix::process::Pid::from_raw(daemon).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        rooms::until("it is gone", || !is_running(daemon));
        assert_eq!(commands.sockets().len(), 1, "its socket is left");
        assert_eq!(commands.ok(&["--", "echo two"]), "two\n");
        assert_ne!(commands.daemon(), daemon);
        // One that can not start leaves the command a daemon of its own, which says why.
        commands.tell("stop");
        let broken = commands.run_by(r#"PALISADE_DAEMON=/bin/false exec "$@""#, &["--", "true"]);
        assert_eq!(broken.status.code(), Some(125), "{mode:?}");
    }
}

#[test]
fn nobody_else_is_served_and_an_open_directory_is_not_used() {
    let commands = Commands::new(Mode::User, "1h");
    assert_eq!(commands.ok(&["--", "echo one"]), "one\n");
    let socket = commands.sockets().remove(0);
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&socket.parent().unwrap().to_owned()), 0o700);
    if rustix::process::geteuid().is_root() {
        // Only the uid counts: not even root is served.
        let mut stream = UnixStream::connect(&socket).unwrap();
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => assert!(answer.is_empty(), "{answer:?}"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
        let other = palisade_tests::act_as(4343, || UnixStream::connect(&socket));
        assert_eq!(other.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    }
    // No session can work in the directory of the sockets, whichever daemon it is of.
    let directory = commands.world.run();
    let in_it = ["--workspace", directory.to_str().unwrap(), "--", "true"];
    for words in [&in_it[..], &[&["--no-linger"], &in_it[..]].concat()] {
        let refused = commands.run_by(r#"exec "$@""#, words);
        assert_eq!(refused.status.code(), Some(125));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("belongs to the daemon"));
    }
    commands.tell("stop");
    for open in [0o750, 0o755, 0o1777] {
        fs::set_permissions(commands.world.run(), fs::Permissions::from_mode(open)).unwrap();
        assert_eq!(commands.ok(&["--", "echo two"]), "two\n");
        assert!(commands.daemons().is_empty(), "{open:o}");
    }
    fs::set_permissions(commands.world.run(), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn whoever_may_not_use_the_service_is_told_by_every_command_that_starts_a_daemon() {
    let commands = Commands::new(Mode::User, "none");
    let told = |words: &[&str]| {
        let output = commands.world.mode.act(|| {
            let mut command = commands.command("palisade");
            command.args(words).stdin(std::process::Stdio::null()).output().unwrap()
        });
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let all = [
        &["jobs"][..],
        &["net"],
        &["tools"],
        &["output", "last"],
        &["doctor"],
        &["run", "--", "true"],
    ];
    let notice = "note: a private daemon is used, which the service does not see";
    for words in all {
        assert!(!told(words).contains(notice), "{words:?}: nobody else's socket is there");
    }
    // The first of the usual places has a socket to which nobody may connect.
    let directory = commands.world.run().join("palisade");
    fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    commands.world.give(&directory);
    let socket = directory.join("agent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    commands.world.give(&socket);
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o000)).unwrap();
    for words in all {
        let told = told(words);
        assert_eq!(told.matches(notice).count(), 1, "{words:?}: {told}");
    }
}

#[test]
fn a_background_run_starts_a_daemon_that_stays_for_as_long_as_the_job() {
    for mode in Mode::all() {
        let commands = Commands::new(mode, "none");
        let told = |words: &[&str]| {
            let output = commands
                .world
                .mode
                .act(|| commands.command("palisade").args(words).output().unwrap());
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (text(output.stdout), text(output.stderr))
        };
        let json = |(output, errors): &(String, String)| -> serde_json::Value {
            serde_json::from_str(output).unwrap_or_else(|_| panic!("{mode:?}: {errors}"))
        };
        let line = "echo ready; exec sleep infinity";
        let started = json(&told(&["run", "--background", "--json", "--", line]));
        assert_eq!(started["success"], true, "{mode:?}: {started}");
        let daemon = commands.daemon();
        let call = started["call_id"].as_str().unwrap();
        rooms::until("the job has printed", || told(&["output", call]).0 == "ready\n");
        // Root's daemons share one log, in which another test may have made the last call.
        let named = if mode == Mode::User { "last" } else { call };
        let (output, errors) = told(&["output", named]);
        assert_eq!(output, "ready\n", "{mode:?}: {errors}");
        assert!(errors.contains("the job is still running"), "{mode:?}: {errors}");
        let jobs = json(&told(&["jobs", "--json"]));
        assert_eq!(jobs["jobs"][0]["call_id"], call, "{mode:?}: {jobs}");
        assert!(is_running(daemon), "{mode:?}: no other command has ended it");
        // SIGTERM to the process that keeps the session ends the job, and the daemon with it.
        let keeper = started["pid"].to_string();
        assert!(Command::new("kill").args(["-TERM", &keeper]).status().unwrap().success());
        rooms::until("the daemon has ended", || !is_running(daemon));
        assert_eq!(told(&["output", call]).0, "ready\n", "{mode:?}: its output is kept");
    }
}

#[test]
fn a_private_daemon_lets_a_command_take_as_long_as_a_job_and_no_longer() {
    for mode in Mode::all() {
        let commands = Commands::new(mode, "1h");
        let profile = |limits: &str| {
            let text = format!(
                "version = 1\ndescription = \"x\"\nextends = \"workspace\"\n[limits]\n{limits}\n"
            );
            commands.world.add_profile("short", &text);
        };
        let directory = commands.world.profiles();
        let places = ["--profiles", directory.to_str().unwrap(), "--profile", "short"];
        let run = |words: &[&str]| {
            let words = [&places[..], words, &["--", "sleep 1.5; echo done"]].concat();
            let output = commands.run_by(r#"exec "$@""#, &words);
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (output.status.code(), text(output.stdout), text(output.stderr))
        };
        profile("max_timeout_ms = 500\ntimeout_ms = 500");
        let (status, output, told) = run(&[]);
        assert_eq!((status, output.as_str()), (Some(124), ""), "{mode:?}: the control: {told}");
        let (status, output, told) = run(&["--timeout", "none"]);
        assert_eq!((status, output.as_str()), (Some(0), "done\n"), "{mode:?}: {told}");
        assert!(!told.contains("the profile ends"), "{mode:?}: {told}");
        profile("max_timeout_ms = 500\ntimeout_ms = 500\njob_ms = 700");
        let (status, output, told) = run(&["--timeout", "none"]);
        assert_eq!((status, output.as_str()), (Some(124), ""), "{mode:?}: {told}");
        assert!(told.contains("the profile ends the command after 700ms"), "{mode:?}: {told}");
        assert!(commands.daemons().is_empty(), "{mode:?}");
        // A daemon that runs already keeps the limit of its profile, and says so.
        profile("max_timeout_ms = 500\ntimeout_ms = 500");
        let daemon = commands.world.daemon();
        let words = ["--profile", "short", "--timeout", "none", "--", "sleep 1.5; echo done"];
        let by = format!("exec env PALISADE_SOCKET={} \"$@\"", daemon.socket.display());
        let output = commands.run_by(&by, &words);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(124), "{mode:?}: {told}");
        assert!(told.contains("the profile ends the command after 500ms"), "{mode:?}: {told}");
    }
}
