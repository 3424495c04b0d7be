//! Tests of searching: what is found, in which order, what is never opened, and when it stops.

use crate::tools::testing::{Broker, deleted, failed};
use palisade_plan::{
    Path,
    cell::{FileErrorKind, FileReply, FileRequest},
    search::{Choice, Grep, GrepResult, Hits, Line, SearchReport, SkippedFiles, Syntax},
};
use rustix::fs::{CWD, Mode};
use std::{
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
};

const LINES: SearchReport = SearchReport::Lines { before: 0, after: 0 };

fn asked(broker: &Broker, pattern: &str) -> Grep {
    Grep {
        path: broker.path(""),
        choice: Choice { glob: None, hidden: true, ignored: false },
        pattern: pattern.to_owned(),
        syntax: Syntax::Regex,
        case_insensitive: false,
        multiline: false,
        wanted: LINES,
        limit: 100,
        most: 1 << 20,
    }
}

fn grep(broker: &Broker, grep: Grep) -> GrepResult {
    let reply = broker.answer(&FileRequest::Grep(Box::new(grep)));
    let FileReply::Grepped(found) = reply else { panic!("{reply:?}") };
    *found
}

fn write(broker: &Broker, name: &str, text: impl AsRef<[u8]>) {
    let path = broker.path(name);
    fs::create_dir_all(path.as_path().parent().unwrap()).unwrap();
    fs::write(path.as_path(), text).unwrap();
}

/// Formats matches as `path:line:text`, and context as `path-line-text`.
fn shown(found: &GrepResult) -> Vec<String> {
    let line = |hits: &Hits, line: &Line| {
        let mark = if line.matches { ':' } else { '-' };
        let (path, text) =
            (String::from_utf8_lossy(&hits.path.0), String::from_utf8_lossy(&line.text));
        format!("{path}{mark}{}{mark}{text}", line.number)
    };
    found.files.iter().flat_map(|hits| hits.lines.iter().map(move |one| line(hits, one))).collect()
}

fn names(found: &GrepResult) -> Vec<String> {
    found.files.iter().map(|hits| String::from_utf8_lossy(&hits.path.0).into_owned()).collect()
}

#[test]
fn lines_are_found_in_the_order_of_paths() {
    let broker = Broker::new();
    write(&broker, "b.txt", "one\ntwo needle\n");
    write(&broker, "a/z.txt", "needle\r\nno\nneedle again");
    write(&broker, "a.txt", "nothing\n");
    write(&broker, ".hidden", "a needle\n");
    let found = grep(&broker, asked(&broker, "needle"));
    let expected =
        [".hidden:1:a needle", "a/z.txt:1:needle", "a/z.txt:3:needle again", "b.txt:2:two needle"];
    assert_eq!(shown(&found), expected);
    assert_eq!((found.total_files, found.total_lines, found.searched), (3, 4, 4));
    assert_eq!((found.skipped, found.more), (SkippedFiles::default(), false));
    assert_eq!(found.files[2].lines[0].column, Some(5));
    assert_eq!(
        found.real,
        Path(fs::canonicalize(broker.path("").as_path()).unwrap().as_os_str().as_bytes().to_vec())
    );
    let visible = Choice { hidden: false, ..Choice::default() };
    let found = grep(&broker, Grep { choice: visible, ..asked(&broker, "needle") });
    assert_eq!(names(&found), ["a/z.txt", "b.txt"]);
}

#[test]
fn one_file_can_be_named_also_by_a_link() {
    let broker = Broker::new();
    write(&broker, "file", "x\nneedle\n");
    symlink("file", broker.path("link").as_path()).unwrap();
    for name in ["file", "link"] {
        let found = grep(&broker, Grep { path: broker.path(name), ..asked(&broker, "needle") });
        assert_eq!(shown(&found), [":2:needle"]);
    }
    // A link below a directory is not followed.
    assert_eq!(names(&grep(&broker, asked(&broker, "needle"))), ["file"]);
}

