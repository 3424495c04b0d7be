//! Paths that no transaction covers are named in every receipt, or there is no session: directories
//! of a profile beside the workspace, and a workspace that no overlay can cover.

use palisade_client::{Error, Open};
use palisade_protocol::{CallResult, ErrorCode, Guard, RawPath, Route};
use palisade_tests::{Mode, Sandbox, World, profile_with, tree};
use serde_json::json;
use std::{
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::Path,
};

/// A file of the world's user, with the directory that it is in.
fn put(world: &World, path: &Path, text: &str) {
    let above = path.parent().unwrap();
    if !above.exists() {
        fs::create_dir(above).unwrap();
        world.give(above);
    }
    fs::write(path, text).unwrap();
    world.give(path);
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn refused(result: &CallResult) -> ErrorCode {
    result.error.as_ref().unwrap_or_else(|| panic!("not refused: {result:?}")).code
}

/// The code and message with which a session is refused.
fn refused_session(world: &World, open: Open) -> (ErrorCode, String, String) {
    let (stream, mut daemon) = world.embedded(&[]);
    let error = Sandbox::over(stream, None, open).expect_err("a session that must not be");
    daemon.wait().unwrap();
    told(error)
}

fn told(error: Error) -> (ErrorCode, String, String) {
    let Error::Remote(error) = error else { panic!("{error}") };
    (error.code, error.message, error.hint)
}

fn opened(world: &World, open: Open) -> Sandbox {
    let (stream, daemon) = world.embedded(&[]);
    Sandbox::over(stream, Some(daemon), open).unwrap()
}

#[test]
fn an_unguarded_directory_is_named_read_only_for_readers_and_changed_at_once() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let beside = world.outside().join("beside");
        put(&world, &beside.join("a"), "one\none\n");
        put(&world, &beside.join("b"), "kept\n");
        put(&world, &world.workspace().join("own"), "own\n");
        let text = format!("unguarded = [\"!{}\", \"/srv/not-on-this-host\"]", beside.display());
        world.add_profile("beside", &profile_with(&[("unguarded = []", &text)]));
        let sandbox = world.open_with("beside");
        let at = beside.display();

        // The reading route: what was misread can not change it. `uniq` writes to its second file.
        let result = sandbox.bash(&format!("cd {at}; uniq ./*"));
        assert_eq!(result.route, Some(Route::Reading), "{mode:?}: {result:?}");
        assert!(result.stderr.contains("Read-only file system"), "{mode:?}: {result:?}");
        assert_eq!(read(&beside.join("b")).as_deref(), Some("kept\n"), "{mode:?}");
        // Every receipt names what the key does, and nothing else.
        let named = [beside.as_os_str().as_bytes(), b"/srv/not-on-this-host"];
        let named = named.map(|path| RawPath(path.to_vec()));
        assert_eq!(result.receipt.as_ref().unwrap().unguarded, named, "{mode:?}");

        // The transaction: it is changed at once, also where nothing else counts.
        let own = world.workspace().join("own");
        let line = format!("import os; os.remove(\"{}\")", own.display());
        let result = sandbox.bash(&format!("python3 -c '{line}'; echo new > {at}/new"));
        assert_eq!(result.route, Some(Route::Transaction), "{mode:?}: {result:?}");
        assert_eq!(refused(&result), ErrorCode::Denied, "{mode:?}: {result:?}");
        assert_eq!(result.receipt.as_ref().unwrap().unguarded, named, "{mode:?}");
        assert_eq!(read(&own).as_deref(), Some("own\n"), "{mode:?}");
        assert_eq!(read(&beside.join("new")).as_deref(), Some("new\n"), "{mode:?}");

        // A known loss there is asked about before it is run.
        let result = sandbox.bash(&format!("echo ran; rm {at}/b"));
        assert_eq!(refused(&result), ErrorCode::Denied, "{mode:?}: {result:?}");
        assert_eq!(result.stdout, "", "{mode:?}");
        assert_eq!(read(&beside.join("b")).as_deref(), Some("kept\n"), "{mode:?}");
    }
}

