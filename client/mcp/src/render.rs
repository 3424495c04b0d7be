//! The view that a model has of a result: the output, cut to its head and tail, what went wrong and
//! what to do about it, and the same facts as structured content.

mod facts;
mod media;

use crate::{
    cut::{head_and_tail, shorten},
    sessions::Continuity,
};
use palisade_client::{CallResult, Denial, ErrorCode};
use palisade_options::connect::Daemon;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

/// The maximum number of denials that are told.
const MAX_DENIALS: usize = 5;

/// Returns the maximum length of a message, a hint or a remedy, in characters. All of them together
/// leave room for the output.
fn message_limit(most: usize) -> usize {
    (most / 20).clamp(50, 1500)
}

/// The length of the note about an output that the daemon stored, in characters.
const STORED_NOTE: usize = 100;

/// The facts about a call that are not in its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    pub(crate) continuity: Continuity,
    pub(crate) daemon: Daemon,
    /// Whether the session was given up because of this result.
    pub(crate) is_given_up: bool,
}

/// A result as the model reads it.
#[derive(Debug)]
pub(crate) struct RenderedResult {
    pub(crate) answer: CallToolResult,
    /// Whether something was left out of the output that the daemon did not store.
    pub(crate) is_cut: bool,
}

/// Renders a result in at most `most` characters.
pub(crate) fn render(result: &CallResult, around: Circumstances, most: usize) -> RenderedResult {
    let limit = message_limit(most);
    let mut notes = notes(result, limit);
    let mut environment = environment(result, around);
    let noted: usize = notes.iter().chain(&environment).map(|note| note.chars().count() + 1).sum();
    let room = most.saturating_sub(noted + STORED_NOTE);
    let media = media::of(result);
    let output = media.as_ref().map_or(result.output.as_str(), |media| media.caption.as_str());
    let id = result.call_id.as_str();
    let cut = head_and_tail(output, room, |first| {
        format!("read_output with call_id \"{id}\" and offset {first} reads on")
    });
    if let (0, Some(stored)) = (cut.omitted, &result.spool) {
        environment.push(format!("[read_output with call_id \"{stored}\" reads all of it]"));
    }
    notes.extend(environment.iter().cloned());
    let footer = notes.join("\n");
    let mut text = cut.text.clone();
    if !text.is_empty() && !text.ends_with('\n') && !footer.is_empty() {
        text.push('\n');
    }
    text.push_str(&footer);
    let mut content = vec![ContentBlock::text(text)];
    // Some clients show a model only the structured content, if there is any. So there is none
    // where something else is to be seen.
    let structured = match media {
        Some(media) => {
            content.push(media.block);
            None
        }
        None => Some(facts::of(result, &cut, &environment, limit)),
    };
    let mut answer = CallToolResult::default();
    answer.content = content;
    answer.structured_content = structured;
    answer.is_error = Some(!result.success);
    RenderedResult { answer, is_cut: cut.omitted > 0 && result.spool.is_none() }
}

/// Renders a failure that has no result.
pub(crate) fn failure(message: &str) -> CallToolResult {
    let mut answer = CallToolResult::error(vec![ContentBlock::text(message)]);
    answer.structured_content = Some(json!({"success": false, "error": {"message": message}}));
    answer
}

/// Renders the answer to a call that is still under way.
pub(crate) fn pending(tool: &str, seconds: u64, name: &str, ticket: &str) -> CallToolResult {
    let message = format!(
        "{tool} has not finished after {seconds} s: it is still running, or waiting for approval. \
         It goes on. To get its result, make the same call again, with the same arguments and \
         \"{name}\": \"{ticket}\". Without the ticket it would run a second time."
    );
    let facts: Value =
        json!({"status": "pending", "tool": tool, "ticket": ticket, "message": message});
    let mut answer = CallToolResult::success(vec![ContentBlock::text(message)]);
    answer.structured_content = Some(facts);
    answer
}

/// Returns what a model must know of the result beside the output, a line each.
fn notes(result: &CallResult, limit: usize) -> Vec<String> {
    let mut notes = Vec::new();
    match (result.exit_code, result.signal) {
        (Some(code), Some(signal)) => {
            notes.push(format!("[exit {code}, ended by signal {signal}]"))
        }
        (Some(code), None) => notes.push(format!("[exit {code}]")),
        (None, _) => {}
    }
    let ends = [
        (result.timed_out, "[timed out; everything that the call started was killed]"),
        (result.cancelled, "[cancelled]"),
        (result.oom, "[a process was killed because memory ran out]"),
        (result.pipe_held, "[a process that was left running was killed]"),
    ];
    notes.extend(ends.iter().filter(|(is, _)| *is).map(|(_, text)| (*text).to_owned()));
    let hint = error_notes(result, &mut notes, limit);
    let denials = result.denials.iter().take(MAX_DENIALS);
    notes.extend(denials.map(|denial| refusal(denial, &hint, limit)));
    if let Some(more) = result.denials.len().checked_sub(MAX_DENIALS + 1) {
        notes.push(format!("[{} more refusals]", more + 1));
    }
    if let Some(undo) = &result.undo {
        notes.push(format!("[undo id: {undo}]"));
    }
    notes
}

/// Adds the error and what to do about it; returns the latter.
fn error_notes(result: &CallResult, notes: &mut Vec<String>, limit: usize) -> String {
    let Some(error) = &result.error else { return String::new() };
    // A command that failed has said so itself.
    if error.code == ErrorCode::CommandFailed {
        return String::new();
    }
    let is_denied = matches!(
        error.code,
        ErrorCode::Denied | ErrorCode::OutsidePolicy | ErrorCode::StaleApproval
    );
    let what =
        if is_denied { "Denied".to_owned() } else { format!("Error ({})", error.code.name()) };
    notes.push(format!("{what}: {}", shorten(&error.message, limit)));
    if !error.hint.is_empty() {
        notes.push(format!("What to do: {}", shorten(&error.hint, limit)));
    }
    error.hint.clone()
}

fn refusal(denial: &Denial, hint: &str, limit: usize) -> String {
    let Denial { layer, rule, target, remedy, .. } = denial;
    let mut text = format!("Refused by {layer}: {} ({rule}).", shorten(target, limit));
    if !remedy.is_empty() && !hint.contains(remedy.as_str()) {
        text.push_str(&format!(" To allow it: {}", shorten(remedy, limit)));
    }
    text
}

/// Says what is different about the session or the host.
fn environment(result: &CallResult, around: Circumstances) -> Vec<String> {
    let mut notes = Vec::new();
    let nobody = result.checkpoint.as_ref();
    if nobody.is_some_and(|found| found.decision == "denied" && found.by == "default")
        && matches!(around.daemon, Daemon::Private(_))
    {
        notes.push(
            "[no approver can reach the private daemon of this server; a running palisaded with \
             `palisade approve` can ask a person]"
                .to_owned(),
        );
    }
    if around.continuity == Continuity::Renewed {
        notes.push(
            "[a new session was opened for this call; the working directory, /tmp and jobs of the \
             earlier one are gone]"
                .to_owned(),
        );
    }
    if around.is_given_up {
        notes.push("[the session is over; the next call opens a new one]".to_owned());
    }
    let missing: Vec<&str> = result.receipt.degraded.iter().map(|d| d.layer.as_str()).collect();
    if !missing.is_empty() {
        notes.push(format!("[not enforced on this host: {}]", missing.join(", ")));
    }
    if let Some(observed) = &result.receipt.observed {
        let profile = &result.receipt.profile;
        notes.push(format!(
            "[profile {profile} is observed, not enforced; profile {} is enforced]",
            observed.under
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
