//! The registry of tools, by name and alias. Runs in the broker. Pure: no I/O.

use super::{
    built_ins, provided, server_tools,
    tool::{RegistryError, Tool},
};
use crate::{base::peer::ConnectionNumber, tools::provider::Provider};
use palisade_protocol::{ErrorCode, ProvidedTool, ToolName, ToolSpec, WireError};
use palisade_text::edit_distance;
use std::sync::{Arc, PoisonError, RwLock};

/// The most tools of one provider.
const PROVIDED: usize = 64;

/// All tools, sorted by name.
#[derive(Debug)]
pub(crate) struct Registry {
    tools: RwLock<Vec<Arc<Tool>>>,
}

impl Registry {
    /// Makes a registry of the built-in tools.
    pub(crate) fn new() -> Result<Self, RegistryError> {
        let registry = Self { tools: RwLock::new(Vec::new()) };
        for tool in built_ins()? {
            registry.register(tool)?;
        }
        Ok(registry)
    }

    /// Adds a tool. Fails if its name or an alias is taken.
    fn register(&self, tool: Tool) -> Result<(), RegistryError> {
        let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        for name in tool.names() {
            if let Some(other) = tools.iter().find(|other| other.names().any(|n| n == name)) {
                let (name, by) = (name.clone(), other.spec.name.clone());
                return Err(RegistryError::Taken { name, by });
            }
        }
        let place = tools.partition_point(|other| other.spec.name < tool.spec.name);
        tools.insert(place, Arc::new(tool));
        Ok(())
    }

    /// Adds a provider's tools, all or nothing. Returns the names of all tools that it provides
    /// then.
    pub(crate) fn provide(
        &self,
        provider: &Arc<Provider>,
        tools: Vec<ProvidedTool>,
    ) -> Result<Vec<ToolName>, WireError> {
        let mut all = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = all.clone();
        for from in tools {
            let replaces =
                if from.r#override { ReplacementRule::SameUser } else { ReplacementRule::Own };
            let tool = provided::tool(provider, from)?;
            remove_replaced(&mut next, &tool, provider, replaces)?;
            let place = next.partition_point(|other| other.spec.name < tool.spec.name);
            next.insert(place, Arc::new(tool));
        }
        let own: Vec<ToolName> = next
            .iter()
            .filter(|tool| is_of(tool, provider.number))
            .map(|tool| tool.spec.name.clone())
            .collect();
        if own.len() > PROVIDED {
            return Err(WireError::new(
                ErrorCode::LimitReached,
                format!(
                    "{} tools are more than the limit of {PROVIDED} for one provider",
                    own.len()
                ),
                "provide fewer, or from several connections",
            ));
        }
        *all = next;
        Ok(own)
    }

    /// Removes tools of a provider, by their own names.
    pub(crate) fn unprovide(
        &self,
        number: ConnectionNumber,
        names: &[ToolName],
    ) -> Result<(), WireError> {
        let mut all = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let own =
            |name: &ToolName| all.iter().any(|tool| is_of(tool, number) && tool.spec.name == *name);
        if let Some(name) = names.iter().find(|name| !own(name)) {
            let message = format!("this connection provides no tool {name}");
            return Err(WireError::new(ErrorCode::NotFound, message, ""));
        }
        all.retain(|tool| !is_of(tool, number) || !names.contains(&tool.spec.name));
        Ok(())
    }

    /// Removes all tools of a provider.
    pub(crate) fn withdraw(&self, number: ConnectionNumber) {
        let mut all = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|tool| !is_of(tool, number));
    }

    /// Returns all tools, sorted by name.
    pub(crate) fn list(&self) -> Vec<Arc<Tool>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the tool with this name or alias.
    pub(crate) fn resolve(&self, name: &ToolName) -> Result<Arc<Tool>, WireError> {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        let found = tools.iter().find(|tool| tool.names().any(|known| known == name)).cloned();
        found.or_else(|| server_tools::tool(name).map(Arc::new)).ok_or_else(|| {
            let hint = format!("did you mean {}?", nearest(&tools, name.as_str()).join(", "));
            WireError::new(ErrorCode::ToolNotFound, format!("there is no tool {name}"), hint)
        })
    }

    /// Returns the specifications of the named tools, or of all.
    pub(crate) fn describe(&self, names: &[ToolName]) -> Result<Vec<ToolSpec>, WireError> {
        if names.is_empty() {
            return Ok(self.list().iter().map(|tool| tool.spec.clone()).collect());
        }
        let mut specs: Vec<ToolSpec> = names
            .iter()
            .map(|name| self.resolve(name).map(|tool| tool.spec.clone()))
            .collect::<Result<_, _>>()?;
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        specs.dedup_by(|a, b| a.name == b.name);
        Ok(specs)
    }
}

