//! A unified diff of a text file that would be written or deleted, bounded in size and time.
//! Broker, pure.

use super::visible;
use similar::{Algorithm, TextDiff};
use std::time::Duration;

/// The most bytes of a diff that are shown.
const MOST: usize = 32 * 1024;
/// How long it may take; then larger changes are shown than there are.
const TIME: Duration = Duration::from_millis(50);

/// A diff, and whether it was cut.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Diff {
    pub(crate) text: String,
    pub(crate) cut: bool,
}

/// The diff between two texts; none if one of them is not text.
pub(crate) fn unified(name: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> Option<Diff> {
    let text = |bytes: Option<&[u8]>| -> Option<String> {
        let text = std::str::from_utf8(bytes.unwrap_or_default()).ok()?;
        (!text.contains('\0')).then(|| text.to_owned())
    };
    let (before, after) = (text(old)?, text(new)?);
    let name = visible::line(&String::from_utf8_lossy(name));
    let side = |bytes: Option<&[u8]>| bytes.map_or("/dev/null", |_| name.as_str());
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(TIME)
        .diff_lines(before.as_str(), after.as_str());
    let written = diff.unified_diff().context_radius(3).header(side(old), side(new)).to_string();
    let mut shown = visible::lines(&written);
    let cut = shown.len() > MOST;
    if cut {
        shown.truncate(shown.floor_char_boundary(MOST));
    }
    Some(Diff { text: shown, cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_a_new_file_and_a_deletion() {
        let diff = unified(b"/w/f", Some(b"a\nb\n"), Some(b"a\nc\n")).unwrap();
        assert_eq!(diff.text, "--- /w/f\n+++ /w/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        let new = unified(b"/w/f", None, Some(b"x\n")).unwrap();
        assert!(new.text.starts_with("--- /dev/null\n+++ /w/f\n"), "{}", new.text);
        let gone = unified(b"/w/f", Some(b"x\n"), None).unwrap();
        assert!(gone.text.ends_with("-x\n"), "{}", gone.text);
    }

    #[test]
    fn what_is_not_text_has_no_diff_and_what_is_long_is_cut() {
        assert_eq!(unified(b"f", Some(b"\xff"), Some(b"x")), None);
        assert_eq!(unified(b"f", Some(b"a\0"), None), None);
        let long = "line\n".repeat(20_000);
        let diff = unified(b"f", None, Some(long.as_bytes())).unwrap();
        assert!(diff.cut && diff.text.len() <= MOST);
        let hidden = unified(b"f", None, Some("a\u{202e}b\n".as_bytes())).unwrap();
        assert!(hidden.text.contains("+a\\u{202e}b\n"), "{}", hidden.text);
    }

    #[test]
    fn hostile_text_takes_its_time_and_no_more() {
        let old: String = (0..9_000).map(|n| format!("{}\n", n * 7 % 9_000)).collect();
        let new: String = (0..9_000).map(|n| format!("{}\n", n * 11 % 9_000)).collect();
        assert!(unified(b"f", Some(old.as_bytes()), Some(new.as_bytes())).is_some());
    }
}
