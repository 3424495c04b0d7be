//! Looking for files and lines, and reading what is found: `glob`, `grep`, `list_files`, `read_file`.

use palisade_client::Event;
use palisade_protocol::{Ask, ErrorCode};
use palisade_tests::{Mode, Sandbox, World, data, profile_never_asking, profile_with};
use rustix::fs::{CWD, Mode as Bits, OFlags, mkdirat, openat};
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
    process::Command,
    time::Duration,
};

fn make(world: &World, name: &str, contents: impl AsRef<[u8]>) {
    let path = world.workspace().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, contents).unwrap();
    for path in path.ancestors().take_while(|path| *path != world.workspace()) {
        world.give(path);
    }
}

fn make_fifo(path: &Path) {
    let bits = Bits::from_raw_mode(0o666);
    rustix::fs::mknodat(CWD, path, rustix::fs::FileType::Fifo, bits, 0).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
}

fn lines(sandbox: &Sandbox, arguments: Value) -> Vec<String> {
    sandbox.done("grep", arguments).output.lines().map(str::to_owned).collect()
}

/// A tree with text, binaries, rules and directories, the same every time.
fn generate(world: &World) {
    let words = ["alpha", "beta", "needle", "Needle", "gamma.delta", "x = y;", "", "\tneedle\r"];
    let mut state = 7_u64;
    let mut next = |most: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % most
    };
    for file in 0..200 {
        let ending = ["rs", "txt", "log", "o"][next(4)];
        let name = format!("d{}/e{}/f{file}.{ending}", next(5), next(4));
        let mut text: String = (0..next(40)).map(|_| format!("{}\n", words[next(8)])).collect();
        if next(10) == 0 {
            text.insert(0, '\0');
        }
        make(world, &name, text);
    }
    make(world, ".gitignore", "*.o\n/d1/e1/\n!f1*.o\n");
    make(world, "d2/.gitignore", "*.log\n");
    make(world, "d3/.ignore", "e2\n");
    make(world, "d4/.hidden/file", "needle\n");
    make(world, ".git/config", "needle\n");
    make(world, ".git/info/exclude", "f3*\n");
}

#[test]
fn what_ripgrep_finds_is_found() {
    for mode in Mode::all() {
        let world = World::new(mode);
        generate(&world);
        fs::remove_file(world.workspace().join("probe")).unwrap();
        let sandbox = world.open();
        let common = ["--no-config", "--hidden", "--glob=!.git", "--sort=path", "--no-heading"];
        let rg = |arguments: &[&str]| {
            let output = Command::new("rg")
                .args(common)
                .args(["--with-filename", "--color=never"])
                .args(arguments)
                .current_dir(world.workspace())
                .stdin(std::process::Stdio::null())
                .output()
                .expect("rg is installed: see tests/packages");
            let text = String::from_utf8(output.stdout).unwrap();
            let mut lines: Vec<String> = text
                .lines()
                .map(|l| l.trim_start_matches("./").trim_end_matches('\r').to_owned())
                .collect();
            lines.sort();
            lines
        };
        let cases = [
            (json!({"pattern": "needle"}), &["-n", "needle"][..]),
            (json!({"pattern": "needle", "case_insensitive": true}), &["-n", "-i", "needle"]),
            (json!({"pattern": "gamma.delta", "type": "literal"}), &["-n", "-F", "gamma.delta"]),
            (
                json!({"pattern": "^(alpha|beta)$", "glob": "*.rs", "ignored": true}),
                &["-n", "--no-ignore", "-g*.rs", "^(alpha|beta)$"],
            ),
            (json!({"pattern": "needle", "mode": "files"}), &["-l", "needle"]),
            (json!({"pattern": "needle", "mode": "count"}), &["-c", "needle"]),
            (json!({"pattern": "needle", "ignored": true}), &["-n", "--no-ignore", "needle"]),
            (json!({"pattern": "needle", "path": "d2"}), &["-n", "needle", "d2"]),
        ];
        for (mut arguments, expected) in cases {
            arguments["limit"] = json!(10_000);
            let mut found = lines(&sandbox, arguments.clone());
            found.sort();
            let expected = rg(expected);
            assert!(!expected.is_empty(), "{arguments}");
            assert_eq!(found, expected, "{arguments}");
        }
        // Every file that ripgrep would look at, by glob and by list alike.
        let listed = rg(&["--files"]);
        let mut globbed: Vec<String> = sandbox
            .done("glob", json!({"pattern": "*", "limit": 10_000}))
            .output
            .lines()
            .map(str::to_owned)
            .collect();
        globbed.sort();
        assert_eq!(globbed, listed);
        let output = sandbox.done("list_files", json!({"recursive": true, "limit": 10_000})).output;
        let mut tree: Vec<&str> = output.lines().filter(|line| !line.ends_with('/')).collect();
        tree.sort_unstable();
        assert_eq!(tree, listed);
    }
}

