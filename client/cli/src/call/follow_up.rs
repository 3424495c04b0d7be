//! Follow-up commands for a call that has ended: undo it, or ask why it was denied.

use super::id::short;
use crate::{
    exit,
    paint::{Paint, Style},
    print,
    receipt::Detail,
};
use palisade_client::CallResult;
use std::io::IsTerminal as _;

/// Prints how to undo a call, or how to learn why it was denied. Only if standard error is a
/// terminal, or with `--verbose`.
pub(crate) fn print(result: &CallResult, detail: Detail, paint: Paint) {
    if is_shown(detail) {
        lines(result, paint).iter().for_each(|line| print::note(line));
    }
}

/// Returns `true` if whoever reads standard error can use follow-up commands.
pub(crate) fn is_shown(detail: Detail) -> bool {
    detail == Detail::Full || std::io::stderr().is_terminal()
}

fn lines(result: &CallResult, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(id) = &result.undo {
        let label = paint.apply(Style::Hint, "undo:");
        lines.push(format!("{label} palisade undo {}", short(id)));
    }
    if exit::is_denied(result) {
        let label = paint.apply(Style::Hint, "why:");
        lines.push(format!("{label} palisade why {}", short(result.call_id.as_str())));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_client::{ErrorCode, WireError};

    #[test]
    fn only_what_was_changed_or_denied_is_followed_up() {
        let mut result = crate::exit::tests::result();
        assert!(lines(&result, Paint::Plain).is_empty());
        result.undo = Some("01990f3e-71d2-7a3e-8b11-0c5d2a9e4f60".to_owned());
        assert_eq!(lines(&result, Paint::Plain), ["undo: palisade undo 01990f3e-71d2-7a3e"]);
        result.undo = None;
        result.error = Some(WireError::new(ErrorCode::CommandFailed, "status 1", ""));
        assert!(lines(&result, Paint::Plain).is_empty());
        result.error = Some(WireError::new(ErrorCode::Denied, "no", ""));
        assert_eq!(lines(&result, Paint::Plain), ["why: palisade why c1"]);
    }
}
