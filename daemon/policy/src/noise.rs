//! The built-in list of refusals that do no harm to any program, each with a reason. Pure: no I/O.

use serde::Deserialize;
use std::{path::Path, sync::LazyLock};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    landlock: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    rights: Vec<String>,
    path: String,
    why: String,
}

static BUILTIN: LazyLock<Result<Vec<Entry>, String>> =
    LazyLock::new(|| parse(include_str!("../../profiles/noise.toml")));

fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let text: Text = toml::from_str(text).map_err(|error| error.to_string())?;
    for entry in &text.landlock {
        if entry.why.trim().is_empty() {
            return Err(format!("{} has no reason: say why it is there", entry.path));
        }
        if entry.rights.is_empty() || !entry.path.starts_with('/') || entry.path == "/" {
            return Err(format!("{} is for no right, or for every path", entry.path));
        }
    }
    Ok(text.landlock)
}

/// Returns `true` if the refusal of these rights on a path is noise. All of the rights have to be
/// listed. If the list is invalid, nothing is noise; a test of this crate shows that it is valid.
pub(crate) fn is_noise(rights: &[&str], path: &str) -> bool {
    let Ok(entries) = BUILTIN.as_ref() else { return false };
    entries.iter().any(|entry| {
        Path::new(path).starts_with(&entry.path)
            && rights.iter().all(|right| entry.rights.iter().any(|noise| noise == right))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_whole() {
        assert!(BUILTIN.as_ref().is_ok_and(|entries| !entries.is_empty()));
        assert!(is_noise(&["fs.read_file", "fs.write_file"], "/dev/tty"));
        assert!(is_noise(&["fs.ioctl_dev"], "/dev/null"));
        assert!(!is_noise(&["fs.read_file", "fs.execute"], "/dev/tty"));
        assert!(!is_noise(&["fs.read_file"], "/dev/ttyS0"));
    }

    #[test]
    fn an_entry_without_a_reason_or_for_everything_is_refused() {
        let entry = |path: &str, rights: &str, why: &str| {
            format!("[[landlock]]\npath = {path:?}\nrights = [{rights}]\nwhy = {why:?}\n")
        };
        assert!(parse(&entry("/a", "\"fs.read_file\"", "x")).is_ok());
        assert!(parse(&entry("/a", "\"fs.read_file\"", " ")).is_err());
        assert!(parse(&entry("/", "\"fs.read_file\"", "x")).is_err());
        assert!(parse(&entry("/a", "", "x")).is_err());
    }
}