#[test]
fn lines_come_as_text_and_as_data() {
    for mode in Mode::all() {
        let world = World::new(mode);
        make(&world, "src/a.rs", "one\ntwo needle\nthree\n");
        make(&world, "src/b.rs", format!("{}needle\n", "x".repeat(2000)));
        make(&world, "image", b"\x89PNG\r\n\x1a\n\0needle");
        let sandbox = world.open();
        let arguments = json!({"pattern": "needle", "path": "src", "context": 1});
        let found = sandbox.done("grep", arguments);
        let long = format!("src/b.rs:1:…{}needle", "x".repeat(100));
        let text = format!("src/a.rs-1-one\nsrc/a.rs:2:two needle\nsrc/a.rs-3-three\n--\n{long}\n");
        assert_eq!(found.output, text);
        let found = data(&found);
        assert_eq!(
            found["matches"][1],
            json!({"path": "src/a.rs", "line": 2, "column": 5, "text": "two needle"})
        );
        assert_eq!(found["matches"][0]["context"], true);
        assert_eq!(found["matches"][3]["left_out"], json!({"before": 1900, "after": 0}));
        assert_eq!((&found["total_lines"], &found["total_files"]), (&json!(2), &json!(2)));
        assert_eq!((&found["truncated"], &found["searched"]), (&json!(false), &json!(2)));
        let some = sandbox.done("Grep", json!({"pattern": "e", "glob": "*.rs", "head_limit": 1}));
        assert_eq!(
            some.output,
            "src/a.rs:1:one\n[the first 1 of 4 matching lines; narrow the search]\n"
        );
        let skipped = data(&sandbox.done("search", json!({"pattern": "needle", "mode": "count"})));
        assert_eq!(
            skipped["files"],
            json!([{"path": "src/a.rs", "count": 1}, {"path": "src/b.rs", "count": 1}])
        );
        assert!(skipped["skipped"]["binary"].as_u64().unwrap() >= 1, "{skipped}");
        assert_eq!(sandbox.done("grep", json!({"pattern": "absent"})).output, "");
        // The client's own words for it.
        let typed = sandbox.wait(sandbox.session.grep("two").within("src").lines()).unwrap();
        assert_eq!((typed.matches[0].line, typed.matches[0].text.as_str()), (2, "two needle"));
        let typed = sandbox.wait(sandbox.session.glob("src/*.rs").files()).unwrap();
        assert_eq!(typed.total, 2);
    }
}

