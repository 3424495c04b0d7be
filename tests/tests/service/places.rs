//! The first minute wherever a person clones: programs, workspace, configuration, profiles, sockets and
//! state in each kind of place, by root and by an ordinary user. The README's table is made here.

use palisade_tests::{
    Mode, ORDINARY, Place, WebServer, binary, named_profile, profile_never_asking, text,
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink},
        net::UnixStream,
    },
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

const README: &str = include_str!("../../../README.md");

const PROGRAMS: [&str; 7] = [
    "palisade",
    "palisaded",
    "palisade-launcher",
    "palisade-cell",
    "palisade-analyst",
    "palisade-egress",
    "palisade-mcp",
];

/// The kinds of places, as the table names them.
const KINDS: [(&str, Kind); 8] = [
    ("root's home, mode 0700", Kind::RootsHome),
    ("a user's home, mode 0700", Kind::UsersHome),
    ("`/tmp`", Kind::Below("/tmp")),
    ("`/var/tmp`", Kind::Below("/var/tmp")),
    ("`/srv`", Kind::Below("/srv")),
    ("below a directory with a space and a non-ASCII letter", Kind::Named("a directory with an ö")),
    ("reached by a symbolic link", Kind::Link),
    ("`target` elsewhere (`CARGO_TARGET_DIR`)", Kind::TargetElsewhere),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    RootsHome,
    UsersHome,
    Below(&'static str),
    Named(&'static str),
    Link,
    TargetElsewhere,
}

/// The directories of one attempt.
struct Spot {
    /// Removed at the end.
    _places: Vec<Place>,
    /// The directory below which the person types paths.
    top: PathBuf,
    /// The directory in which cargo has put the programs.
    target: PathBuf,
    home: PathBuf,
    mode: Mode,
}

/// A directory below which places are made; none where this user can make none.
fn place_below(parent: &Path) -> Option<Place> {
    let writable = rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_ok();
    writable.then(|| Place::below(parent))
}

fn home_of(mode: Mode) -> Option<Place> {
    let usual = match (mode, Mode::all().contains(&Mode::System)) {
        (Mode::System, _) => "/root",
        (Mode::User, true) => "/home",
        // A home of their own they have already, or none.
        (Mode::User, false) => return Some(Place::new()),
    };
    place_below(Path::new(usual))
}

impl Spot {
    /// None if this user can not have it.
    fn new(kind: Kind, mode: Mode) -> Option<Self> {
        let home = home_of(mode)?;
        let place = match kind {
            // Something else may be bound there.
            Kind::RootsHome if fs::metadata("/root").ok()?.uid() != 0 => return None,
            Kind::RootsHome => place_below(Path::new("/root"))?,
            Kind::UsersHome => match Mode::all().contains(&Mode::System) {
                true => place_below(Path::new("/home"))?,
                false => Place::new(),
            },
            Kind::Below(parent) => place_below(Path::new(parent))?,
            Kind::Named(_) | Kind::Link | Kind::TargetElsewhere => Place::new(),
        };
        if matches!(kind, Kind::RootsHome | Kind::UsersHome) {
            place.set_mode(0o700);
        }
        home.set_mode(0o700);
        let owner = match kind {
            Kind::RootsHome => Mode::System,
            Kind::UsersHome => Mode::User,
            Kind::Below(_) | Kind::Named(_) | Kind::Link | Kind::TargetElsewhere => mode,
        };
        give(place.path(), owner);
        give(home.path(), mode);
        let top = match kind {
            Kind::Named(name) => make(place.path().join(name), mode),
            Kind::Link => {
                make(place.path().join("real"), mode);
                symlink("real", place.path().join("link")).unwrap();
                place.path().join("link")
            }
            Kind::RootsHome | Kind::UsersHome | Kind::Below(_) | Kind::TargetElsewhere => {
                place.path().to_owned()
            }
        };
        let checkout = make(top.join("checkout"), mode);
        let target = match kind {
            Kind::TargetElsewhere => make(place.path().join("built"), mode),
            Kind::RootsHome | Kind::UsersHome | Kind::Below(_) | Kind::Named(_) | Kind::Link => {
                make(checkout.join("target"), mode)
            }
        };
        let debug = make(target.join("debug"), mode);
        for name in PROGRAMS {
            let (from, to) = (binary(name), debug.join(name));
            fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop)).unwrap();
        }
        for name in ["work", "state", "run", "config", "profiles"] {
            make(top.join(name), mode);
        }
        let home_path = home.path().to_owned();
        Some(Self { _places: vec![place, home], top, target, home: home_path, mode })
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.top.join(name);
        fs::write(&path, text).unwrap();
        give(&path, self.mode);
    }

    /// A program as this user starts it, in a directory: with an account whose home is the one that was
    /// made, and on a host where no daemon has kept anything.
    fn command(&self, directory: &Path, argv: &[&str]) -> Command {
        let mut command = match Mode::all().contains(&Mode::System) {
            true => self.with_account(),
            false => Command::new("env"),
        };
        command.args(argv).current_dir(directory).env_clear().env("HOME", &self.home);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("CARGO_TARGET_DIR", &self.target);
        command.env("XDG_STATE_HOME", self.top.join("own-state"));
        command.env("XDG_RUNTIME_DIR", self.top.join("run")).stdin(Stdio::null());
        command
    }

    fn with_account(&self) -> Command {
        const INSIDE: &str = "mount --bind \"$1\" /etc/passwd && mount -t tmpfs tmpfs /var/lib && \
                              shift && exec \"$@\"";
        let uid = self.mode.uid();
        let home = self.home.display();
        let accounts = fs::read_to_string("/etc/passwd").unwrap();
        let own = format!(":{uid}:");
        let others = accounts.lines().filter(|line| !line.contains(&own));
        let line = format!("person:x:{uid}:{uid}::{home}:/bin/bash");
        let accounts: Vec<&str> = others.chain([line.as_str()]).collect();
        let file = self.home.join("passwd");
        fs::write(&file, accounts.join("\n") + "\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "bash", "-c", INSIDE, "bash"]);
        command.arg(file);
        if self.mode == Mode::User {
            let id = uid.to_string();
            command.args(["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"]);
        }
        command
    }

    /// The command line tool with these arguments.
    fn tool(&self, arguments: &[&str]) -> Command {
        let program = self.target.join("debug/palisade");
        let argv: Vec<_> = [program.to_str().unwrap()].iter().chain(arguments).copied().collect();
        self.command(&self.top, &argv)
    }

    fn palisade(&self, arguments: &[&str]) -> Output {
        self.tool(arguments).output().unwrap()
    }
}

fn give(path: &Path, mode: Mode) {
    if Mode::all().contains(&Mode::System) {
        lchown(path, Some(mode.uid()), Some(mode.uid())).unwrap();
    }
}

fn make(path: PathBuf, mode: Mode) -> PathBuf {
    fs::create_dir(&path).unwrap();
    give(&path, mode);
    path
}

/// The first code block below a heading of the README, and the first one after that.
fn blocks(heading: &str) -> [&'static str; 2] {
    let (_, section) = README.split_once(&format!("\n## {heading}\n")).unwrap();
    let mut parts = section.split("```").skip(1).step_by(2);
    [(); 2].map(|()| parts.next().unwrap().split_once('\n').unwrap().1.trim_end())
}

/// The README's first command, after the build.
fn first_minute(spot: &Spot) {
    let [command, shown] = blocks("Run");
    let line = command.strip_prefix("cargo build && ").unwrap();
    let target = format!("'{}'/debug", spot.target.display());
    let line = line.replacen("target/debug", &target, 1);
    let checkout = spot.top.join("checkout");
    let output = spot.command(&checkout, &["bash", "-c", &line]).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}: {stderr}", output.status);
    let mut shown = shown.lines();
    assert_eq!(stdout.lines().next(), shown.next());
    assert_eq!(stdout, "hello\n");
    // An ordinary user's daemon prints one more line for what it can not have; a host with kernel
    // audit has one less.
    let told = |line: &&str| !line.starts_with("warning: limits ");
    let mut said = stderr.lines().filter(told).peekable();
    for expected in shown {
        if expected.starts_with("note: ") && said.peek().is_none() {
            continue;
        }
        let line = said.next().unwrap_or_else(|| panic!("{expected:?} is missing: {stderr}"));
        // The home, and what exactly is enforced, depend on this host.
        let home = spot.home.to_str().unwrap();
        let home = if Mode::all().contains(&Mode::System) { home } else { "/tmp" };
        let expected = expected.replace("/home/you", home);
        let (line, expected) = (numberless(line), numberless(&expected));
        let parts = expected.split_once('…');
        let same = match parts {
            Some((before, after)) => line.starts_with(before) && line.ends_with(after),
            None => line == expected,
        };
        assert!(same, "{line:?} is not {expected:?}: {stderr}");
    }
    assert_eq!(said.collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(!checkout.join("demo.txt").exists());
}

fn numberless(line: &str) -> String {
    line.replace(|letter: char| letter.is_ascii_digit(), "")
}

/// A daemon that is ended with this.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

/// A daemon with everything of its own there: calls, what it keeps, a reload, its end.
fn service(spot: &Spot) {
    let top = spot.top.to_str().unwrap();
    let server = WebServer::start(Path::new("/nonexistent"));
    spot.write("profiles/first.toml", &profile_never_asking());
    spot.write("profiles/named.toml", &profile_by_name(server.port));
    let configuration = format!(
        "profiles = [{:?}]\nstate = {:?}\nsocket = {:?}\n",
        format!("{top}/profiles"),
        format!("{top}/state"),
        format!("{top}/run/a.sock")
    );
    spot.write("config/palisaded.toml", &configuration);
    let program = spot.target.join("debug/palisaded");
    let config = spot.top.join("config/palisaded.toml");
    let argv = [program.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let mut child = spot.command(&spot.top, &argv).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut daemon = Daemon(child);
    let sockets = ["a", "operator", "provider"].map(|name| format!("{top}/run/{name}.sock"));
    while sockets.iter().any(|socket| UnixStream::connect(socket).is_err()) {
        let ended = daemon.0.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}: {:?}", said.by_ref().flatten().collect::<Vec<_>>());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let work = format!("{top}/work");
    let in_work = |profile: &str, arguments: &[&str]| {
        let [command, rest @ ..] = arguments else { panic!("no command") };
        let options = ["--socket", &sockets[0], "--workspace", &work, "--profile", profile];
        let argv: Vec<_> =
            [*command].into_iter().chain(options).chain(rest.iter().copied()).collect();
        let output = spot.palisade(&argv);
        let stderr = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {}: {stderr}", output.status);
        text(&output.stdout)
    };
    // A transaction, an output that is longer than a result, and something to undo.
    let result = in_work("first", &["run", "--json", "--", "echo made >file; seq 400000"]);
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(fs::read_to_string(spot.top.join("work/file")).unwrap(), "made\n");
    let spool = result["spool"].as_str().unwrap_or_else(|| panic!("{result}"));
    let whole = spot.palisade(&["output", "--socket", &sockets[0], spool]);
    assert!(text(&whole.stdout).ends_with("\n400000\n"), "{}", text(&whole.stderr));
    let arguments = r#"{"path": "file", "content": "changed"}"#;
    in_work("first", &["call", "write_file", "--args", arguments]);
    // A record of each.
    assert_eq!(fs::read_dir(spot.top.join("state/undo")).unwrap().count(), 2);
    // The rooms of a network by name: what is allowed is reached, and nothing else.
    let port = server.port;
    // By the proxy: without it, 127.0.0.1 is the session's own.
    let fetch = |host: &str| format!("curl -sS --noproxy '' http://{host}:{port}/{host}");
    let reached = in_work("named", &["run", "--", &fetch("127.0.0.1")]);
    assert_eq!(reached, "hello from /127.0.0.1\n");
    assert_eq!(server.requests().len(), 1);
    let refused = in_work("named", &["run", "--", &fetch("127.0.0.2")]);
    assert!(refused.contains("127.0.0.2") && !refused.contains("hello"), "{refused}");
    assert_eq!(server.requests(), Vec::<String>::new());
    let options = ["mcp", "--socket", &sockets[0], "--workspace", &work, "--profile", "first"];
    model_context_protocol(spot.tool(&options));
    // The daemon reads the profiles again from where they were.
    spot.write("profiles/second.toml", &profile_never_asking());
    signal(&daemon, rustix::process::Signal::HUP);
    let read = said
        .by_ref()
        .map(Result::unwrap)
        .find(|line| line.contains("reloaded") || line.contains("ERROR"));
    assert!(read.as_ref().is_some_and(|line| line.contains("were reloaded")), "{read:?}");
    assert_eq!(in_work("second", &["run", "--", "cat file"]), "changed");
    signal(&daemon, rustix::process::Signal::TERM);
    let ended = daemon.0.wait().unwrap();
    let rest: Vec<_> = said.map(Result::unwrap).collect();
    assert!(ended.success(), "{ended}: {rest:?}");
    assert_eq!(rest, Vec::<String>::new());
    let log = format!("{top}/state/audit");
    let verified = spot.palisade(&["audit", "verify", "--dir", &log]);
    assert!(text(&verified.stdout).starts_with("c0000: good, "), "{}", text(&verified.stderr));
}

/// A profile that asks for nothing and whose network is by name: a port of this host's.
fn profile_by_name(port: u16) -> String {
    let net = format!("mode = \"domains\"\nallow = [\"127.0.0.1:{port}\"]");
    named_profile(&net).replace("ask = \"destructive\"", "ask = \"never\"")
}

/// A server of the Model Context Protocol says who it is, and reads a file by its tool.
fn model_context_protocol(mut server: Command) {
    let (input, output) = (Stdio::piped(), Stdio::piped());
    let mut server = server.stdin(input).stdout(output).stderr(Stdio::inherit()).spawn().unwrap();
    let client = json!({"name": "test", "version": "0"});
    let version = "2025-11-25";
    let hello = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
    let call = json!({"name": "bash", "arguments": {"command": "cat file"}});
    let mut requests = server.stdin.take().unwrap();
    let answers = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut answers = answers.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let mut ask = |id: u64, method: &str, params: &Value| {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(requests, "{request}").unwrap();
        answers.find(|answer| answer["id"] == id).expect("the server has ended")["result"].take()
    };
    let initialized = ask(1, "initialize", &hello);
    assert_eq!(initialized["protocolVersion"], version, "{initialized}");
    assert_eq!(initialized["serverInfo"]["name"], "palisade", "{initialized}");
    let called = ask(2, "tools/call", &call);
    assert!(
        called["content"][0]["text"].as_str().is_some_and(|it| it.contains("changed")),
        "{called}"
    );
    drop(requests);
    assert!(server.wait().unwrap().success());
}

/// The daemon itself: what it was started by has become it.
fn signal(daemon: &Daemon, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(&daemon.0), signal).unwrap();
}

#[test]
fn it_works_wherever_a_person_clones() {
    let modes = Mode::all();
    let mut table = vec![
        "| checkout, workspace and state in | root | an ordinary user |".to_owned(),
        "|---|---|---|".to_owned(),
    ];
    let row = &|name: &str, kind: Kind| {
        let tried = |mode: Mode| {
            if mode == Mode::User && kind == Kind::RootsHome && modes.contains(&Mode::System) {
                let home = Place::below(Path::new("/root"));
                home.set_mode(0o700);
                let entered = Mode::User.act(|| fs::metadata(home.path().join("checkout")));
                assert_eq!(entered.unwrap_err().raw_os_error(), Some(13));
                return "may not enter";
            }
            let spot = modes.contains(&mode).then(|| Spot::new(kind, mode)).flatten();
            let Some(spot) = spot else { return "?" };
            eprintln!("{name}, {mode:?}: {}", spot.top.display());
            first_minute(&spot);
            service(&spot);
            "works"
        };
        format!("| {name} | {} | {} |", tried(Mode::System), tried(Mode::User))
    };
    std::thread::scope(|scope| {
        let rows = KINDS.map(|(name, kind)| scope.spawn(move || row(name, kind)));
        table.extend(rows.map(|row| row.join().unwrap_or_else(|panic| resume_unwind(panic))));
    });
    println!("{}", table.join("\n"));
    for row in &table {
        // A cell that could not be tried here matches any text.
        let known = |line: &str| {
            let mut cells = row.split('|').zip(line.split('|'));
            line.matches('|').count() == row.matches('|').count()
                && cells.all(|(made, written)| made == " ? " || made == written)
        };
        assert!(README.lines().any(known), "README.md lacks {row}");
    }
    assert!(modes.len() < 2 || README.contains(&table.join("\n")), "in this order");
}

/// Programs that nobody but root may read or run, as a build with the umask 077 leaves them.
#[test]
fn programs_of_a_build_with_a_narrow_umask_run_and_prove_their_profiles() {
    if !Mode::all().contains(&Mode::System) {
        return first_minute(&Spot::new(Kind::UsersHome, Mode::User).unwrap());
    }
    let spot = Spot::new(Kind::RootsHome, Mode::System).unwrap();
    for name in PROGRAMS {
        let path = spot.target.join("debug").join(name);
        fs::remove_file(&path).unwrap();
        fs::copy(binary(name), &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    first_minute(&spot);
    let program = spot.target.join("debug/palisaded");
    let (top, program) = (spot.top.to_str().unwrap(), program.to_str().unwrap());
    let (socket, state) = (format!("{top}/run/a.sock"), format!("{top}/state"));
    let argv = [program, "--socket", &socket, "--state", &state, "--prove-at-start"];
    let mut child = spot.command(&spot.top, &argv).stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let daemon = Daemon(child);
    // The system's daemon offers these only if its configuration lists them.
    let kept_back = ["autonomous", "container"];
    let builtin = palisade_policy::builtin();
    let offered = builtin.iter().filter(|(name, _)| !kept_back.contains(name)).count();
    let proved: Vec<_> = said.filter(|line| line.contains("prove")).take(offered).collect();
    let good = |line: &&String| line.contains("the profile is proved");
    assert_eq!(proved.iter().filter(good).count(), offered, "{proved:#?}");
    drop(daemon);
}

/// A program that can not be reached is told by the file, the directory and as whom.
#[test]
fn a_program_out_of_reach_is_told_with_the_closed_directory_and_as_whom() {
    let place = Place::new();
    let closed = make(place.path().join("closed"), Mode::all()[0]);
    let directory = make(closed.join("programs"), Mode::all()[0]);
    for name in ["palisaded", "palisade-launcher"] {
        fs::copy(binary(name), directory.join(name)).unwrap();
    }
    let root = Mode::all().contains(&Mode::System);
    // An ordinary user's own test closes the directory to itself.
    let program = fs::File::open(directory.join("palisaded")).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(if root { 0o700 } else { 0o000 }))
        .unwrap();
    let own = make(place.path().join("own"), Mode::User);
    let daemon = Mode::User.act(|| {
        // The shell opens nothing: it has the descriptor, and starts what it leads to.
        Command::new("bash")
            .args([
                "-c",
                "exec /proc/self/fd/0 --socket \"$1/run/a.sock\" --state \"$1/state\"",
                "bash",
            ])
            .arg(&own)
            .stdin(Stdio::from(program))
            .env_clear()
            .output()
            .unwrap()
    });
    let uid = if root { ORDINARY } else { rustix::process::geteuid().as_raw() };
    let said = text(&daemon.stderr);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let launcher = directory.join("palisade-launcher");
    let expected = format!(
        "palisaded: palisade-launcher was not found ({} is out of reach: ",
        launcher.display()
    );
    assert!(said.starts_with(&expected), "{said}");
    let whom = format!("uid {uid}");
    assert!(
        said.contains(&whom) && said.contains(&format!(" may not enter {}, ", closed.display())),
        "{said}"
    );
    assert!(
        said.contains("/usr/libexec/palisade/palisade-launcher does not exist); build or install")
    );
    assert_eq!(daemon.status.code(), Some(1));
}