/// The provided tools that a new one may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplacementRule {
    /// Tools of the same connection.
    Own,
    /// Tools of any connection of the same user.
    SameUser,
}

fn is_of(tool: &Tool, number: ConnectionNumber) -> bool {
    tool.provider().is_some_and(|provider| provider.number == number)
}

/// Removes the tools that a new one replaces, if it may.
fn remove_replaced(
    tools: &mut Vec<Arc<Tool>>,
    tool: &Tool,
    provider: &Provider,
    replaces: ReplacementRule,
) -> Result<(), WireError> {
    let taken = |name: &ToolName, whose: String, hint: &str| {
        let message = format!("the name {name} is taken by {whose}");
        Err(WireError::new(ErrorCode::AlreadyExists, message, hint))
    };
    for name in tool.names() {
        if server_tools::is_reserved(name) {
            return taken(name, "the tools of MCP servers".to_owned(), "choose another name");
        }
        // A name that differs only in case could be mistaken for the built-in.
        let alike = |other: &&Arc<Tool>| match other.provider() {
            None => other.names().any(|n| n.as_str().eq_ignore_ascii_case(name.as_str())),
            Some(_) => other.names().any(|n| n == name),
        };
        let others: Vec<Arc<Tool>> = tools.iter().filter(alike).cloned().collect();
        for other in others {
            let may = match (other.provider(), replaces) {
                (None, ReplacementRule::Own | ReplacementRule::SameUser) => {
                    let whose = format!("the built-in tool {}", other.spec.name);
                    return taken(name, whose, "choose another name");
                }
                (Some(by), ReplacementRule::Own) => by.number == provider.number,
                (Some(by), ReplacementRule::SameUser) => by.uid == provider.uid,
            };
            // A provider's own tool is replaced only by one with the same name, not through an
            // alias.
            if !may || (is_of(&other, provider.number) && other.spec.name != tool.spec.name) {
                let whose = format!("the provided tool {}", other.spec.name);
                return taken(
                    name,
                    whose,
                    "choose another name, or set override if the same user provides both",
                );
            }
            tools.retain(|known| !Arc::ptr_eq(known, &other));
        }
    }
    Ok(())
}

/// Returns the three tools whose names are the fewest edits away, ignoring case.
fn nearest<'a>(tools: &'a [Arc<Tool>], name: &str) -> Vec<&'a str> {
    let name = name.to_ascii_lowercase();
    let mut near: Vec<(usize, &str)> = tools
        .iter()
        .map(|tool| {
            let least = tool
                .names()
                .map(|known| edit_distance(&name, &known.as_str().to_ascii_lowercase()))
                .min();
            (least.unwrap_or(usize::MAX), tool.spec.name.as_str())
        })
        .collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, known)| known).collect()
}