#[test]
fn each_bad_argument_is_named() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        for (tool, arguments, named) in [
            ("grep", json!({}), "`pattern`"),
            ("grep", json!({"pattern": ""}), "`pattern`"),
            ("grep", json!({"pattern": "a("}), "unclosed group"),
            ("grep", json!({"pattern": "(a{1000}){1000}"}), "size limit"),
            ("grep", json!({"pattern": "a\nb"}), "set multiline"),
            ("grep", json!({"pattern": "a", "limit": 0}), "`limit`"),
            ("grep", json!({"pattern": "a", "limit": 10_001}), "`limit`"),
            ("grep", json!({"pattern": "a", "context": 101}), "`before`"),
            ("grep", json!({"pattern": "a", "mode": "all"}), "`mode`"),
            ("grep", json!({"pattern": "a", "type": "pcre"}), "`type`"),
            ("grep", json!({"pattern": "a", "glob": "["}), "the glob \"[\""),
            ("grep", json!({"pattern": "a", "path": ""}), "`path`"),
            ("grep", json!({"pattern": "a", "nonsense": 1}), "nonsense"),
            ("glob", json!({"pattern": ""}), "`pattern`"),
            ("glob", json!({"pattern": "../*"}), ".."),
            ("glob", json!({"pattern": "a{b"}), "the glob"),
            ("glob", json!({"pattern": "*", "limit": 0}), "`limit`"),
            ("glob", json!({"pattern": "*", "path": "probe"}), "is not a directory"),
            ("list_files", json!({"glob": "["}), "the glob"),
            (
                "read_file",
                json!({"path": "probe", "numbered": true, "encoding": "raw"}),
                "`numbered`",
            ),
            ("read_file", json!({"path": "probe", "byte_offset": 1}), "`byte_offset`"),
            (
                "read_file",
                json!({"path": "probe", "byte_offset": 1, "limit": 1, "encoding": "raw"}),
                "`byte_offset`",
            ),
        ] {
            let (code, message) = sandbox.refused(tool, arguments.clone());
            assert_eq!(code, ErrorCode::InvalidArguments, "{tool} {arguments}: {message}");
            assert!(message.contains(named), "{tool} {arguments}: {message}");
        }
        for tool in ["grep", "glob"] {
            let arguments = json!({"pattern": "a", "path": "none"});
            assert_eq!(sandbox.refused(tool, arguments).0, ErrorCode::NotFound);
        }
    }
}

#[test]
fn no_kind_of_file_holds_a_search_up_or_leads_it_outside() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let workspace = world.workspace();
        make(&world, "text", "canary\n");
        make_fifo(&workspace.join("fifo"));
        make_fifo(&workspace.join(".gitignore"));
        let _socket = UnixListener::bind(workspace.join("socket")).unwrap();
        let sparse = fs::File::create(workspace.join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        world.give(&workspace.join("sparse"));
        for (target, name) in [
            (world.outside().as_path(), "to-outside"),
            (world.canary().as_path(), "to-canary"),
            (Path::new("/dev/zero"), "zero"),
            (Path::new("."), "loop"),
            (Path::new("/proc/self/root"), "magic"),
        ] {
            symlink(target, workspace.join(name)).unwrap();
        }
        make(&world, "closed", "canary\n");
        fs::set_permissions(workspace.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let odd = workspace.join(OsStr::from_bytes(b"odd\xff\n\x1b[2J"));
        fs::write(&odd, "canary\n").unwrap();
        world.give(&odd);
        let sandbox = world.open();
        // More often than there are channels: none of them hangs.
        for _ in 0..6 {
            let found = sandbox.done("grep", json!({"pattern": "canary", "glob": "!probe"}));
            assert_eq!(found.output, "odd\\xff\\n\\u{1b}[2J:1:canary\ntext:1:canary\n");
            let found = data(&found);
            assert_eq!(found["skipped"], json!({"binary": 0, "large": 1, "unreadable": 1}));
        }
        for (path, code) in [
            ("fifo", ErrorCode::NotRegular),
            ("socket", ErrorCode::NotRegular),
            ("/dev/zero", ErrorCode::NotRegular),
            ("to-outside", ErrorCode::NotFound),
            ("to-canary", ErrorCode::NotFound),
            ("../outside", ErrorCode::NotFound),
            ("magic", ErrorCode::OutsidePolicy),
            ("/proc/self/root/etc", ErrorCode::OutsidePolicy),
            ("closed", ErrorCode::OutsidePolicy),
        ] {
            let arguments = json!({"pattern": "canary", "path": path});
            assert_eq!(sandbox.refused("grep", arguments).0, code, "{path}");
        }
        let globbed = sandbox.done("glob", json!({"pattern": "**/canary*"})).output;
        assert_eq!(globbed, "", "nothing outside has a name here");
        let tree = sandbox.done("list_files", json!({"recursive": true, "glob": "*o*"})).output;
        let outside = world.outside();
        let outside = outside.display();
        assert_eq!(
            tree,
            format!(
                ".gitignore?\nclosed\nfifo?\nloop@ -> .\nodd\\xff\\n\\u{{1b}}[2J\nprobe\nsocket?\n\
                 to-canary@ -> {outside}/canary\nto-outside@ -> {outside}\nzero@ -> /dev/zero\n"
            )
        );
        // The control: who may read outside finds it, by its own name.
        drop(sandbox);
        world.add_unasked("seen", &palisade_tests::profile_reading(&world.outside()));
        let seen = world.open_with("seen");
        let found =
            lines(&seen, json!({"pattern": "canary", "path": "to-outside", "mode": "files"}));
        assert_eq!(found, ["to-outside/canary"]);
        world.assert_canary_untouched();
    }
}

