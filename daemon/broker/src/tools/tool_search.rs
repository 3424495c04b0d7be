//! `tool_search`: finds tools by name, alias, hint and description. Runs in the broker. Pure: no
//! I/O.

use super::{
    describe::{Description, Traits},
    schema,
    tool::Tool,
};
use crate::base::task::{ParsedArguments, SessionTask, Task, invalid};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};
use std::sync::Arc;

/// The longest query, in bytes.
const QUERY: usize = 1024;
/// The number of words of a query that are used.
const WORDS: usize = 16;
/// The default and the largest number of tools in a result.
const FOUND: (u64, u64) = (10, 100);

pub(super) const DESCRIPTION: Description = Description {
    name: "tool_search",
    aliases: &["ToolSearch"],
    text: "Finds tools by the words of a query in their names, aliases, hints and descriptions, \
           the best first, with the arguments of each. Only tools that this session may use are \
           found.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "find discover tools capabilities help",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let wire::ToolSearch { query, limit } = schema::parse(tool, call)?;
    if query.trim().is_empty() || query.len() > QUERY {
        let why = format!("it has {} bytes, not from 1 to {QUERY}", query.len());
        return Err(invalid("query", &why, "give a few words"));
    }
    let limit = limit.unwrap_or(FOUND.0);
    if !(1..=FOUND.1).contains(&limit) {
        let why = format!("{limit} is not from 1 to {}", FOUND.1);
        return Err(invalid("limit", &why, "leave it out"));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Task::Errand(SessionTask::ToolSearch { query, limit }).into())
}

/// Returns the tools that a query finds, best first; equal ones by name.
pub(crate) fn search(tools: Vec<Arc<Tool>>, query: &str) -> Vec<Arc<Tool>> {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split_whitespace().take(WORDS).collect();
    let mut found: Vec<(usize, Arc<Tool>)> = tools
        .into_iter()
        .map(|tool| (words.iter().map(|word| score(&tool.spec, word)).sum(), tool))
        .filter(|(score, _)| *score > 0)
        .collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.spec.name.cmp(&b.1.spec.name)));
    found.into_iter().map(|(_, tool)| tool).collect()
}

/// Returns how well a word matches a tool: its name counts most, its description least.
fn score(spec: &ToolSpec, word: &str) -> usize {
    let names = || std::iter::once(&spec.name).chain(&spec.aliases);
    let is = |name: &palisade_protocol::ToolName| name.as_str().eq_ignore_ascii_case(word);
    let has = |text: &str| text.to_lowercase().contains(word);
    let weigh = |holds: bool, weight: usize| if holds { weight } else { 0 };
    weigh(names().any(is), 100)
        + weigh(names().any(|name| has(name.as_str())), 20)
        + weigh(spec.metadata.search_hint.split_whitespace().any(has), 10)
        + weigh(has(&spec.description), 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Registry;

    fn found(query: &str) -> Vec<String> {
        let all = Registry::new().unwrap().list();
        search(all, query).iter().map(|tool| tool.spec.name.to_string()).collect()
    }

    #[test]
    fn names_come_before_hints_and_hints_before_descriptions() {
        assert_eq!(found("bash")[0], "bash");
        assert_eq!(found("SHELL")[0], "bash");
        assert_eq!(found("run command")[0], "bash");
        assert_eq!(&found("todo")[..2], ["todo_read", "todo_write"]);
        assert_eq!(found("xyzzy"), [""; 0]);
    }
}
