//! The built-in tools: names, descriptions, schemas and what the judge needs to know. Broker, pure.

use palisade_protocol::{
    AuditOperation, ErrorCode, JsonText, NameError, PermissionClass, ToolMetadata, ToolName,
    ToolSpec, WireError, arguments,
};
use schemars::{JsonSchema, schema_for};

/// Which built-in a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bash,
    ReadFile,
    WriteFile,
    DeleteFile,
    ListFiles,
}

/// A tool.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) kind: Kind,
    pub(crate) spec: ToolSpec,
}

/// All tools, sorted by name.
#[derive(Debug)]
pub(crate) struct Registry {
    tools: Vec<Tool>,
}

/// A built-in that does not describe itself properly: a defect.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Its name.
    #[error("a built-in tool has a bad name")]
    Name(#[from] NameError),
    /// Its schema.
    #[error("a built-in tool has no schema")]
    Schema(#[from] serde_json::Error),
}

impl Registry {
    /// The built-in tools.
    pub(crate) fn new() -> Result<Self, RegistryError> {
        let mut tools = vec![
            tool::<arguments::Bash>(Kind::Bash, BASH)?,
            tool::<arguments::ReadFile>(Kind::ReadFile, READ_FILE)?,
            tool::<arguments::WriteFile>(Kind::WriteFile, WRITE_FILE)?,
            tool::<arguments::DeleteFile>(Kind::DeleteFile, DELETE_FILE)?,
            tool::<arguments::ListFiles>(Kind::ListFiles, LIST_FILES)?,
        ];
        tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        Ok(Self { tools })
    }

    /// The tool that a name or alias means.
    pub(crate) fn resolve(&self, name: &ToolName) -> Result<&Tool, WireError> {
        let means = |tool: &&Tool| tool.spec.name == *name || tool.spec.aliases.contains(name);
        self.tools.iter().find(means).ok_or_else(|| {
            let hint = format!("did you mean {}?", self.nearest(name.as_str()).join(", "));
            WireError::new(ErrorCode::ToolNotFound, format!("there is no tool {name}"), hint)
        })
    }

    /// The descriptions of the named tools, or of all.
    pub(crate) fn describe(&self, names: &[ToolName]) -> Result<Vec<ToolSpec>, WireError> {
        if names.is_empty() {
            return Ok(self.tools.iter().map(|tool| tool.spec.clone()).collect());
        }
        let mut specs: Vec<ToolSpec> = names
            .iter()
            .map(|name| self.resolve(name).map(|tool| tool.spec.clone()))
            .collect::<Result<_, _>>()?;
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        specs.dedup_by(|a, b| a.name == b.name);
        Ok(specs)
    }

    /// The three names that are the fewest edits away.
    fn nearest(&self, name: &str) -> Vec<&str> {
        let mut near: Vec<(usize, &str)> = self
            .tools
            .iter()
            .map(|tool| {
                let names = std::iter::once(&tool.spec.name).chain(&tool.spec.aliases);
                let least = names.map(|known| edits(name, known.as_str())).min();
                (least.unwrap_or(usize::MAX), tool.spec.name.as_str())
            })
            .collect();
        near.sort_unstable();
        near.into_iter().take(3).map(|(_, known)| known).collect()
    }
}

/// How many single letters differ, whatever their case.
fn edits(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

struct Description {
    name: &'static str,
    aliases: &'static [&'static str],
    text: &'static str,
    traits: Traits,
    class: PermissionClass,
    operation: AuditOperation,
    search: &'static str,
}

/// What a built-in does to the world, from mild to grave.
enum Traits {
    ReadOnly,
    Mutating,
    Destructive,
}

fn tool<A: JsonSchema>(kind: Kind, from: Description) -> Result<Tool, RegistryError> {
    let aliases = from.aliases.iter().map(|alias| alias.parse()).collect::<Result<_, _>>()?;
    let read_only = matches!(from.traits, Traits::ReadOnly);
    let metadata = ToolMetadata {
        concurrency_safe: read_only,
        read_only,
        destructive: matches!(from.traits, Traits::Destructive),
        permission_class: from.class,
        audit_operation: from.operation,
        requires_checkpoint: false,
        requires_reverse_thinking: false,
        search_hint: from.search.to_owned(),
    };
    let spec = ToolSpec {
        name: from.name.parse()?,
        aliases,
        description: from.text.to_owned(),
        schema: JsonText::render(&schema_for!(A))?,
        metadata,
    };
    Ok(Tool { kind, spec })
}

const BASH: Description = Description {
    name: "bash",
    aliases: &["Bash", "shell"],
    text: "Runs a shell line (command) or a program without a shell (argv), confined to the \
           workspace. The current directory is kept from call to call; nothing else of the shell \
           is. Standard input is at its end unless given. Every process that the call started is \
           gone when it ends. Output over the limit is shown as head and tail; the rest can be \
           paged through by the call id.",
    traits: Traits::Mutating,
    class: PermissionClass::Bash,
    operation: AuditOperation::Execute,
    search: "run command shell terminal execute program script",
};

const READ_FILE: Description = Description {
    name: "read_file",
    aliases: &["Read"],
    text: "Reads a regular file: as text, or as base64 or exact bytes (raw) if it is not text. \
           offset and limit choose lines.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "open view cat show file contents text lines",
};

const WRITE_FILE: Description = Description {
    name: "write_file",
    aliases: &["Write"],
    text: "Writes a file whole: the old contents stay until the new ones are in place. Makes \
           missing parent directories and keeps the mode. mode chooses overwrite, append or \
           create (which refuses if there is something).",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Write,
    search: "save create overwrite append file contents",
};

const DELETE_FILE: Description = Description {
    name: "delete_file",
    aliases: &[],
    text: "Deletes a file or a link (never what it leads to); a directory with everything in it \
           if recursive.",
    traits: Traits::Destructive,
    class: PermissionClass::File,
    operation: AuditOperation::Delete,
    search: "remove rm unlink file directory",
};

const LIST_FILES: Description = Description {
    name: "list_files",
    aliases: &["LS", "ListDir"],
    text: "Lists a directory, sorted by path, with types and sizes; with recursive also what is \
           below. A directory ends in /, a link in @, a FIFO, socket or device in ?.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "ls dir directory tree entries names",
};

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(name: &str) -> Result<Kind, WireError> {
        Registry::new().unwrap().resolve(&name.parse().unwrap()).map(|tool| tool.kind)
    }

    #[test]
    fn names_and_aliases_resolve() {
        for (name, kind) in [
            ("bash", Kind::Bash),
            ("Bash", Kind::Bash),
            ("shell", Kind::Bash),
            ("Read", Kind::ReadFile),
            ("Write", Kind::WriteFile),
            ("delete_file", Kind::DeleteFile),
            ("LS", Kind::ListFiles),
            ("ListDir", Kind::ListFiles),
        ] {
            assert_eq!(resolve(name), Ok(kind), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_brings_the_nearest() {
        let error = resolve("readfile").unwrap_err();
        assert_eq!(error.code, ErrorCode::ToolNotFound);
        assert!(error.hint.starts_with("did you mean read_file, "), "{}", error.hint);
    }

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("bash", "BASH"), 0);
        assert_eq!(edits("kitten", "sitting"), 3);
    }

    #[test]
    fn all_are_described_and_sorted() {
        let registry = Registry::new().unwrap();
        let all = registry.describe(&[]).unwrap();
        let names: Vec<_> = all.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["bash", "delete_file", "list_files", "read_file", "write_file"]);
        for spec in &all {
            let schema: serde_json::Value = serde_json::from_str(spec.schema.as_str()).unwrap();
            assert_eq!(schema["type"], "object", "{}", spec.name);
            assert_eq!(schema["additionalProperties"], false, "{}", spec.name);
            let properties = schema["properties"].as_object().unwrap();
            assert!(properties.values().all(|p| p["description"].is_string()), "{}", spec.name);
        }
        let two = registry.describe(&["shell".parse().unwrap(), "bash".parse().unwrap()]).unwrap();
        assert_eq!(two.len(), 1);
    }

    #[test]
    fn only_looking_is_concurrent_and_only_deleting_destroys() {
        let registry = Registry::new().unwrap();
        for tool in &registry.tools {
            let looks = matches!(tool.kind, Kind::ReadFile | Kind::ListFiles);
            assert_eq!(tool.spec.metadata.concurrency_safe, looks, "{}", tool.spec.name);
            assert_eq!(tool.spec.metadata.read_only, looks, "{}", tool.spec.name);
            let deletes = tool.kind == Kind::DeleteFile;
            assert_eq!(tool.spec.metadata.destructive, deletes, "{}", tool.spec.name);
        }
    }
}
