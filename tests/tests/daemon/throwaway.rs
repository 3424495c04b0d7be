//! Sessions with uids of their own: nothing else has theirs, what they write is their user's on the
//! disk, and where that can not be they are refused. Only the system's daemon can; an ordinary
//! user's says so.

use palisade_client::{Error, Open};
use palisade_protocol::{ErrorCode, WireError};
use palisade_tests::{
    Daemon, Mode, ORDINARY, Sandbox, UNASKED, World, act_as, binary, is_denied, outside, processes,
    profile_with,
    rooms::{Before, Rooms, status, until},
};
use rustix::process::{Pid, Signal};
use serde_json::json;
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

/// Tests run side by side: each has a range of its own, that nobody on a host has.
static NEXT: AtomicU32 = AtomicU32::new(0);

fn range(count: u32) -> (u32, String) {
    let nth = NEXT.fetch_add(64, Ordering::Relaxed);
    let first = 3_000_000_000 + (std::process::id() % 100_000) * 1000 + nth;
    (first, format!("{first}-{}", first + count - 1))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The system's daemon, and a place of a user's.
struct House {
    daemon: Daemon,
    world: World,
    /// The world of the user whose sessions are opened.
    place: World,
    first: u32,
}

impl House {
    /// None for an ordinary user, whose own daemon is seen to refuse.
    fn new(count: u32) -> Option<Self> {
        Self::with(count, |_, _| {})
    }

    /// Makes worlds in which `more` is done first to the daemon's and to the user's.
    fn with(count: u32, more: impl FnOnce(&World, &World)) -> Option<Self> {
        if !is_root() {
            assert_refused();
            return None;
        }
        let (first, range) = range(count);
        let text = format!("identity = \"throwaway\"\nsession_uids = \"{range}\"\n");
        Some(Self::configured(first, &text, more))
    }

    fn configured(first: u32, text: &str, more: impl FnOnce(&World, &World)) -> Self {
        let (world, place) = (World::new(Mode::System), World::new(Mode::User));
        world.configure(text);
        more(&world, &place);
        let daemon = world.configured_daemon(|_| {});
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        Self { daemon, world, place, first }
    }

    fn try_open(&self, profile: &str) -> Result<Sandbox, Error> {
        let stream = self.daemon.connect(Mode::User);
        Sandbox::over(stream, None, Open::new(self.place.workspace()).profile(profile))
    }

    fn open(&self, profile: &str) -> Sandbox {
        self.try_open(profile).unwrap_or_else(|error| panic!("{profile}: {error}"))
    }

    /// A file of the user's in the workspace.
    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        put(&self.place, &self.place.workspace().join(name), text, mode)
    }

    /// Returns the owner and the mode of a name in the workspace.
    fn owned(&self, name: &str) -> (u32, u32, u32) {
        let found = fs::symlink_metadata(self.place.workspace().join(name));
        let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        (found.uid(), found.gid(), found.mode() & 0o7777)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.place.workspace().join(name)).unwrap()
    }
}

fn put(place: &World, path: &Path, text: &str, mode: u32) -> PathBuf {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    place.give(path);
    path.to_owned()
}

fn wire<T>(result: Result<T, Error>) -> WireError {
    match result {
        Err(error) => error.wire().unwrap_or_else(|| panic!("{error}")).clone(),
        Ok(_) => panic!("there is a session"),
    }
}

/// An ordinary user's daemon can take on nobody's uid, and runs nothing as anybody else.
fn assert_refused() {
    let world = World::new(Mode::User);
    world.configure("identity = \"throwaway\"\nsession_uids = \"600000-600009\"\n");
    let daemon = world.configured_daemon(|_| {});
    let open = || Open::new(world.workspace()).profile(UNASKED);
    let error = wire(Sandbox::over(daemon.connect(Mode::User), None, open()));
    assert_eq!(error.code, ErrorCode::LayerUnavailable, "{error}");
    assert!(error.message.contains("only the system's daemon can"), "{error}");
    assert!(error.hint.contains("--session-uids"), "{error}");
}

#[test]
fn an_ordinary_users_daemon_refuses() {
    assert_refused();
    // The control: it serves whoever is content with their own.
    let world = World::new(Mode::User);
    let receipt = world.open().bash("true").receipt.unwrap();
    assert_eq!((receipt.uid, receipt.for_uid), (Mode::User.uid(), None));
}

