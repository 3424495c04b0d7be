//! The hint for a command that failed in a directory of a repository whose top is outside the
//! workspace: git finds no repository there.

use crate::{
    paint::{Paint, Style},
    visible::visible,
};
use palisade_client::{CallResult, ErrorCode};
use std::path::Path;

/// Returns the hint, if the command failed and there is such a repository.
pub(super) fn hint(result: &CallResult, workspace: &Path, paint: Paint) -> Option<String> {
    let has_failed =
        result.error.as_ref().is_some_and(|error| error.code == ErrorCode::CommandFailed);
    let workspace = has_failed.then(|| workspace.canonicalize().ok()).flatten()?;
    let mut tops = workspace.ancestors().filter(|top| top.join(".git").exists());
    let top = tops.next().filter(|top| *top != workspace)?;
    let (label, top) = (paint.apply(Style::Hint, "git:"), visible(&top.to_string_lossy()));
    Some(format!(
        "{label} this directory belongs to the repository in {top}, which is outside the workspace; \
         git needs --workspace {top}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_client::WireError;
    use std::fs;

    #[test]
    fn only_failures_below_the_top_of_a_repository_get_the_hint() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let below = top.join("a/b");
        fs::create_dir_all(&below).unwrap();
        let mut result = crate::exit::tests::result();
        result.error = Some(WireError::new(ErrorCode::CommandFailed, "status 128", ""));
        fs::create_dir(top.join(".git")).unwrap();
        let said = hint(&result, &below, Paint::Plain).unwrap();
        assert!(said.ends_with(&format!("--workspace {}", top.display())), "{said}");
        assert_eq!(hint(&result, &top, Paint::Plain), None, "the repository is in the workspace");
        result.error = Some(WireError::new(ErrorCode::Denied, "no", ""));
        assert_eq!(hint(&result, &below, Paint::Plain), None);
        result.error = None;
        assert_eq!(hint(&result, &below, Paint::Plain), None);
    }
}
