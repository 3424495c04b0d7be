//! Properties that hold for any text. A diff, once applied, gives the new text in every format.
//! Hostile bytes end in an error. A million hunks take bounded time.

use palisade_edits::{
    Destination, Edit, FilePatch, MAX_HUNKS, MAX_PATCH, Mode, Patch, Problem, ReplaceCount, edit,
    parse, unified,
};
use proptest::prelude::*;

/// Generates lines of few kinds, so that they repeat; the last may have no newline.
fn text() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "a",
        "b",
        "",
        " c",
        "-d",
        "+e",
        "--- f",
        "+++ g",
        "@@ -1 +1 @@",
        "\\ h",
        "\tä",
        "k\r",
        "*** End Patch",
    ]);
    (prop::collection::vec(line, 0..30), any::<bool>(), any::<bool>()).prop_map(
        |(lines, newline, crlf)| {
            let end = if crlf { "\r\n" } else { "\n" };
            let mut text = lines.join(end);
            if newline && !lines.is_empty() {
                text.push_str(end);
            }
            text
        },
    )
}

/// Generates a text, and a second one with some of its lines changed.
fn pair() -> impl Strategy<Value = (String, String)> {
    let change =
        (text(), prop::collection::vec((0_usize..30, 0_u8..3), 0..6)).prop_map(|(old, changes)| {
            let mut lines: Vec<String> = old.split_inclusive('\n').map(str::to_owned).collect();
            for (at, kind) in changes {
                let at = at.min(lines.len());
                match kind {
                    0 if at < lines.len() => drop(lines.remove(at)),
                    1 if at < lines.len() => lines[at].insert(0, 'x'),
                    _ if at == lines.len() && lines.last().is_some_and(|l| !l.ends_with('\n')) => {}
                    _ => lines.insert(at, "new\n".to_owned()),
                }
            }
            (old, lines.concat())
        });
    prop_oneof![change, (text(), text())]
}

fn only(patch: &Patch) -> &FilePatch {
    match patch.files.as_slice() {
        [file] => file,
        files => panic!("{} files", files.len()),
    }
}