/// A process of a session, seen from the host.
fn sleeper(sandbox: &Sandbox, mark: &str) -> processes::Process {
    let line = format!("exec -a {mark} sleep 1000");
    assert!(sandbox.call("bash", json!({"command": line, "background": true})).success);
    let mut found = Vec::new();
    until("it sleeps", || {
        found = processes::marked(mark);
        found.retain(|process| process.name == "sleep");
        !found.is_empty()
    });
    found.remove(0)
}

#[test]
fn sessions_of_one_user_share_nothing() {
    let Some(house) = House::new(8) else { return };
    let (one, two) = (house.open(UNASKED), house.open(UNASKED));
    let uids = [&one, &two].map(|sandbox| {
        let receipt = sandbox.bash("true").receipt.unwrap();
        assert_eq!((receipt.for_uid, receipt.gid), (Some(ORDINARY), receipt.uid));
        assert_eq!(receipt.groups, Vec::<u32>::new());
        let uid = receipt.uid;
        // Programs know who they are.
        let seen = sandbox.ok("id -u; id -g; id -G; whoami; stat -c '%u %U' .");
        assert_eq!(seen, format!("{uid}\n{uid}\n{uid}\npalisade\n{uid} palisade\n"));
        uid
    });
    assert_eq!(uids, [house.first, house.first + 1]);
    // Nor is it a room's.
    let rooms = Rooms::of(house.daemon.child.id());
    for room in [&rooms.broker, &rooms.outer, &rooms.inner] {
        let own = status(room.pid, "Uid");
        assert!(uids.iter().all(|uid| !own.contains(&uid.to_string())), "{own}");
    }
    let mark = processes::mark();
    let victims = [sleeper(&one, &format!("{mark}-1")), sleeper(&two, &format!("{mark}-2"))];
    for (victim, uid) in victims.iter().zip(uids) {
        assert_eq!(status(victim.pid, "Uid"), format!("{uid}\t{uid}\t{uid}\t{uid}"));
    }
    let (pid, name) = (victims[1].pid, format!("{mark}-socket"));
    let serve = json!({"command": format!("./probe abstract_serve:{name}"), "background": true});
    assert!(two.call("bash", serve).success);
    assert_eq!(
        two.ok(
            "echo mine > /tmp/mine; cat /tmp/mine; ipcmk -M 64 > /dev/null; ipcs -m | grep -c 0x"
        ),
        "mine\n1\n"
    );
    one.holds(&[
        (&format!("kill:{pid}:9"), "ESRCH"),
        (&format!("sys:ptrace:16:{pid}:0:0"), "ESRCH"),
        (&format!("stat:/proc/{pid}"), "ENOENT"),
        (&format!("abstract:{name}"), "ECONNREFUSED"),
        ("stat:/tmp/mine", "ENOENT"),
    ]);
    assert_eq!(one.bash("ipcs -m | grep -c 0x").stdout, "0\n");
    // The uid alone would do: without any namespace in between the kernel refuses one the other, and
    // their own user both. The control: each reaches what is its own.
    for (who, mine) in [(uids[0], Some(0)), (uids[1], Some(1)), (ORDINARY, None)] {
        for (n, victim) in victims.iter().enumerate() {
            let answers = act_as(who, || {
                let environ = fs::read(format!("/proc/{}/environ", victim.pid));
                let pid = Pid::from_raw(victim.pid).unwrap();
                let signal = rustix::process::test_kill_process(pid);
                (signal, environ.map(drop).map_err(|error| error.raw_os_error()))
            });
            let refused = (Err(rustix::io::Errno::PERM), Err(Some(libc::EACCES)));
            let expected = if mine == Some(n) { (Ok(()), Ok(())) } else { refused };
            assert_eq!(answers, expected, "uid {who} to {n}");
        }
    }
}

/// Nobody is asked.
const NEVER: (&str, &str) = ("ask = \"destructive\"", "ask = \"never\"");

