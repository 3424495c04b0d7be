//! Names of environment variables, and the list of those that are never passed on. Pure: no I/O.

use serde::Deserialize;
use std::{
    path::{Component, Path},
    sync::LazyLock,
};

/// The reason why no environment could be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// The name is not valid in a shell.
    #[error("{0:?} is not a variable's name: letters, digits and '_', not beginning with a digit")]
    Name(String),
    /// The value contains a NUL, and would end there.
    #[error("the value of {0} has a NUL in it")]
    Nul(String),
    /// The variable makes programs run or load other code.
    #[error("the variable {name} may not be set: {why}")]
    Refused {
        /// The name of the variable.
        name: String,
        /// The effect of the variable.
        why: String,
    },
    /// The list of refused variables is invalid, so no variable is known to be harmless.
    #[error("the list of refused variables: {0}")]
    List(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusedList {
    refused: Vec<RefusedName>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusedName {
    /// The name of the variable; a trailing `*` matches any suffix.
    name: String,
    why: String,
    /// The values with which the variable is harmless.
    #[serde(default)]
    values: Vec<String>,
    /// True if the variable is harmless when every directory in it is in the workspace.
    #[serde(default)]
    workspace: bool,
    /// True if a call with the variable is refused, because without it the command would act on
    /// something else.
    #[serde(default)]
    refuse: bool,
}

/// A variable that a program does not get, although its call sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutVariable {
    /// The name of the variable.
    pub name: String,
    /// The effect that it would have.
    pub why: String,
}

/// The treatment of a call that sets an unwanted variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnwantedVariable {
    /// The program runs without it.
    LeaveOut(&'static str),
    /// The call is refused.
    Refuse(&'static str),
}

static REFUSED: LazyLock<Result<RefusedList, String>> =
    LazyLock::new(|| parse(include_str!("../../profiles/environment.toml")));

fn parse(text: &str) -> Result<RefusedList, String> {
    let list: RefusedList = toml::from_str(text).map_err(|e| e.to_string())?;
    if list.refused.is_empty() {
        return Err("it is empty".to_owned());
    }
    match list.refused.iter().find(|entry| entry.why.trim().is_empty()) {
        Some(entry) => Err(format!("{} has no reason", entry.name)),
        None => Ok(list),
    }
}

/// Refuses a name that is not valid in a shell.
pub(crate) fn variable_name(name: &str) -> Result<(), EnvironmentError> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.chars().all(word) && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty()
    {
        return Ok(());
    }
    Err(EnvironmentError::Name(name.to_owned()))
}

/// Returns the entry of a variable that makes programs run or load other code.
fn listed(name: &str) -> Result<Option<&'static RefusedName>, EnvironmentError> {
    let list = REFUSED.as_ref().map_err(|why| EnvironmentError::List(why.clone()))?;
    Ok(list.refused.iter().find(|entry| match entry.name.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == entry.name,
    }))
}

/// Refuses a variable that makes programs run or load other code, whatever its value.
pub(crate) fn refused(name: &str) -> Result<(), EnvironmentError> {
    match listed(name)? {
        Some(entry) => {
            Err(EnvironmentError::Refused { name: name.to_owned(), why: entry.why.clone() })
        }
        None => Ok(()),
    }
}

/// Says what happens to a call that gives a variable this value; `None` if the program gets it.
pub(crate) fn unwanted(
    name: &str,
    value: &str,
    workspace: &Path,
) -> Result<Option<UnwantedVariable>, EnvironmentError> {
    let Some(entry) = listed(name)? else { return Ok(None) };
    let inside = || entry.workspace && value.split(':').all(|path| is_inside(path, workspace));
    if entry.values.iter().any(|harmless| harmless == value) || inside() {
        return Ok(None);
    }
    Ok(Some(match entry.refuse {
        true => UnwantedVariable::Refuse(&entry.why),
        false => UnwantedVariable::LeaveOut(&entry.why),
    }))
}

/// Returns `true` if the text of a path leads into the workspace. A relative path starts in the
/// command's directory. Where links lead is not looked at: the kernel confines the program.
fn is_inside(path: &str, workspace: &Path) -> bool {
    let path = Path::new(path);
    let climbs = path.components().any(|part| part == Component::ParentDir);
    !climbs && (path.is_relative() || path.starts_with(workspace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_needs_a_reason_for_each() {
        let list = |text: &str| parse(text).map(|_| ());
        assert_eq!(list("refused = [{ name = \"X\", why = \"y\" }]"), Ok(()));
        assert_eq!(list("refused = []"), Err("it is empty".to_owned()));
        let blank = "refused = [{ name = \"X\", why = \" \" }]";
        assert_eq!(list(blank), Err("X has no reason".to_owned()));
        assert!(list("refused = [{ name = \"X\" }]").is_err_and(|e| e.contains("why")));
    }
}
