//! Finds out what a program or shell line would do: the analyst's findings, refined by inspecting
//! the paths that they depend on. Runs in the broker.

use crate::{
    base::{
        error::CallError,
        task::{Content, DirectoryPolicy, Program, StdinMode},
    },
    cells::{analyst::Analyst, seen::InspectedTarget, session::Session},
    changes::guard::LossExtent,
};
use palisade_plan::cell::{Contents, Link};
use palisade_policy::{
    Commands,
    analysis::{CommandAnalysis, Existence, FindingTarget, Kind, PathLookup, RawFinding, settle},
};
use palisade_protocol::{Finding, Span};
use std::collections::HashMap;

/// The most targets of one call that are inspected; the others are assumed to exist.
const MOST_TARGETS: usize = 64;

/// The longest standard input, in bytes, that is analysed; a longer one is treated as unknown.
const MOST_INPUT: usize = 32 * 1024;

/// Has the analyst analyse a program of this session, with its standard input.
pub(super) async fn analyse(
    analyst: &Analyst,
    session: &Session,
    program: &Program,
) -> CommandAnalysis {
    let text = text(program);
    let length = text.len();
    let (before, after) = around(match program.typing {
        StdinMode::Open => Some(&Content::Attached),
        StdinMode::Closed => program.stdin.as_ref(),
    });
    let whole = format!("{before}{text}{after}");
    let mut analysed = analyst.ask(session.uid(), whole, &session.analyses).await;
    let back = |place: u32| {
        let place = usize::try_from(place).unwrap_or(usize::MAX).saturating_sub(before.len());
        u32::try_from(place.min(length)).unwrap_or(u32::MAX)
    };
    for found in &mut analysed.found {
        found.span = Span { start: back(found.span.start), end: back(found.span.end) };
    }
    analysed
}

/// A program as a shell line.
fn text(program: &Program) -> String {
    match (program.directory, &program.script) {
        (DirectoryPolicy::Left, _) => {
            let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
            program.argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
        }
        (DirectoryPolicy::Kept, Some(script)) => script.clone(),
        (DirectoryPolicy::Kept, None) => program.argv.last().cloned().unwrap_or_default(),
    }
}

/// The text around a line that stands for its standard input: the input itself, or an unknown one.
fn around(stdin: Option<&Content>) -> (&'static str, String) {
    match stdin {
        None => ("", String::new()),
        Some(Content::Inline(input)) if input.len() <= MOST_INPUT => {
            let mark = format!("PALISADE_{}", uuid::Uuid::now_v7().simple());
            ("{ ", format!("\n}} <<'{mark}'\n{input}\n{mark}\n"))
        }
        Some(Content::Inline(_) | Content::Attached) => ("cat | { ", "\n}".to_owned()),
    }
}

/// The programs that would be started; a program that is given as an argv is the first of them.
pub(super) fn started(program: &Program, analysed: &CommandAnalysis) -> Commands {
    match (analysed.commands(), program.directory) {
        (Commands::Known(mut commands), DirectoryPolicy::Left) => {
            commands.insert(0, program.argv.clone());
            Commands::Known(commands)
        }
        (commands, DirectoryPolicy::Left | DirectoryPolicy::Kept) => commands,
    }
}

/// Combines the programs of two analyses.
pub(super) fn both(one: Commands, other: Commands) -> Commands {
    match (one, other) {
        (Commands::None, only) | (only, Commands::None) => only,
        (Commands::Known(mut one), Commands::Known(other)) => {
            one.extend(other);
            Commands::Known(one)
        }
        (Commands::Unknown, Commands::Known(_) | Commands::Unknown)
        | (Commands::Known(_), Commands::Unknown) => Commands::Unknown,
    }
}

/// The findings that are left after their paths were inspected.
#[derive(Debug)]
pub(super) struct InspectedFindings {
    pub(super) findings: Vec<Finding>,
    /// The paths that were inspected.
    pub(super) targets: Vec<InspectedTarget>,
    /// The extent of everything that would be lost.
    pub(super) reach: LossExtent,
}

