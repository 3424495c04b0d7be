//! The queue of approval requests for a person, and the meaning of each key. Nothing here touches a
//! terminal.

use crate::{
    approve::{
        card,
        scopes::{self, OfferedScope},
    },
    call::id,
    operator::answer::{Verdict, answer},
    visible::{
        columns::{first_columns, last_columns},
        visible,
    },
};
use palisade_client::{
    Answer, ApprovalClosed, ApprovalGiven, ApprovalId, ApprovalRequest, Remember,
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The time for which an approval request must be visible, and no other key be typed, before a key can
/// approve it. A key typed for the previous request, or for something else, must not approve this one.
const PAUSE: Duration = Duration::from_millis(300);

const ESCAPE: u8 = 0x1b;
const END_OF_FILE: u8 = 0x04;
const INTERRUPT: u8 = 0x03;

/// The action that a key leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    /// No action but another prompt.
    Nothing,
    /// Print this text.
    Say(String),
    /// Show the scopes for which the first approval request may be remembered.
    Offer(Vec<OfferedScope>),
    /// Answer the first approval request.
    Answer(Answer),
    /// Edit the arguments of the first approval request.
    Edit,
    /// End the session of the first approval request.
    Abort,
    /// Quit.
    Quit,
}

#[derive(Debug)]
enum PromptMode {
    Choosing,
    Reason(Vec<u8>),
    Scopes(Vec<OfferedScope>),
    Abort,
}

#[derive(Debug)]
struct QueuedRequest {
    request: ApprovalRequest,
    deadline: Instant,
}

/// The queue, and the prompt about its first approval request.
#[derive(Debug)]
pub(crate) struct ApprovalQueue {
    queue: VecDeque<QueuedRequest>,
    /// The requests that this person has approved, and others still must.
    approved: Vec<ApprovalId>,
    mode: PromptMode,
    shown: Option<ApprovalId>,
    ready: Instant,
}

