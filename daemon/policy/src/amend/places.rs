//! Finds the lists and sections in a profile's text, and makes the edits to them. Pure: no I/O.

use super::addition::Addition;
use std::ops::Range;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// An edit: a range of the text, and its replacement.
pub(super) type Edit = (Range<usize>, String);

/// Returns the value of a key in a section.
pub(super) fn value<'a>(
    table: &'a DeTable<'a>,
    section: &str,
    name: &str,
) -> Option<&'a Spanned<DeValue<'a>>> {
    let named = |table: &'a DeTable<'a>, wanted: &str| {
        table.iter().find(|(name, _)| name.get_ref() == wanted).map(|(_, value)| value)
    };
    match named(table, section)?.get_ref() {
        DeValue::Table(inner) => named(inner, name),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => None,
    }
}

/// Makes the edits that append entries to a list, and remove entries that an addition covers.
pub(super) fn list(
    text: &str,
    key: &str,
    place: &Spanned<DeValue<'_>>,
    group: &[&Addition],
    all: &[Addition],
) -> Result<Vec<Edit>, String> {
    let DeValue::Array(elements) = place.get_ref() else {
        return Err(format!("{key} is not a list"));
    };
    let close = place.span().end.saturating_sub(1);
    let mut edits = Vec::new();
    let mut last = None;
    for element in elements {
        let Range { start, end } = element.span();
        let entry = element.get_ref().as_str().unwrap_or_default();
        if all.iter().any(|one| one.covers(key, entry)) {
            edits.push((start..comma(text, end, close).unwrap_or(end), String::new()));
        } else {
            last = Some(end);
        }
    }
    if group.is_empty() {
        return Ok(edits);
    }
    let before = text.get(..close).unwrap_or_default();
    let bare = before.trim_end().len();
    let lacks = last.filter(|end| comma(text, *end, close).is_none());
    let mut more = String::new();
    match lacks {
        Some(end) if end == bare => more.push(','),
        Some(end) => edits.push((end..end, ",".to_owned())),
        None => {}
    }
    for addition in group {
        more += &format!("\n    {}", addition.line());
    }
    edits.push((bare..close, more + "\n"));
    Ok(edits)
}

/// Returns the end of the comma that follows an element, skipping comments.
fn comma(text: &str, from: usize, close: usize) -> Option<usize> {
    let mut comment = false;
    for (at, c) in text.get(from..close)?.char_indices() {
        match c {
            '#' => comment = true,
            '\n' => comment = false,
            ',' if !comment => return Some(from + at + 1),
            c if comment || c.is_whitespace() => {}
            _ => return None,
        }
    }
    None
}

/// Returns the start of the line after a section's header.
pub(super) fn header(text: &str, section: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let bare = line.split('#').next().unwrap_or_default().trim();
        if bare == format!("[{section}]") {
            return line.ends_with('\n').then_some(at);
        }
    }
    None
}
