//! What a program or shell line would do: what the analyst finds, settled by looking at the paths
//! that it depends on. Broker.

use crate::{
    analyst::Analyst,
    error::CallError,
    guard::Reach,
    seen::SeenTarget,
    session::Session,
    task::{Content, Directory, Program, Typing},
};
use palisade_plan::cell::{Contents, Link};
use palisade_policy::{
    Commands,
    analysis::{Analysed, Existence, Found, Kind, Place, Target, settle},
};
use palisade_protocol::{Finding, Span};
use std::collections::HashMap;

/// How many targets of one call are looked at; the others count as there.
const MOST_TARGETS: usize = 64;

/// The longest standard input that is looked into; more is as if nobody knew it.
const MOST_INPUT: usize = 32 * 1024;

/// Has a program analysed, with what it reads on standard input.
pub(super) async fn analyse(analyst: &Analyst, program: &Program) -> Analysed {
    let text = text(program);
    let length = text.len();
    let (before, after) = around(match program.typing {
        Typing::Open => Some(&Content::Attached),
        Typing::Closed => program.stdin.as_ref(),
    });
    let mut analysed = analyst.ask(format!("{before}{text}{after}")).await;
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
        (Directory::Left, _) => {
            let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
            program.argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
        }
        (Directory::Kept, Some(script)) => script.clone(),
        (Directory::Kept, None) => program.argv.last().cloned().unwrap_or_default(),
    }
}

/// What stands for standard input around a line: its text, or something that nobody knows yet.
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

/// The programs that it would start; what was given as an argv is one of them.
pub(super) fn started(program: &Program, analysed: &Analysed) -> Commands {
    match (analysed.commands(), program.directory) {
        (Commands::Known(mut commands), Directory::Left) => {
            commands.insert(0, program.argv.clone());
            Commands::Known(commands)
        }
        (commands, Directory::Left | Directory::Kept) => commands,
    }
}

/// The programs of two calls in one.
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

/// What is left of findings when their paths were looked at.
#[derive(Debug)]
pub(super) struct LookedAround {
    pub(super) findings: Vec<Finding>,
    /// What was seen.
    pub(super) targets: Vec<SeenTarget>,
    /// Where all lies that would be lost.
    pub(super) reach: Reach,
}

/// Looks at the paths that findings depend on.
pub(super) async fn look_around(
    session: &Session,
    program: &Program,
    found: Vec<Found>,
) -> Result<LookedAround, CallError> {
    let start = program.cwd.as_ref().map_or_else(|| session.cwd(), |cwd| session.absolute(cwd));
    let workspace = session.workspace.0.clone();
    let mut around = Around { start, workspace, looked: HashMap::new() };
    for path in paths(&found).into_iter().take(MOST_TARGETS) {
        let whole = around.absolute(&path);
        let mut target = look(session, whole.clone(), Link::Target).await?;
        if matches!(&target, Some(target) if target.found.is_none()) {
            // Nothing behind it; but a link may be what is meant.
            target = look(session, whole, Link::Itself).await?;
        }
        if let Some(target) = target {
            around.looked.insert(path, target);
        }
    }
    let inside = |target: &Target| target.path.as_ref().is_some_and(|p| !around.is_outside(p));
    let destroys = found.iter().filter(|found| found.kind == Kind::Destructive);
    let held = destroys
        .into_iter()
        .all(|found| !found.targets.is_empty() && found.targets.iter().all(inside));
    let reach = if held { Reach::Workspace } else { Reach::Beyond };
    let findings = settle(found, &around);
    let mut targets: Vec<SeenTarget> = around.looked.into_values().collect();
    targets.sort_by(|a, b| a.path.cmp(&b.path));
    targets.dedup_by(|a, b| a.path == b.path);
    Ok(LookedAround { findings, targets, reach })
}

/// The paths that findings depend on, and what would be put into them.
fn paths(found: &[Found]) -> Vec<String> {
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

/// Looks at one path; none if that can not be done, and then it counts as there.
async fn look(
    session: &Session,
    path: Vec<u8>,
    link: Link,
) -> Result<Option<SeenTarget>, CallError> {
    match SeenTarget::look(session, path, link, Contents::Closed).await {
        Ok(target) => Ok(Some(target)),
        Err(CallError::File(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where a command would run, as far as it was looked at. What was not looked at is there.
struct Around {
    start: Vec<u8>,
    workspace: Vec<u8>,
    looked: HashMap<String, SeenTarget>,
}

impl Around {
    fn absolute(&self, path: &str) -> Vec<u8> {
        if path.starts_with('/') {
            return path.as_bytes().to_vec();
        }
        [self.start.as_slice(), b"/", path.as_bytes()].concat()
    }
}

impl Place for Around {
    fn look(&self, path: &str) -> Existence {
        match self.looked.get(path).map(SeenTarget::there) {
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

    fn program(argv: &[&str], directory: Directory) -> Program {
        Program {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            script: None,
            cwd: None,
            environment: Default::default(),
            stdin: None,
            directory,
            manner: crate::task::Manner::Foreground,
            typing: Typing::Closed,
            lifetime: None,
            terminal: None,
            route: Default::default(),
        }
    }

    #[test]
    fn an_argv_is_a_line_of_quoted_words() {
        let argv = ["rm", "-r", "a b", "it's", "$x"];
        let line = "'rm' '-r' 'a b' 'it'\\''s' '$x'";
        assert_eq!(text(&program(&argv, Directory::Left)), line);
        assert_eq!(text(&program(&["bash", "-c", "rm $x"], Directory::Kept)), "rm $x");
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