#[test]
fn what_a_session_writes_is_its_users() {
    let held = profile_with(&[NEVER, ("guard = \"auto\"", "guard = \"transaction\"")]);
    let Some(house) = House::with(8, |world, _| {
        world.add_profile("memory", &held);
        let upper = "[transactions]\nupper = \"disk\"";
        world.add_profile("disk", &held.replacen("[transactions]", upper, 1));
    }) else {
        return;
    };
    house.file("secret", "mine\n", 0o600);
    house.file("old", "old\n", 0o640);
    for profile in [UNASKED, "memory", "disk"] {
        let sandbox = house.open(profile);
        assert_eq!(sandbox.ok("cat secret"), "mine\n");
        // In a transaction, but for the first.
        let made =
            sandbox.bash("umask 027; mkdir d; echo x > d/f; echo more >> secret; ln -s f d/l");
        assert!(
            made.success && made.receipt.as_ref().unwrap().for_uid == Some(ORDINARY),
            "{made:?}"
        );
        let committed = palisade_client::ChangeSet::of(&made).map(|set| set.committed);
        assert_eq!(committed, (profile != UNASKED).then_some(true), "{made:?}");
        assert_eq!(house.owned("d"), (ORDINARY, ORDINARY, 0o750));
        assert_eq!(house.owned("d/f"), (ORDINARY, ORDINARY, 0o640));
        assert_eq!(house.owned("d/l").0, ORDINARY);
        assert_eq!(house.owned("secret"), (ORDINARY, ORDINARY, 0o600));
        // Directly, by a job.
        let job = json!({"command": "umask 077; echo job > job", "background": true});
        assert!(sandbox.call("bash", job).success);
        until("the job wrote", || {
            house.place.workspace().join("job").metadata().is_ok_and(|f| f.len() == 4)
        });
        assert_eq!(house.owned("job"), (ORDINARY, ORDINARY, 0o600));
        // By the file tools.
        let kept = |tool: &str, arguments| {
            let result = sandbox.call(tool, arguments);
            assert!(result.success, "{tool}: {:?}", result.error);
            result.undo.unwrap_or_else(|| panic!("{tool} can be undone"))
        };
        let written = kept("write_file", json!({"path": "n/w", "content": "w"}));
        let edited = kept("edit", json!({"path": "old", "old_string": "old", "new_string": "new"}));
        kept("move_file", json!({"from": "d/f", "to": "d/g"}));
        let deleted = kept("delete_file", json!({"path": "secret"}));
        assert_eq!(house.owned("n"), (ORDINARY, ORDINARY, 0o755));
        assert_eq!(house.owned("n/w"), (ORDINARY, ORDINARY, 0o644));
        assert_eq!(
            (house.owned("old"), house.text("old")),
            ((ORDINARY, ORDINARY, 0o640), "new\n".into())
        );
        assert_eq!(house.owned("d/g"), (ORDINARY, ORDINARY, 0o640));
        assert!(!house.place.workspace().join("secret").exists());
        // Another session of the same user's, with another uid, takes it back.
        let uid = sandbox.bash("true").receipt.unwrap().uid;
        drop(sandbox);
        let sandbox = house.open(profile);
        assert_ne!(sandbox.bash("true").receipt.unwrap().uid, uid);
        for call in [deleted, edited, written] {
            let result = sandbox.call("undo", json!({"call_id": call}));
            assert!(result.success, "{:?}", result.error);
        }
        assert_eq!(house.text("secret"), "mine\nmore\n");
        assert_eq!(house.owned("secret"), (ORDINARY, ORDINARY, 0o600));
        assert_eq!(
            (house.owned("old"), house.text("old")),
            ((ORDINARY, ORDINARY, 0o640), "old\n".into())
        );
        assert!(!house.place.workspace().join("n").exists());
        assert_eq!(sandbox.ok("rm -r d job; echo mine > secret"), "");
    }
}

#[test]
fn programs_work_as_they_do() {
    let Some(house) = House::new(8) else { return };
    let sandbox = house.open(UNASKED);
    let git = "git init -q -b main . && git add probe && git -c user.name=a -c user.email=a@b commit -qm one \
               && git status --short && git log --format=%s";
    assert_eq!(sandbox.ok(git), "one\n");
    assert_eq!(sandbox.ok("git status --short; git diff --stat"), "");
    assert_eq!(house.owned(".git/HEAD"), (ORDINARY, ORDINARY, 0o644));
    let build = "mkdir src out && echo 'int main(void) { return 0; }' > src/m.c && \
                 printf 'out/m: src/m.c\\n\\tcc -o $@ $<\\n' > Makefile && make -s && ./out/m && echo built";
    assert_eq!(sandbox.ok(build), "built\n");
    assert_eq!(house.owned("out/m"), (ORDINARY, ORDINARY, 0o755));
    // Again, and by the one who owns it.
    assert_eq!(sandbox.ok("touch src/m.c && make -s && echo again"), "again\n");
    act_as(ORDINARY, || fs::remove_file(house.place.workspace().join("out/m"))).unwrap();
    assert_eq!(sandbox.ok("make -s && ./out/m && echo rebuilt"), "rebuilt\n");
}

