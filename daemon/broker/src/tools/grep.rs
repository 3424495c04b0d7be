//! `grep`: finds lines in files. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ParsedArguments, Task, invalid, path};
use palisade_plan::{
    Path,
    search::{Choice, Grep, SearchReport, Syntax},
};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, RawPath, ToolSpec, WireError,
    arguments::{self as wire, GrepMode},
};

/// The default and the largest number of lines or files in a result.
const RESULTS: (u64, u64) = (250, 10_000);

/// The most lines of context on each side of a match.
const AROUND: u32 = 100;

/// The longest pattern, in bytes.
const PATTERN: usize = 64 * 1024;

pub(super) const DESCRIPTION: Description = Description {
    name: "grep",
    aliases: &["Grep", "search"],
    text: "Finds lines in the files of a directory, or in one file, by regular expression \
           (ripgrep's, one line at a time unless multiline) or, with type literal, by the text \
           itself. Returns path:line:text sorted by path, or with mode files the paths, or with \
           mode count the paths and counts. Skips what .gitignore excludes (ignored includes it), \
           and always .git. Files that begin with a dot are searched unless hidden is false. Files \
           that are not text or too large are skipped and counted.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "search find text pattern regex ripgrep rg lines in files contents",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::Grep = schema::parse(tool, call)?;
    let pattern = arguments.pattern;
    if pattern.is_empty() || pattern.len() > PATTERN {
        let why = format!("it has {} bytes, not 1 to {PATTERN}", pattern.len());
        return Err(invalid("pattern", &why, "say what to look for; . matches any line"));
    }
    let limit = arguments.limit.unwrap_or(RESULTS.0);
    if !(1..=RESULTS.1).contains(&limit) {
        let why = format!("{limit} is not from 1 to {}", RESULTS.1);
        return Err(invalid("limit", &why, "narrow the search with path, glob or pattern"));
    }
    let around = |field, own: Option<u32>| match own.or(arguments.context).unwrap_or(0) {
        lines @ 0..=AROUND => Ok(lines),
        lines => {
            let why = format!("{lines} is not from 0 to {AROUND}");
            Err(invalid(field, &why, "read the file instead"))
        }
    };
    let (before, after) = (around("before", arguments.before)?, around("after", arguments.after)?);
    let wanted = match arguments.mode {
        GrepMode::Content => SearchReport::Lines { before, after },
        GrepMode::Files => SearchReport::Files,
        GrepMode::Count => SearchReport::Counts,
    };
    let syntax = match arguments.syntax {
        wire::Syntax::Regex => Syntax::Regex,
        wire::Syntax::Literal => Syntax::Literal,
    };
    let place = arguments.path.unwrap_or_else(|| RawPath(b".".to_vec()));
    let choice =
        Choice { glob: arguments.glob, hidden: arguments.hidden, ignored: arguments.ignored };
    Ok(Task::Grep(Box::new(Grep {
        path: Path(path("path", place)?),
        choice,
        pattern,
        syntax,
        case_insensitive: arguments.case_insensitive,
        multiline: arguments.multiline,
        wanted,
        limit,
        most: 0,
    }))
    .into())
}
