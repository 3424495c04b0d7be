//! Names of variables, and those that are never passed on.

use crate::planning::error::PlanError;
use serde::Deserialize;
use std::sync::LazyLock;

/// Why there is no environment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// Not a name that a shell takes.
    #[error("{0:?} is not a variable's name: letters, digits and '_', not beginning with a digit")]
    Name(String),
    /// A value with a NUL in it would end there.
    #[error("the value of {0} has a NUL in it")]
    Nul(String),
    /// A variable that makes programs run or load other code.
    #[error("the variable {name} is not passed on: {why}")]
    Refused {
        /// Which.
        name: String,
        /// What it does.
        why: String,
    },
    /// The list of refused variables is broken, so none can be told to be harmless.
    #[error("the list of refused variables: {0}")]
    List(String),
    /// A directory of `PATH` can not be resolved.
    #[error("PATH: {0}")]
    Path(#[from] PlanError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusedList {
    refused: Vec<RefusedName>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusedName {
    /// A `*` at the end stands for anything.
    name: String,
    why: String,
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

/// Whether a name is one that a shell takes.
pub(crate) fn variable_name(name: &str) -> Result<(), EnvironmentError> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.chars().all(word) && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty()
    {
        return Ok(());
    }
    Err(EnvironmentError::Name(name.to_owned()))
}

/// Whether a variable makes programs run or load other code.
pub(crate) fn refused(name: &str) -> Result<(), EnvironmentError> {
    let list = REFUSED.as_ref().map_err(|why| EnvironmentError::List(why.clone()))?;
    let found = list.refused.iter().find(|entry| match entry.name.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == entry.name,
    });
    match found {
        Some(entry) => {
            Err(EnvironmentError::Refused { name: name.to_owned(), why: entry.why.clone() })
        }
        None => Ok(()),
    }
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