#[test]
fn what_the_first_lines_are_does_not_depend_on_threads() {
    let broker = Broker::new();
    for n in 0..300 {
        write(&broker, &format!("{:02}/{n:03}", n % 17), "needle\nneedle\nneedle\n");
    }
    let all = shown(&grep(&broker, Grep { limit: 10_000, ..asked(&broker, "needle") }));
    assert_eq!(all.len(), 900);
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(all, sorted);
    for limit in [1, 2, 3, 100, 899] {
        let found = grep(&broker, Grep { limit, ..asked(&broker, "needle") });
        assert_eq!(shown(&found), all[..limit as usize]);
        assert_eq!((found.total_files, found.total_lines), (300, 900));
    }
    let files =
        grep(&broker, Grep { limit: 5, wanted: SearchReport::Files, ..asked(&broker, "needle") });
    assert_eq!((files.files.len(), files.total_files), (5, 300));
    assert_eq!(names(&files), ["00/000", "00/017", "00/034", "00/051", "00/068"]);
    let counts =
        grep(&broker, Grep { limit: 2, wanted: SearchReport::Counts, ..asked(&broker, "needle") });
    assert_eq!(counts.files.iter().map(|hits| hits.count).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(counts.total_lines, 900);
}

#[test]
fn lines_around_come_along_and_no_more_than_that() {
    let broker = Broker::new();
    write(&broker, "f", "1\n2\nhit 3\n4\n5\n6\n7\nhit 8\nhit 9\n10\n11\n");
    let wanted = SearchReport::Lines { before: 1, after: 1 };
    let found = grep(&broker, Grep { wanted, ..asked(&broker, "hit") });
    let all = ["f-2-2", "f:3:hit 3", "f-4-4", "f-7-7", "f:8:hit 8", "f:9:hit 9", "f-10-10"];
    assert_eq!(shown(&found), all);
    for (limit, expected) in [(1, &all[..3]), (2, &all[..5]), (3, &all[..])] {
        let found = grep(&broker, Grep { wanted, limit, ..asked(&broker, "hit") });
        assert_eq!(
            (shown(&found), found.total_lines),
            (expected.iter().map(|line| (*line).to_owned()).collect(), 3)
        );
    }
}

#[test]
fn patterns_are_what_the_call_says_they_are() {
    let broker = Broker::new();
    write(&broker, "f", "a.c\nabc\nABC\nfoo {\n  bar\n}\n");
    let lines = |change: &dyn Fn(&mut Grep)| {
        let mut request = asked(&broker, "a.c");
        change(&mut request);
        shown(&grep(&broker, request))
    };
    assert_eq!(lines(&|_| {}), ["f:1:a.c", "f:2:abc"]);
    assert_eq!(lines(&|g| g.syntax = Syntax::Literal), ["f:1:a.c"]);
    assert_eq!(lines(&|g| g.case_insensitive = true), ["f:1:a.c", "f:2:abc", "f:3:ABC"]);
    let over_lines = lines(&|g| {
        g.pattern = r"\{\n.*bar\n\}".into();
        g.multiline = true;
    });
    assert_eq!(over_lines, ["f:4:foo {", "f:5:  bar", "f:6:}"]);
    assert_eq!(lines(&|g| g.pattern = "^}$".into()), ["f:6:}"]);
}

#[test]
fn a_pattern_or_glob_that_can_not_be_used_says_why() {
    let broker = Broker::new();
    let nested = format!("{}x{}", "(".repeat(200), ")".repeat(200));
    let patterns = [
        ("a(", "unclosed group"),
        ("(a{1000}){1000}", "size limit"),
        ("a\nb", "set multiline"),
        (r"a\nb", "set multiline"),
        (r"(?<=x)y", "look-around"),
        (nested.as_str(), "nest"),
    ];
    for (pattern, why) in patterns {
        let error = failed(broker.answer(&FileRequest::Grep(Box::new(asked(&broker, pattern)))));
        assert_eq!((error.kind, error.errno), (FileErrorKind::Invalid, 0), "{pattern}");
        assert!(error.message.contains(why), "{pattern}: {}", error.message);
    }
    let deep = format!("{}x{}", "{".repeat(3000), "}".repeat(3000));
    let long = "x".repeat(5000);
    for glob in ["[", "a{b", "../x", "", "!", &long, &deep] {
        let choice = Choice { glob: Some(glob.to_owned()), ..Choice::default() };
        let request = Grep { choice, ..asked(&broker, "x") };
        let error = failed(broker.answer(&FileRequest::Grep(Box::new(request))));
        assert_eq!((error.kind, error.errno), (FileErrorKind::Invalid, 0), "{glob:?}");
        assert!(error.message.starts_with("the glob \""), "{}", error.message);
    }
}

#[test]
fn globs_choose_files_by_name_or_by_path() {
    let broker = Broker::new();
    for name in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/d.txt", "tests/e.rs"] {
        write(&broker, name, "x\n");
    }
    for (glob, expected) in [
        ("*.rs", &["a.rs", "src/b.rs", "src/deep/c.rs", "tests/e.rs"][..]),
        ("src/*.rs", &["src/b.rs"]),
        ("src/**/*.rs", &["src/b.rs", "src/deep/c.rs"]),
        ("/a.rs", &["a.rs"]),
        ("**/*.{rs,txt}", &["a.rs", "src/b.rs", "src/d.txt", "src/deep/c.rs", "tests/e.rs"]),
        ("!*.rs", &["src/d.txt"]),
        ("{src,tests}/[a-e].*", &["src/b.rs", "src/d.txt", "tests/e.rs"]),
        ("none", &[]),
    ] {
        let choice = Choice { glob: Some(glob.to_owned()), ..Choice::default() };
        let found = grep(&broker, Grep { choice, ..asked(&broker, "x") });
        assert_eq!(names(&found), expected, "{glob}");
    }
}

