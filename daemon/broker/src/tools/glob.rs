//! `glob`: finds files by name. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ParsedArguments, Task, invalid, path};
use palisade_plan::{
    Path,
    search::{Choice, Glob},
};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, RawPath, ToolSpec, WireError, arguments as wire,
};

/// The default and the largest number of files in a result.
const FILES: (u64, u64) = (100, 10_000);

pub(super) const DESCRIPTION: Description = Description {
    name: "glob",
    aliases: &["Glob"],
    text: "Finds files by their names, the newest first; list_files finds directories. A pattern without a slash matches the \
           name, at any depth (*.rs); one with a slash matches the path below the directory \
           (src/**/*.{rs,toml}). Skips what .gitignore excludes (ignored includes it), and always \
           .git. Names that begin with a dot are found unless hidden is false.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "find files by name pattern wildcard newest recent",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::Glob = schema::parse(tool, call)?;
    let limit = arguments.limit.unwrap_or(FILES.0);
    if !(1..=FILES.1).contains(&limit) {
        let why = format!("{limit} is not from 1 to {}", FILES.1);
        return Err(invalid("limit", &why, "narrow the pattern instead"));
    }
    let (directory, glob) = match (arguments.path, arguments.pattern) {
        (None, pattern) if pattern.starts_with('/') => split(&pattern),
        (given, pattern) => (given.unwrap_or_else(|| RawPath(b".".to_vec())), pattern),
    };
    if glob.is_empty() {
        return Err(invalid("pattern", "it does not name a file", "such as **/*.rs"));
    }
    let choice = Choice { glob: Some(glob), hidden: arguments.hidden, ignored: arguments.ignored };
    Ok(Task::Glob(Glob { path: Path(path("path", directory)?), choice, limit }).into())
}

/// Splits an absolute pattern into a directory without wildcards, and the rest.
fn split(pattern: &str) -> (RawPath, String) {
    let plain = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let slash = pattern[..plain].rfind('/').unwrap_or(0);
    let directory = if slash == 0 { "/" } else { &pattern[..slash] };
    // The leading slash keeps the rest a path pattern, however short it is.
    (RawPath(directory.into()), pattern[slash..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_pattern_has_a_directory() {
        for (pattern, directory, rest) in [
            ("/a/b/**/*.rs", "/a/b", "/**/*.rs"),
            ("/a/b*/c", "/a", "/b*/c"),
            ("/*", "/", "/*"),
            ("/a/b/c.rs", "/a/b", "/c.rs"),
            ("/a/{b,c}/d", "/a", "/{b,c}/d"),
        ] {
            assert_eq!(split(pattern), (RawPath(directory.into()), rest.to_owned()), "{pattern}");
        }
    }
}
