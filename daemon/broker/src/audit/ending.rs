//! What is kept of a result until its record is made, after the client has it. Broker.

use palisade_audit::{CallResult as Ended, CleanText, Denied, Digest, Hash, Record};
use palisade_protocol::{CallResult, Denial, ErrorCode};

/// Text up to here is kept as it is; what is longer is looked at before the client has it.
const KEPT: usize = 64 * 1024;

/// What the log keeps of a call's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    /// The text, bounded and without secrets.
    Output,
    /// Only a digest: a call that changes nothing gives what is there to be read again.
    Digest,
}

/// Text whose digest is needed, and perhaps its beginning.
#[derive(Debug)]
enum Text {
    Whole(String),
    Seen { clean: Option<CleanText>, digest: Digest },
}

impl Text {
    fn new(text: &str, keeps: Keeps) -> Self {
        if text.len() <= KEPT {
            return Self::Whole(text.to_owned());
        }
        let (clean, digest) = seen(text, keeps);
        Self::Seen { clean, digest }
    }

    fn finish(self, keeps: Keeps) -> (Option<CleanText>, Digest) {
        match self {
            Self::Whole(text) => seen(&text, keeps),
            Self::Seen { clean, digest } => (clean, digest),
        }
    }
}

fn seen(text: &str, keeps: Keeps) -> (Option<CleanText>, Digest) {
    let clean = match keeps {
        Keeps::Output => Some(CleanText::new(text)),
        Keeps::Digest => None,
    };
    (clean, Digest { bytes: text.len() as u64, sha256: Hash::of(text.as_bytes()) })
}

/// How a call ended.
#[derive(Debug)]
pub(super) struct Ending {
    call_id: String,
    session: String,
    success: bool,
    error: Option<(ErrorCode, String)>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    output: Text,
    data: Option<Text>,
    attachment: Option<Digest>,
    omitted_bytes: u64,
    duration_us: u64,
    denials: Vec<Denial>,
    observed: Vec<Denial>,
    keeps: Keeps,
}

/// Of which call.
#[derive(Debug)]
pub(super) struct Of {
    pub(super) call_id: String,
    pub(super) session: String,
    pub(super) attachment: Option<Digest>,
    pub(super) duration_us: u64,
    pub(super) keeps: Keeps,
}

impl Ending {
    pub(super) fn new(of: Of, result: &CallResult) -> Self {
        let Of { call_id, session, attachment, duration_us, keeps } = of;
        Self {
            call_id,
            session,
            success: result.success,
            error: result.error.as_ref().map(|error| (error.code, error.message.clone())),
            exit_code: result.exit_code,
            signal: result.signal,
            output: Text::new(&result.output, keeps),
            data: result.data.as_ref().map(|data| Text::new(data.as_str(), Keeps::Digest)),
            attachment,
            omitted_bytes: result.omitted_bytes,
            duration_us,
            denials: result.denials.clone(),
            observed: result
                .receipt
                .observed
                .as_ref()
                .map_or_else(Vec::new, |observed| observed.would_refuse.clone()),
            keeps,
        }
    }

    /// The end of a call whose client left before it.
    pub(super) fn abandoned(of: Of) -> Self {
        let Of { call_id, session, attachment, duration_us, .. } = of;
        let message = "the client left before the call ended".to_owned();
        Self {
            call_id,
            session,
            success: false,
            error: Some((ErrorCode::Cancelled, message)),
            exit_code: None,
            signal: None,
            output: Text::Whole(String::new()),
            data: None,
            attachment,
            omitted_bytes: 0,
            duration_us,
            denials: Vec::new(),
            observed: Vec::new(),
            keeps: Keeps::Output,
        }
    }

    pub(super) fn record(self) -> Record {
        let (output, digest) = self.output.finish(self.keeps);
        Record::Result(Ended {
            call_id: self.call_id,
            session: self.session,
            success: self.success,
            error: self.error.as_ref().map(|(code, _)| code.name()),
            message: self.error.as_ref().map(|(_, message)| CleanText::new(message)),
            exit_code: self.exit_code,
            signal: self.signal,
            output,
            output_bytes: digest.bytes,
            output_digest: digest.sha256,
            data_digest: self.data.map(|data| data.finish(Keeps::Digest).1.sha256),
            attachment: self.attachment,
            omitted_bytes: self.omitted_bytes,
            duration_us: self.duration_us,
            denials: self.denials.iter().map(denied).collect(),
            observed: self.observed.iter().map(denied).collect(),
        })
    }
}

/// As the log has it: without secrets.
pub(super) fn denied(denial: &Denial) -> Denied {
    Denied {
        layer: CleanText::new(&denial.layer),
        rule: CleanText::new(&denial.rule),
        target: CleanText::new(&denial.target),
        remedy: CleanText::new(&denial.remedy),
        at: CleanText::new(&denial.at),
        opens: CleanText::new(&denial.opens),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_short_text_give_the_same_record() {
        for length in [0, 10, KEPT, KEPT + 1, 3 * KEPT] {
            let text = "é".repeat(length / 2);
            for keeps in [Keeps::Output, Keeps::Digest] {
                let (clean, digest) = Text::new(&text, keeps).finish(keeps);
                assert_eq!(clean, (keeps == Keeps::Output).then(|| CleanText::new(&text)));
                assert_eq!(digest.bytes, text.len() as u64);
                assert_eq!(digest.sha256, Hash::of(text.as_bytes()));
            }
        }
    }
}