#[test]
fn a_directory_in_a_workspace_that_is_only_read_is_unguarded_too() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let out = world.workspace().join("out");
        put(&world, &out.join("keep"), "kept\n");
        let changes = [
            ("unguarded = []", "unguarded = [\"!$WORKSPACE/out\"]"),
            ("workspace = \"write\"", "workspace = \"read\""),
            ("allow_delete = true", "allow_delete = false"),
        ];
        world.add_profile("out", &profile_with(&changes));
        let sandbox = world.open_with("out");
        let result = sandbox.bash("echo new > out/new");
        assert!(result.success, "{mode:?}: {result:?}");
        assert_eq!(read(&out.join("new")).as_deref(), Some("new\n"), "{mode:?}");
        assert_eq!(
            result.receipt.as_ref().unwrap().unguarded,
            [RawPath(out.as_os_str().as_bytes().to_vec())]
        );
        let result = sandbox.bash("echo ran; rm out/keep");
        assert_eq!(refused(&result), ErrorCode::Denied, "{mode:?}: {result:?}");
        assert_eq!(result.stdout, "", "{mode:?}");
        assert_eq!(read(&out.join("keep")).as_deref(), Some("kept\n"), "{mode:?}");
        let result = sandbox.bash("echo new > new");
        assert!(result.stderr.contains("Read-only file system"), "{mode:?}: {result:?}");
        assert!(!world.workspace().join("new").exists(), "{mode:?}");
    }
}

#[test]
fn a_directory_of_fs_write_is_only_in_a_session_without_a_guard() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let beside = world.outside().join("beside");
        put(&world, &beside.join("a"), "one\n");
        let text = format!("write = [\"!{}\"]", beside.display());
        let changes = [("unguarded = []", text.as_str()), ("guard = \"auto\"", "guard = \"off\"")];
        world.add_profile("open", &profile_with(&changes));
        let open = || Open::new(world.workspace()).profile("open");
        for (guard, name) in
            [(Guard::Text, "text"), (Guard::Auto, "auto"), (Guard::Transaction, "transaction")]
        {
            let message = format!(
                "guard = {name:?} needs transactions, and \"{}\" in the profile's fs.write is \
                 outside of them",
                beside.display()
            );
            let hint = "leave out `guard`, choose another profile, or move the directory to \
                        fs.unguarded";
            let error = refused_session(&world, open().guard(guard));
            assert_eq!(error, (ErrorCode::InvalidRequest, message, hint.to_owned()), "{mode:?}");
        }
        let sandbox = opened(&world, open());
        let result = sandbox.bash(&format!("rm {}/a", beside.display()));
        assert!(result.success, "{mode:?}: {result:?}");
        assert_eq!(read(&beside.join("a")), None, "{mode:?}");
        // Nothing is guarded, and the receipt says that.
        let receipt = result.receipt.unwrap();
        assert_eq!((receipt.guard, receipt.unguarded), (Guard::Off, vec![]));
    }
}

/// A profile in whose sessions something is mounted in the workspace, whoever opens one.
fn world_with_a_mount(mode: Mode) -> World {
    let world = World::new(mode);
    put(&world, &world.workspace().join("vendor/x"), "x\n");
    let read = "    \"$HOME/.cargo/git\",\n";
    let more = format!("{read}    \"$WORKSPACE/vendor\",\n");
    world.add_profile("mounting", &profile_with(&[(read, &more)]));
    world
}

#[test]
fn a_mount_in_the_workspace_refuses_what_must_have_transactions_and_is_named_elsewhere() {
    for mode in Mode::all() {
        let world = world_with_a_mount(mode);
        let workspace = world.workspace();
        let open = || Open::new(&workspace).profile("mounting");
        let named = format!(
            "workspace {workspace:?}: {:?} is a mount in it, which a transaction would hide: unmount \
             it (or remove it from [fs], if the profile names it), or open the session in a \
             directory without mounts",
            workspace.join("vendor")
        );
        let message =
            format!("guard is \"transaction\", but transactions are unavailable: {named}");
        let hint = "do that, or open the session with guard = \"auto\", which falls back to \
                    \"text\" and says so";
        let error = refused_session(&world, open().guard(Guard::Transaction));
        assert_eq!(error, (ErrorCode::WorkspaceRefused, message, hint.to_owned()), "{mode:?}");
        // The default guard goes on by text, and says why.
        let sandbox = opened(&world, open());
        let made = sandbox.bash("echo made > made");
        assert_eq!(refused(&made), ErrorCode::Denied, "{mode:?}: {made:?}");
        assert!(!workspace.join("made").exists(), "{mode:?}");
        let result = sandbox.bash("cat vendor/x");
        assert!(result.success, "{mode:?}: {result:?}");
        assert_eq!(
            (result.route, result.receipt.as_ref().unwrap().guard),
            (Some(Route::Reading), Guard::Text)
        );
        let of = |one: &&palisade_protocol::Degraded| one.layer == "transaction";
        let why = &result.receipt.as_ref().unwrap().degraded.iter().find(of).unwrap().why;
        assert!(why.ends_with(&named), "{mode:?}: {why}");
        // The control: without a mount there is a session, and a transaction from its first command.
        world.add_profile("plain", &profile_with(&[]));
        let sandbox = opened(&world, open().profile("plain").guard(Guard::Transaction));
        let result = sandbox.bash("cat vendor/x");
        assert_eq!((result.route, result.stdout.as_str()), (Some(Route::Transaction), "x\n"));
    }
}

