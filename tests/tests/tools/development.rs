//! Ordinary development works inside, as root's session and as an ordinary user's, with the default
//! profile: version control, compilers, language runtimes, debuggers.

use palisade_protocol::{ErrorCode, Guard};
use palisade_tests::{Mode, Sandbox, World, data, profile_with};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A session of each kind of daemon in which these programs are to be had.
fn each(programs: &[(&str, &str)], act: impl Fn(&World, &Sandbox)) {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        for (program, package) in programs {
            let found = sandbox.bash(&format!("command -v {program}"));
            assert!(found.success, "{program} is not on this host: install {package}");
        }
        act(&world, &sandbox);
        world.assert_canary_untouched();
    }
}

/// Puts a file into the workspace.
fn file(world: &World, name: &str, text: &str) {
    let path = world.workspace().join(name);
    fs::write(&path, text).unwrap();
    world.give(&path);
}

#[test]
fn git_keeps_a_history() {
    each(&[("git", "git")], |world, sandbox| {
        let setup = "git init -q -b main && git config user.name T && git config user.email t@t";
        assert_eq!(sandbox.ok(setup), "");
        file(world, ".gitignore", "probe\n");
        assert_eq!(
            sandbox.ok("echo one > a && git add . && git status --short"),
            "A  .gitignore\nA  a\n"
        );
        assert_eq!(sandbox.ok("git commit -qm first && git log --format=%s"), "first\n");
        assert_eq!(sandbox.ok("echo two >> a && git diff --numstat"), "1\t0\ta\n");
        assert_eq!(sandbox.ok("git commit -qam second && git log --format=%s"), "second\nfirst\n");
        let tree =
            "git worktree add -q -b side tree HEAD~1 && cat tree/a && git worktree list | wc -l";
        assert_eq!(sandbox.ok(tree), "one\n2\n");
        assert_eq!(sandbox.ok("git stash list; git fsck 2>&1 | tail -1; git gc -q"), "");
        assert_eq!(sandbox.ok("git clone -q . copy && git -C copy log --format=%s | wc -l"), "2\n");
        assert!(world.workspace().join(".git/refs").is_dir(), "the history is the host's");
    });
}

#[test]
fn make_builds_c_and_cpp_that_run() {
    let programs = [("make", "make"), ("gcc", "gcc"), ("g++", "g++")];
    each(&programs, |world, sandbox| {
        file(
            world,
            "part.c",
            "#include <pthread.h>\n#include <stdio.h>\nstatic void *f(void *x) { return x; }\n\
             int part(void) { pthread_t t; void *r; if (pthread_create(&t, 0, f, (void *)42)) return 1;\n\
             pthread_join(t, &r); return (int)(long)r; }\n",
        );
        file(
            world,
            "whole.cpp",
            "#include <iostream>\n#include <thread>\nextern \"C\" int part(void);\n\
             int main() { int x = 0; std::thread t([&] { x = part(); }); t.join();\n\
             try { throw x; } catch (int y) { std::cout << y << std::endl; } }\n",
        );
        file(
            world,
            "Makefile",
            "whole: part.o whole.o\n\tg++ -pthread -o $@ $^\n%.o: %.c\n\tgcc -O1 -c -o $@ $<\n\
             %.o: %.cpp\n\tg++ -O1 -c -o $@ $<\n",
        );
        assert_eq!(sandbox.ok("make -s -j2 && ./whole"), "42\n");
        assert_eq!(sandbox.ok("make -q whole; echo $?"), "0\n", "it is up to date");
    });
}

