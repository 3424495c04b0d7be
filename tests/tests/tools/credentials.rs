//! Credentials of inspected hosts: the host gets them, and nothing inside the session does.

use palisade_audit::{ConnectionAlarm, ConnectionVerdict};
use palisade_client::Open;
use palisade_tests::{
    BareRepository, CredentialsFrom, Mode, NamedHosts, Sandbox, TestAuthority, WebServer,
    named_profile, rooms::until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

const NAMES: [&str; 3] = ["api.test", "other.test", "a.files.test"];

/// The credential, as nothing inside may see it.
const TOKEN: &str = "s3cret-0123456789-abcdef";

/// `user:s3cret-0123456789-abcdef` in base64.
const BASIC: &str = "dXNlcjpzM2NyZXQtMDEyMzQ1Njc4OS1hYmNkZWY=";

/// The variable with the placeholder.
const VARIABLE: &str = "PALISADE_CREDENTIAL_API";

/// A host with a credential, another host without, and a daemon whose sessions reach both.
struct Furnished {
    server: WebServer,
    plain: WebServer,
    hosts: NamedHosts,
}

impl Furnished {
    fn new(
        mode: Mode,
        files: &Path,
        methods: &str,
        (from, text, file_mode): (CredentialsFrom, &str, u32),
    ) -> Self {
        let authority = TestAuthority::default();
        let server = WebServer::start_tls(files, authority.server(&["api.test"]));
        let plain = WebServer::start(files);
        let (port, other) = (server.port, plain.port);
        let net = format!(
            "mode = \"domains\"\n\
             allow = [\"other.test:{other}\", \"*.files.test:{other}\", \"127.0.0.1:{port}\", \"127.0.0.1:{other}\"]\n\
             [[net.rule]]\nhost = \"api.test:{port}\"\ncredential = \"api\"\n{methods}\n"
        );
        let (profile, given) = (named_profile(&net), [("api", text, file_mode)]);
        let hosts =
            NamedHosts::with_credentials(mode, &NAMES, &profile, &authority, (from, &given));
        Self { server, plain, hosts }
    }

    fn url(&self) -> String {
        format!("https://api.test:{}", self.server.port)
    }
}

/// Runs a line whose output must not have the credential.
fn run(sandbox: &Sandbox, line: &str) -> String {
    let done = sandbox.bash(line);
    let all = format!("{}{}{:?}", done.stdout, done.stderr, done.denials);
    for secret in [TOKEN, BASIC] {
        assert!(!all.contains(secret), "{line}: {all}");
    }
    format!("{}{}", done.stdout, done.stderr)
}

/// Asserts that no file below a directory has the credential.
fn assert_absent(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_absent(&path);
        } else if let Ok(bytes) = fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(TOKEN) && !text.contains(BASIC), "{}", path.display());
        }
    }
}

#[test]
fn the_host_gets_the_credential_and_the_session_never_sees_it() {
    for mode in Mode::all() {
        for from in [CredentialsFrom::Directory, CredentialsFrom::Service] {
            let bearer = format!("bearer {TOKEN}\n");
            let world = Furnished::new(mode, Path::new("/none"), "", (from, &bearer, 0o600));
            let (sandbox, url, server) = (world.hosts.open(), world.url(), &world.server);
            for header in ["", "-H \"Authorization: Bearer $PALISADE_CREDENTIAL_API\""] {
                let told = run(&sandbox, &format!("curl -sS {header} {url}/echo"));
                let heard = server.requests();
                assert_eq!(heard.len(), 1, "{mode:?}, {from:?}: {told}");
                assert!(heard[0].contains(&format!("Bearer {TOKEN}")), "{mode:?}: {heard:?}");
                assert!(!heard[0].contains("palisade-placeholder"), "{mode:?}: {heard:?}");
                // The host has repeated it.
                let stars = format!("Bearer {}", "*".repeat(TOKEN.len()));
                assert!(told.contains(&stars), "{mode:?}: {told}");
            }
            // A header that the program has filled in itself is its own.
            run(&sandbox, &format!("curl -sS -H 'Authorization: Bearer mine' {url}/echo"));
            assert!(server.requests()[0].contains("Bearer mine"), "{mode:?}");
            // Only GET and HEAD are allowed, if the rule names no methods.
            let before = server.received();
            let posted = run(&sandbox, &format!("curl -sS -d a=b {url}/x"));
            assert!(posted.contains("does not allow this request"), "{mode:?}: {posted}");
            assert_eq!((server.requests().len(), server.received()), (0, before), "{mode:?}");
            let shown = run(&sandbox, "env; cat /proc/[0-9]*/environ /proc/self/environ; true");
            let placeholder = format!("{VARIABLE}=palisade-placeholder-");
            assert!(shown.contains(&placeholder), "{mode:?}: {shown}");
            let file = world.hosts.credentials().join("api");
            let read = run(&sandbox, &format!("cat {}", file.display()));
            assert!(read.contains("No such file or directory"), "{mode:?}: {read}");
            assert_eq!(fs::read_to_string(file).unwrap(), bearer);
            for room in world.hosts.rooms() {
                let limits = fs::read_to_string(format!("/proc/{room}/limits")).unwrap();
                let core = limits.lines().find(|line| line.starts_with("Max core file size"));
                let core: Vec<_> = core.unwrap().split_whitespace().skip(4).take(2).collect();
                assert_eq!(core, ["0", "0"], "{mode:?}");
            }
            drop(sandbox);
            assert_absent(&world.hosts.world.state());
        }
    }
}