#[test]
fn five_thousand_directories_deep_is_searched_as_far_as_paths_reach() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let top = openat(CWD, world.workspace(), flags, Bits::empty()).unwrap();
        mkdirat(&top, "deep", Bits::from_raw_mode(0o777)).unwrap();
        let mut dir = openat(&top, "deep", flags, Bits::empty()).unwrap();
        for _ in 0..5000 {
            mkdirat(&dir, "d", Bits::from_raw_mode(0o777)).unwrap();
            dir = openat(&dir, "d", flags, Bits::empty()).unwrap();
        }
        make(&world, "deep/d/d/here", "needle\n");
        let sandbox = world.open();
        let found = sandbox.done("grep", json!({"pattern": "needle", "path": "deep"}));
        assert_eq!(found.output, "deep/d/d/here:1:needle\n");
        assert_eq!(data(&found)["skipped"]["unreadable"], 1);
        drop(sandbox);
        // The harness's own removal would not get to the bottom of it.
        let deep = world.workspace().join("deep");
        assert!(Command::new("rm").arg("-rf").arg(&deep).status().unwrap().success());
    }
}

#[test]
fn a_search_out_of_time_or_cancelled_stops_in_the_cell_too() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let line = format!("{}\n", "abcdefgh ".repeat(1000)).repeat(100);
        make(&world, "wide/0", line);
        for n in 1..4000 {
            fs::hard_link(
                world.workspace().join("wide/0"),
                world.workspace().join(format!("wide/{n}")),
            )
            .unwrap();
        }
        let sandbox = world.open();
        let arguments = json!({"pattern": r"(\w+ ){90}[^ ]*z\b", "path": "wide"});
        // As often as there are channels: had they gone on, the next call would wait for them.
        for _ in 0..4 {
            let call = sandbox.session.call("grep", &arguments).timeout(Duration::from_millis(300));
            let result = sandbox.wait(async { call.await }).unwrap();
            assert_eq!(result.error.unwrap().code, ErrorCode::TimedOut);
        }
        let (told, result) = sandbox.wait(async {
            let call = sandbox.session.call("grep", &arguments).timeout(Duration::from_secs(300));
            let mut running = call.stream().start().await.unwrap();
            let event = running.next().await.unwrap();
            let Event::Progress { message, done, total } = event else { panic!("{event:?}") };
            running.cancel().await.unwrap();
            while running.next().await.is_some() {}
            ((message, done, total), running.result().await.unwrap())
        });
        assert_eq!((told.0.as_str(), told.2), ("looked at", None));
        assert!((1..4002).contains(&told.1), "{told:?}");
        assert!(result.cancelled);
        assert_eq!(
            sandbox.done("read_file", json!({"path": "wide/0", "limit": 1})).output.len(),
            9001
        );
    }
}

#[test]
fn rules_about_paths_hold_for_what_a_search_would_show() {
    for mode in Mode::all() {
        let world = World::new(mode);
        make(&world, "open/a", "needle\n");
        make(&world, "secret/b", "needle\n");
        let rule = "[[rules]]\nverdict = \"deny\"\nwhy = \"secrets stay\"\ntools = [\"read_file\", \"grep\", \"glob\", \"list_files\"]\npaths = [\"secret/**\", \"secret\"]\n";
        world.add_unasked("ruled", &format!("{}\n{rule}", profile_never_asking()));
        let sandbox = world.open_with("ruled");
        let found = sandbox.done("grep", json!({"pattern": "needle", "glob": "!probe"}));
        assert_eq!(
            (found.output.as_str(), &data(&found)["withheld"]),
            ("open/a:1:needle\n", &json!(1))
        );
        let found = sandbox.done("glob", json!({"pattern": "**/[ab]"}));
        assert_eq!((found.output.as_str(), &data(&found)["withheld"]), ("open/a\n", &json!(1)));
        let listed = sandbox.done("list_files", json!({"recursive": true}));
        assert_eq!(
            (listed.output.as_str(), &data(&listed)["withheld"]),
            ("open/\nopen/a\nprobe\n", &json!(2))
        );
        for (tool, arguments) in [
            ("grep", json!({"pattern": "needle", "path": "secret"})),
            ("glob", json!({"pattern": "*", "path": "secret"})),
            ("list_files", json!({"path": "secret"})),
            ("read_file", json!({"path": "secret/b"})),
        ] {
            assert_eq!(sandbox.refused(tool, arguments).0, ErrorCode::Denied, "{tool}");
        }
        drop(sandbox);
        // The control: without the rule.
        let sandbox = world.open();
        assert_eq!(lines(&sandbox, json!({"pattern": "needle", "glob": "!probe"})).len(), 2);
    }
}

