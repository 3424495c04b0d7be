//! The approval of changed tools: an approver of the daemon is shown what changed. Only a clear
//! approval of exactly this list accepts it.

use super::{input::explain_result, life::ServerLife, tool_list::ToolList};
use crate::explain::explain;
use palisade_client::{ApprovalOutcome, CallResult, Error, arguments::ServerTools};
use tokio::task::JoinSet;

/// The maximum size of the new texts that an approver is shown, in bytes. What is longer is for a
/// person at a terminal.
const MAX_TEXTS: usize = 16 << 10;

/// The maximum number of lines of these texts.
const MAX_LINES: usize = 200;

/// The answer about a list of tools.
#[derive(Debug, PartialEq, Eq)]
enum ToolsAnswer {
    Approved,
    /// An approver denied it.
    Denied(String),
    /// Nobody answered, or nobody could be asked.
    Unanswered(String),
}

/// The approval of a server's changed tools. One list at a time is asked about, and none after a
/// denial.
#[derive(Debug, Default)]
pub(super) struct ToolsApproval {
    /// The list that is asked about, and the task that waits for the answer.
    asked: Option<(ToolList, JoinSet<ToolsAnswer>)>,
    is_denied: bool,
    /// The last answer, for the agent.
    said: String,
}

impl ToolsApproval {
    /// Asks about a list, unless that is under way already.
    pub(super) fn ask(
        &mut self,
        life: &ServerLife,
        list: &ToolList,
        accepted: &ToolList,
        changes: &[String],
    ) {
        let is_asked = |(asked, _): &(ToolList, _)| asked.digest() == list.digest();
        if self.is_denied || self.asked.as_ref().is_some_and(is_asked) {
            return;
        }
        let texts = list.new_texts(Some(accepted));
        let size: usize = texts.iter().map(String::len).sum();
        if size > MAX_TEXTS
            || texts.iter().map(|text| text.lines().count()).sum::<usize>() > MAX_LINES
        {
            self.said = "The new texts are too long for an approval request. ".to_owned();
            return;
        }
        let (digest, changes) = (list.digest(), changes.to_vec());
        let call = life.call_about_list(ServerTools { digest, changes, texts });
        let mut task = JoinSet::new();
        task.spawn(async move { answer(call.await) });
        self.said = "An approver is asked. ".to_owned();
        self.asked = Some((list.clone(), task));
    }

    /// Waits for the answer, if one is under way. Returns the list if it was approved.
    pub(super) async fn wait(&mut self) -> Option<ToolList> {
        let answer = self.asked.as_mut()?.1.join_next().await?;
        self.finish(answer.unwrap_or_else(|error| ToolsAnswer::Unanswered(error.to_string())))
    }

    /// Returns `true` if an approver was asked and has not answered yet.
    pub(super) const fn is_under_way(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns the list that was approved since it was asked about.
    pub(super) fn approved(&mut self) -> Option<ToolList> {
        let answer = self.asked.as_mut()?.1.try_join_next()?;
        self.finish(answer.unwrap_or_else(|error| ToolsAnswer::Unanswered(error.to_string())))
    }

    /// Gives up the request, because the server has ended.
    pub(super) fn abandon(&mut self) {
        self.asked = None;
    }

    /// Says what came of it, as a sentence before others.
    pub(super) fn said(&self) -> &str {
        &self.said
    }

    fn finish(&mut self, answer: ToolsAnswer) -> Option<ToolList> {
        let (list, _) = self.asked.take()?;
        match answer {
            ToolsAnswer::Approved => {
                self.said.clear();
                Some(list)
            }
            ToolsAnswer::Denied(why) => {
                self.is_denied = true;
                self.said = format!("The new ones were denied: {why}. ");
                None
            }
            ToolsAnswer::Unanswered(why) => {
                self.said = format!("Approval was asked for: {why}. ");
                None
            }
        }
    }
}

/// Reads the answer. A daemon that asked nobody, because the profile never asks, has not approved.
fn answer(result: Result<CallResult, Error>) -> ToolsAnswer {
    let result = match result {
        Ok(result) => result,
        Err(error) => return ToolsAnswer::Unanswered(explain(&error)),
    };
    match &result.checkpoint {
        Some(checkpoint) if result.success && checkpoint.decision == ApprovalOutcome::Approved => {
            ToolsAnswer::Approved
        }
        Some(checkpoint)
            if checkpoint.decision == ApprovalOutcome::Denied && !checkpoint.is_unanswered() =>
        {
            ToolsAnswer::Denied(explain_result(&result))
        }
        Some(_) => ToolsAnswer::Unanswered(explain_result(&result)),
        None if result.success => {
            ToolsAnswer::Unanswered("the profile asks no approver".to_owned())
        }
        None => ToolsAnswer::Unanswered(explain_result(&result)),
    }
}