#[test]
fn what_is_somebody_elses_stays_theirs() {
    let Some(house) = House::with(8, |world, place| {
        let last = "    \"$HOME/.cargo/git\",\n";
        let read = format!("{last}    \"!{}\",\n", place.outside().join("reading").display());
        let write = format!("unguarded = [\"!{}\"]", place.outside().join("cache").display());
        let changes = [(last, read.as_str()), ("unguarded = []", &write), NEVER];
        world.add_profile("beside", &profile_with(&changes));
    }) else {
        return;
    };
    // Root's, in the user's workspace: one that everybody may write, and one of another group's.
    let roots = house.file("roots", "root\n", 0o666);
    std::os::unix::fs::chown(&roots, Some(0), Some(0)).unwrap();
    let group = house.file("group", "group\n", 0o664);
    std::os::unix::fs::chown(&group, None, Some(0)).unwrap();
    house.file("own", "own\n", 0o644);
    // Beside it: what may be written, and what may only be read.
    let (cache, reading) =
        (house.place.outside().join("cache"), house.place.outside().join("reading"));
    for directory in [&cache, &reading] {
        fs::create_dir(directory).unwrap();
        house.place.give(directory);
        put(&house.place, &directory.join("open"), "open\n", 0o644);
        put(&house.place, &directory.join("closed"), "closed\n", 0o600);
    }
    let sandbox = house.open("beside");
    assert_eq!(sandbox.ok("stat -c '%u %g' roots"), "65534 65534\n");
    assert_eq!(sandbox.ok("stat -c %g group"), "65534\n");
    let at = |directory: &Path, name: &str| directory.join(name).display().to_string();
    sandbox.holds(&[
        ("read:roots", "ok"),
        ("append:roots", "EACCES"),
        ("remove:roots", "EOVERFLOW"),
        ("rename:own:roots", "EOVERFLOW"),
        ("link:roots:other", "EOVERFLOW"),
        ("append:group", "EACCES"),
        ("append:own", "ok"),
        ("chown:own", "EPERM"),
        ("chmod:own:2541", "EPERM"),
        (&format!("read:{}", at(&reading, "open")), "ok"),
        (&format!("read:{}", at(&reading, "closed")), "EACCES"),
        (&format!("append:{}", at(&reading, "open")), "EACCES"),
        (&format!("read:{}", at(&cache, "closed")), "ok"),
        (&format!("write:{}", at(&cache, "new")), "ok"),
        ("stat:/etc/shadow", "ENOENT"),
    ]);
    let tool = sandbox.call("write_file", json!({"path": "roots", "content": "x"}));
    let error = tool.error.expect("refused");
    assert_eq!(error.code, ErrorCode::OutsidePolicy, "{error}");
    assert_eq!((house.text("roots"), house.owned("roots")), ("root\n".into(), (0, 0, 0o666)));
    assert_eq!(house.owned("own"), (ORDINARY, ORDINARY, 0o644));
    let made = fs::metadata(cache.join("new")).unwrap();
    assert_eq!((made.uid(), made.gid()), (ORDINARY, ORDINARY));
    // The control: a session with its user's own uid reads what is closed.
    let uids = format!("session_uids = \"{}-{}\"\n", house.first, house.first + 7);
    house.world.configure(&uids);
    house.daemon.signal(Signal::HUP);
    until("it is reloaded", || {
        house
            .try_open("beside")
            .is_ok_and(|own| own.bash("true").receipt.unwrap().for_uid.is_none())
    });
    let own = house.open("beside");
    own.holds(&[(&format!("read:{}", at(&reading, "closed")), "ok")]);
    // The open session keeps the uid that it began with.
    sandbox.holds(&[("append:roots", "EACCES")]);
}

#[test]
fn names_are_hidden_and_protected() {
    let names = "workspace = \"write\"\nhide = [\".env\"]\nprotect = [\"ci.yml\"]\n";
    let text = profile_with(&[("workspace = \"write\"\n", names), NEVER]);
    let Some(house) = House::with(8, |world, _| world.add_profile("names", &text)) else { return };
    for name in [".env", "ci.yml", "plain"] {
        house.file(name, "seen\n", 0o600);
    }
    let sandbox = house.open("names");
    let result = sandbox.bash("cat plain ci.yml; cat .env");
    assert_eq!(result.stdout, "seen\nseen\n", "{result:?}");
    assert!(result.stderr.contains("No such file or directory"), "{result:?}");
    assert!(!sandbox.bash("echo bad > ci.yml; echo new > new").success);
    assert_eq!(house.text("ci.yml"), "seen\n");
    assert!(!house.place.workspace().join("new").exists(), "nothing of it was kept");
    assert!(sandbox.bash("echo new > new").success);
    assert_eq!(house.owned("new"), (ORDINARY, ORDINARY, 0o644));
    assert_eq!(house.text(".env"), "seen\n");
}

