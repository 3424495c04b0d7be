//! Tests `*** Begin Patch`: each element of the format, and each refusal with its message.

use palisade_edits::{Destination, FilePatch, PatchError, parse};

fn update(chunks: &str) -> FilePatch {
    let text = format!("*** Begin Patch\n*** Update File: f\n{chunks}*** End Patch\n");
    let patch = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    patch.files.into_iter().next().unwrap()
}

fn made(chunks: &str, old: &str) -> String {
    String::from_utf8(update(chunks).apply(old.as_bytes()).unwrap()).unwrap()
}

fn unfit(chunks: &str, old: &str) -> PatchError {
    update(chunks).apply(old.as_bytes()).unwrap_err()
}

#[test]
fn all_kinds_in_one() {
    let text = "\n*** Begin Patch\n*** Add File: new/a.txt\n+one\n+\n+*** two\n\n*** Update File: b.txt\n\
                *** Move to: c.txt\n@@\n-x\n+y\n*** Delete File: d.txt\n*** Update File: e\n\
                *** Move to: g\n*** Add File: empty\n*** End Patch\n\n";
    let files = parse(text.as_bytes()).unwrap().files;
    let paths: Vec<_> = files.iter().map(|file| String::from_utf8_lossy(file.path())).collect();
    assert_eq!(paths, ["new/a.txt", "b.txt", "d.txt", "e", "empty"]);
    assert_eq!(files[0].apply(b"").unwrap(), b"one\n\n*** two\n");
    let FilePatch::Update { to, .. } = &files[1] else { panic!("{files:?}") };
    assert_eq!(to, &Some(Destination::Move(b"c.txt".to_vec())));
    assert_eq!(files[1].apply(b"x\n").unwrap(), b"y\n");
    assert!(matches!(&files[2], FilePatch::Delete { hunks: None, .. }));
    assert_eq!(files[2].apply(b"whatever").unwrap(), b"");
    assert_eq!(files[3].apply(b"kept").unwrap(), b"kept");
    assert_eq!(files[4].apply(b"").unwrap(), b"");
}

const CODE: &str = "\
class A:
    def f(self):
        x = 1
        return x

class B:
    def f(self):
        x = 1
        return x

    def g(self):
        x = 1
        return x
";

#[test]
fn anchors_say_which() {
    let chunk = "-        x = 1\n+        x = 2\n         return x\n";
    let changed = |at: usize| {
        let mut lines: Vec<_> = CODE.lines().collect();
        lines[at - 1] = "        x = 2";
        format!("{}\n", lines.join("\n"))
    };
    let table = [
        ("@@ class A:\n", 3),
        ("@@ class B:\n", 8),
        ("@@ class B\n", 8),
        ("@@ class B:\n@@     def f(self):\n", 8),
        ("@@ class B:\n@@ def g(self):\n", 12),
        ("@@     def g(self):\n", 12),
        ("@@ def g(self):\n     def g(self):\n", 12),
    ];
    for (anchors, line) in table {
        assert_eq!(made(&format!("{anchors}{chunk}"), CODE), changed(line), "{anchors}");
    }
    let error = unfit(&format!("@@\n{chunk}"), CODE);
    assert_eq!(
        error.to_string(),
        "line 3 of the patch: the old lines of this hunk are in the file 3 times, at lines 3, 8, 12: \
         give more context, or an `@@` line with a line above it"
    );
    let error = unfit(&format!("@@ def f(self):\n{chunk}"), CODE);
    assert_eq!(
        error.to_string(),
        "line 3 of the patch: 2 lines of the file are `def f(self):`, at lines 2, 7: put an `@@` \
         line with the line that encloses it before it"
    );
    let error = unfit(&format!("@@ class C:\n{chunk}"), CODE).to_string();
    assert!(
        error.contains("no line of the file is `class C:`; nearest, at line 1:\n    class A:"),
        "{error}"
    );
}

#[test]
fn chunks_go_from_top_to_bottom() {
    let old = "a\nb\nc\nd\n";
    assert_eq!(made("-a\n+A\n@@\n c\n-d\n+D\n", old), "A\nb\nc\nD\n", "the first needs no `@@`");
    assert_eq!(made("@@ b\n+x\n", old), "a\nb\nx\nc\nd\n", "lines come after their anchor");
    let error = unfit("@@\n-d\n@@\n-a\n", old);
    assert_eq!(error.line, 5);
    assert!(
        error.to_string().contains("only at line 1, before the end of the hunk before"),
        "{error}"
    );
    let error = unfit("@@\n-a\n-x\n", old).to_string();
    assert!(
        error
            .contains("not in the file; nearest, at line 1:\n    a\n    b; expected\n    a\n    x"),
        "{error}"
    );
    assert_eq!(made("@@\n+x\n", old), "a\nb\nc\nd\nx\n", "without a place, at the end");
    assert_eq!(made("@@\n+x\n", ""), "x\n", "an empty file has one place");
}

#[test]
fn the_end_of_the_file_and_its_newline() {
    let chunk = "@@\n x\n-y\n+z\n*** End of File\n";
    assert_eq!(made(chunk, "x\ny\nx\ny\n"), "x\ny\nx\nz\n");
    assert_eq!(made(chunk, "x\ny"), "x\nz", "no newline comes");
    assert_eq!(made("@@\n+end\n*** End of File\n", "a\n"), "a\nend\n");
    assert_eq!(made("@@\n+end\n*** End of File\n", "a"), "a\nend");
    assert_eq!(made("@@\n a\n+end\n", "a"), "a\nend");
    assert_eq!(made("@@\n-b\n", "a\nb"), "a");
    let error = unfit(chunk, "x\ny\nmore\n").to_string();
    assert!(error.contains("the old lines of this hunk are not in the file"), "{error}");
}