/// A crate without dependencies, built and run.
fn build_a_crate(world: &World, sandbox: &Sandbox) {
    for directory in ["crate", "crate/src"] {
        fs::create_dir(world.workspace().join(directory)).unwrap();
        world.give(&world.workspace().join(directory));
    }
    file(
        world,
        "crate/Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    );
    file(
        world,
        "crate/src/main.rs",
        "fn main() {\n    let words: Vec<_> = std::env::args().skip(1).collect();\n    \
         println!(\"{}\", words.join(\"-\"));\n}\n#[test]\nfn sum() {\n    assert_eq!(1 + 1, 2);\n}\n",
    );
    let result = sandbox.bash("cd crate && cargo run --offline -q -- a b c");
    assert_eq!(result.stdout, "a-b-c\n", "{}", result.stderr);
    let tested = sandbox.ok("cargo test --offline -q 2>&1");
    assert!(tested.contains("1 passed"), "{tested}");
    assert!(world.workspace().join("crate/target/debug/small").exists());
}

/// Cargo in the home that the host's accounts name for the session's user.
fn own_cargo(mode: Mode) -> Option<PathBuf> {
    let user = nix::unistd::User::from_uid(mode.uid().into()).unwrap()?;
    let cargo = user.dir.join(".cargo/bin/cargo");
    mode.act(|| cargo.exists()).then_some(cargo)
}

#[test]
fn cargo_of_the_callers_home_builds_and_no_other_is_there() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        match own_cargo(mode) {
            Some(cargo) => {
                let found = sandbox.ok("command -v cargo");
                assert_eq!(found.trim(), cargo.to_str().unwrap());
                build_a_crate(&world, &sandbox);
                // It is read-only, and the home around it is private.
                let refused = sandbox.bash(&format!("echo >> {}", cargo.display()));
                assert!(refused.stderr.contains("Read-only file system"), "{}", refused.stderr);
            }
            None => {
                // A user without an account, or without a toolchain in its home, has what the
                // system has, and is told so as by any shell.
                let system = Path::new("/usr/bin/cargo").exists();
                let result = sandbox.bash("cargo --version");
                assert_eq!(result.exit_code, Some(if system { 0 } else { 127 }));
            }
        }
    }
}

/// The toolchain that these tests were built with: a directory with `bin/cargo` and `lib`.
#[allow(clippy::disallowed_methods)]
pub(super) fn toolchain() -> Option<PathBuf> {
    let output = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let root = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    root.join("bin/cargo").exists().then_some(root)
}

/// The toolchain where the session's user can reach it: where it is, or hard links to it.
#[allow(clippy::disallowed_methods)]
pub(super) fn reachable(mode: Mode, root: &Path, directory: &Path) -> PathBuf {
    if mode.act(|| fs::read(root.join("bin/cargo")).is_ok()) {
        return root.to_owned();
    }
    let copy = |how: &str| {
        let parts = [root.join("bin"), root.join("lib")];
        let status = std::process::Command::new("cp").arg(how).args(parts).arg(directory).status();
        status.unwrap().success()
    };
    // Links can not lead to another file system; then it takes a copy.
    assert!(copy("-al") || copy("-a"), "cp, of coreutils, copies a toolchain");
    directory.to_owned()
}

#[test]
fn cargo_of_a_toolchain_that_the_profile_grants_builds() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let Some(root) = toolchain() else {
            // The tests' user has no toolchain, so there is none to grant: not even the name.
            assert_eq!(world.open().bash("rustc --version").exit_code, Some(127));
            continue;
        };
        let directory = tempfile::tempdir().unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(directory.path(), open).unwrap();
        let root = reachable(mode, &root, directory.path());
        let execute = format!("    \"!/usr\", \"!{}\",\n", root.display());
        let path = format!("    \"{}/bin\", \"/usr/local/sbin\",", root.display());
        let text = profile_with(&[
            ("    \"!/usr\",\n", &execute),
            ("    \"$HOME/.cargo/bin\", \"$HOME/.local/bin\",\n    \"/usr/local/sbin\",", &path),
        ]);
        // Nobody is there to be asked: what it builds in transactions counts as it is.
        world.add_profile("rust", &text);
        let sandbox = world.open_with("rust");
        assert_eq!(sandbox.bash("true").receipt.unwrap().guard, Guard::Auto);
        assert_eq!(sandbox.ok("command -v cargo"), format!("{}/bin/cargo\n", root.display()));
        build_a_crate(&world, &sandbox);
        diagnose_a_crate(&world, &sandbox);
    }
}