#[cfg(test)]
mod provided_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(name: &str) -> Result<String, WireError> {
        let tool = Registry::new().unwrap().resolve(&name.parse().unwrap())?;
        Ok(tool.spec.name.to_string())
    }

    #[test]
    fn names_and_aliases_resolve() {
        for (name, tool) in [
            ("bash", "bash"),
            ("Bash", "bash"),
            ("shell", "bash"),
            ("Read", "read_file"),
            ("Write", "write_file"),
            ("delete_file", "delete_file"),
            ("Edit", "edit"),
            ("MultiEdit", "multi_edit"),
            ("ApplyPatch", "apply_patch"),
            ("move_file", "move_file"),
            ("make_dir", "make_dir"),
            ("undo", "undo"),
            ("LS", "list_files"),
            ("ListDir", "list_files"),
            ("Glob", "glob"),
            ("Grep", "grep"),
            ("search", "grep"),
        ] {
            assert_eq!(resolve(name), Ok(tool.to_owned()), "{name}");
        }
    }

    #[test]
    fn a_name_is_taken_once() {
        let registry = Registry::new().unwrap();
        let error = registry.register(built_ins().unwrap().remove(0)).unwrap_err();
        assert_eq!(error.to_string(), "the name bash is taken by the tool bash");
        assert_eq!(registry.list().len(), built_ins().unwrap().len());
    }

    #[test]
    fn an_unknown_name_brings_the_nearest() {
        let error = resolve("readfile").unwrap_err();
        assert_eq!(error.code, ErrorCode::ToolNotFound);
        assert!(error.hint.starts_with("did you mean read_file, "), "{}", error.hint);
    }

    #[test]
    fn all_are_described_and_sorted() {
        let registry = Registry::new().unwrap();
        let all = registry.describe(&[]).unwrap();
        assert!(all.is_sorted_by(|a, b| a.name < b.name));
        for spec in &all {
            let schema: serde_json::Value = serde_json::from_str(spec.schema.as_str()).unwrap();
            assert_eq!(schema["type"], "object", "{}", spec.name);
            assert_eq!(schema["additionalProperties"], false, "{}", spec.name);
            let properties = schema["properties"].as_object().into_iter().flatten();
            assert!(
                properties.map(|(_, p)| p).all(|p| p["description"].is_string()),
                "{}",
                spec.name
            );
        }
        let two = registry.describe(&["shell".parse().unwrap(), "bash".parse().unwrap()]).unwrap();
        assert_eq!(two.len(), 1);
    }

    #[test]
    fn what_only_looks_is_concurrent_and_says_so() {
        for tool in Registry::new().unwrap().list() {
            let metadata = &tool.spec.metadata;
            let looks = metadata.audit_operation == palisade_protocol::AuditOperation::Read;
            // No other call depends on a job that is ended.
            let aside = tool.spec.name.as_str() == "job_kill";
            assert_eq!(metadata.concurrency_safe, looks || aside, "{}", tool.spec.name);
            let own_notes = tool.spec.name.as_str() == "todo_write";
            assert_eq!(metadata.read_only, looks || own_notes, "{}", tool.spec.name);
            assert!(!(looks && metadata.destructive), "{}", tool.spec.name);
        }
    }

    #[test]
    fn what_changes_something_is_asked_about_under_sensitive_and_what_looks_never_is() {
        use palisade_policy::{Facts, Judgement, ProfileSet, judge};
        use palisade_protocol::Ask;
        let profiles = ProfileSet::new([]).unwrap();
        let profile = profiles.get(palisade_policy::DEFAULT).unwrap();
        let mut asked = Vec::new();
        for tool in Registry::new().unwrap().list() {
            for ask in [Ask::Destructive, Ask::Sensitive] {
                let judged = judge(profile, ask, &tool.spec, &Facts::default());
                let asks = matches!(judged, Judgement::Ask(_));
                assert!(asks || matches!(judged, Judgement::Allow(_)), "{}", tool.spec.name);
                let metadata = &tool.spec.metadata;
                let expected = match ask {
                    Ask::Sensitive => !metadata.read_only,
                    Ask::Never | Ask::Destructive | Ask::Always => metadata.destructive,
                };
                assert_eq!(asks, expected, "{} under {ask:?}", tool.spec.name);
                if asks && ask == Ask::Sensitive {
                    asked.push(tool.spec.name.to_string());
                }
            }
        }
        for name in [
            "apply_patch",
            "delete_file",
            "edit",
            "make_dir",
            "move_file",
            "multi_edit",
            "undo",
            "write_file",
            "bash",
        ] {
            assert!(asked.iter().any(|found| found == name), "{name}: {asked:?}");
        }
        for name in ["read_file", "list_files"] {
            assert!(!asked.iter().any(|found| found == name), "{name}: {asked:?}");
        }
    }
}
