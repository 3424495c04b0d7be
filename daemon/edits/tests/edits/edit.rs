//! Tests `edit`: each way in which it succeeds and fails, with the messages.

use palisade_edits::{Cause, Edit, EditError, MAX_TEXT, ReplaceCount, edit};

fn one(old: &str, new: &str) -> Edit {
    Edit { old: old.into(), new: new.into(), every: ReplaceCount::Once }
}

fn all(old: &str, new: &str) -> Edit {
    Edit { old: old.into(), new: new.into(), every: ReplaceCount::All }
}

fn made(text: &str, edits: &[Edit]) -> String {
    String::from_utf8(edit(text.as_bytes(), edits).unwrap().text).unwrap()
}

fn refused(text: &str, edits: &[Edit]) -> EditError {
    edit(text.as_bytes(), edits).unwrap_err()
}

#[test]
fn what_is_there_once_is_replaced() {
    assert_eq!(made("a\nb\nc\n", &[one("b", "B")]), "a\nB\nc\n");
    assert_eq!(made("a\nb", &[one("b", "c")]), "a\nc", "no newline comes");
    assert_eq!(made("a\nb\n", &[one("a\nb\n", "")]), "", "everything may go");
    assert_eq!(made("", &[one("", "new\n")]), "new\n", "an empty file is filled");
    assert_eq!(made("x", &[one("x", "y"), one("y", "z")]), "z", "one after another");
    assert_eq!(made("aXbXc", &[all("X", "--")]), "a--b--c");
    assert_eq!(made("aaa", &[all("aa", "b")]), "ba", "from the start, without overlaps");
    assert_eq!(edit(b"\xff\0x", &[one("x", "y")]).unwrap().text, b"\xff\0y", "any bytes");
}

#[test]
fn crlf_is_matched_and_written() {
    assert_eq!(made("a\r\nb\r\n", &[one("a\nb\n", "x\ny\nz\n")]), "x\r\ny\r\nz\r\n");
    assert_eq!(made("a\r\nb", &[one("b", "c\nd")]), "a\r\nc\r\nd");
    assert_eq!(made("a\r\nb\r\n", &[one("a\r\n", "a\n")]), "a\nb\r\n", "said, and so meant");
    assert_eq!(made("a\r\nb\n", &[one("b\n", "c\n")]), "a\r\nc\n", "mixed stays mixed");
    let same = refused("a\r\n", &[one("a\n", "a\r\n")]);
    assert_eq!(same, EditError::Same { edit: 1 });
}

#[test]
fn what_can_not_be_meant_is_refused() {
    assert_eq!(refused("a", &[]), EditError::Empty);
    assert_eq!(refused("a", &[one("a", "b"), one("c", "c")]), EditError::Same { edit: 2 });
    assert_eq!(refused("a", &[one("", "b")]), EditError::EmptyOld { edit: 1 });
    assert_eq!(refused("", &[one("", "")]), EditError::Same { edit: 1 });
    let large = refused(&"a".repeat(1000), &[all("a", &"b".repeat(MAX_TEXT / 1000 + 1))]);
    let size = (MAX_TEXT / 1000 + 1) * 1000;
    assert_eq!(large, EditError::TooLarge { edit: 1, size, most: MAX_TEXT });
}

#[test]
fn what_is_there_often_is_counted_and_placed() {
    let error = refused("x\na\nx\n  x x\n", &[one("x", "y")]);
    assert_eq!(
        error.to_string(),
        "edit 1: the old text is in the file 4 times, at lines 1, 3, 4: give more of the lines \
         around it, or replace all"
    );
    let error = refused(&"x\n".repeat(50), &[one("x", "y")]).to_string();
    assert!(
        error.contains("50 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 40 more"),
        "{error}"
    );
    let error = refused("aaa", &[one("aa", "b")]).to_string();
    assert!(error.contains("2 times, at line 1:"), "overlaps count: {error}");
}

/// Returns the cause, and the nearest line with its text.
fn nearest(text: &str, old: &str) -> (Option<Cause>, usize, String) {
    let error = refused(text, &[one(old, "new")]);
    let EditError::NoMatch { edit: 1, cause, near: Some(near) } = error else { panic!("{error}") };
    (cause, near.line, near.text)
}

#[test]
fn what_is_not_there_is_answered_with_the_nearest_lines() {
    let code = "fn one() {\n    let a = 1;\n}\n\nfn two() {\n\tlet b = 2;  \n\treturn b;\n}\n";
    let table = [
        (
            "fn one() {\n  let a = 1;\n}\n",
            Some(Cause::Indentation),
            1,
            "    fn one() {\n        let a = 1;\n    }",
        ),
        (
            "    let b = 2;  \n    return b;",
            Some(Cause::Tabs),
            6,
            "    \tlet b = 2;  \n    \treturn b;",
        ),
        (
            "\tlet b = 2;\n\treturn b;\n",
            Some(Cause::TrailingSpace),
            6,
            "    \tlet b = 2;  \n    \treturn b;",
        ),
        (
            "fn one()\n{\n    let a = 1;",
            Some(Cause::Whitespace),
            1,
            "    fn one() {\n        let a = 1;\n    }",
        ),
        (
            "fn one() {\r\n    let a = 1;\r\n}",
            Some(Cause::LineEndings),
            1,
            "    fn one() {\n        let a = 1;\n    }",
        ),
        ("FN ONE() {", Some(Cause::Case), 1, "    fn one() {"),
        (
            "fn two() {\n\tlet b = 3;\n\treturn b;\n}",
            None,
            5,
            "    fn two() {\n    \tlet b = 2;  \n    \treturn b;\n    }",
        ),
        ("    let a = 11;", None, 2, "        let a = 1;"),
    ];
    for (old, cause, line, text) in table {
        assert_eq!(nearest(code, old), (cause, line, text.to_owned()), "{old:?}");
    }
    let error = refused(code, &[one("something else entirely", "new")]);
    assert_eq!(
        error.to_string(),
        "edit 1: the old text is not in the file; nothing in the file looks like it"
    );
    let error = refused("\ta\n", &[one("    a\n", "b")]).to_string();
    assert_eq!(
        error,
        "edit 1: the old text is not in the file: it differs only in tabs and spaces; nearest, at \
         line 1:\n    \ta"
    );
}

#[test]
fn what_is_shown_is_bounded_and_harmless() {
    let long = format!("{}\n", "word ".repeat(10_000));
    let (_, line, text) = nearest(&long, &format!("x{long}"));
    assert_eq!((line, text.chars().count()), (1, 4 + 200 + 1));
    let many = "let x = 1;\n".repeat(5_000);
    let (_, _, text) = nearest(&many, &format!("{many}let y = 1;\n"));
    assert_eq!(text.lines().count(), 11);
    let (_, _, text) = nearest("title \u{1b}]0;x\u{7} \u{202e}end\n", "title x end\n");
    assert_eq!(text, "    title \\u{1b}]0;x\\u{7} \\u{202e}end");
}

#[test]
fn hostile_texts_take_their_time_and_no_more() {
    let text = "a".repeat(4_000_000);
    let error = refused(&text, &[one(&format!("{}b", "a".repeat(2_000_000)), "x")]);
    assert!(matches!(error, EditError::NoMatch { .. }), "{error}");
    let lines = "}\n".repeat(1_000_000);
    let error = refused(&lines, &[one(&format!("{}x", "}\n".repeat(1_000)), "x")]);
    assert!(matches!(error, EditError::NoMatch { .. }), "{error}");
}