/// `diagnostics` with the default profile's own checker.
fn diagnose_a_crate(world: &World, sandbox: &Sandbox) {
    assert_eq!(sandbox.ok(&format!("cd {}", world.workspace().display())), "");
    assert_eq!(sandbox.refused("diagnostics", json!({})).0, ErrorCode::NotFound, "no Cargo.toml");
    let manifest =
        "[package]\nname = \"wrong\"\nedition = \"2021\"\n[workspace]\nexclude = [\"crate\"]\n";
    for (name, text) in [
        ("Cargo.toml", manifest),
        ("src/lib.rs", "pub fn number() -> u32 { \"text\" }\n"),
        ("src/fine.rs", ""),
    ] {
        assert!(sandbox.call("write_file", json!({"path": name, "content": text})).success);
    }
    let minutes = json!({"timeout_ms": 300_000});
    let result = sandbox.done("diagnostics", minutes);
    let found = data(&result);
    assert_eq!(found["counts"]["error"], 1, "{found}");
    let first = &found["diagnostics"][0];
    assert_eq!((&first["path"], &first["line"]), (&json!("src/lib.rs"), &json!(1)));
    assert_eq!((&first["code"], &first["source"]), (&json!("E0308"), &json!("cargo")));
    assert_eq!(first["severity"], "error");
    assert!(result.output.starts_with("src/lib.rs:1:"), "{}", result.output);
    let elsewhere = json!({"paths": ["src/fine.rs"], "timeout_ms": 300_000});
    assert_eq!(data(&sandbox.done("diagnostics", elsewhere))["diagnostics"], json!([]));
    world.assert_canary_untouched();
}

const ASYNCIO: &str = r#"
import asyncio
async def main():
    p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    out, _ = await p.communicate(b"through cat")
    print(out.decode(), p.returncode)
    async def handle(reader, writer):
        writer.write((await reader.readline()).upper()); await writer.drain(); writer.close()
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
    w.write(b"line\n"); print((await r.read()).decode(), end="")
    unix = await asyncio.start_unix_server(handle, "sock")
    r, w = await asyncio.open_unix_connection("sock")
    w.write(b"unix\n"); print((await r.read()).decode(), end="")
    print(await asyncio.to_thread(lambda: "thread"))
asyncio.run(main())
"#;

const MULTIPROCESSING: &str = r#"
import multiprocessing as m, sqlite3, concurrent.futures as c, multiprocessing.shared_memory as s
def square(x): return x * x
if __name__ == "__main__":
    for way in ["fork", "spawn", "forkserver"]:
        with m.get_context(way).Pool(2) as pool: print(way, pool.map(square, range(4)))
    with c.ThreadPoolExecutor(4) as pool: print(sum(pool.map(square, range(10))))
    q = m.Queue(); p = m.Process(target=q.put, args=("queued",)); p.start(); print(q.get()); p.join()
    x = s.SharedMemory(create=True, size=16); x.buf[0] = 7; print(x.buf[0]); x.close(); x.unlink()
    db = sqlite3.connect("data.db"); db.execute("pragma journal_mode=wal")
    db.execute("create table t (a)"); db.execute("insert into t values (5)"); db.commit()
    print(db.execute("select a from t").fetchall())
"#;

#[test]
fn python_runs_event_loops_processes_and_databases() {
    each(&[("python3", "python3")], |world, sandbox| {
        file(world, "loop.py", ASYNCIO);
        file(world, "pool.py", MULTIPROCESSING);
        assert_eq!(sandbox.ok("python3 loop.py"), "through cat 0\nLINE\nUNIX\nthread\n");
        let squares = "[0, 1, 4, 9]";
        assert_eq!(
            sandbox.ok("python3 pool.py"),
            format!(
                "fork {squares}\nspawn {squares}\nforkserver {squares}\n285\nqueued\n7\n[(5,)]\n"
            )
        );
        let venv = sandbox.bash("python3 -m venv env && . env/bin/activate && command -v python");
        assert!(venv.success, "venv fails: install python3-venv\n{}", venv.output);
        assert_eq!(venv.stdout.trim(), world.workspace().join("env/bin/python").to_str().unwrap());
    });
}

