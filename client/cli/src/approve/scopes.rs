//! The scopes that a person is offered for remembering an approval, in words, and what each would
//! have allowed lately. Pure: no I/O.

use crate::visible::{columns::Width, visible};
use palisade_client::{
    ApprovalRequest, CommandPrefix, FileChange, LossScope, PathScope, RawPath, Review, Scope,
    ScopeHistory, Until,
};
use palisade_protocol::Remember;
use std::collections::BTreeSet;

/// A day, the time for which an approval is offered to outlive its session.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The most paths of file tools that are offered.
const MOST_PATHS: usize = 4;

/// A scope with its time, and a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfferedScope {
    pub(crate) text: String,
    pub(crate) remember: Remember,
}

/// Lists the scopes for which an approval request may be remembered.
pub(crate) fn offered(request: &ApprovalRequest) -> Vec<OfferedScope> {
    let permitted = |name: &str| request.scopes.iter().any(|scope| scope == name);
    match request.review {
        Review::Output => Vec::new(),
        Review::Effects if permitted("losses") => of_losses(request),
        Review::Effects => Vec::new(),
        Review::Input => {
            let mut offered = Vec::new();
            if permitted("exact_call") {
                offered.push(session("exactly this call".to_owned(), Scope::ExactCall));
            }
            if permitted("command_prefix") && !request.prefix.is_empty() {
                let words = request.prefix.clone();
                let text = format!("commands that begin with: {}", visible(&words.join(" ")));
                offered.push(session(text, Scope::CommandPrefix(CommandPrefix { words })));
            }
            if permitted("path") {
                offered.extend(of_paths(request));
            }
            offered
        }
    }
}

fn session(text: String, scope: Scope) -> OfferedScope {
    OfferedScope { text, remember: Remember { scope, until: Until::Session } }
}

/// The scopes of a file tool: each path, and the directory that all are in.
fn of_paths(request: &ApprovalRequest) -> Vec<OfferedScope> {
    let paths: Vec<&[u8]> =
        request.view.targets.iter().map(|target| target.path.0.as_slice()).collect();
    let workspace = request.asker.workspace.0.as_slice();
    let directory = common_directory(&paths, &[], workspace);
    let scopes = paths.into_iter().take(MOST_PATHS).map(<[u8]>::to_vec).chain(directory);
    scopes
        .map(|path| {
            let path = RawPath(path);
            let text = format!("{} on {} and below", request.tool, shown(&path));
            session(text, Scope::Path(PathScope { path }))
        })
        .collect()
}

/// The scopes of a command's losses: their directory, its programs, their kinds, the workspace.
fn of_losses(request: &ApprovalRequest) -> Vec<OfferedScope> {
    let lost: Vec<&FileChange> = request.view.changes.iter().filter(|change| change.lost).collect();
    let paths: Vec<&[u8]> = lost
        .iter()
        .flat_map(|change| change.from.iter().chain([&change.path]))
        .map(|path| path.0.as_slice())
        .collect();
    let workspace = &request.asker.workspace;
    let kinds: BTreeSet<&str> = lost.iter().map(|change| change.effect.as_str()).collect();
    let kinds: Vec<String> = kinds.into_iter().map(str::to_owned).collect();
    let scope = |path: &RawPath, kinds: &[String], programs: &[String]| {
        let (path, kinds, programs) = (path.clone(), kinds.to_vec(), programs.to_vec());
        Scope::Losses(LossScope { path, kinds, programs })
    };
    let mut offered = Vec::new();
    // The number of entries is that of what is at the new path.
    let whole: Vec<&[u8]> = lost
        .iter()
        .filter(|change| change.entries > 1 && change.from.is_none())
        .map(|change| change.path.0.as_slice())
        .collect();
    if let Some(directory) = common_directory(&paths, &whole, &workspace.0).map(RawPath) {
        let text = format!("every loss in {} and below", shown(&directory));
        offered.push(session(text, scope(&directory, &[], &[])));
    }
    if !request.prefix.is_empty() {
        let programs = visible(&request.prefix.join(" "));
        let text = format!("every loss in this workspace by commands that run only: {programs}");
        offered.push(session(text, scope(workspace, &[], &request.prefix)));
    }
    if !kinds.is_empty() {
        let text = format!("every {} file in this workspace", visible(&kinds.join(" or ")));
        offered.push(session(text, scope(workspace, &kinds, &[])));
    }
    if request.remember_ms >= DAY_MS {
        let remember = Remember { scope: scope(workspace, &[], &[]), until: Until::Ms(DAY_MS) };
        let text = "every loss in this workspace".to_owned();
        offered.push(OfferedScope { text, remember });
    }
    offered
}