#[test]
fn a_placeholder_that_is_sent_elsewhere_is_refused_with_an_alarm() {
    for mode in Mode::all() {
        let bearer = format!("bearer {TOKEN}\n");
        let given = (CredentialsFrom::Directory, bearer.as_str(), 0o600);
        let world = Furnished::new(mode, Path::new("/none"), "", given);
        let (sandbox, url) = (world.hosts.open(), world.url());
        let other = format!("http://other.test:{}/x", world.plain.port);
        let before = (world.server.received(), world.plain.received());
        let refused = [
            format!("curl -sS -H \"X-Other: ${VARIABLE}\" {url}/x"),
            format!("curl -sS \"{url}/x?q=${VARIABLE}\""),
            format!("curl -sS -H \"Authorization: Bearer ${VARIABLE}\" {other}"),
            format!("curl -sS -u \"user:${VARIABLE}\" {other}"),
            format!("curl -sS \"{other}?${VARIABLE}\""),
        ];
        for line in &refused {
            let told = run(&sandbox, line);
            let why = "has the placeholder of credential \"api\", which is not for this place";
            assert!(told.contains(why), "{mode:?}: {line}: {told}");
        }
        // In a name: by CONNECT, by SOCKS, and as a question for the session's name server.
        let (by_name, port) = (format!("${VARIABLE}.files.test"), world.plain.port);
        let named = |host: &str| {
            [
                format!("curl -sS -p http://{host}:{port}/x"),
                format!("curl -sS --socks5-hostname 127.0.0.1:61080 http://{host}:{port}/x"),
                format!("curl -sS --noproxy '*' http://{host}:{port}/x"),
            ]
        };
        for line in named(&by_name) {
            let told = run(&sandbox, &line);
            assert!(!told.contains("hello"), "{mode:?}: {line}: {told}");
        }
        assert_eq!((world.server.received(), world.plain.received()), before, "{mode:?}");
        assert!(world.server.requests().is_empty() && world.plain.requests().is_empty());
        for line in named("a.files.test") {
            assert_eq!(run(&sandbox, &line), "hello from /x\n", "{mode:?}: {line}");
        }
        // Without the placeholder both hosts answer.
        assert_eq!(run(&sandbox, &format!("curl -sS {other}")), "hello from /x\n");
        assert_eq!(run(&sandbox, &format!("curl -sS {url}/x")), "hello from /x\n");
        drop(sandbox);
        until("the room ends with its last session", || world.hosts.rooms().is_empty());
        let records = world.hosts.connections();
        let alarm = Some(ConnectionAlarm::CredentialPlaceholder);
        let is_named = |host: &str| host.starts_with("palisade-placeholder");
        let alarms = records.iter().filter(|record| record.alarm == alarm);
        let (names, alarms): (Vec<_>, Vec<_>) =
            alarms.partition(|record| is_named(record.host.as_str()));
        let ports: Vec<_> = names.iter().map(|record| record.port == world.plain.port).collect();
        let tried = |is_connection| ports.iter().filter(|port| **port == is_connection).count();
        assert!(tried(true) == 2 && tried(false) >= 1, "{mode:?}: {records:?}");
        let count: u64 = alarms.iter().map(|record| record.count.0).sum();
        assert_eq!(count, refused.len() as u64, "{mode:?}: {records:?}");
        for record in alarms.into_iter().chain(names) {
            assert_eq!(record.verdict, ConnectionVerdict::Deny, "{record:?}");
            assert!(record.summary().starts_with("ALARM: "), "{record:?}");
        }
        let allowed = records.iter().filter(|record| record.verdict == ConnectionVerdict::Allow);
        assert!(allowed.clone().count() >= 2, "{mode:?}: {records:?}");
        assert!(allowed.clone().all(|record| record.alarm.is_none()), "{records:?}");
    }
}

