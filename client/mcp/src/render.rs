//! The view that a model has of a result: the output, cut to its head and tail, what went wrong and
//! what to do about it, and the same facts as structured content.

mod facts;

use crate::{
    activity::Activity, explain::explain, pages::reads_on, sessions::Continuity, tickets::CallKey,
};
use palisade_client::{
    CallResult, Error, ErrorCode, WireError,
    model_text::{IMAGES, MediaFile, TOO_LARGE, head_and_tail, message_limit, notes},
};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

/// The length of the note about an output that the daemon stored, in characters.
const STORED_NOTE: usize = 100;

/// The facts about a call that are not in its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    pub(crate) continuity: Continuity,
    /// True if the session was given up because of this result.
    pub(crate) is_given_up: bool,
}

/// A result as the model reads it.
#[derive(Debug)]
pub(crate) struct RenderedResult {
    pub(crate) answer: CallToolResult,
    /// True if something was left out of the output that the daemon did not store.
    pub(crate) is_cut: bool,
}

/// Renders a result in at most `most` characters.
pub(crate) fn render(result: &CallResult, around: Circumstances, most: usize) -> RenderedResult {
    let limit = message_limit(most);
    let mut notes = notes(result, limit);
    let mut environment = environment(result, around);
    let noted: usize = notes.iter().chain(&environment).map(|note| note.chars().count() + 1).sum();
    let room = most.saturating_sub(noted + STORED_NOTE);
    let file = MediaFile::of(result);
    let output = file.as_ref().map_or_else(|| result.output.clone(), |file| file.text(result));
    let id = result.call_id.as_str();
    let cut = head_and_tail(&output, room, |first| reads_on(id, first));
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
    let structured = match file {
        Some(file) => {
            content.push(block(file));
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

/// Renders a file: an image as one, and anything else as a resource.
fn block(file: MediaFile) -> ContentBlock {
    let MediaFile { media_type, path, content, .. } = file;
    let Some(content) = content else { return ContentBlock::text(TOO_LARGE) };
    if IMAGES.contains(&media_type.as_str()) {
        return ContentBlock::image(content, media_type);
    }
    // A page has a URL of its own.
    let uri = if path.contains("://") { path } else { format!("file://{path}") };
    ContentBlock::resource(ResourceContents::blob(content, uri).with_mime_type(media_type))
}

/// Renders a failure that has no result.
pub(crate) fn failure(error: &Error) -> CallToolResult {
    let text = explain(error);
    let facts = match error.wire() {
        Some(wire) => facts::error(wire, usize::MAX),
        None => json!({"message": text}),
    };
    let mut answer = CallToolResult::error(vec![ContentBlock::text(text)]);
    answer.structured_content = Some(json!({"success": false, "error": facts}));
    answer
}

/// Renders a failure of this server's own.
pub(crate) fn own_failure(code: ErrorCode, message: &str, hint: &str) -> CallToolResult {
    failure(&Error::Remote(WireError::new(code, message, hint)))
}

/// Renders the answer to a call that is still under way.
pub(crate) fn pending(
    CallKey { tool, ticket: name, .. }: &CallKey,
    seconds: u64,
    activity: Activity,
    ticket: &str,
) -> CallToolResult {
    let (doing, waits_for) = match activity {
        Activity::Running => ("it is still running", None),
        Activity::StartingServer => ("its server is still starting", Some("server_start")),
        Activity::WaitingForApproval => ("it is waiting for approval", Some("approval")),
    };
    let message = format!(
        "{tool} has not finished after {seconds} s: {doing}. It goes on. To get its result, make \
         the same call again, with the same arguments and \"{name}\": \"{ticket}\". Without the \
         ticket it would run a second time."
    );
    let facts: Value = json!({"status": "pending", "tool": tool, "ticket": ticket,
        "waits_for": waits_for, "message": message});
    let mut answer = CallToolResult::success(vec![ContentBlock::text(message)]);
    answer.structured_content = Some(facts);
    answer
}

/// Says what is different about the session or the host.
fn environment(result: &CallResult, around: Circumstances) -> Vec<String> {
    let mut notes = Vec::new();
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
    let Some(receipt) = &result.receipt else { return notes };
    let missing: Vec<&str> = receipt.degraded.iter().map(|d| d.layer.as_str()).collect();
    if !missing.is_empty() {
        notes.push(format!("[not enforced on this host: {}]", missing.join(", ")));
    }
    if let Some(observed) = &receipt.observed {
        let profile = &receipt.profile;
        notes.push(format!(
            "[profile {profile} is observed, not enforced; profile {} is enforced]",
            observed.under
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