#[test]
fn looking_never_asks() {
    for mode in Mode::all() {
        let world = World::new(mode);
        make(&world, "file", "text\n");
        for ask in ["destructive", "sensitive"] {
            world.add_profile(
                ask,
                &profile_with(&[("ask = \"destructive\"", &format!("ask = \"{ask}\""))]),
            );
            let sandbox = world.open_with(ask);
            for (tool, arguments) in [
                ("read_file", json!({"path": "file"})),
                ("list_files", json!({"recursive": true})),
                ("glob", json!({"pattern": "*"})),
                ("grep", json!({"pattern": "text"})),
            ] {
                let result = sandbox.done(tool, arguments);
                assert!(result.checkpoint.is_none() && result.findings.is_empty(), "{tool}");
            }
        }
        let (stream, daemon) = world.embedded(&[]);
        let open = palisade_client::Open::new(world.workspace()).ask(Ask::Always);
        let sandbox = Sandbox::over(stream, Some(daemon), open).unwrap();
        // The control: where everything is asked about, nobody is there to answer.
        assert_eq!(sandbox.refused("grep", json!({"pattern": "text"})).0, ErrorCode::Denied);
    }
}

#[test]
fn files_are_read_as_what_they_are() {
    for mode in Mode::all() {
        let world = World::new(mode);
        make(&world, "text", "a\nb\nc");
        make(&world, "picture.txt", b"\x89PNG\r\n\x1a\n\0\0");
        make(&world, "wide", b"\xff\xfeh\0i\0");
        let book = r##"{"cells": [{"cell_type": "markdown", "source": ["# Hi"]}]}"##;
        make(&world, "book.ipynb", book);
        make(&world, "bad.ipynb", "{");
        let sandbox = world.open();
        let read = |arguments: Value| sandbox.done("read_file", arguments);
        assert_eq!(
            read(json!({"path": "text", "numbered": true})).output,
            "     1\ta\n     2\tb\n     3\tc"
        );
        let some = read(json!({"path": "text", "numbered": true, "offset": 2, "limit": 1}));
        assert_eq!(some.output, "     2\tb\n");
        let picture = read(json!({"path": "picture.txt"}));
        assert_eq!(picture.output, "[image/png, 10 bytes: they are in data.content, as base64]");
        assert_eq!(data(&picture)["media_type"], "image/png");
        assert_eq!(data(&picture)["content"], "iVBORw0KGgoAAA==");
        let wide = read(json!({"path": "wide"}));
        assert_eq!((wide.output.as_str(), &data(&wide)["charset"]), ("hi", &json!("utf-16le")));
        let bytes =
            read(json!({"path": "text", "encoding": "base64", "byte_offset": 2, "byte_limit": 2}));
        assert_eq!(data(&bytes)["content"], "Ygo=");
        let shown = read(json!({"path": "book.ipynb"}));
        assert_eq!(
            (shown.output.as_str(), &data(&shown)["cells"]),
            ("[cell 0: markdown]\n# Hi\n", &json!(1))
        );
        let first = read(json!({"path": "book.ipynb", "limit": 1}));
        assert_eq!(first.output, "[cell 0: markdown]\n");
        let raw = sandbox.wait(sandbox.session.read_bytes("book.ipynb")).unwrap();
        assert_eq!(raw, book.as_bytes());
        let bad = read(json!({"path": "bad.ipynb"}));
        assert_eq!(bad.output, "{");
        let note = data(&bad)["note"].as_str().unwrap().to_owned();
        assert!(note.starts_with("not a notebook, shown as it is: EOF"), "{note}");
    }
}