/// Returns the deepest directory of the workspace that has all paths in it, or is one of them; `None`
/// if there is none. `directories` are the paths that are known to be directories.
fn common_directory(paths: &[&[u8]], directories: &[&[u8]], workspace: &[u8]) -> Option<Vec<u8>> {
    let parent = |path: &[u8]| {
        let slash = path.iter().rposition(|byte| *byte == b'/')?;
        Some(path.get(..slash)?.to_vec())
    };
    let is_in = |path: &[u8], top: &[u8]| {
        path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    let first = *paths.first()?;
    let is_directory = directories.contains(&first);
    let mut directory = if is_directory { first.to_vec() } else { parent(first)? };
    while !paths.iter().all(|path| is_in(path, &directory)) {
        directory = parent(&directory)?;
    }
    is_in(&directory, workspace).then_some(directory)
}

fn shown(path: &RawPath) -> String {
    visible(&path.as_path().display().to_string())
}

/// Describes the offered scopes by number, each with its time and what it would have allowed.
pub(crate) fn describe(
    offered: &[OfferedScope],
    history: Option<&ScopeHistory>,
    width: Width,
) -> String {
    let mut text = "approve, and do not ask again for:".to_owned();
    let mut say = |head: &str, next: &str, line: &str| {
        let mut mark = head;
        for piece in width.wrap(line, head, next) {
            text.push_str(&format!("\n{mark}{piece}"));
            mark = next;
        }
    };
    for (at, scope) in offered.iter().enumerate() {
        let until = match scope.remember.until {
            Until::Session => "until the session ends",
            Until::Ms(_) => "for a day",
        };
        // The mark tells a broken path from another line of this program's own.
        say(&format!("  {}  ", at + 1), "   … ", &format!("{}, {until}", scope.text));
        if let Some(counts) = history.and_then(|history| history.scopes.get(at)) {
            let requests = history.map_or(0, |history| history.requests);
            let mut line = format!(
                "in the last 7 days: {} of {requests} requests would have been approved",
                counts.covered
            );
            if counts.denied > 0 {
                line += &format!(", {} of which were denied", counts.denied);
            }
            say("     ", "     ", &line);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approve::card::tests::request;
    use palisade_client::ScopeUse;

    fn change(path: &str, effect: &str, lost: bool) -> FileChange {
        FileChange {
            path: path.into(),
            effect: effect.to_owned(),
            from: None,
            entries: 1,
            size_before: 1,
            size: 0,
            lost,
        }
    }

    #[test]
    fn losses_are_offered_by_directory_program_kind_and_day() {
        let mut asked = request();
        asked.review = Review::Effects;
        asked.scopes = vec!["losses".to_owned()];
        asked.prefix = vec!["make".to_owned(), "rm".to_owned()];
        asked.remember_ms = DAY_MS;
        asked.view.changes = vec![
            change("/home/me/project/out/a/x", "deleted", true),
            change("/home/me/project/out/b", "replaced", true),
            change("/home/me/project/new", "created", false),
        ];
        let scopes = offered(&asked);
        let history = ScopeHistory {
            period_ms: 7 * DAY_MS,
            requests: 9,
            scopes: vec![ScopeUse { covered: 7, denied: 2 }, ScopeUse { covered: 4, denied: 0 }],
        };
        let expected = "\
approve, and do not ask again for:
  1  every loss in /home/me/project/out and below, until the session ends
     in the last 7 days: 7 of 9 requests would have been approved, 2 of which were denied
  2  every loss in this workspace by commands that run only: make rm, until the session ends
     in the last 7 days: 4 of 9 requests would have been approved
  3  every deleted or replaced file in this workspace, until the session ends
  4  every loss in this workspace, for a day";
        assert_eq!(describe(&scopes, Some(&history), Width::Unlimited), expected);
        let wanted = LossScope {
            path: "/home/me/project/out".into(),
            kinds: Vec::new(),
            programs: Vec::new(),
        };
        assert_eq!(scopes[0].remember.scope, Scope::Losses(wanted));
        assert_eq!(scopes[3].remember.until, Until::Ms(DAY_MS));
        asked.remember_ms = DAY_MS - 1;
        assert_eq!(offered(&asked).len(), 3, "the profile does not allow a day");
        asked.scopes = vec!["exact_call".to_owned()];
        assert_eq!(offered(&asked), []);
    }

    #[test]
    fn a_directory_that_is_lost_as_a_whole_is_offered_itself() {
        let mut asked = request();
        asked.review = Review::Effects;
        asked.scopes = vec!["losses".to_owned()];
        let tree = |path: &str| FileChange { entries: 3, ..change(path, "deleted", true) };
        let first = |changes: Vec<FileChange>| {
            let mut asked = asked.clone();
            asked.view.changes = changes;
            let Scope::Losses(scope) = offered(&asked).remove(0).remember.scope else {
                panic!("no scope of losses")
            };
            scope.path.as_path().display().to_string()
        };
        let out = "/home/me/project/out";
        assert_eq!(first(vec![tree(out)]), out);
        let file = |path: &str| change(path, "deleted", true);
        assert_eq!(first(vec![file("/home/me/project/out/x")]), out);
        assert_eq!(first(vec![tree(out), file("/home/me/project/log")]), "/home/me/project");
        assert_eq!(first(vec![tree(out), tree("/home/me/project/gen")]), "/home/me/project");
        assert_eq!(first(vec![file("/home/me/project/out")]), "/home/me/project", "a file");
    }

    #[test]
    fn on_a_terminal_the_scopes_break_at_words() {
        let mut asked = request();
        asked.review = Review::Effects;
        asked.scopes = vec!["losses".to_owned()];
        asked.prefix = vec!["make".to_owned(), "rm".to_owned()];
        asked.remember_ms = DAY_MS;
        asked.asker.workspace = "/home/alice/src/a-project-with-a-long-name".into();
        let lost = "/home/alice/src/a-project-with-a-long-name/services/billing/generated/a.rs";
        asked.view.changes = vec![change(lost, "deleted", true)];
        let scopes = vec![ScopeUse { covered: 7, denied: 2 }; 4];
        let history = ScopeHistory { period_ms: 7 * DAY_MS, requests: 9, scopes };
        let shown = |columns| describe(&offered(&asked), Some(&history), Width::Columns(columns));
        let expected = "\
approve, and do not ask again for:
  1  every loss in
   … /home/alice/src/a-project-with-a-long-name/services/billing/generated and
   … below, until the session ends
     in the last 7 days: 7 of 9 requests would have been approved, 2 of which
     were denied
  2  every loss in this workspace by commands that run only: make rm, until the
   … session ends
     in the last 7 days: 7 of 9 requests would have been approved, 2 of which
     were denied
  3  every deleted file in this workspace, until the session ends
     in the last 7 days: 7 of 9 requests would have been approved, 2 of which
     were denied
  4  every loss in this workspace, for a day
     in the last 7 days: 7 of 9 requests would have been approved, 2 of which
     were denied";
        assert_eq!(shown(80), expected);
        let wide = shown(160);
        assert_eq!(wide.lines().count(), 9, "{wide}");
    }

    #[test]
    fn a_file_tool_is_offered_its_paths_and_their_directory() {
        let mut asked = request();
        asked.scopes = vec!["path".to_owned()];
        let texts: Vec<_> = offered(&asked).into_iter().map(|scope| scope.text).collect();
        assert_eq!(texts[0], "bash on /home/me/project/build and below");
        assert_eq!(texts[3], "bash on /home/me/project and below");
        asked.asker.workspace = "/elsewhere".into();
        assert_eq!(offered(&asked).len(), 3, "nothing beyond the workspace");
        asked.scopes.clear();
        assert_eq!(offered(&asked), []);
    }
}
