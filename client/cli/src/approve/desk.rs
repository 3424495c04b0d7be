//! The questions before a person, and what each key means. Nothing here touches a terminal.

use crate::{
    approve::card,
    operator::answer::{Verdict, answer},
    visible::visible,
};
use palisade_client::{
    Answer, CommandPrefix, PathScope, Question, QuestionId, QuestionOver, Review, Scope, Until,
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// How long a question is before the eyes before a key can approve it: what was typed for the one
/// before it, or for something else, is not meant.
const PAUSE: Duration = Duration::from_millis(300);

const ESCAPE: u8 = 0x1b;
const END_OF_FILE: u8 = 0x04;
const INTERRUPT: u8 = 0x03;

/// What a key leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Nothing but another prompt.
    Nothing,
    /// Say this.
    Say(String),
    /// Answer the question in front.
    Answer(Answer),
    /// Edit the arguments of the question in front.
    Edit,
    /// End the session of the question in front.
    Abort,
    /// Leave.
    Quit,
}

#[derive(Debug)]
enum Mode {
    Choosing,
    Reason(Vec<u8>),
    Scopes(Vec<(String, Scope)>),
    Abort,
}

#[derive(Debug)]
struct Waiting {
    question: Question,
    deadline: Instant,
}

/// The queue, and what is being asked about its first.
#[derive(Debug)]
pub(crate) struct Desk {
    queue: VecDeque<Waiting>,
    mode: Mode,
    shown: Option<QuestionId>,
    ready: Instant,
}

impl Desk {
    pub(crate) fn new(now: Instant) -> Self {
        Self { queue: VecDeque::new(), mode: Mode::Choosing, shown: None, ready: now }
    }

    /// A question comes in; what to say if it has to wait.
    pub(crate) fn add(&mut self, question: Question, now: Instant) -> Option<String> {
        let deadline = now + Duration::from_millis(question.expires_in_ms);
        let told = (!self.queue.is_empty())
            .then(|| format!("  + {} waits: {}", question.question, card::summary(&question)));
        self.queue.push_back(Waiting { question, deadline });
        told
    }

    /// A question needs no answer any more; what to say of it, if it was here.
    pub(crate) fn over(&mut self, over: &QuestionOver) -> Option<String> {
        let place = self.queue.iter().position(|w| w.question.question == over.question)?;
        self.queue.remove(place);
        if place == 0 {
            self.mode = Mode::Choosing;
        }
        Some(format!(
            "{} is over: {} by {}",
            over.question,
            visible(&over.outcome),
            visible(&over.by)
        ))
    }

    /// The question in front.
    pub(crate) fn front(&self) -> Option<&Question> {
        self.queue.front().map(|waiting| &waiting.question)
    }

    /// The question in front was answered.
    pub(crate) fn done(&mut self) {
        self.queue.pop_front();
        self.mode = Mode::Choosing;
    }

    /// The question in front, if it is not before the eyes yet, with the time it has; from now on
    /// it is.
    pub(crate) fn show(&mut self, now: Instant) -> Option<(&Question, Duration)> {
        let Waiting { question, deadline } = self.queue.front()?;
        if self.shown.as_ref() == Some(&question.question) {
            return None;
        }
        self.shown = Some(question.question.clone());
        self.ready = now + PAUSE;
        self.mode = Mode::Choosing;
        Some((question, deadline.saturating_duration_since(now)))
    }

    /// When the prompt has something new to say.
    pub(crate) fn wake(&self, now: Instant) -> Instant {
        if self.ready > now { self.ready } else { now + Duration::from_secs(1) }
    }

    /// What is asked now, in at most this many columns.
    pub(crate) fn prompt(&self, columns: usize, now: Instant) -> String {
        let Some(first) = self.queue.front() else {
            return cut("no question waits; q leaves", columns);
        };
        let left = card::clock(first.deadline.saturating_duration_since(now));
        let more = match self.queue.len() - 1 {
            0 => String::new(),
            more => format!(" · {more} more"),
        };
        let text = match &self.mode {
            Mode::Choosing if now < self.ready => "...".to_owned(),
            Mode::Choosing => {
                format!("[y]es [n]o [e]dit [a]lways [A]bort [q]uit · {left}{more}")
            }
            // The end of what is typed is what matters.
            Mode::Reason(typed) => {
                let typed = visible(&String::from_utf8_lossy(typed));
                let room = columns.saturating_sub(40);
                let skip = typed.chars().count().saturating_sub(room);
                let tail: String = typed.chars().skip(skip).collect();
                format!("no, because (Enter sends): {tail}")
            }
            Mode::Scopes(_) => format!("always which? number; Esc: deny; other: back · {left}"),
            Mode::Abort => {
                format!("abort {}? y; Esc: deny; other: back", first.question.asker.session)
            }
        };
        cut(&text, columns)
    }

