//! A reload: all of the configuration takes effect or none of it, what is open keeps what it began
//! with, and the service manager is told how it went.

use palisade_client::{Error, ErrorCode, Open};
use palisade_tests::{Daemon, Mode, Sandbox, World, profile_with};
use rustix::process::Signal;
use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt as _, net::UnixDatagram},
    path::PathBuf,
    time::{Duration, Instant},
};

/// A daemon with a configuration file and a service manager that listens to it.
struct Managed {
    daemon: Daemon,
    world: World,
    log: PathBuf,
    manager: UnixDatagram,
}

impl Managed {
    fn new(mode: Mode) -> Self {
        Self::with_profiles(mode, &[])
    }

    /// With more profiles.
    fn with_profiles(mode: Mode, profiles: &[(&str, &str)]) -> Self {
        let world = World::new(mode);
        profiles.iter().for_each(|(name, text)| world.add_profile(name, text));
        let beside = |name: &str| world.outside().with_file_name(name);
        let (log, notify) = (beside("log"), beside("notify.sock"));
        world.configure("log = \"info\"\n");
        world.add_profile("mine", &mine(1));
        let manager = UnixDatagram::bind(&notify).unwrap();
        fs::set_permissions(&notify, Permissions::from_mode(0o666)).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let stderr = fs::File::create(&log).unwrap();
        let daemon = world.configured_daemon(|command| {
            command.env("NOTIFY_SOCKET", &notify).env("WATCHDOG_USEC", "600000").stderr(stderr);
        });
        let managed = Self { daemon, world, log, manager };
        managed.hears(|state| state == "READY=1");
        managed
    }

    /// Waits for a message to the service manager in which a line is as wanted; gives that line.
    fn hears(&self, wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        let mut buffer = [0; 4096];
        while begun.elapsed() < Duration::from_secs(60) {
            let length = self.manager.recv(&mut buffer).expect("the daemon says something");
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if let Some(line) = text.lines().find(|line| wanted(line)) {
                return line.to_owned();
            }
        }
        panic!("not heard within a minute");
    }

    /// Reloads, and waits until that is over.
    fn reload(&self) {
        self.daemon.signal(Signal::HUP);
        self.hears(|state| state == "RELOADING=1");
        self.hears(|state| state == "READY=1");
    }

    fn open(&self, profile: &str) -> Result<Sandbox, Error> {
        let stream = self.daemon.connect(self.world.mode);
        Sandbox::over(stream, None, Open::new(self.world.workspace()).profile(profile))
    }

