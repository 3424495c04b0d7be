//! A session may read and write in its workspace what its user may on the host, whatever layer lies
//! over the workspace and whatever the host changes while a call runs.

use palisade_client::{Event, Open};
use palisade_protocol::CallResult;
use palisade_tests::{Daemon, Mode, ORDINARY, Sandbox, World, rooms::until};
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tokio::io::AsyncWriteExt as _;

/// Another user, and a group that the session is not in.
const OTHER: u32 = 4343;
const ROOT: u32 = 0;

/// The profiles by which a layer lies over the workspace.
const PROFILES: [&str; 3] = ["unasked", "guarded", "readonly"];

/// An ordinary user's session, by this kind of daemon.
struct Stage {
    sandbox: Sandbox,
    at: PathBuf,
    approver: Child,
    _daemon: Daemon,
    _world: World,
}

impl Stage {
    /// `furnish` makes what is in the workspace.
    fn new(mode: Mode, profile: &str, furnish: impl FnOnce(&Path)) -> Self {
        Self::in_groups(&[], mode, profile, furnish)
    }

    /// The user, and who starts a daemon of the user's own, is in these supplementary groups.
    fn in_groups(groups: &[u32], mode: Mode, profile: &str, furnish: impl FnOnce(&Path)) -> Self {
        let world = World::new(mode);
        let at = world.workspace();
        give(&at, ORDINARY, ORDINARY);
        give(&at.join("probe"), ORDINARY, ORDINARY);
        file(&at.join(".env"), "hidden\n", ORDINARY, 0o600);
        furnish(&at);
        let daemon = world.daemon_in(groups);
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        let stream = Mode::User.act_in(groups, || UnixStream::connect(&daemon.socket).unwrap());
        let sandbox = Sandbox::over(stream, None, Open::new(&at).profile(profile)).unwrap();
        let mut approve = world.command("palisade");
        approve.args(["approve", "--policy", "approve", "--operator-socket"]);
        approve.arg(&daemon.operators).stdin(Stdio::null()).stdout(Stdio::null());
        let approver = mode.act(|| approve.spawn().unwrap());
        let stage = Self { sandbox, at, approver, _daemon: daemon, _world: world };
        // Until there is an approver a profile that asks about everything denies it.
        until("an approver", || stage.sandbox.bash("true").success);
        stage
    }

