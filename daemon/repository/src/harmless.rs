//! The short list of configuration that may be added without approval: what `git init`, `git config
//! user.name`, `git remote add` and `git push --set-upstream` write.

use crate::configuration::{Configuration, ConfigurationKey};
use crate::references::is_name;

impl Configuration {
    /// Returns `true` if each of these values of a key in a later state could be added without
    /// approval.
    #[must_use]
    pub fn are_harmless(
        &self,
        later: &Configuration,
        key: &ConfigurationKey,
        values: &[Option<Vec<u8>>],
    ) -> bool {
        values.iter().all(|value| is_harmless_addition(self, later, key, value.as_deref()))
    }
}

/// Returns `true` if adding a value neither makes a program run nor redirects anything that existed
/// before.
fn is_harmless_addition(
    before: &Configuration,
    after: &Configuration,
    key: &ConfigurationKey,
    value: Option<&[u8]>,
) -> bool {
    let Some(value) = value else { return false };
    match (key.section.as_str(), key.subsection.as_deref(), key.name.as_str()) {
        ("user", None, _) => true,
        ("core", None, "repositoryformatversion") => value == b"0",
        ("core", None, "filemode" | "logallrefupdates") => value == b"true",
        ("core", None, "bare") => value == b"false",
        ("remote", Some(name), "url") => {
            !before.has_subsection("remote", name) && is_remote_url(value)
        }
        ("remote", Some(name), "fetch") => {
            !before.has_subsection("remote", name) && is_fetch(name, value)
        }
        ("branch", Some(_), "remote") => value == b"." || after.has_subsection("remote", value),
        ("branch", Some(_), "merge") => is_name(value),
        _ => false,
    }
}

/// Returns `true` if a URL leads to a host over https or ssh, and nowhere else.
fn is_remote_url(url: &[u8]) -> bool {
    let Ok(url) = std::str::from_utf8(url) else { return false };
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) || url.contains("::") {
        return false;
    }
    let authority = match url.split_once("://") {
        Some(("https" | "ssh", rest)) => rest.split('/').next(),
        Some(_) => None,
        // For example `git@example.org:project.git`.
        None => url.split_once(':').map(|(host, _)| host).filter(|host| !host.contains('/')),
    };
    let Some(authority) = authority else { return false };
    let host = authority.rsplit('@').next().unwrap_or_default();
    // A part that begins with a dash could be taken for an option of ssh.
    !host.is_empty() && !host.starts_with('-') && !authority.starts_with('-')
}

/// Returns `true` if a refspec writes only below the new remote's own references.
fn is_fetch(remote: &[u8], refspec: &[u8]) -> bool {
    let own = [b"refs/remotes/", remote, b"/"].concat();
    let refspec = refspec.strip_prefix(b"+").unwrap_or(refspec);
    let mut sides = refspec.split(|byte| *byte == b':');
    let (Some(source), Some(target), None) = (sides.next(), sides.next(), sides.next()) else {
        return false;
    };
    let is_pattern = |side: &[u8]| {
        let filled: Vec<u8> =
            side.iter().map(|byte| if *byte == b'*' { b'x' } else { *byte }).collect();
        is_name(&filled)
    };
    target.starts_with(&own) && is_pattern(source) && is_pattern(target)
}
