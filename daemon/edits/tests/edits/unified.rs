//! Tests unified and git diffs: each form that git and diff write, and each refusal with its
//! message.

use palisade_edits::{
    Destination, FilePatch, MAX_FILES, MAX_PATCH, Mode, Patch, PatchError, parse, unified,
};

fn read(text: &str) -> Patch {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn made(patch: &str, old: &str) -> String {
    match read(patch).files.as_slice() {
        [file] => String::from_utf8(file.apply(old.as_bytes()).unwrap()).unwrap(),
        files => panic!("{} files", files.len()),
    }
}

fn unfit(patch: &str, old: &str) -> PatchError {
    read(patch).files[0].apply(old.as_bytes()).unwrap_err()
}

/// A mail made by git: prose, a stat, four files and a signature.
const MAIL: &str = "\
From 1234567890123456789012345678901234567890 Mon Sep 17 00:00:00 2001
From: A <a@example.org>
Subject: [PATCH] all kinds

- a list
+ in the message
---
 name with space.txt | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

diff --git a/name with space.txt b/name with space.txt
index 7898192..6178079 100644
--- a/name with space.txt\t
+++ b/name with space.txt\t
@@ -1 +1 @@
-a
+b
diff --git \"a/t\\303\\244b\\t.txt\" \"b/t\\303\\244b\\t.txt\"
new file mode 100755
index 0000000..e69de29
diff --git a/gone b/gone
deleted file mode 100644
index 9daeafb..0000000
--- a/gone
+++ /dev/null
@@ -1,2 +0,0 @@
-test
-end
\\ No newline at end of file
diff --git a/old.rs b/new/place.rs
similarity index 100%
rename from old.rs
rename to new/place.rs
diff --git a/base b/twin
similarity index 90%
copy from base
copy to twin
index 7898192..6178079 100644
--- a/base
+++ b/twin
@@ -1,3 +1,3 @@ fn heading() {
 x
-y
+z
 w
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
-- 
2.47.3

";

#[test]
fn a_mail_of_git_has_all_kinds() {
    let files = read(MAIL).files;
    let paths: Vec<_> = files.iter().map(|file| String::from_utf8_lossy(file.path())).collect();
    assert_eq!(paths, ["name with space.txt", "täb\t.txt", "gone", "old.rs", "base", "run.sh"]);
    assert_eq!(files.iter().map(FilePatch::line).collect::<Vec<_>>(), [11, 18, 21, 30, 34, 46]);
    assert_eq!(files[0].apply(b"a\n").unwrap(), b"b\n");
    let FilePatch::Add { content, executable, .. } = &files[1] else { panic!("{files:?}") };
    assert_eq!((content.as_slice(), *executable), (b"".as_slice(), Some(Mode::Executable)));
    assert_eq!(files[2].apply(b"test\nend").unwrap(), b"");
    let error = files[2].apply(b"test\nend\n").unwrap_err();
    assert_eq!(error.line, 26);
    assert!(error.to_string().contains("only in the newline at the end of the file"), "{error}");
    let FilePatch::Update { to, mode, hunks, .. } = &files[3] else { panic!("{files:?}") };
    assert_eq!(to, &Some(Destination::Move(b"new/place.rs".to_vec())));
    assert_eq!((mode, hunks.len()), (&None, 0));
    assert_eq!(files[3].apply(b"kept").unwrap(), b"kept");
    let FilePatch::Update { to, .. } = &files[4] else { panic!("{files:?}") };
    assert_eq!(to, &Some(Destination::Copy(b"twin".to_vec())));
    assert_eq!(files[4].apply(b"x\ny\nw\n").unwrap(), b"x\nz\nw\n");
    let FilePatch::Update { mode, .. } = &files[5] else { panic!("{files:?}") };
    assert_eq!(mode, &Some(Mode::Executable));
}

#[test]
fn plain_diffs_with_times_and_without_prefixes() {
    let patch = "diff -u f f\n--- f\t2026-01-01 00:00:00.0 +0000\n+++ f\t2026-01-02 00:00:00.0 +0000\n\
                 @@ -1,2 +1,3 @@\n a\n+new\n b\n";
    assert_eq!(made(patch, "a\nb\n"), "a\nnew\nb\n");
    let svn = "Index: f\n=================\n--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(made(svn, "a\n"), "b\n");
    let add = "--- /dev/null\n+++ b/d/f\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n";
    assert_eq!(made(add, ""), "x\ny");
    let error = unfit(add, "there");
    assert_eq!(
        error.to_string(),
        "line 1 of the patch: the patch creates `d/f`, which already exists with 5 bytes"
    );
    let dots = "--- a/./x//y\n+++ b/./x//y\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(read(dots).files[0].path(), b"x/y");
    let empty_line = "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c";
    assert_eq!(made(empty_line, "a\n\nb\n"), "a\n\nc\n", "an empty line is empty context");
    let bare = "--- f\n+++ f\n@@ -2,0 +3 @@\n+c\n";
    assert_eq!(made(bare, "a\nb\nd\n"), "a\nb\nc\nd\n", "a diff without context");
}

#[test]
fn the_last_newline_comes_and_goes_as_said() {
    let goes = "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n";
    assert_eq!(made(goes, "a\n"), "a");
    let comes = "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n";
    assert_eq!(made(comes, "a"), "a\n");
    let error = unfit(goes, "a\nb\n");
    assert!(error.to_string().contains("newline at the end of the file"), "{error}");
    let error = unfit("--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n", "a").to_string();
    assert!(error.contains("newline at the end of the file"), "{error}");
    let error = unfit("--- f\n+++ f\n@@ -1,0 +2 @@\n+b\n", "a").to_string();
    assert!(error.contains("newline at the end of the file"), "{error}");
}

#[test]
fn crlf_files_keep_crlf() {
    let lf = "--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n";
    assert_eq!(made(lf, "a\r\nb\r\n"), "a\r\nc\r\nd\r\n");
    let exact = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n";
    assert_eq!(made(exact, "a\r\nb\r\n"), "a\r\nc\r\n");
    let converts = "--- f\n+++ f\n@@ -1 +1 @@\n-a\r\n+a\n";
    assert_eq!(made(converts, "a\r\n"), "a\n", "said, and so meant");
    let all_crlf = lf.replace('\n', "\r\n");
    assert_eq!(made(&all_crlf, "a\r\nb\r\n"), "a\r\nc\r\nd\r\n");
    assert_eq!(made(&all_crlf, "a\nb\n"), "a\nc\nd\n", "the patch was mailed");
    let error = unfit(exact, "a\nb\n").to_string();
    assert!(error.contains("only in its line endings (CRLF and LF)"), "{error}");
}

#[test]
fn lines_that_moved_are_found_if_there_is_one_place() {
    let patch = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -4,2 +4,2 @@\n d\n-e\n+E\n";
    let text = "a\nb\nc\nd\ne\n";
    assert_eq!(made(patch, text), "a\nB\nc\nd\nE\n");
    assert_eq!(made(patch, &format!("1\n2\n3\n{text}")), "1\n2\n3\na\nB\nc\nd\nE\n");
    // The second hunk's lines occur twice, and the first hunk's offset decides between them.
    assert_eq!(made(patch, &format!("1\n{text}d\ne\n")), "1\na\nB\nc\nd\nE\nd\ne\n");
    let error = unfit(patch, "1\na\nb\na\nb\n");
    assert_eq!(
        error.to_string(),
        "line 3 of the patch: the old lines of this hunk are in the file 2 times, at lines 2, 4: \
         give more context, or correct line numbers"
    );
    let error = unfit(patch, "d\ne\na\nb\n");
    assert_eq!(
        error.to_string(),
        "line 7 of the patch: the old lines of this hunk are in the file only at line 1, before the \
         end of the hunk before: hunks go from top to bottom and do not overlap"
    );
}

#[test]
fn what_does_not_fit_is_answered_with_the_nearest_lines() {
    let patch = "--- f\n+++ f\n@@ -1,3 +1,3 @@\n fn f() {\n-    old();\n+    new();\n }\n";
    let error = unfit(patch, "use x;\n\nfn f() {\n    other();\n}\n");
    assert_eq!(
        error.to_string(),
        "line 3 of the patch: the old lines of this hunk are not in the file; nearest, at line 3:\n    \
         fn f() {\n        other();\n    }; expected\n    fn f() {\n        old();\n    }"
    );
    let error = unfit(patch, "fn f() {\n\told();\n}\n").to_string();
    assert!(error.contains("it differs only in tabs and spaces; nearest, at line 1:"), "{error}");
    let error = unfit(patch, "").to_string();
    assert!(error.contains("nothing in the file looks like it; expected\n    fn f() {"), "{error}");
    let error = unfit("--- f\n+++ f\n@@ -9,0 +10 @@\n+x\n", "a\n").to_string();
    assert_eq!(error, "line 3 of the patch: the hunk is at line 9, but the file has 1 lines");
    let delete = "--- f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
    let error = unfit(delete, "a\nb\n").to_string();
    assert_eq!(
        error,
        "line 1 of the patch: the deletion would leave 2 bytes of the file: the patch does not \
         contain all of it"
    );
}

/// Patches that are refused when they are parsed: the line, and a part of the message.
const REFUSED: &[(&str, usize, &str)] = &[
    ("", 1, "this is not a patch: expected a unified diff"),
    ("hello\n", 1, "this is not a patch"),
    ("@@ -1 +1 @@\n-a\n+b\n", 1, "expected `--- a/FILE` and `+++ b/FILE` before the first hunk"),
    ("--- f\n+++ f\n", 1, "the patch changes nothing in `f`"),
    ("--- f\n+++ g\n@@ -1 +1 @@\n-a\n+b\n", 1, "the names `f` and `g` differ"),
    ("--- /dev/null\n+++ /dev/null\n", 2, "one of two may be /dev/null"),
    ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", 1, "the path `../x` has a `..`"),
    ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", 1, "`/etc/passwd` is absolute"),
    ("--- a//etc/passwd\n+++ b//etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", 1, "`/etc/passwd` is absolute"),
    ("--- a/x\0y\n+++ b/x\0y\n@@ -1 +1 @@\n-a\n+b\n", 1, "has a NUL"),
    ("--- \"a/\\000\"\n+++ \"b/\\000\"\n@@ -1 +1 @@\n-a\n+b\n", 1, "has a NUL"),
    ("--- a/\n+++ b/\n@@ -1 +1 @@\n-a\n+b\n", 1, "the path `` is empty"),
    ("--- a/.\n+++ b/.\n@@ -1 +1 @@\n-a\n+b\n", 1, "the path `.` is empty"),
    ("--- a/d/\n+++ b/d/\n@@ -1 +1 @@\n-a\n+b\n", 1, "names a directory"),
    ("--- \"a/\\q\"\n+++ \"b/\\q\"\n", 1, "a path between quotes, with git's escapes"),
    (
        "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n--- f\n+++ f\n@@ -1 +1 @@\n-b\n+c\n",
        6,
        "`f` is already in the patch at line 1",
    ),
    (
        "--- f\n+++ f\n@@ -1,99999999999 +1 @@\n-a\n+b\n",
        3,
        "expected `@@ -LINE,COUNT +LINE,COUNT @@`",
    ),
    ("--- f\n+++ f\n@@ -0 +1 @@\n-a\n+b\n", 3, "expected `@@ -LINE,COUNT +LINE,COUNT @@`"),
    ("--- f\n+++ f\n@@ -1,0 +1,0 @@\n", 3, "expected `@@ -LINE,COUNT +LINE,COUNT @@`"),
    ("--- f\n+++ f\n@@ -+1 +1 @@\n-a\n+b\n", 3, "expected `@@ -LINE,COUNT +LINE,COUNT @@`"),
    ("--- f\n+++ f\n@@\n-a\n+b\n", 3, "expected `@@ -LINE,COUNT +LINE,COUNT @@`, found `@@`"),
    (
        "--- f\n+++ f\n@@ -1,4000000000 +1 @@\n-a\n+b\n",
        3,
        "says 4000000000 old and 1 new lines, its body has 1 and 1",
    ),
    (
        "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n c\n",
        3,
        "says 1 old and 1 new lines, its body has 2 and 2",
    ),
    (
        "--- f\n+++ f\n@@ -1,3 +1,3 @@\n-a\n+b\n",
        3,
        "says 3 old and 3 new lines, its body has 1 and 1",
    ),
    ("--- f\n+++ f\n@@ -1 +1 @@\n+a\n+b\n", 3, "says 1 old and 1 new lines, its body has 0 and 2"),
    (
        "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n\n c\n",
        7,
        "expected another hunk (`@@ `), another file or the end",
    ),
    ("--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n-- \n c\n", 3, "its body has 3 and 2"),
    (
        "--- f\n+++ f\n@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n",
        4,
        "expected a line of the hunk",
    ),
    (
        "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n\\ No newline at end of file\n-b\n+c\n+d\n",
        6,
        "no line after the one without a newline",
    ),
    (
        "--- /dev/null\n+++ b/f\n@@ -1 +1,2 @@\n a\n+b\n",
        3,
        "only `+` lines for a new file, found `a`",
    ),
    ("diff --git a/f b/f\nGIT binary patch\nliteral 1\n", 2, "binary patches are not supported"),
    (
        "diff --git a/f b/f\nindex 1..2 100644\nBinary files a/f and b/f differ\n",
        3,
        "binary patches are not supported",
    ),
    ("Binary files a/f and b/f differ\n", 1, "binary patches are not supported"),
    (
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n",
        2,
        "mode 120000 is not supported",
    ),
    (
        "diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-a\n+b\n",
        2,
        "mode 120000 is not supported",
    ),
    (
        "diff --git a/m b/m\nindex 1..2 160000\n--- a/m\n+++ b/m\n@@ -1 +1 @@\n-a\n+b\n",
        2,
        "mode 160000 is not supported",
    ),
    ("diff --git a/f b/f\nold mode 100644\nnew mode 104755\n", 3, "mode 104755 is not supported"),
    ("diff --git a/f b/f\ndeleted file mode 120000\n", 2, "mode 120000 is not supported"),
    ("diff --git a/f b/f\nold mode 100644\n", 1, "expected both `old mode` and `new mode`"),
    ("diff --git a/f b/f\nold mode 100644\nold mode 100644\n", 3, "this line only once"),
    ("diff --git a/f b/f\nindex 1..2 100644\n", 1, "the patch changes nothing in `f`"),
    ("diff --git a/f b/g\n", 1, "expected `diff --git a/FILE b/FILE`, both of one file"),
    (
        "diff --git a/f b/f\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        1,
        "the names `f` and `g` differ",
    ),
    ("diff --git a/f b/g\nrename from f\n", 1, "expected one of new, deleted, renamed"),
    (
        "diff --git a/f b/g\nrename from f\nrename to g\nnew file mode 100644\n",
        1,
        "expected one of new, deleted",
    ),
    ("diff --git a/f b/g\nrename from f\nrename to ../g\n", 3, "the path `../g` has a `..`"),
    ("diff --git a/f b/g\nrename from f\nrename to /g\n", 3, "is absolute"),
    (
        "diff --git a/f b/f\nrename from f\nrename to f\n",
        1,
        "`f` is already in the patch at line 1",
    ),
    ("diff --git a/f b/f\ncopy from f\ncopy to f\n", 1, "`f` is already in the patch at line 1"),
    (
        "diff --git a/f b/g\nrename from f\nrename to g\n--- a/x\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        1,
        "the names `a/x` and `b/g` differ",
    ),
    (
        "diff --git a/f b/f\nnew file mode 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        1,
        "`--- /dev/null` and `+++ b/FILE` for a new file",
    ),
    (
        "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        1,
        "`+++ /dev/null` for a deletion",
    ),
    (
        "diff --git a/a b/b\nrename from a\nrename to b\ndiff --git a/b b/a\nrename from b\nrename to a\n",
        4,
        "already in the patch at line 1",
    ),
];

#[test]
fn what_is_refused_says_where_and_why() {
    for (patch, line, part) in REFUSED {
        let error = parse(patch.as_bytes()).expect_err(patch);
        assert_eq!(error.line, *line, "{error}\n{patch}");
        assert!(error.to_string().contains(part), "{error}\n{patch}");
    }
}

#[test]
fn a_patch_has_bounds() {
    let error = parse(&vec![b'a'; MAX_PATCH + 1]).unwrap_err();
    assert_eq!(error.to_string(), "line 1 of the patch: more than 8388608 bytes");
    let files = |count: usize| -> String {
        (0..count).map(|n| format!("--- f{n}\n+++ f{n}\n@@ -1 +1 @@\n-a\n+b\n")).collect()
    };
    assert_eq!(read(&files(MAX_FILES)).files.len(), MAX_FILES);
    let error = parse(files(MAX_FILES + 1).as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "line 50001 of the patch: more than 10000 files");
    let long = "p".repeat(4097);
    let error = parse(format!("--- {long}\n+++ {long}\n@@ -1 +1 @@\n-a\n+b\n").as_bytes());
    assert!(error.unwrap_err().to_string().contains("is longer than 4096 bytes"));
}

#[test]
fn a_diff_is_written_cut_and_marked() {
    let diff = unified(b"a\nb\n", b"a\nc", "a/f", "b/f", 1000);
    assert_eq!(
        diff.text,
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
    );
    assert!(diff.complete);
    assert_eq!(unified(b"same", b"same", "a", "b", 10).text, "");
    let new = unified(b"", b"x\n", "/dev/null", "b/f", 1000);
    assert_eq!(new.text, "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n");
    for bytes in [b"\xff\n".as_slice(), b"a\0b"] {
        let diff = unified(b"x", bytes, "a/f", "b/f", 1000);
        assert_eq!(
            (diff.text.as_str(), diff.complete),
            ("Binary files a/f and b/f differ\n", false)
        );
    }
    let long = "äöü\n".repeat(1000);
    let diff = unified(b"", long.as_bytes(), "/dev/null", "b/f", 101);
    assert!(!diff.complete && diff.text.len() <= 101 && diff.text.len() > 96, "{}", diff.text);
    let odd = unified(b"a\n", b"b\n", "a/x\n--- y\"", "b/x\n--- y\"", 1000);
    assert!(odd.text.starts_with("--- \"a/x\\012--- y\\\"\"\n+++ "), "{}", odd.text);
    assert_eq!(read(&odd.text).files[0].path(), b"x\n--- y\"");
}