/// Makes a `*** Begin Patch` that deletes all old lines and adds all new ones.
fn begin_patch(old: &str, new: &str) -> String {
    let mut patch = "*** Begin Patch\n*** Update File: f\n@@\n".to_owned();
    for (mark, text) in [('-', old), ('+', new)] {
        for line in text.split_inclusive('\n') {
            patch.push(mark);
            patch.push_str(line.strip_suffix('\n').unwrap_or(line));
            patch.push('\n');
        }
    }
    patch.push_str("*** End of File\n*** End Patch\n");
    patch
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_diff_applied_is_the_new_text((old, new) in pair()) {
        let diff = unified(old.as_bytes(), new.as_bytes(), "a/f", "b/f", usize::MAX);
        prop_assert!(diff.complete);
        if old == new {
            prop_assert_eq!(diff.text, "");
            return Ok(());
        }
        let patch = parse(diff.text.as_bytes()).unwrap();
        let file = only(&patch);
        prop_assert_eq!(file.path(), b"f");
        let made = file.apply(old.as_bytes()).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(String::from_utf8_lossy(&made), new.as_str(), "{}", diff.text);
    }

    #[test]
    fn lines_that_moved_are_found_or_refused((old, new) in pair(), head in "(z[0-9]\n){0,5}") {
        let diff = unified(old.as_bytes(), new.as_bytes(), "a/f", "b/f", usize::MAX);
        prop_assume!(old != new && !old.is_empty());
        let shifted = format!("{head}{old}");
        let patch = parse(diff.text.as_bytes()).unwrap();
        match only(&patch).apply(shifted.as_bytes()) {
            Ok(made) => {
                // Every new line is there, and none of the head was lost.
                let (made, wanted) = (made.len(), head.len() + new.len());
                prop_assert!(made.abs_diff(wanted) <= new.len(), "{made} {wanted}");
            }
            Err(error) => prop_assert!(
                matches!(
                    error.problem,
                    Problem::Ambiguous { .. } | Problem::NoMatch { .. } | Problem::Order { .. }
                ),
                "{error}"
            ),
        }
    }

    #[test]
    fn a_git_diff_with_a_rename_and_a_mode((old, new) in pair()) {
        let diff = unified(old.as_bytes(), new.as_bytes(), "a/f", "b/g h", usize::MAX);
        prop_assume!(old != new);
        let head = "diff --git a/f b/g h\nold mode 100644\nnew mode 100755\nsimilarity index 50%\n\
                    rename from f\nrename to g h\nindex 1234567..89abcde\n";
        let patch = parse(format!("{head}{}", diff.text).as_bytes()).unwrap();
        let FilePatch::Update { path, to, mode, .. } = only(&patch) else { panic!("{patch:?}") };
        prop_assert_eq!(path, b"f");
        prop_assert_eq!(to, &Some(Destination::Move(b"g h".to_vec())));
        prop_assert_eq!(mode, &Some(Mode::Executable));
        prop_assert_eq!(only(&patch).apply(old.as_bytes()).unwrap(), new.as_bytes());
    }

    #[test]
    fn a_new_and_a_deleted_file(content in text()) {
        prop_assume!(!content.is_empty());
        let add = unified(b"", content.as_bytes(), "/dev/null", "b/f", usize::MAX);
        let patch = parse(add.text.as_bytes()).unwrap();
        let is_new = matches!(only(&patch), FilePatch::Add { .. });
        prop_assert!(is_new);
        prop_assert_eq!(only(&patch).apply(b"").unwrap(), content.as_bytes());
        let delete = unified(content.as_bytes(), b"", "a/f", "/dev/null", usize::MAX);
        let patch = parse(delete.text.as_bytes()).unwrap();
        let goes = matches!(only(&patch), FilePatch::Delete { .. });
        prop_assert!(goes);
        prop_assert_eq!(only(&patch).apply(content.as_bytes()).unwrap(), b"");
        let more = format!("{content}\nmore");
        prop_assert!(only(&patch).apply(more.as_bytes()).is_err());
    }

    #[test]
    fn begin_patch_applied_is_the_new_text((old, new) in pair()) {
        let (old, new) = (old.replace('\r', ""), new.replace('\r', ""));
        prop_assume!(!old.is_empty() && !new.is_empty());
        let patch = parse(begin_patch(&old, &new).as_bytes()).unwrap();
        let made = only(&patch).apply(old.as_bytes()).unwrap();
        // The format can not say whether there is a newline at the end, so it stays as it was.
        let bare = new.strip_suffix('\n').unwrap_or(&new);
        let expected = if old.ends_with('\n') { format!("{bare}\n") } else { bare.to_owned() };
        prop_assert_eq!(String::from_utf8(made).unwrap(), expected.as_str());
        if old.contains('\n') {
            let made = only(&patch).apply(old.replace('\n', "\r\n").as_bytes()).unwrap();
            prop_assert_eq!(String::from_utf8(made).unwrap(), expected.replace('\n', "\r\n"));
        }
    }

    #[test]
    fn an_edit_and_its_reverse(before in "[ab\n]{0,20}", old in "[ab\n]{1,6}", after in "[ab\n]{0,20}") {
        let text = format!("{before}{old}{after}");
        let made = |text: &str, old: &str, new: &str| {
            let (old, new) = (old.as_bytes().to_vec(), new.as_bytes().to_vec());
            let edits = [Edit { old, new, every: ReplaceCount::Once }];
            edit(text.as_bytes(), &edits).map(|edited| edited.text)
        };
        match made(&text, &old, "X") {
            Ok(changed) => {
                let changed = String::from_utf8(changed).unwrap();
                prop_assert_eq!(&changed, &format!("{before}X{after}"));
                prop_assert_eq!(made(&changed, "X", &old).unwrap(), text.as_bytes());
            }
            Err(error) => prop_assert!(error.to_string().contains(" times, at line"), "{error}"),
        }
    }

    #[test]
    fn any_bytes_end_in_a_result(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(parse(&bytes).is_err());
        let edits = [Edit { old: bytes.clone(), new: b"x".to_vec(), every: ReplaceCount::All }];
        assert!(edit(b"some\ntext\r\n", &edits).is_err() || bytes.len() <= 11);
        let diff = unified(&bytes, b"x", "a", "b", 100);
        prop_assert!(diff.text.len() <= 100);
    }

    #[test]
    fn any_lines_of_a_patch_end_in_a_result(
        lines in prop::collection::vec(prop::sample::select(vec![
            "diff --git a/f b/f", "--- a/f", "+++ b/f", "--- /dev/null", "@@ -1,2 +1 @@", "@@ -1 +1 @@",
            "@@", "@@ b", "-a", "+b", " a", "", "\\ No newline at end of file", "rename from f",
            "rename to g", "old mode 100644", "new mode 100755", "new file mode 100644",
            "*** Begin Patch", "*** End Patch", "*** Update File: f", "*** Add File: g",
            "*** Delete File: h", "*** Move to: i", "*** End of File", "-- ", "2.1", "index 1..2 100644",
        ]), 0..20),
        begin in any::<bool>(),
    ) {
        let mut text = lines.join("\n");
        if begin {
            text = format!("*** Begin Patch\n{text}\n*** End Patch\n");
        }
        if let Ok(patch) = parse(text.as_bytes()) {
            for file in &patch.files {
                for old in ["", "a\nb\na\n", "a", "a\r\na\r\n"] {
                    drop(file.apply(old.as_bytes()));
                }
            }
        }
    }
}