#[test]
fn what_is_no_text_or_can_not_be_read_is_counted_and_nothing_waits() {
    let broker = Broker::new();
    write(&broker, "text", "needle\n");
    write(&broker, "binary", b"needle\n\0\x01needle\n");
    write(&broker, "late", [b"needle\n".repeat(100_000), vec![0]].concat());
    write(&broker, "large", vec![b'x'; 1 << 21]);
    write(
        &broker,
        "utf16",
        [
            &b"\xff\xfe"[..],
            &"needle\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(),
        ]
        .concat(),
    );
    write(&broker, "closed", "needle\n");
    fs::set_permissions(broker.path("closed").as_path(), fs::Permissions::from_mode(0o000))
        .unwrap();
    write(&broker, "shut/in", "needle\n");
    fs::set_permissions(broker.path("shut").as_path(), fs::Permissions::from_mode(0o000)).unwrap();
    rustix::fs::mkfifoat(CWD, broker.path("fifo").as_path(), Mode::from_raw_mode(0o600)).unwrap();
    rustix::fs::mkfifoat(CWD, broker.path(".gitignore").as_path(), Mode::from_raw_mode(0o600))
        .unwrap();
    let _socket = UnixListener::bind(broker.path("socket").as_path()).unwrap();
    symlink("/dev/zero", broker.path("zero").as_path()).unwrap();
    symlink(".", broker.path("loop").as_path()).unwrap();
    symlink("/etc", broker.path("etc").as_path()).unwrap();
    let found = grep(&broker, asked(&broker, "needle|root"));
    assert_eq!(names(&found), ["text", "utf16"]);
    assert_eq!(found.skipped, SkippedFiles { binary: 2, large: 1, unreadable: 2 });
    assert_eq!((found.searched, found.more), (2, false));
    for name in ["fifo", "socket", "zero"] {
        let request = Grep { path: broker.path(name), ..asked(&broker, "x") };
        let error = failed(broker.answer(&FileRequest::Grep(Box::new(request))));
        assert_eq!(error.kind, FileErrorKind::NotRegular, "{name}");
    }
    fs::set_permissions(broker.path("shut").as_path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn long_lines_are_cut_around_their_match() {
    let broker = Broker::new();
    let line =
        format!("{}needle{}\nneedle{}\n", "a".repeat(9000), "b".repeat(9000), "c".repeat(600));
    write(&broker, "f", line);
    let found = grep(&broker, asked(&broker, "needle"));
    let [far, near] = &found.files[0].lines[..] else { panic!("{found:?}") };
    assert_eq!((far.column, far.before, far.text.len(), far.after), (Some(9001), 8900, 500, 8606));
    assert!(far.text.starts_with(&[b'a'; 100]) && far.text[100..].starts_with(b"needleb"));
    assert_eq!((near.column, near.before, near.text.len(), near.after), (Some(1), 0, 500, 106));
    // A line longer than the searcher's buffer makes its file too large, and no other.
    write(&broker, "g", vec![b'x'; 5 << 20]);
    let found = grep(&broker, Grep { most: 10 << 20, ..asked(&broker, "needle") });
    assert_eq!((names(&found), found.skipped.large), (vec!["f".to_owned()], 1));
}

#[test]
fn an_answer_fits_into_a_message() {
    let broker = Broker::new();
    for n in 0..40 {
        write(&broker, &format!("{n:02}"), format!("{}\n", "needle".repeat(80)).repeat(400));
    }
    let found = grep(&broker, Grep { limit: 100_000, ..asked(&broker, "needle") });
    let lines: Vec<_> = found.files.iter().flat_map(|hits| &hits.lines).collect();
    assert!((1500..2500).contains(&lines.len()), "{}", lines.len());
    assert_eq!((found.total_lines, found.total_files), (16_000, 40));
    assert_eq!(names(&found)[..3], ["00", "01", "02"]);
}

#[test]
fn names_of_any_bytes_and_the_deepest_directories_are_searched_as_far_as_paths_reach() {
    let broker = Broker::new();
    let odd = std::ffi::OsStr::from_bytes(b"\xff\n\x1b");
    fs::write(broker.path(odd).as_path(), "needle").unwrap();
    fs::create_dir(broker.path("deep").as_path()).unwrap();
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
    let mut dir =
        rustix::fs::openat(CWD, broker.path("deep").as_path(), flags, Mode::empty()).unwrap();
    for level in 0..5000 {
        if level == 2000 {
            let file = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CREATE;
            let file = rustix::fs::openat(&dir, "here", file, Mode::from_raw_mode(0o600)).unwrap();
            rustix::io::write(&file, b"needle").unwrap();
        }
        rustix::fs::mkdirat(&dir, "d", Mode::from_raw_mode(0o700)).unwrap();
        dir = rustix::fs::openat(&dir, "d", flags, Mode::empty()).unwrap();
    }
    let found = grep(&broker, asked(&broker, "needle"));
    assert_eq!(found.files[0].path.0, [b"deep/".as_slice(), &b"d/".repeat(2000), b"here"].concat());
    assert_eq!(
        (found.files[1].path.0.as_slice(), found.skipped.unreadable),
        (&b"\xff\n\x1b"[..], 1)
    );
    assert!(deleted(broker.delete_for_good(&broker.path("deep"))) > 2000);
}

#[test]
fn a_search_that_nobody_wants_any_more_stops_and_the_channel_goes_on() {
    let broker = Broker::new();
    let wide = broker.path("wide");
    fs::create_dir(wide.as_path()).unwrap();
    let line = format!("{}\n", "abcdefgh ".repeat(1000)).repeat(100);
    fs::write(wide.as_path().join("0"), &line).unwrap();
    for n in 1..3000 {
        fs::hard_link(wide.as_path().join("0"), wide.as_path().join(n.to_string())).unwrap();
    }
    // A slow pattern: the engine can not skip anything.
    let request = asked(&broker, r"(\w+ ){90}[^ ]*z\b");
    broker.send(&FileRequest::Grep(Box::new(request.clone())));
    let FileReply::Progress { done } = broker.next() else { panic!("no progress") };
    assert!((1..3001).contains(&done), "{done}");
    broker.send(&FileRequest::Abandon);
    let mut reply = broker.next();
    // Progress that was sent before.
    while let FileReply::Progress { .. } = reply {
        reply = broker.next();
    }
    assert_eq!(reply, FileReply::Abandoned);
    // If a reply crosses with `Abandon`, the reply counts.
    let small = Grep { path: broker.path("none"), ..request };
    broker.send(&FileRequest::Grep(Box::new(small.clone())));
    broker.send(&FileRequest::Abandon);
    assert_eq!(failed(broker.next()).kind, FileErrorKind::NotFound);
    let error = failed(broker.answer(&FileRequest::Grep(Box::new(small))));
    assert_eq!(error.kind, FileErrorKind::NotFound);
}