/// Inspects the paths that findings depend on.
pub(super) async fn inspect_paths(
    session: &Session,
    program: &Program,
    found: Vec<RawFinding>,
) -> Result<InspectedFindings, CallError> {
    let start = program.cwd.as_ref().map_or_else(|| session.cwd(), |cwd| session.absolute(cwd));
    let workspace = session.workspace.0.clone();
    let mut around = InspectedPaths { start, workspace, looked: HashMap::new() };
    for path in paths(&found).into_iter().take(MOST_TARGETS) {
        let whole = around.absolute(&path);
        let mut target = look(session, whole.clone(), Link::Target).await?;
        if matches!(&target, Some(target) if target.found.is_none()) {
            // The path does not exist, or is a link that leads nowhere: then the link itself is
            // meant.
            target = look(session, whole, Link::Itself).await?;
        }
        if let Some(target) = target {
            around.looked.insert(path, target);
        }
    }
    let inside =
        |target: &FindingTarget| target.path.as_ref().is_some_and(|p| !around.is_outside(p));
    let extent = |found: &RawFinding| match found.targets.as_slice() {
        [] => LossExtent::Beyond,
        targets if targets.iter().all(inside) => LossExtent::Workspace,
        _ if found.is_local => LossExtent::Host,
        _ => LossExtent::Beyond,
    };
    let destroys = found.iter().filter(|found| found.kind == Kind::Destructive);
    let reach = destroys.map(extent).max().unwrap_or(LossExtent::Workspace);
    let findings = settle(found, &around);
    let mut targets: Vec<InspectedTarget> = around.looked.into_values().collect();
    targets.sort_by(|a, b| a.path.cmp(&b.path));
    targets.dedup_by(|a, b| a.path == b.path);
    Ok(InspectedFindings { findings, targets, reach })
}

/// The paths that findings depend on, and those of files that would be put into them.
fn paths(found: &[RawFinding]) -> Vec<String> {
    let mut paths = Vec::new();
    for target in found.iter().flat_map(|found| &found.targets) {
        let Some(path) = target.path.as_ref().filter(|path| !path.starts_with(['~', '$'])) else {
            continue;
        };
        let inside = |name: &String| format!("{}/{name}", path.trim_end_matches('/'));
        paths.extend(target.into.iter().map(inside));
        paths.push(path.clone());
    }
    paths.sort();
    paths.dedup();
    paths
}

/// Inspects one path; `None` if that is not possible, and then the path is assumed to exist.
async fn look(
    session: &Session,
    path: Vec<u8>,
    link: Link,
) -> Result<Option<InspectedTarget>, CallError> {
    match InspectedTarget::look(session, path, link, Contents::Closed).await {
        Ok(target) => Ok(Some(target)),
        Err(CallError::File(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The surroundings of a command, as far as they were inspected. Other paths are assumed to exist.
struct InspectedPaths {
    start: Vec<u8>,
    workspace: Vec<u8>,
    looked: HashMap<String, InspectedTarget>,
}

impl InspectedPaths {
    fn absolute(&self, path: &str) -> Vec<u8> {
        if path.starts_with('/') {
            return path.as_bytes().to_vec();
        }
        [self.start.as_slice(), b"/", path.as_bytes()].concat()
    }
}

impl PathLookup for InspectedPaths {
    fn look(&self, path: &str) -> Existence {
        match self.looked.get(path).map(InspectedTarget::there) {
            Some(None) => Existence::Missing,
            Some(Some("directory")) => Existence::Directory,
            Some(Some(_)) | None => Existence::Present,
        }
    }

    fn is_outside(&self, path: &str) -> bool {
        let Some(target) = self.looked.get(path) else { return true };
        let inside = target.real.strip_prefix(self.workspace.as_slice());
        !inside.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(argv: &[&str], directory: DirectoryPolicy) -> Program {
        Program {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            script: None,
            cwd: None,
            environment: Default::default(),
            stdin: None,
            directory,
            manner: crate::base::task::WaitMode::Foreground,
            typing: StdinMode::Closed,
            lifetime: None,
            terminal: None,
            route: Default::default(),
        }
    }

    #[test]
    fn an_argv_is_a_line_of_quoted_words() {
        let argv = ["rm", "-r", "a b", "it's", "$x"];
        let line = "'rm' '-r' 'a b' 'it'\\''s' '$x'";
        assert_eq!(text(&program(&argv, DirectoryPolicy::Left)), line);
        assert_eq!(text(&program(&["bash", "-c", "rm $x"], DirectoryPolicy::Kept)), "rm $x");
    }

    #[test]
    fn standard_input_is_part_of_what_is_looked_at() {
        let (before, after) = around(Some(&Content::Inline("rm -r x".to_owned())));
        assert_eq!(before, "{ ");
        assert!(after.starts_with("\n} <<'PALISADE_") && after.contains("'\nrm -r x\nPALISADE_"));
        assert_eq!(around(Some(&Content::Attached)), ("cat | { ", "\n}".to_owned()));
        assert_eq!(around(None), ("", String::new()));
    }
}