#[test]
fn white_space_around_markers_and_headers_does_not_matter() {
    let body = "@@\n-one\n+two\n";
    for text in [
        format!(" *** Begin Patch\n*** Update File: f\n{body}*** End Patch \n"),
        format!("*** Begin Patch \n  *** Update File: f\n{body} *** End Patch\n\n"),
        format!("<<'EOF'\n*** Begin Patch\n*** Update File: f\n{body}*** End Patch\nEOF\n"),
        format!("<<EOF\n*** Begin Patch\n*** Update File: f\n{body}*** End Patch\nEOF"),
    ] {
        let files = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}")).files;
        assert_eq!(files[0].apply(b"one\n").unwrap(), b"two\n", "{text}");
    }
    let text = "*** Begin Patch\n*** Add File: a\n+x\n  *** Delete File: b\n*** End Patch\n";
    assert_eq!(parse(text.as_bytes()).unwrap().files.len(), 2);
    // Inside a hunk such a line is a line of the file.
    let old = "one\n*** End Patch\n*** Update File: g\n";
    assert_eq!(made(" one\n *** End Patch\n-*** Update File: g\n", old), "one\n*** End Patch\n");
    for text in ["<<EOF\n*** Begin Patch\n*** End Patch\nEND\n", "<<\nx\n"] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn white_space_at_the_ends_of_old_lines_may_be_lost() {
    let old = "a  \nb\t\nc\n";
    assert_eq!(made("@@\n a\n-b\n+B\n", old), "a  \nB\nc\n", "the file's own lines stay");
    assert_eq!(made("@@\n-c  \n+C\n*** End of File\n", old), "a  \nb\t\nC\n");
    // What is there exactly is meant; what is there more than once is not known.
    assert_eq!(made("@@\n-a\n+A\n", "a \na\n"), "a \nA\n");
    let error = unfit("@@\n-a\n+A\n", "a \na  \n").to_string();
    assert!(error.contains("differs only in white space at the end of lines"), "{error}");
    let error = unfit("@@\n-a\n+A\n", " a\n").to_string();
    assert!(error.contains("not in the file"), "{error}");
}

#[test]
fn crlf_files_keep_crlf() {
    assert_eq!(made("@@ a\n-b\n+c\n+d\n", "a\r\nb\r\n"), "a\r\nc\r\nd\r\n");
    assert_eq!(made("@@\n b\n+c\n", "a\r\nb"), "a\r\nb\r\nc");
    let crlf = "*** Begin Patch\r\n*** Update File: f\r\n@@\r\n-a\r\n+b\r\n*** End Patch\r\n";
    let patch = parse(crlf.as_bytes()).unwrap();
    assert_eq!(patch.files[0].apply(b"a\n").unwrap(), b"b\n");
    assert_eq!(patch.files[0].apply(b"a\r\n").unwrap(), b"b\r\n");
}

#[test]
fn what_is_refused_says_where_and_why() {
    let table = [
        ("*** Begin Patch\n", 2, "or `*** End Patch`, found `the end of the patch`"),
        ("*** Begin Patch\n*** End Patch\n", 1, "this is not a patch"),
        ("*** Begin Patch\n*** End Patch\nmore\n", 3, "nothing after `*** End Patch`"),
        ("*** Begin Patch\n*** Rename File: f\n*** End Patch\n", 2, "expected `*** Add File: `"),
        ("*** Begin Patch\n*** Add File: f\nx\n*** End Patch\n", 3, "a line that begins with `+`"),
        ("*** Begin Patch\n*** Add File: ../f\n*** End Patch\n", 2, "has a `..`"),
        ("*** Begin Patch\n*** Add File: /f\n*** End Patch\n", 2, "is absolute"),
        ("*** Begin Patch\n*** Add File: \n*** End Patch\n", 2, "is empty"),
        ("*** Begin Patch\n*** Delete File: a/../../f\n*** End Patch\n", 2, "has a `..`"),
        ("*** Begin Patch\n*** Update File: f\n*** Move to: /g\n*** End Patch\n", 3, "is absolute"),
        (
            "*** Begin Patch\n*** Update File: f\n*** End Patch\n",
            2,
            "the patch changes nothing in `f`",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n@@\n*** End Patch\n",
            4,
            "begins with ` `, `-` or `+`",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n@@\n-a\n?\n*** End Patch\n",
            5,
            "` `, `-`, `+` or `@@`, found `?`",
        ),
        (
            "*** Begin Patch\n*** Add File: f\n*** Delete File: ./f\n*** End Patch\n",
            3,
            "`f` is already in the patch at line 2",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n*** Move to: f\n*** End Patch\n",
            2,
            "`f` is already in the patch at line 2",
        ),
    ];
    for (patch, line, part) in table {
        let error = parse(patch.as_bytes()).expect_err(patch);
        assert_eq!(error.line, line, "{error}\n{patch}");
        assert!(error.to_string().contains(part), "{error}\n{patch}");
    }
}