    /// Runs a line; when it has said `ready`, something else happens; then its input ends.
    fn meanwhile(&self, line: &str, other: impl FnOnce()) -> CallResult {
        self.sandbox.wait(async {
            let (mut ours, theirs) = tokio::io::duplex(64);
            let call = self.sandbox.session.bash(line).stream().attach_reader(theirs);
            let mut running = call.start().await.expect("started");
            let mut said = Vec::new();
            while !said.ends_with(b"ready\n") {
                match running.next().await {
                    Some(Event::Output { data, .. }) => said.extend_from_slice(&data),
                    Some(_) => {}
                    None => panic!("it ended: {:?}", running.result().await),
                }
            }
            other();
            ours.shutdown().await.expect("shut");
            drop(ours);
            running.result().await.expect("a result")
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.approver.kill().unwrap();
        self.approver.wait().unwrap();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn give(path: &Path, uid: u32, gid: u32) {
    if is_root() {
        chown(path, Some(uid), Some(gid)).unwrap();
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn directory(path: &Path, owner: u32, bits: u32) {
    fs::create_dir(path).unwrap();
    give(path, owner, owner);
    mode(path, bits);
}

fn file(path: &Path, text: &str, owner: u32, bits: u32) {
    fs::write(path, text).unwrap();
    give(path, owner, owner);
    mode(path, bits);
}

/// An access control list as the kernel has it: what the owner, a user, the group, everybody may.
fn list(path: &Path, owner: u16, named: (u32, u16), group: u16, other: u16) {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    let nobody = u32::MAX;
    let mask = group | named.1;
    for (tag, rights, id) in [
        (0x01u16, owner, nobody),
        (0x02, named.1, named.0),
        (0x04, group, nobody),
        (0x10, mask, nobody),
        (0x20, other, nobody),
    ] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, "system.posix_acl_access", &bytes, flags).expect("a list");
}

/// A directory with a file, and what is tried on it.
#[derive(Debug, Clone)]
struct Entry {
    name: String,
    /// The owner of the entry and of its directory.
    owner: u32,
    group: u32,
    /// A hidden name is in it, so that marks lie over it.
    marked: bool,
}

/// Makes a table of directories with a file each: owners, groups, modes, lists.
fn table(at: &Path) -> Vec<Entry> {
    let owners: &[u32] = if is_root() { &[ORDINARY, OTHER, ROOT] } else { &[ORDINARY] };
    let groups: &[u32] = if is_root() { &[ORDINARY, OTHER] } else { &[ORDINARY] };
    let mut entries = Vec::new();
    for (owner, group) in owners.iter().flat_map(|o| groups.iter().map(move |g| (*o, *g))) {
        for bits in [0o700, 0o750, 0o711, 0o744, 0o775] {
            for (of_file, marked) in [(0o644, true), (0o664, false), (0o640, true), (0o600, false)]
            {
                let name = format!("{owner}.{group}.{bits:o}.{of_file:o}");
                entries.push(Entry { name: name.clone(), owner, group, marked });
                let dir = at.join(&name);
                fs::create_dir(&dir).unwrap();
                file(&dir.join("f"), "text\n", owner, of_file);
                give(&dir.join("f"), owner, group);
                if marked {
                    file(&dir.join(".env"), "hidden\n", owner, 0o644);
                }
                give(&dir, owner, group);
                mode(&dir, bits);
            }
        }
    }
    if is_root() {
        // A list that lets the session in where the mode does not, and one that keeps it out.
        for (named, other, marked) in [(5, 0, true), (7, 0, false), (0, 5, true), (0, 5, false)] {
            let name = format!("list.{named}.{other}.{marked}");
            let dir = at.join(&name);
            directory(&dir, OTHER, 0o755);
            file(&dir.join("f"), "text\n", OTHER, 0o644);
            if marked {
                file(&dir.join(".env"), "hidden\n", OTHER, 0o644);
            }
            list(&dir, 7, (ORDINARY, named), 0, other);
            entries.push(Entry { name, owner: OTHER, group: OTHER, marked });
        }
        // The same of files.
        for (named, other, marked) in
            [(4, 0, true), (4, 0, false), (6, 0, true), (0, 4, true), (0, 6, false)]
        {
            let name = format!("file-list.{named}.{other}.{marked}");
            let dir = at.join(&name);
            directory(&dir, OTHER, 0o755);
            file(&dir.join("f"), "text\n", OTHER, 0o644);
            list(&dir.join("f"), 6, (ORDINARY, named), 0, other);
            if marked {
                file(&dir.join(".env"), "hidden\n", OTHER, 0o644);
            }
            entries.push(Entry { name, owner: OTHER, group: OTHER, marked });
        }
    }
    entries
}

/// Makes the attempts, a line each.
const TRY: &str = "import errno, os, sys
def attempt(what, act):
    try: act(); answer = 'ok'
    except OSError as e: answer = errno.errorcode[e.errno]
    print(what + '=' + answer)
for name in sys.argv[1:]:
    f = name + '/f'
    attempt('list:' + name, lambda: os.listdir(name))
    attempt('stat:' + f, lambda: os.stat(f))
    attempt('read:' + f, lambda: os.close(os.open(f, os.O_RDONLY)))
    attempt('append:' + f, lambda: os.close(os.open(f, os.O_WRONLY | os.O_APPEND)))
";

/// The number of attempts on each entry.
const TRIED: usize = 4;

/// Returns the answers that the same user gets on the host, without any group but its own.
fn on_host(at: &Path, names: &[&str]) -> Vec<String> {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", TRY]).args(names).current_dir(at);
    let output = Mode::User.act(|| python.output().unwrap());
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().map(str::to_owned).collect()
}

/// Holds what a session was answered against the host.
fn compare(
    (mode, profile): (Mode, &str),
    entries: &[Entry],
    (of_host, of_session): (&[String], &[String]),
    stale: impl Fn(&Entry) -> bool,
) {
    assert_eq!(of_host.len(), of_session.len(), "{mode:?} {profile}");
    let of = |place: usize| &entries[place / TRIED];
    for (place, (host, session)) in of_host.iter().zip(of_session).enumerate() {
        let entry = of(place);
        let answers = (host.ends_with("=ok"), session.ends_with("=ok"));
        let appends = host.starts_with("append:");
        match answers {
            // Nothing is ever allowed that the host does not allow.
            (false, true) => assert!(
                stale(entry) && !appends,
                "{mode:?} {profile}: host {host}, session {session}, {entry:?}"
            ),
            // A directory that can not be listed is not searched for hidden names: it is hidden.
            (true, false) if profile != "unasked" && session.ends_with("=ENOENT") => {
                let listed = of_host[place / TRIED * TRIED].ends_with("=ok");
                assert!(!listed, "{mode:?} {profile}: host {host}, session {session}");
            }
            (true, false) if appends && (profile == "readonly" || profile == "strict") => {
                assert!(session.ends_with("=EROFS"), "{mode:?} {profile}: {session}");
            }
            // A file of another user can not be copied, nor one of another group by a daemon that
            // may not take on groups: nothing is changed then.
            (true, false) if appends => {
                let foreign =
                    entry.owner != ORDINARY || (mode == Mode::User && entry.group != ORDINARY);
                assert!(
                    foreign && session.ends_with("=EOVERFLOW"),
                    "{mode:?} {profile}: host {host}, session {session}, {entry:?}"
                );
            }
            (true, false) => panic!("{mode:?} {profile}: host {host}, session {session}"),
            (true, true) | (false, false) => {}
        }
    }
}

/// The attempts on a table.
fn line(entries: &[Entry]) -> String {
    format!("/usr/bin/python3 -c \"{TRY}\" {}", names(entries).join(" "))
}

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn a_session_may_what_its_user_may_on_the_host_before_and_during_a_call() {
    for mode_of in Mode::every() {
        for profile in PROFILES {
            let mut entries = Vec::new();
            let stage = Stage::new(mode_of, profile, |at| entries = table(at));
            let (tried, again) = (names(&entries), line(&entries));
            let line = format!("{again}; echo ready; cat >/dev/null; {again}");
            let before = on_host(&stage.at, &tried);
            assert!(before.iter().any(|line| line.starts_with("read:") && line.ends_with("=ok")));
            let close = || {
                for (place, entry) in
                    entries.iter().enumerate().filter(|(_, e)| e.owner != ORDINARY)
                {
                    let dir = stage.at.join(&entry.name);
                    match place % 3 {
                        0 => mode(&dir.join("f"), 0o600),
                        _ => mode(&dir, 0o700),
                    }
                }
            };
            let result = stage.meanwhile(&line, close);
            assert_eq!(result.exit_code, Some(0), "{mode_of:?} {profile}: {result:?}");
            let after = on_host(&stage.at, &tried);
            let said: Vec<String> = result.stdout.lines().map(str::to_owned).collect();
            let cut = said.iter().position(|line| line == "ready").expect("both halves");
            let what = (mode_of, profile);
            compare(what, &entries, (&before, &said[..cut]), |_| false);
            // The call knows until it ends what it has looked at in a directory with hidden names,
            // whoever closes that directory meanwhile.
            let stale = |entry: &Entry| profile != "unasked" && entry.marked;
            compare(what, &entries, (&after, &said[cut + 1..]), stale);
        }
    }
}

#[test]
fn a_session_whose_every_call_is_approved_may_what_its_user_may() {
    for mode_of in Mode::every() {
        let mut entries = Vec::new();
        let stage = Stage::new(mode_of, "strict", |at| entries = table(at));
        let said = stage.sandbox.ok(&line(&entries));
        let said: Vec<String> = said.lines().map(str::to_owned).collect();
        let host = on_host(&stage.at, &names(&entries));
        compare((mode_of, "strict"), &entries, (&host, &said), |_| false);
    }
}

/// A name that is hidden is in the directory, so that something lies over it.
#[test]
fn a_directory_that_is_renamed_into_the_workspace_stays_closed() {
    if !is_root() {
        return;
    }
    for mode_of in Mode::every() {
        for profile in PROFILES {
            let stage = Stage::new(mode_of, profile, |at| {
                directory(&at.join("d"), ORDINARY, 0o755);
                file(&at.join("d/.env"), "hidden\n", ORDINARY, 0o644);
                file(&at.join("d/seen"), "seen\n", ORDINARY, 0o644);
            });
            let theirs = stage.at.with_file_name("theirs");
            directory(&theirs, OTHER, 0o700);
            file(&theirs.join("canary"), "another's\n", OTHER, 0o644);
            let line = "echo ready; cat >/dev/null; ls d; cat d/canary";
            let result = stage.meanwhile(line, || {
                fs::rename(stage.at.join("d"), stage.at.join("e")).unwrap();
                fs::rename(&theirs, stage.at.join("d")).unwrap();
            });
            assert_eq!(result.stdout, "ready\n", "{mode_of:?} {profile}: {result:?}");
            assert!(
                result.stderr.contains("Permission denied"),
                "{mode_of:?} {profile}: {result:?}"
            );
            let next = stage.sandbox.bash("ls d; cat d/canary");
            assert_eq!(next.stdout, "", "{mode_of:?} {profile}");
        }
    }
}

#[test]
fn a_directory_of_roots_that_can_not_be_entered_is_not_entered() {
    if !is_root() {
        return;
    }
    for mode_of in Mode::every() {
        for profile in PROFILES {
            let stage = Stage::new(mode_of, profile, |at| {
                directory(&at.join("d"), ROOT, 0o744);
                file(&at.join("d/.env"), "hidden\n", ROOT, 0o644);
                file(&at.join("d/canary"), "root's\n", ROOT, 0o644);
            });
            let host = Mode::User.act(|| fs::read(stage.at.join("d/canary")));
            assert_eq!(host.unwrap_err().raw_os_error(), Some(libc::EACCES));
            let result = stage.sandbox.bash("cat d/canary; cat d/.env; true");
            assert_eq!(result.stdout, "", "{mode_of:?} {profile}: {result:?}");
            assert!(
                result.stderr.contains("Permission denied"),
                "{mode_of:?} {profile}: {result:?}"
            );
            // Nor is it the session's to open.
            let result = stage.sandbox.bash("chmod 755 d; cat d/canary; true");
            assert_eq!(result.stdout, "", "{mode_of:?} {profile}: {result:?}");
            mode(&stage.at.join("d"), 0o755);
            assert_eq!(stage.sandbox.ok("cat d/canary"), "root's\n", "{mode_of:?} {profile}");
        }
    }
}

#[test]
fn a_file_that_is_closed_during_a_call_is_closed_to_the_call() {
    if !is_root() {
        return;
    }
    for mode_of in Mode::every() {
        for profile in PROFILES {
            let stage = Stage::new(mode_of, profile, |at| {
                file(&at.join("log"), "open\n", ROOT, 0o644);
            });
            let line = "cat log; echo ready; cat >/dev/null; cat log";
            let result = stage.meanwhile(line, || {
                mode(&stage.at.join("log"), 0o600);
                fs::write(stage.at.join("log"), "closed\n").unwrap();
            });
            assert_eq!(result.stdout, "open\nready\n", "{mode_of:?} {profile}: {result:?}");
            assert!(
                result.stderr.contains("Permission denied"),
                "{mode_of:?} {profile}: {result:?}"
            );
        }
    }
}

/// A workspace of the user's whose group is another, as where a web server is to read it. In a system
/// daemon's transaction everything in it can be changed; in an ordinary user's what is new, removed or
/// replaced, since no group can be taken on there.
#[test]
fn a_workspace_of_another_group_has_transactions_and_keeps_its_group() {
    if !is_root() {
        return;
    }
    for mode_of in Mode::every() {
        let stage = Stage::new(mode_of, "workspace", |at| {
            for name in ["kept", "lost"] {
                file(&at.join(name), "old\n", ORDINARY, 0o664);
                give(&at.join(name), ORDINARY, OTHER);
            }
            for name in ["sub", "sub/deep"] {
                directory(&at.join(name), ORDINARY, 0o755);
                file(&at.join(name).join("old"), "old\n", ORDINARY, 0o664);
                give(&at.join(name), ORDINARY, OTHER);
                mode(&at.join(name), 0o2775);
            }
            give(at, ORDINARY, OTHER);
            mode(at, 0o2775);
        });
        let line = "import os; os.remove('lost'); os.mkdir('d'); os.remove('sub/old')
for name in ['made', 'sub/deep/made']: open(name, 'w').write('new')";
        let result = stage.sandbox.bash(&format!("python3 -c \"{line}\""));
        assert!(result.success, "{mode_of:?}: {result:?}");
        let missing: Vec<_> =
            result.receipt.as_ref().unwrap().degraded.iter().map(|less| &less.layer).collect();
        assert!(!missing.contains(&&"transaction".to_owned()), "{mode_of:?}: {missing:?}");
        // It was asked about: what it did was held back until then.
        assert!(result.checkpoint.is_some(), "{mode_of:?}: {result:?}");
        assert!(!stage.at.join("lost").exists(), "{mode_of:?}");
        let group = |name: &str| fs::metadata(stage.at.join(name)).unwrap();
        let like = |meta: fs::Metadata| (meta.uid(), meta.gid(), meta.mode() & 0o7777);
        assert_eq!(like(group("")), (ORDINARY, OTHER, 0o2775), "{mode_of:?}");
        // Files that are made there are of that group, as without a daemon.
        assert_eq!(like(group("made")), (ORDINARY, OTHER, 0o644), "{mode_of:?}");
        assert_eq!(like(group("sub/deep/made")), (ORDINARY, OTHER, 0o644), "{mode_of:?}");
        assert_eq!(like(group("sub")), (ORDINARY, OTHER, 0o2775), "{mode_of:?}");
        assert!(!stage.at.join("sub/old").exists(), "{mode_of:?}");
        assert_eq!(group("d").gid(), OTHER, "{mode_of:?}");
        // The result lists the call's effects, and nothing else.
        let data: serde_json::Value = serde_json::from_str(result.data.unwrap().as_str()).unwrap();
        let effects = data["transaction"]["effects"].as_array().unwrap();
        assert_eq!(effects.len(), 5, "{mode_of:?}: {effects:?}");
        let result = stage.sandbox.bash("python3 -c \"open('kept', 'a').write('more')\"");
        match mode_of {
            Mode::System => {
                assert!(result.success, "{result:?}");
                assert_eq!(fs::read_to_string(stage.at.join("kept")).unwrap(), "old\nmore");
            }
            Mode::User => {
                let why = "Value too large for defined data type";
                assert!(result.stderr.contains(why), "{result:?}");
                assert_eq!(fs::read_to_string(stage.at.join("kept")).unwrap(), "old\n");
            }
        }
        assert_eq!(group("kept").gid(), OTHER, "{mode_of:?}");
    }
}

/// A supplementary group of the session's user.
const SHARED: u32 = 4444;

/// Makes files, each of which says its name. The modes give rights to the group alone, or take them
/// from the group alone.
fn shared(at: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for owner in [OTHER, ROOT] {
        for (of_dir, of_file) in
            [(0o755, 0o640), (0o750, 0o644), (0o750, 0o640), (0o755, 0o604), (0o705, 0o644)]
        {
            for marked in [false, true] {
                let name = format!("{owner}.{of_dir:o}.{of_file:o}.{marked}");
                let dir = at.join(&name);
                fs::create_dir(&dir).unwrap();
                file(&dir.join("f"), &format!("{name}\n"), owner, of_file);
                if marked {
                    file(&dir.join(".env"), "hidden\n", owner, 0o644);
                }
                for path in [dir.join("f"), dir.clone()] {
                    give(&path, owner, SHARED);
                }
                // Changing the owner has taken no bits away; the umask may have.
                mode(&dir.join("f"), of_file);
                mode(&dir, of_dir);
                names.push(name);
            }
        }
    }
    names
}

/// Returns the names of the files that the user may read on the host, as a member of these groups.
fn readable(at: &Path, names: &[String], groups: &[u32]) -> Vec<String> {
    let reads = |name: &&String| fs::read(at.join(name).join("f")).is_ok();
    Mode::User.act_in(groups, || names.iter().filter(reads).cloned().collect())
}

/// A system daemon's sessions are in none of the user's supplementary groups; in a user namespace
/// they can not be dropped. SECURITY.md says both.
#[test]
fn supplementary_groups_give_a_session_what_the_documents_say() {
    if !is_root() {
        return;
    }
    // What only reads takes the reading route; a program may change anything, so it is a transaction.
    for (mode_of, first) in
        Mode::every().into_iter().flat_map(|mode| ["true", "python3 -c pass"].map(|f| (mode, f)))
    {
        let mut names = Vec::new();
        let stage = Stage::in_groups(&[SHARED], mode_of, "workspace", |at| names = shared(at));
        let files: Vec<_> = names.iter().map(|name| format!("{name}/f")).collect();
        let cat = format!("cat {}", files.join(" "));
        let line = format!("{first}; {cat}; echo ready; cat; {cat}; true");
        let groups: &[u32] = if mode_of == Mode::User { &[SHARED] } else { &[] };
        let host = || readable(&stage.at, &names, groups);
        // The control: the group does make a difference on the host, in both directions.
        let [with, without] = [&[SHARED][..], &[]].map(|g| readable(&stage.at, &names, g));
        assert!(with.iter().any(|name| !without.contains(name)), "{with:?}");
        assert!(without.iter().any(|name| !with.contains(name)), "{without:?}");
        let before = host();
        let result = stage.meanwhile(&line, || {
            for (place, name) in names.iter().enumerate() {
                let dir = stage.at.join(name);
                match place % 4 {
                    0 => give(&dir.join("f"), OTHER, OTHER),
                    1 => mode(&dir.join("f"), 0o640),
                    _ => {}
                }
            }
        });
        let after = host();
        assert_ne!(before, after, "{mode_of:?}");
        assert_eq!(result.exit_code, Some(0), "{mode_of:?} {first}: {result:?}");
        let said: Vec<_> = result.stdout.lines().map(str::to_owned).collect();
        let cut = said.iter().position(|line| line == "ready").expect("both halves");
        assert_eq!(said[..cut], before, "{mode_of:?} {first}: before");
        // What is closed is closed to the call. What is opened may stay closed until it ends.
        let during = &said[cut + 1..];
        assert!(during.iter().all(|name| after.contains(name)), "{mode_of:?} {first}: {during:?}");
        let kept = before.iter().filter(|name| after.contains(name));
        for name in kept {
            assert!(during.contains(name), "{mode_of:?} {first}: {name}: {during:?}");
        }
        assert!(before.iter().any(|name| !after.contains(name)), "{mode_of:?}: none was closed");
    }
}