#[test]
fn when_all_are_taken_another_has_to_wait() {
    let Some(house) = House::new(2) else { return };
    let (one, two) = (house.open(UNASKED), house.open(UNASKED));
    let error = wire(house.try_open(UNASKED));
    assert_eq!(error.code, ErrorCode::LimitReached, "{error}");
    assert!(error.message.contains("all 2 uids of"), "{error}");
    assert_eq!(error.retry_after_ms, Some(1000), "{error}");
    // It is taken again when nothing of its session is left, and not before.
    let mark = processes::mark();
    let process = sleeper(&two, &mark);
    assert_eq!(
        status(process.pid, "Uid").split('\t').next(),
        Some((house.first + 1).to_string().as_str())
    );
    drop(two);
    let mut next = None;
    until("its uid is free again", || {
        next = house.try_open(UNASKED).ok();
        next.is_some()
    });
    assert_eq!(processes::marked(&mark).len(), 0);
    assert_eq!(next.expect("a session").bash("true").receipt.unwrap().uid, house.first + 1);
    assert_eq!(one.bash("true").receipt.unwrap().uid, house.first);
}

#[test]
fn without_a_range_it_is_refused_and_the_role_is_for_whom_it_names() {
    if !is_root() {
        return assert_refused();
    }
    let house = House::configured(0, "identity = \"throwaway\"\n", |_, _| {});
    let error = wire(house.try_open(UNASKED));
    assert_eq!(error.code, ErrorCode::LayerUnavailable, "{error}");
    assert!(error.message.contains("--session-uids"), "{error}");
    drop(house);
    let (first, range) = range(4);
    let text = format!("session_uids = \"{range}\"\n[roles]\nthrowaway = [\"uid:{ORDINARY}\"]\n");
    let house = House::configured(first, &text, |_, _| {});
    let receipt = house.open(UNASKED).bash("true").receipt.unwrap();
    assert_eq!((receipt.uid, receipt.for_uid), (first, Some(ORDINARY)));
    // Root is not named.
    let open = Open::new(house.world.workspace()).profile(UNASKED);
    let roots = Sandbox::over(house.daemon.connect(Mode::System), None, open).unwrap();
    let receipt = roots.bash("true").receipt.unwrap();
    assert_eq!((receipt.uid, receipt.for_uid), (0, None));
    // The operators' view, and the records.
    let sandbox = house.open(UNASKED);
    let uid = sandbox.bash("true").receipt.unwrap().uid;
    let listed = Command::new(binary("palisade"))
        .args(["sessions", "--json", "--operator-socket"])
        .arg(&house.daemon.operators)
        .output()
        .unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let sessions = listed["sessions"].as_array().unwrap();
    let whose: Vec<_> =
        sessions.iter().map(|one| (one["uid"].as_u64(), one["runs_as"].as_u64())).collect();
    assert!(whose.contains(&(Some(ORDINARY.into()), Some(uid.into()))), "{whose:?}");
    let log = fs::read_dir(house.world.state().join("audit")).unwrap().flatten();
    let log: String = log.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
    assert!(log.contains(&format!("\"runs_as\":{uid}")), "{log}");
}

#[test]
fn a_range_that_somebody_has_refuses_the_start() {
    let directory = tempfile::tempdir().unwrap();
    for (file, line, taken) in [
        ("passwd", "alice:x:600005:7::/:/bin/sh", true),
        ("group", "staff:x:600000:", true),
        ("subuid", "alice:590000:65536", true),
        ("subgid", "alice:600009:1", true),
        ("passwd", "alice:x:600010:7::/:/bin/sh", false),
    ] {
        let accounts = directory.path().join(file);
        fs::write(&accounts, format!("root:x:0:0::/:/bin/sh\n{line}\n")).unwrap();
        let at = format!("/etc/{file}");
        if !Path::new(&at).exists() {
            assert!(file.starts_with("sub"), "{at}");
            continue;
        }
        let script = format!(
            "mount --bind {} {at} && exec {} --session-uids 600000-600009",
            accounts.display(),
            binary("palisade-launcher").display()
        );
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "bash", "-c", &script])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{line}: {said}");
        let refused = said.contains(&format!("--session-uids 600000-600009: {at} assigns "));
        assert_eq!(refused, taken, "{line}: {said}");
        // The control: it wants a socket next.
        assert_eq!(said.contains("not a sequenced-packet socket"), !taken, "{line}: {said}");
    }
}