    /// What was typed at once. Approving needs a key of its own: what was pasted is not meant.
    pub(crate) fn typed(&mut self, bytes: &[u8], now: Instant) -> Act {
        match (bytes, self.queue.is_empty()) {
            ([], _) => return self.deny(""),
            ([b'q' | INTERRUPT | END_OF_FILE, ..], true) => return Act::Quit,
            (_, true) => return Act::Nothing,
            ([ESCAPE], false) => return self.deny(""),
            // An arrow or another key that is sent as several bytes.
            ([ESCAPE, ..], false) => return Act::Nothing,
            (_, false) => {}
        }
        if let Mode::Reason(_) = self.mode {
            return self.reason(bytes);
        }
        let key = match bytes {
            [key] | [key, b'\r' | b'\n'] => *key,
            [b'n', rest @ ..] if matches!(self.mode, Mode::Choosing) => {
                self.mode = Mode::Reason(Vec::new());
                return self.reason(rest);
            }
            _ => return Act::Say("that was more than one key; nothing is decided".to_owned()),
        };
        if key == END_OF_FILE {
            return self.deny("");
        }
        match std::mem::replace(&mut self.mode, Mode::Choosing) {
            Mode::Scopes(scopes) => match scopes.get(usize::from(key.wrapping_sub(b'1'))) {
                Some((_, scope)) => {
                    Act::Answer(Answer::approve().remember(scope.clone(), Until::Session))
                }
                None => Act::Nothing,
            },
            Mode::Abort if key == b'y' => Act::Abort,
            Mode::Abort => Act::Nothing,
            Mode::Choosing | Mode::Reason(_) => self.choose(key, now),
        }
    }

    fn choose(&mut self, key: u8, now: Instant) -> Act {
        match key {
            b'n' => {
                self.mode = Mode::Reason(Vec::new());
                Act::Nothing
            }
            b'q' | INTERRUPT => Act::Quit,
            _ if now < self.ready => Act::Nothing,
            b'y' => match self.front() {
                Some(question) => Act::Answer(answer(question, Verdict::Approve, "")),
                None => Act::Nothing,
            },
            b'e' => Act::Edit,
            b'a' => self.always(),
            b'A' => {
                self.mode = Mode::Abort;
                Act::Say("  its calls are killed and its questions denied".to_owned())
            }
            _ => Act::Nothing,
        }
    }

    /// Offers what may be remembered of the question in front.
    fn always(&mut self) -> Act {
        let scopes = self.front().map(scopes).unwrap_or_default();
        if scopes.is_empty() {
            return Act::Say("the profile lets nothing of this be remembered".to_owned());
        }
        let listed = scopes.iter().enumerate().map(|(n, (text, _))| format!("  {}  {text}", n + 1));
        let told = listed.collect::<Vec<_>>().join("\n");
        self.mode = Mode::Scopes(scopes);
        Act::Say(format!("approve, and until the session ends do not ask again for:\n{told}"))
    }

    fn reason(&mut self, bytes: &[u8]) -> Act {
        let Mode::Reason(text) = &mut self.mode else { return Act::Nothing };
        for byte in bytes {
            match byte {
                b'\r' | b'\n' => {
                    let reason = String::from_utf8_lossy(text).into_owned();
                    return self.deny(&reason);
                }
                &ESCAPE | &END_OF_FILE | &INTERRUPT => return self.deny(""),
                0x7f | 0x08 => {
                    // A character is taken back whole.
                    while text.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
                }
                0x15 => text.clear(),
                0..0x20 => {}
                byte => text.push(*byte),
            }
        }
        Act::Nothing
    }

    /// No.
    pub(crate) fn deny(&mut self, reason: &str) -> Act {
        self.mode = Mode::Choosing;
        match self.front() {
            Some(question) => Act::Answer(answer(question, Verdict::Deny, reason)),
            None => Act::Quit,
        }
    }
}

/// What may be remembered of a question, in words.
fn scopes(question: &Question) -> Vec<(String, Scope)> {
    if question.review != Review::Input {
        return Vec::new();
    }
    let permitted = |name: &str| question.scopes.iter().any(|scope| scope == name);
    let mut offered = Vec::new();
    if permitted("exact_call") {
        offered.push(("exactly this call".to_owned(), Scope::ExactCall));
    }
    if permitted("command_prefix") && !question.prefix.is_empty() {
        let words = question.prefix.clone();
        let text = format!("commands that begin with: {}", visible(&words.join(" ")));
        offered.push((text, Scope::CommandPrefix(CommandPrefix { words })));
    }
    if permitted("path") {
        offered.extend(question.view.targets.iter().take(6).map(|target| {
            let path = target.path.clone();
            let shown = visible(&path.as_path().display().to_string());
            let text = format!("{} on {shown} and below", question.tool);
            (text, Scope::Path(PathScope { path }))
        }));
    }
    offered
}

fn cut(text: &str, columns: usize) -> String {
    // One column is left free: a full line would wrap.
    text.chars().take(columns.saturating_sub(1)).collect()
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