/// Closing the workspace to overlays does not take the guard away from later commands.
#[test]
fn no_command_runs_without_a_transaction_once_there_was_one() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let (workspace, beside) = (world.workspace(), world.outside().join("beside"));
        put(&world, &beside.join("ran"), "");
        let text = format!("unguarded = [\"!{}\"]", beside.display());
        world.add_unasked("beside", &profile_with(&[("unguarded = []", &text)]));
        for guard in [Guard::Transaction, Guard::Auto] {
            let open = Open::new(&workspace).profile("beside").guard(guard);
            let sandbox = opened(&world, open);
            let call = |line: &str| {
                let arguments = json!({"command": line, "cwd": beside.display().to_string()});
                sandbox.call("bash", arguments)
            };
            let set_mode = |mode| {
                fs::set_permissions(&workspace, fs::Permissions::from_mode(mode)).unwrap();
            };
            let first = call(": > ran");
            assert_eq!((first.route, first.success), (Some(Route::Transaction), true), "{mode:?}");
            set_mode(0);
            // One that was made before may be used up first.
            let later: Vec<_> = (0..3).map(|_| call("echo ran >> ran")).collect();
            set_mode(0o755);
            for result in &later {
                assert_ne!(result.route, Some(Route::Direct), "{mode:?} {guard:?}: {result:?}");
                assert_eq!(result.receipt.as_ref().unwrap().guard, guard, "{mode:?}: {result:?}");
                assert!(!result.success, "{mode:?} {guard:?}: {result:?}");
            }
            if mode == Mode::System {
                assert_eq!(refused(&later[2]), ErrorCode::LayerUnavailable, "{:?}", later[2]);
                let lines = read(&beside.join("ran")).unwrap().lines().count();
                assert!(lines <= 1, "{guard:?}: {lines} of 3 ran");
            }
            // The control: with the workspace open again it goes on.
            assert_eq!(call("echo ran >> ran").route, Some(Route::Transaction), "{mode:?}");
        }
    }
}

/// A session whose daemon sees something mounted, in a mount namespace of its own.
fn mounted(world: &World, mount: &str, guard: Guard) -> Result<Sandbox, Error> {
    mounted_under(world, mount, ("auto", guard))
}

/// The same, with the guard of the profile and that of the session.
fn mounted_under(
    world: &World,
    mount: &str,
    (own, guard): (&str, Guard),
) -> Result<Sandbox, Error> {
    let uid = world.mode.uid();
    let user = match world.mode {
        Mode::System => String::new(),
        Mode::User => format!("setpriv --reuid {uid} --regid {uid} --clear-groups"),
    };
    let line =
        format!("exec unshare --mount bash -c 'set -e; {mount}; exec {user} \"$@\"' bash \"$@\"");
    // Before the daemon starts, which loads it.
    let own = format!("guard = {own:?}");
    world.add_profile("plain", &profile_with(&[("guard = \"auto\"", &own)]));
    let (stream, daemon) = world.embedded_by(Mode::System, &line);
    let open = Open::new(world.workspace()).profile("plain").guard(guard);
    Sandbox::over(stream, Some(daemon), open)
}