impl ApprovalQueue {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            queue: VecDeque::new(),
            approved: Vec::new(),
            mode: PromptMode::Choosing,
            shown: None,
            ready: now,
        }
    }

    /// Adds an approval request. Returns a message if it has to wait.
    pub(crate) fn add(&mut self, request: ApprovalRequest, now: Instant) -> Option<String> {
        let deadline = now + Duration::from_millis(request.expires_in_ms);
        let told = (!self.queue.is_empty()).then(|| {
            format!("  + {} is waiting: {}", card::short_id(&request.id), card::summary(&request))
        });
        self.queue.push_back(QueuedRequest { request, deadline });
        told
    }

    /// Removes an approval request that needs no answer any more. Returns a message if it was in
    /// the queue, or if this person had approved it.
    pub(crate) fn over(&mut self, over: &ApprovalClosed) -> Option<String> {
        let approved = self.approved.extract_if(.., |id| *id == over.request).next();
        if approved.is_none() {
            let place = self.queue.iter().position(|w| w.request.id == over.request)?;
            self.queue.remove(place)?;
            if place == 0 {
                self.mode = PromptMode::Choosing;
            }
        }
        Some(format!(
            "{} is over: {} by {}",
            card::short_id(&over.request),
            over.outcome,
            visible(&over.by.to_string())
        ))
    }

    /// Notes that another approver has approved a request in the queue. Returns a message.
    pub(crate) fn approved(&mut self, approved: &ApprovalGiven) -> Option<String> {
        let mut queue = self.queue.iter_mut();
        let waiting = queue.find(|waiting| waiting.request.id == approved.request)?;
        let by = approved.by.to_string();
        let line = format!("{} approved by {}", card::short_id(&approved.request), visible(&by));
        waiting.request.approved_by.push(by);
        Some(card::with_missing(line, approved.missing))
    }

    /// Removes the first approval request, which this person has approved and others still must.
    pub(crate) fn approved_by_this(&mut self) {
        self.approved.extend(self.front().map(|request| request.id.clone()));
        self.done();
    }

    /// Returns the first approval request.
    pub(crate) fn front(&self) -> Option<&ApprovalRequest> {
        self.queue.front().map(|waiting| &waiting.request)
    }

    /// Removes the first approval request, which was answered.
    pub(crate) fn done(&mut self) {
        self.queue.pop_front();
        self.mode = PromptMode::Choosing;
    }

    /// Returns the first approval request and its time left, if it is not visible yet, and marks it
    /// as visible.
    pub(crate) fn show(&mut self, now: Instant) -> Option<(&ApprovalRequest, Duration)> {
        let QueuedRequest { request, deadline } = self.queue.front()?;
        if self.shown.as_ref() == Some(&request.id) {
            return None;
        }
        self.shown = Some(request.id.clone());
        self.ready = now + PAUSE;
        self.mode = PromptMode::Choosing;
        Some((request, deadline.saturating_duration_since(now)))
    }

    /// Returns the time at which the prompt changes next.
    pub(crate) fn wake(&self, now: Instant) -> Instant {
        if self.ready > now { self.ready } else { now + Duration::from_secs(1) }
    }

    /// Returns the current prompt, in at most this many columns.
    pub(crate) fn prompt(&self, columns: usize, now: Instant) -> String {
        let Some(first) = self.queue.front() else {
            return cut("Waiting for approval requests (q quits)", columns);
        };
        let left = card::clock(first.deadline.saturating_duration_since(now));
        let more = match self.queue.len() - 1 {
            0 => String::new(),
            more => format!(" · {more} more"),
        };
        let text = match &self.mode {
            PromptMode::Choosing if now < self.ready => "...".to_owned(),
            PromptMode::Choosing => {
                format!("[y]es [n]o [e]dit [a] remember [A] end session [q]uit · {left}{more}")
            }
            // If there is no room for all of the typed text, its end is shown.
            PromptMode::Reason(typed) => {
                let typed = visible(&String::from_utf8_lossy(typed));
                let tail = last_columns(&typed, columns.saturating_sub(40));
                format!("reason for the denial (Enter sends): {tail}")
            }
            PromptMode::Scopes(_) => {
                format!("remember which? number; Esc: deny; other: back · {left}")
            }
            PromptMode::Abort => {
                let session = id::short(first.request.asker.session.as_str());
                format!("end session {session}? y; Esc: deny; other: back")
            }
        };
        cut(&text, columns)
    }

    /// Handles bytes that were typed together. Approving needs a single key, so that pasted text
    /// can not approve.
    pub(crate) fn typed(&mut self, bytes: &[u8], now: Instant) -> KeyAction {
        match (bytes, self.queue.is_empty()) {
            ([], _) => return self.deny(""),
            ([b'q' | INTERRUPT | END_OF_FILE, ..], true) => return KeyAction::Quit,
            (_, true) => return KeyAction::Nothing,
            ([ESCAPE], false) => return self.deny(""),
            // An arrow or another key that sends several bytes.
            ([ESCAPE, ..], false) => return KeyAction::Nothing,
            (_, false) => {}
        }
        if let PromptMode::Reason(_) = self.mode {
            return self.reason(bytes);
        }
        let key = match bytes {
            [key] | [key, b'\r' | b'\n'] => *key,
            [b'n', rest @ ..] if matches!(self.mode, PromptMode::Choosing) => {
                self.mode = PromptMode::Reason(Vec::new());
                return self.reason(rest);
            }
            _ => {
                return KeyAction::Say(
                    "more than one key was typed; nothing was decided".to_owned(),
                );
            }
        };
        if key == END_OF_FILE {
            return self.deny("");
        }
        match std::mem::replace(&mut self.mode, PromptMode::Choosing) {
            PromptMode::Scopes(scopes) => match scopes.get(usize::from(key.wrapping_sub(b'1'))) {
                Some(OfferedScope { remember: Remember { scope, until }, .. }) => {
                    KeyAction::Answer(Answer::approve().remember(scope.clone(), *until))
                }
                None => KeyAction::Nothing,
            },
            PromptMode::Abort if key == b'y' => KeyAction::Abort,
            PromptMode::Abort => KeyAction::Nothing,
            PromptMode::Choosing | PromptMode::Reason(_) => self.choose(key, now),
        }
    }

    fn choose(&mut self, key: u8, now: Instant) -> KeyAction {
        match key {
            b'n' => {
                self.mode = PromptMode::Reason(Vec::new());
                KeyAction::Nothing
            }
            b'q' | INTERRUPT => KeyAction::Quit,
            _ if now < self.ready => self.wait_again(now),
            b'y' => match self.front() {
                Some(request) => KeyAction::Answer(answer(request, Verdict::Approve, "")),
                None => KeyAction::Nothing,
            },
            b'e' => KeyAction::Edit,
            b'a' => self.always(),
            b'A' => {
                self.mode = PromptMode::Abort;
                KeyAction::Say("  its calls are killed and its approval requests denied".to_owned())
            }
            _ => self.wait_again(now),
        }
    }

    /// Takes a key for a part of something else that is being typed.
    fn wait_again(&mut self, now: Instant) -> KeyAction {
        self.ready = now + PAUSE;
        KeyAction::Nothing
    }

    /// Offers the scopes for which the first approval request may be remembered.
    fn always(&mut self) -> KeyAction {
        let scopes = self.front().map(scopes::offered).unwrap_or_default();
        if scopes.is_empty() {
            return KeyAction::Say(
                "the profile does not allow this approval to be remembered".to_owned(),
            );
        }
        self.mode = PromptMode::Scopes(scopes.clone());
        KeyAction::Offer(scopes)
    }

    fn reason(&mut self, bytes: &[u8]) -> KeyAction {
        let PromptMode::Reason(text) = &mut self.mode else { return KeyAction::Nothing };
        for byte in bytes {
            match byte {
                b'\r' | b'\n' => {
                    let reason = String::from_utf8_lossy(text).into_owned();
                    return self.deny(&reason);
                }
                &ESCAPE | &END_OF_FILE | &INTERRUPT => return self.deny(""),
                0x7f | 0x08 => {
                    // Deletes a whole character, not a single byte.
                    while text.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
                }
                0x15 => text.clear(),
                0..0x20 => {}
                byte => text.push(*byte),
            }
        }
        KeyAction::Nothing
    }

    /// Denies the first approval request.
    pub(crate) fn deny(&mut self, reason: &str) -> KeyAction {
        self.mode = PromptMode::Choosing;
        match self.front() {
            Some(request) => KeyAction::Answer(answer(request, Verdict::Deny, reason)),
            None => KeyAction::Quit,
        }
    }
}

fn cut(text: &str, columns: usize) -> String {
    // One column is left free, because a full line would wrap.
    first_columns(text, columns.saturating_sub(1)).to_owned()
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