#[test]
fn a_million_hunks_are_applied_and_more_are_refused() {
    let mut patch = "--- a/f\n+++ b/f\n".to_owned();
    let mut old = String::new();
    let mut count = 0;
    while patch.len() < MAX_PATCH - 40 {
        count += 1;
        patch.push_str(&format!("@@ -{count} +{count} @@\n-a\n+b\n"));
        old.push_str("a\n");
    }
    assert!(count > 300_000, "{count}");
    let parsed = parse(patch.as_bytes()).unwrap();
    assert_eq!(only(&parsed).apply(old.as_bytes()).unwrap(), "b\n".repeat(count).into_bytes());
    // All line numbers are wrong, so every hunk must be searched for, and the first has many
    // places.
    let error = only(&parsed).apply(format!("x\n{}", &old[2..]).as_bytes()).unwrap_err();
    assert!(matches!(error.problem, Problem::Ambiguous { .. }), "{error}");

    // A million hunks in the shortest form: each deletes a line that occurs once, and must be
    // searched for.
    let mut patch = b"*** Begin Patch\n*** Update File: f\n".to_vec();
    let mut old = Vec::new();
    for number in 0..MAX_HUNKS {
        let byte = |part: usize| b'0' + u8::try_from(part % 100).unwrap();
        let line = [byte(number / 10_000), byte(number / 100), byte(number), b'\n'];
        patch.extend_from_slice(b"@@\n-");
        patch.extend_from_slice(&line);
        old.extend_from_slice(&line);
    }
    patch.extend_from_slice(b"*** End Patch\n");
    old.extend_from_slice(b"rest\n");
    assert!(patch.len() < MAX_PATCH, "{}", patch.len());
    assert_eq!(only(&parse(&patch).unwrap()).apply(&old).unwrap(), b"rest\n");

    let many = "@@\n-a\n".repeat(MAX_HUNKS + 1);
    let patch = format!("*** Begin Patch\n*** Update File: f\n{many}*** End Patch\n");
    assert!(patch.len() < MAX_PATCH, "{}", patch.len());
    let error = parse(patch.as_bytes()).unwrap_err();
    assert_eq!(error.problem, Problem::TooMuch { most: MAX_HUNKS, what: "hunks" });
}

#[test]
fn hunks_that_would_be_looked_for_without_end_are_given_up() {
    // Each anchor is only the start of a line, so every line is read for each.
    let chunk = "@@ unique\n@@ b\n-b\n+c\n";
    let patch =
        format!("*** Begin Patch\n*** Update File: f\n{}*** End Patch\n", chunk.repeat(10_000));
    let old = format!("uniqueness\n{}", "bb\nb\n".repeat(20_000));
    let error = only(&parse(patch.as_bytes()).unwrap()).apply(old.as_bytes()).unwrap_err();
    assert!(matches!(error.problem, Problem::NoAnchor { .. } | Problem::Work), "{error}");
    // This repeats as much as possible: the long context matches nearly everywhere.
    let hunk = format!("@@ -1,2001 +1,2001 @@\n{}-b\n+c\n", " a\n".repeat(2000));
    let patch = format!("--- f\n+++ f\n{}", hunk.repeat(600));
    let old = format!("{}b\n", "a\n".repeat(200_000));
    let error = only(&parse(patch.as_bytes()).unwrap()).apply(old.as_bytes()).unwrap_err();
    assert!(matches!(error.problem, Problem::NoMatch { .. } | Problem::Order { .. }), "{error}");
}

#[test]
fn large_diffs_are_made_and_read_back() {
    let old: String = (0..60_000).map(|n| format!("{}\n", n * 7 % 59_999)).collect();
    let new: String = (0..60_000).map(|n| format!("{}\n", n * 11 % 59_999)).collect();
    let near: String = old.replace("\n77", "\nseventy-seven\n");
    for new in [new, near] {
        let diff = unified(old.as_bytes(), new.as_bytes(), "a/f", "b/f", usize::MAX);
        assert!(diff.complete);
        let patch = parse(diff.text.as_bytes()).unwrap();
        assert_eq!(only(&patch).apply(old.as_bytes()).unwrap(), new.as_bytes());
    }
}