const NODE: &str = r#"
const { spawn, execSync, fork } = require("child_process");
const { Worker, isMainThread, parentPort } = require("worker_threads");
const http = require("http"), fs = require("fs");
if (process.argv[2] === "child") { process.send("forked"); process.exit(0); }
if (!isMainThread) { parentPort.postMessage("worked"); }
else (async () => {
  console.log(execSync("echo executed").toString().trim());
  const once = (o, e) => new Promise((r) => o.once(e, (...a) => r(a[0])));
  const p = spawn("cat"); p.stdin.end("spawned");
  console.log((await once(p.stdout, "data")).toString());
  console.log(await once(fork(__filename, ["child"]), "message"));
  console.log(await once(new Worker(__filename), "message"));
  const server = http.createServer((q, a) => a.end("served " + q.url)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/x`);
  console.log(await answer.text()); server.close();
  const watcher = fs.watch("."); const seen = once(watcher, "change");
  fs.writeFileSync("watched", "x"); await seen; watcher.close(); console.log("seen");
})();
"#;

#[test]
fn node_runs_children_workers_and_servers() {
    each(&[("node", "nodejs")], |world, sandbox| {
        file(world, "all.js", NODE);
        assert_eq!(
            sandbox.ok("node all.js"),
            "executed\nspawned\nforked\nworked\nserved /x\nseen\n"
        );
    });
}

#[test]
fn debuggers_see_their_own_children() {
    let programs = [("gcc", "gcc"), ("gdb", "gdb"), ("strace", "strace")];
    each(&programs, |world, sandbox| {
        file(
            world,
            "double.c",
            "#include <stdio.h>\nint twice(int x) { return 2 * x; }\n\
             int main(void) { printf(\"%d\\n\", twice(21)); return 3; }\n",
        );
        assert_eq!(sandbox.ok("gcc -g -O0 -o double double.c"), "");
        let told = sandbox.ok(
            "gdb -nx -batch -ex 'break twice' -ex run -ex bt -ex 'print x' -ex continue ./double",
        );
        for expected in ["Breakpoint 1, twice (x=21)", "#1 ", "in main ()", "$1 = 21", "42"] {
            assert!(told.contains(expected), "{expected}: {told}");
        }
        assert!(told.contains("exited with code 03"), "{told}");
        let traced = sandbox.bash("strace -f -o trace ./double; echo $?; grep -c exit_group trace");
        assert_eq!(traced.stdout, "42\n3\n1\n", "{}", traced.stderr);
    });
}

const SOCKETS: &str = r#"
import socket, os, threading, array
a, b = socket.socketpair(); a.send(b"pair"); print(b.recv(9))
for family, host in [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]:
    s = socket.create_server((host, 0), family=family)
    c = socket.create_connection(s.getsockname()[:2]); d, _ = s.accept(); c.send(b"tcp"); print(d.recv(9))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0))
u.sendto(b"udp", u.getsockname()); print(u.recv(9))
l = socket.socket(socket.AF_UNIX); l.bind("own.sock"); l.listen()
c = socket.socket(socket.AF_UNIX); c.connect("own.sock"); d, _ = l.accept()
r, w = os.pipe(); socket.send_fds(c, [b"x"], [w])
_, fds, _, _ = socket.recv_fds(d, 9, 1); os.write(fds[0], b"passed"); print(os.read(r, 9))
print([n for _, n in socket.if_nameindex()], socket.gethostbyname("localhost"))
"#;

#[test]
fn processes_of_a_session_talk_to_each_other() {
    each(&[("python3", "python3"), ("flock", "util-linux")], |world, sandbox| {
        file(world, "sockets.py", SOCKETS);
        assert_eq!(
            sandbox.ok("python3 sockets.py"),
            "b'pair'\nb'tcp'\nb'tcp'\nb'udp'\nb'passed'\n['lo'] 127.0.0.1\n"
        );
        assert_eq!(sandbox.ok("seq 1000 | sort -rn | head -1"), "1000\n");
        assert_eq!(sandbox.ok("mkfifo f && { echo in > f & cat f; wait; }"), "in\n");
        assert_eq!(sandbox.ok("echo shared > /dev/shm/x && cat /dev/shm/x"), "shared\n");
        let held = "exec 9> lock; flock 9; flock -n lock true || echo held; exec 9>&-; \
                    flock -n lock echo free";
        assert_eq!(sandbox.ok(held), "held\nfree\n");
        let watch = "import ctypes, os, struct; l = ctypes.CDLL(None); fd = l.inotify_init1(0)\n\
                     l.inotify_add_watch(fd, b'.', 0x100); open('born', 'w')\n\
                     e = os.read(fd, 999); print(e[16:].rstrip(b'\\0').decode())";
        assert_eq!(sandbox.ok(&format!("python3 -c \"{watch}\"")), "born\n");
        assert!(!Path::new("/dev/shm/x").exists(), "its /dev/shm is its own");
    });
}

#[test]
fn the_shell_does_what_shells_do() {
    each(&[("perl", "perl"), ("tar", "tar"), ("gzip", "gzip")], |_, sandbox| {
        let lines = [
            ("sleep 1 & p=$!; jobs | wc -l; wait $p; echo $?", "1\n0\n"),
            ("set -m; sleep 60 & kill %1; wait %1; echo $?", "143\n"),
            ("cat <<END\n$((6 * 7))\nEND", "42\n"),
            ("cat <<< word", "word\n"),
            ("diff <(echo a) <(echo b) | tail -1", "> b\n"),
            ("echo x | tee >(cat >&2) | cat", "x\n"),
            ("(exit 3); echo $?", "3\n"),
            ("false | true; echo ${PIPESTATUS[0]}", "1\n"),
            ("trap 'echo bye' EXIT; echo hello", "hello\nbye\n"),
            ("timeout 0.1 sleep 60; echo $?", "124\n"),
            ("nice -n 5 nice", "5\n"),
            ("perl -MPOSIX -e 'print floor(4.2), \"\\n\"'", "4\n"),
            (
                "mkdir -p d/e && echo t > d/e/f && tar czf d.tgz d && rm -r d && tar xzf d.tgz && cat d/e/f",
                "t\n",
            ),
            ("echo z | gzip -9 | gunzip", "z\n"),
            ("touch -d 2001-02-03 old && stat -c %y old | cut -d' ' -f1", "2001-02-03\n"),
            (
                "ln -s d/e/f link && readlink link && chmod 600 link && stat -c %a d/e/f",
                "d/e/f\n600\n",
            ),
            (
                "id -u > /dev/null && test -w . && test -w /tmp && test -w $HOME && echo writable",
                "writable\n",
            ),
        ];
        for (line, expected) in lines {
            let result = sandbox.bash(line);
            assert_eq!(result.stdout, expected, "{line}: {}", result.stderr);
        }
    });
}

#[test]
fn the_directory_is_kept_from_call_to_call_however_a_call_ends() {
    each(&[], |world, sandbox| {
        let workspace = world.workspace().display().to_string();
        let at = |below: &str| format!("{workspace}{below}\n");
        assert_eq!(sandbox.ok("mkdir -p a/b c && pwd"), at(""));
        let lines = [
            ("cd a", "/a"),
            ("cd b && exit 3", "/a/b"),
            ("cd ..; exec true", "/a"),
            ("trap 'cd ../c' EXIT; false", "/c"),
            ("cd ../a && kill -9 $$", "/a"),
            ("(cd b)", "/a"),
            ("pushd b > /dev/null", "/a/b"),
            ("bash -c 'cd /'", "/a/b"),
            ("cd no-such-directory", "/a/b"),
            // The directory of a program is not the shell's.
            ("env -C / true", "/a/b"),
            ("true && env -C / true", "/a/b"),
            ("cd .. && exec true", "/a"),
        ];
        for (line, below) in lines {
            let result = sandbox.bash(line);
            assert_eq!(sandbox.ok("pwd"), at(below), "{line}: {}", result.output);
        }
        let argv = sandbox.done("bash", json!({"argv": ["env", "-C", "/", "pwd"]}));
        assert_eq!(argv.stdout, "/\n");
        assert_eq!(sandbox.ok("pwd"), at("/a"), "a program without a shell moves only itself");
        // A directory that is gone is no place to start; the workspace is.
        let gone =
            sandbox.bash(&format!("cd {workspace} && mkdir gone && cd gone && rmdir ../gone"));
        assert!(gone.success, "{}", gone.output);
        assert!(sandbox.bash("pwd").stdout.starts_with(&workspace));
    });
}