#[test]
fn a_credential_that_others_may_read_opens_no_session() {
    for mode in Mode::all() {
        let bearer = format!("bearer {TOKEN}\n");
        let given = (CredentialsFrom::Directory, bearer.as_str(), 0o604);
        let world = Furnished::new(mode, Path::new("/none"), "", given);
        let file = world.hosts.credentials().join("api");
        let open = || world.hosts.try_open(Open::new(world.hosts.world.workspace()));
        let error = open().unwrap_err().to_string();
        let shown = file.display();
        let why = format!("{shown} has mode 0604, so others may read it; `chmod 600 {shown}`");
        assert!(error.contains(&why), "{mode:?}: {error}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        match mode {
            // It was judged before the daemon gave up the right to open it.
            Mode::System => assert!(open().unwrap_err().to_string().contains(&why)),
            Mode::User => {
                let told = run(&open().unwrap(), &format!("curl -sS {}/x", world.url()));
                assert_eq!(told, "hello from /x\n");
            }
        }
    }
}

#[test]
fn a_room_that_was_replaced_has_the_credential_too() {
    for mode in Mode::all() {
        let bearer = format!("bearer {TOKEN}\n");
        let given = (CredentialsFrom::Directory, bearer.as_str(), 0o600);
        let world = Furnished::new(mode, Path::new("/none"), "", given);
        let (sandbox, line) = (world.hosts.open(), format!("curl -sS {}/x", world.url()));
        assert_eq!(run(&sandbox, &line), "hello from /x\n");
        let old = world.hosts.rooms();
        kill_process(Pid::from_raw(old[0]).unwrap(), Signal::KILL).unwrap();
        until("another room serves the session", || run(&sandbox, &line) == "hello from /x\n");
        let heard = world.server.requests();
        assert_eq!(heard.len(), 2, "{mode:?}: {heard:?}");
        assert!(heard.iter().all(|head| head.contains(TOKEN)), "{mode:?}: {heard:?}");
    }
}

#[test]
fn git_clones_and_pushes_with_a_credential() {
    for mode in Mode::all() {
        let repository = BareRepository::new();
        let methods = "methods = [\"GET\", \"POST /git/project.git/*\"]";
        let basic = format!("basic user:{TOKEN}\n");
        let given = (CredentialsFrom::Directory, basic.as_str(), 0o600);
        let world = Furnished::new(mode, repository.directory(), methods, given);
        let (sandbox, url) = (world.hosts.open(), world.url());
        let line = format!(
            "git clone -q {url}/git/project.git work 2>&1 && cd work && \
             git -c user.name=a -c user.email=a@test commit -q --allow-empty -m pushed && \
             git push -q origin main 2>&1 && echo done"
        );
        let told = run(&sandbox, &line);
        assert!(told.ends_with("done\n"), "{mode:?}: {told}");
        assert_eq!(repository.subjects(), "pushed\nfirst\n", "{mode:?}");
        let heard = world.server.requests();
        assert!(heard.iter().all(|head| head.contains(BASIC)), "{mode:?}: {heard:?}");
        // The host has repeated the header, which is base64.
        let echoed = run(&sandbox, &format!("curl -sS {url}/echo"));
        assert!(echoed.contains("Basic ****"), "{mode:?}: {echoed}");
    }
}