    fn logged(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

/// A profile whose sessions say which version of it they have.
fn mine(version: u32) -> String {
    let set = format!("set = {{ VERSION = \"{version}\" }}");
    profile_with(&[("set = {}", &set), ("ask = \"destructive\"", "ask = \"never\"")])
}

#[test]
fn what_is_new_is_for_new_sessions_and_open_ones_keep_their_own() {
    for mode in Mode::all() {
        let managed = Managed::new(mode);
        let first = managed.open("mine").expect("a session");
        assert_eq!(first.ok("echo $VERSION"), "1\n");
        managed.world.add_profile("mine", &mine(2));
        managed.world.add_profile("added", &mine(3));
        // Not before it is asked for.
        assert_eq!(managed.open("mine").expect("a session").ok("echo $VERSION"), "1\n");
        assert!(managed.open("added").is_err());
        managed.world.configure("log = \"debug\"\n");
        managed.reload();
        assert_eq!(first.ok("echo $VERSION"), "1\n");
        assert_eq!(managed.open("mine").expect("a session").ok("echo $VERSION"), "2\n");
        assert_eq!(managed.open("added").expect("a session").ok("echo $VERSION"), "3\n");
        let logged = managed.logged();
        assert!(logged.contains("INFO configuration and profiles were reloaded"), "{logged}");
        // The filter of the log is another, too.
        assert!(logged.contains("DEBUG a client"), "{logged}");
        assert!(!logged.split("were reloaded").next().unwrap().contains("DEBUG"), "{logged}");
        fs::remove_file(managed.world.profiles().join("added.toml")).unwrap();
        managed.reload();
        assert!(managed.open("added").is_err());
    }
}

#[test]
fn an_invalid_profile_breaks_only_itself_at_the_start() {
    for mode in Mode::all() {
        let child = "version = 1\ndescription = \"x\"\nextends = \"bad\"\n";
        let managed = Managed::with_profiles(mode, &[("bad", "nonsense = 1\n"), ("child", child)]);
        let bad = managed.world.profiles().join("bad.toml");
        let expected = format!("{}:1:1: nonsense: unknown key; ", bad.display());
        for (name, expected) in
            [("bad", expected.as_str()), ("child", "the profile \"bad\" is invalid")]
        {
            match managed.open(name) {
                Err(Error::Remote(error)) => {
                    assert_eq!(error.code, ErrorCode::ProfileNotFound, "{error}");
                    assert!(error.message.contains(expected), "{error}");
                    assert!(error.hint.contains("available: ") && error.hint.contains("mine"));
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        let status = managed.hears(|state| state.starts_with("STATUS="));
        assert!(status.starts_with("STATUS=invalid profiles (bad, child), "), "{status}");
        assert!(managed.logged().contains(&expected), "{}", managed.logged());
        // All others work.
        assert_eq!(managed.open("mine").expect("a session").ok("echo $VERSION"), "1\n");
        // A reload takes effect as a whole.
        managed.world.add_profile("mine", &mine(2));
        managed.reload();
        managed.hears(|state| state.starts_with("STATUS=NOT RELOADED"));
        assert_eq!(managed.open("mine").expect("a session").ok("echo $VERSION"), "1\n");
        managed.world.add_profile("bad", &mine(3));
        managed.reload();
        assert_eq!(managed.open("mine").expect("a session").ok("echo $VERSION"), "2\n");
        assert_eq!(managed.open("child").expect("a session").ok("echo $VERSION"), "3\n");
        let status = managed.hears(|state| state.starts_with("STATUS="));
        assert!(status.starts_with("STATUS=sessions "), "{status}");
    }
}

#[test]
fn a_bad_file_changes_nothing_and_says_so() {
    for mode in Mode::all() {
        let managed = Managed::new(mode);
        managed.world.add_profile("mine", &mine(2));
        let file = managed.world.configuration().display().to_string();
        let bad = managed.world.profiles().join("bad.toml");
        for (written, profile, expected) in [
            ("log = \"debug\"\nsokcet = \"/x\"\n", None, format!("{file}:2:1: sokcet: unknown key; did you mean `socket`?")),
            ("log = \"debug\"\nstate = \"/x\"\n# not used: --state goes before\n", Some("nonsense = 1\n"), format!("{}:1:1: nonsense: unknown key; ", bad.display())),
            ("log = \"debug\"\naudit_sync = \"7ms\"\n", None, "audit_sync: only a restart can change it; restore the old value, or restart the daemon".to_owned()),
        ] {
            managed.world.configure(written);
            if let Some(text) = profile {
                managed.world.add_profile("bad", text);
            }
            managed.reload();
            let status = managed.hears(|state| state.starts_with("STATUS=NOT RELOADED"));
            let begin = format!("STATUS=NOT RELOADED, the old configuration is in force: {expected}");
            assert!(status.starts_with(&begin), "{status}");
            let logged = managed.logged();
            assert!(logged.contains("ERROR not reloaded: the old configuration and profiles stay in force"), "{logged}");
            assert!(logged.contains(expected.split('`').next().unwrap()), "{logged}");
            // Neither the good profile beside it nor the log's filter.
            assert_eq!(managed.open("mine").expect("a session").ok("echo $VERSION"), "1\n");
            assert!(!managed.logged().contains("DEBUG"));
            fs::remove_file(&bad).unwrap_or_default();
        }
        managed.world.configure("log = \"info\"\n");
        managed.reload();
        let status = managed.hears(|state| state.starts_with("STATUS="));
        assert!(!status.contains("NOT RELOADED"), "{status}");
        assert_eq!(managed.open("mine").expect("a session").ok("echo $VERSION"), "2\n");
    }
}

#[test]
fn the_service_manager_hears_how_it_is_and_that_it_lives() {
    for mode in Mode::all() {
        let managed = Managed::new(mode);
        managed.hears(|state| {
            state == "STATUS=sessions 0, calls under way 0, approval requests waiting 0"
        });
        for _ in 0..3 {
            managed.hears(|state| state == "WATCHDOG=1");
        }
        let session = managed.open("mine").expect("a session");
        managed.hears(|state| {
            state == "STATUS=sessions 1, calls under way 0, approval requests waiting 0"
        });
        // A manager that does not read, and has no room for more, holds up nobody.
        let other = UnixDatagram::unbound().unwrap();
        other.set_nonblocking(true).unwrap();
        let path = managed.world.outside().with_file_name("notify.sock");
        while other.send_to(b"X_FULL=1", &path).is_ok() {}
        let goes_on = || {
            let line = async { session.session.bash("sleep 1; echo on").await.unwrap().stdout };
            let told = async { tokio::time::timeout(Duration::from_secs(60), line).await };
            assert_eq!(session.wait(told).expect("the daemon goes on"), "on\n", "{mode:?}");
        };
        goes_on();
        // Nor while it is told of a reload.
        managed.daemon.signal(Signal::HUP);
        goes_on();
        managed.hears(|state| state == "X_FULL=1");
        // A loop that does not turn says nothing.
        managed.daemon.signal(Signal::STOP);
        managed.manager.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
        let mut buffer = [0; 4096];
        while managed.manager.recv(&mut buffer).is_ok() {}
        managed.daemon.signal(Signal::CONT);
        managed.manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        managed.hears(|state| state == "WATCHDOG=1");
        drop(session);
        managed.daemon.signal(Signal::TERM);
        managed.hears(|state| state == "STOPPING=1");
    }
}
