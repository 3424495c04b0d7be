//! Edits a profile's text so that it allows more. Entries are added to its existing lists, each
//! with a reason; or a new profile widens it by them. Pure: no I/O.

mod addition;
mod places;

use crate::Origin;
pub use addition::Addition;
use places::{Edit, header, list, value};
use toml::de::DeTable;

/// Removes additions that others cover, and duplicates.
#[must_use]
pub fn merged(additions: &[Addition]) -> Vec<Addition> {
    let same = |a: &Addition, b: &Addition| a.key == b.key && a.value == b.value;
    let mut kept: Vec<Addition> = Vec::new();
    for (number, addition) in additions.iter().enumerate() {
        let covered = additions.iter().enumerate().any(|(other, by)| {
            number != other && !same(by, addition) && by.covers(addition.key, &addition.value)
        });
        // In the host's network a private loopback is not available, so it can not be added.
        let less = addition.key == "net.mode"
            && addition.value != "ports"
            && additions.iter().any(|by| by.key == "net.mode" && by.value == "ports");
        if !covered && !less && !kept.iter().any(|one| same(one, addition)) {
            kept.push(addition.clone());
        }
    }
    kept.sort();
    kept
}

/// Returns the text of a profile that extends none, with the additions.
///
/// # Errors
/// If the text is not TOML, or its sections are written in a way that can not be edited.
pub fn amended(text: &str, additions: &[Addition]) -> Result<String, String> {
    let table = DeTable::parse(text).map_err(|error| error.to_string())?;
    let additions = merged(additions);
    let mut edits: Vec<Edit> = Vec::new();
    let mut keys: Vec<&str> = additions.iter().map(|one| one.key).collect();
    keys.extend(["fs.execute", "fs.read", "fs.write", "fs.unguarded"]);
    keys.sort_unstable();
    keys.dedup();
    let mut new: Vec<(&str, String)> = Vec::new();
    for key in keys {
        let group: Vec<&Addition> = additions.iter().filter(|one| one.key == key).collect();
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        match (value(table.get_ref(), section, name), group.first()) {
            (Some(place), Some(first)) if first.is_value() => {
                edits.push((place.span(), first.literal()));
            }
            (Some(place), _) => edits.extend(list(text, key, place, &group, &additions)?),
            (None, Some(_)) => new.push((section, lines(name, &group))),
            (None, None) => {}
        }
    }
    let mut end = String::new();
    for (section, lines) in new {
        match header(text, section) {
            Some(at) => edits.push((at..at, lines)),
            None if end.contains(&format!("[{section}]")) => end += &lines,
            None if table.get_ref().iter().any(|(name, _)| name.get_ref() == section) => {
                return Err(format!("[{section}] has no header line to add entries after"));
            }
            None => end += &format!("\n[{section}]\n{lines}"),
        }
    }
    // From the end, so that earlier positions stay valid.
    edits.sort_by_key(|(range, _)| std::cmp::Reverse((range.start, range.end)));
    let mut text = text.to_owned();
    for (range, with) in edits {
        text.replace_range(range, &with);
    }
    Ok(text + &end)
}

/// Returns the lines of a key with its entries, for a section that lacks the key.
fn lines(name: &str, group: &[&Addition]) -> String {
    match group {
        [one] if one.is_value() => format!("# {}\n{name} = {}\n", one.why, one.literal()),
        _ => {
            let each: String = group.iter().map(|one| format!("    {}\n", one.line())).collect();
            format!("{name} = [\n{each}]\n")
        }
    }
}

/// Returns the text of a profile that widens another. Only a file owned by root may contain it.
#[must_use]
pub fn widening(name: &str, observe: Option<&str>, additions: &[Addition]) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let description = quoted(&format!("What {name} allows, and what it denied."));
    let mut text = format!(
        "version = 1\ndescription = {description}\nextends = {}\n\
         # Only in a file that root alone can write.\nwiden = true\n",
        quoted(name)
    );
    if let Some(under) = observe {
        text += &format!(
            "# As in {name}; without this line the profile is enforced.\nobserve = {}\n",
            quoted(under)
        );
    }
    let additions = merged(additions);
    // A profile that extends another can only add names, not remove them.
    let (names, rest): (Vec<_>, Vec<_>) =
        additions.iter().partition(|one| matches!(one.key, "fs.hide" | "fs.protect"));
    let mut sections: Vec<&str> = rest.iter().map(|one| one.section().0).collect();
    sections.dedup();
    for section in sections {
        text += &format!("\n[{section}]\n");
        let of = rest.iter().filter(|one| one.section().0 == section);
        let mut keys: Vec<&str> = of.map(|one| one.key).collect();
        keys.dedup();
        for key in keys {
            let group: Vec<&Addition> = rest.iter().copied().filter(|one| one.key == key).collect();
            text += &lines(key.rsplit('.').next().unwrap_or(key), &group);
        }
    }
    for one in names {
        let (key, literal) = (one.key, one.literal());
        text += &format!(
            "\n# Not possible here; add {literal} to {key} of the profile that hides or protects \
             it: {}\n",
            one.why
        );
    }
    text
}

/// Returns the text with the expected decision of the test at a position reversed.
#[must_use]
pub fn with_reversed_decision(text: &str, at: &Origin) -> Option<String> {
    let begin: usize = text.split_inclusive('\n').take(at.line.checked_sub(1)?).map(str::len).sum();
    let line = text.get(begin..)?;
    let column = line.char_indices().nth(at.column.checked_sub(1)?)?.0;
    let rest = line.get(column..)?.split('\n').next()?;
    let test = rest.get(..rest.get(1..)?.find(rest.get(..1)?)? + 2)?;
    let (what, answer) = test.rsplit_once(':')?;
    let other = if answer.contains("deny") {
        answer.replace("deny", "allow")
    } else {
        answer.replace("allow", "deny")
    };
    let start = begin + column;
    let mut text = text.to_owned();
    text.replace_range(start..start + test.len(), &format!("{what}:{other}"));
    Some(text)
}

#[cfg(test)]
mod tests;