/// A session of root's in a workspace of root's, whose daemon has mounted something there.
fn mounted(world: &World, mount: &str) -> Result<Sandbox, Error> {
    let line = format!(
        "exec unshare --mount bash -c '{mount} exec \"$@\" --config {}' bash \"$@\"",
        world.configuration().display()
    );
    let (stream, daemon): (UnixStream, _) = world.embedded_by(Mode::System, &line);
    let open = Open::new(world.workspace()).profile(UNASKED);
    Sandbox::over(stream, Some(daemon), open)
}

#[test]
fn a_file_system_that_can_not_be_mapped_is_refused_by_name() {
    if !is_root() {
        return assert_refused();
    }
    let world = World::new(Mode::System);
    let (_, range) = range(4);
    world.configure(&format!("identity = \"throwaway\"\nsession_uids = \"{range}\"\n"));
    let inner = world.workspace().join("in");
    for directory in [&inner, &world.state().join("upper"), &world.state().join("work")] {
        fs::create_dir(directory).unwrap();
    }
    let overlay = |at: &Path| {
        let state = world.state();
        format!(
            "mount -t overlay overlay -o lowerdir={},upperdir={}/upper,workdir={}/work {} &&",
            world.outside().display(),
            state.display(),
            state.display(),
            at.display()
        )
    };
    // Below the workspace, and the workspace itself.
    for at in [inner, world.workspace()] {
        let error = wire(mounted(&world, &overlay(&at)));
        assert_eq!(error.code, ErrorCode::WorkspaceRefused, "{error}");
        assert!(error.message.contains(&format!("{at:?} (overlay) can not")), "{error}");
        assert!(error.hint.contains("idmapped"), "{error}");
    }
    // The control: a file system that can, there; and a workspace of root's is root's on the disk.
    let tmpfs = format!("mount -t tmpfs tmpfs {} &&", world.workspace().join("in").display());
    let sandbox = mounted(&world, &tmpfs).unwrap();
    let result = sandbox.bash("id -u > whose; echo x > in/x; stat -c %u in/x");
    assert!(result.success, "{result:?}");
    let receipt = result.receipt.clone().unwrap();
    assert_eq!(receipt.for_uid, Some(0), "{result:?}");
    until("it is written", || {
        fs::read_to_string(world.workspace().join("whose")).is_ok_and(|t| t.ends_with('\n'))
    });
    let whose = world.workspace().join("whose");
    assert_eq!(fs::read_to_string(&whose).unwrap(), format!("{}\n", receipt.uid));
    assert_eq!(fs::metadata(&whose).unwrap().uid(), 0);
}

#[test]
fn a_launcher_that_is_killed_leaves_nothing() {
    let Some(house) = House::new(4) else { return };
    let before = Before::look();
    let sandbox = house.open(UNASKED);
    let mark = processes::mark();
    let victim = sleeper(&sandbox, &mark);
    assert_eq!(
        status(victim.pid, "Uid").split('\t').next(),
        Some(house.first.to_string().as_str())
    );
    let inner = Pid::from_raw(Rooms::of(house.daemon.child.id()).inner.pid).unwrap();
    rustix::process::kill_process(inner, Signal::KILL).unwrap();
    until("its processes are gone", || processes::marked(&mark).is_empty());
    before.assert_nothing_left();
    assert!(wire(house.try_open(UNASKED)).code == ErrorCode::LauncherGone);
}

/// The repository around the workspace is the user's, and closed to the session's own uid.
#[test]
fn what_the_repository_around_the_workspace_tracks_is_no_noise() {
    let Some(house) = House::new(2) else { return };
    let top = house.place.workspace();
    let make = "mkdir -p app/target && echo work > app/target/mod.rs && git init -q . && \
                git add -f app && chmod 600 .git/index";
    outside(&house.place, &top, make);
    let stream = house.daemon.connect(Mode::User);
    let open = Open::new(top.join("app")).profile("workspace");
    let sandbox = Sandbox::over(stream, None, open).unwrap();
    let result = sandbox.bash("rm -rf target");
    assert!(is_denied(&result), "{result:?}");
    assert_eq!(house.text("app/target/mod.rs"), "work\n");
}