#[test]
fn mounts_of_the_host_refuse_what_must_have_transactions() {
    if !Mode::every().contains(&Mode::System) {
        return;
    }
    for mode in Mode::every() {
        let world = World::new(mode);
        let (workspace, outside) = (world.workspace(), world.outside());
        put(&world, &workspace.join("in/x"), "x\n");
        let inner = workspace.join("in");
        let own = format!("mount -t tmpfs tmpfs {}", inner.display());
        let (code, message, _) = told(mounted(&world, &own, Guard::Transaction).unwrap_err());
        assert_eq!(code, ErrorCode::WorkspaceRefused, "{mode:?}: {message}");
        assert!(message.contains(&format!("{inner:?} is a mount in it")), "{mode:?}: {message}");
        let sandbox = mounted(&world, &own, Guard::Auto).unwrap();
        let result = sandbox.bash("echo made > made");
        assert_eq!(refused(&result), ErrorCode::Denied, "{mode:?}: {result:?}");
        assert_eq!(result.receipt.as_ref().unwrap().guard, Guard::Text, "{mode:?}: {result:?}");

        // Overlays can not be stacked three high: a file system that can not be below another.
        // The lowest is in memory, whatever the test's own directory is on.
        let [lowest, first, second] = ["lowest", "first", "second"].map(|name| outside.join(name));
        let own =
            |at: &Path| format!("mkdir -p {at}; mount -t tmpfs tmpfs {at}", at = at.display());
        let stack = |below: &Path, at: &Path| {
            let [upper, work] = ["upper", "work"].map(|name| at.join(name).display().to_string());
            let (below, memory) = (below.display(), own(at));
            let options = format!("lowerdir={below},upperdir={upper},workdir={work}");
            let to = workspace.display();
            format!(
                "{memory}; mkdir {upper} {work}; chown --reference={below} {upper}; \
                 mount -t overlay overlay -o {options} {to}"
            )
        };
        let lines = [
            own(&lowest),
            format!("cp -a {} {}/copy", workspace.display(), lowest.display()),
            stack(&lowest.join("copy"), &first),
            stack(&workspace, &second),
        ];
        let lines = lines.join("; ");
        let (code, message, hint) = told(mounted(&world, &lines, Guard::Transaction).unwrap_err());
        assert_eq!(code, ErrorCode::LayerUnavailable, "{mode:?}: {message}");
        assert!(hint.contains("guard = \"auto\""), "{mode:?}: {hint}");
        let sandbox = mounted(&world, &lines, Guard::Auto).unwrap();
        let result = sandbox.bash("echo more > more");
        assert_eq!(refused(&result), ErrorCode::Denied, "{mode:?}: {result:?}");
        let result = sandbox.bash("cat in/x");
        assert_eq!(result.stdout, "x\n", "{mode:?}: {result:?}");
        assert_eq!(result.receipt.as_ref().unwrap().guard, Guard::Text, "{mode:?}: {result:?}");
    }
}

/// Lines that analysis takes for ones that only read.
const MISREAD: [&str; 2] = ["cat <<E; echo $(rm in/x)\nE", "sort $'\\x{2d}o' in/y /dev/null"];

/// Where a mount in the workspace makes transactions impossible, it is read-only to a misread line.
#[test]
fn a_misread_line_changes_nothing_in_a_mount_of_the_workspace() {
    if !Mode::every().contains(&Mode::System) {
        return;
    }
    for mode in Mode::every() {
        let world = World::new(mode);
        let (inner, beside) = (world.workspace().join("in"), world.outside().join("beside"));
        fs::create_dir(&inner).unwrap();
        world.give(&inner);
        let fill = || ["x", "y"].map(|name| put(&world, &beside.join(name), "kept\n"));
        fill();
        let before = tree(&beside);
        let mount = format!("mount --bind {} {}", beside.display(), inner.display());
        for guard in [Guard::Auto, Guard::Text] {
            let sandbox = mounted_under(&world, &mount, ("text", guard)).unwrap();
            // Under `auto` the first command that needs a transaction finds that there is none.
            let result = sandbox.bash("echo more > more");
            assert_eq!(refused(&result), ErrorCode::Denied, "{mode:?} {guard:?}: {result:?}");
            for line in MISREAD {
                let result = sandbox.bash(line);
                assert_eq!(result.receipt.as_ref().unwrap().guard, Guard::Text, "{mode:?}");
                assert_eq!(result.route, Some(Route::Reading), "{mode:?} {line}: {result:?}");
                let why = "Read-only file system";
                assert!(result.stderr.contains(why), "{mode:?} {line}: {result:?}");
                assert_eq!(tree(&beside), before, "{mode:?} {line}: {result:?}");
            }
        }
        // The control: without a guard it does all that.
        let sandbox = mounted_under(&world, &mount, ("off", Guard::Off)).unwrap();
        let routes = MISREAD.map(|line| sandbox.bash(line).route);
        assert_eq!(routes, [Some(Route::Direct); 2], "{mode:?}");
        assert_eq!(read(&beside.join("x")), None, "{mode:?}");
        assert_eq!(read(&beside.join("y")).as_deref(), Some(""), "{mode:?}");
    }
}
