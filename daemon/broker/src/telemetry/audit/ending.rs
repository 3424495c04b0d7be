//! The data of a result from which its audit record is made, after the client has the result. Runs
//! in the broker.

use palisade_audit::{CallResult as Ended, CleanText, Digest, Hash, LayerDenial, Record};
use palisade_protocol::{CallResult, Denial, ErrorCode};

/// The longest text, in bytes, that is copied for later. Longer text is hashed and cut before the
/// client gets the result.
const KEPT: usize = 64 * 1024;

/// The part of a call's output that the log stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputLogging {
    /// The text, bounded and without secrets.
    Output,
    /// Only a digest: the output of a call that changes nothing can be read again at its source.
    Digest,
}

/// A text of which the record needs the digest, and perhaps the beginning.
#[derive(Debug)]
enum DigestedText {
    Whole(String),
    Seen { clean: Option<CleanText>, digest: Digest },
}

impl DigestedText {
    fn new(text: &str, keeps: OutputLogging) -> Self {
        if text.len() <= KEPT {
            return Self::Whole(text.to_owned());
        }
        let (clean, digest) = seen(text, keeps);
        Self::Seen { clean, digest }
    }

    fn finish(self, keeps: OutputLogging) -> (Option<CleanText>, Digest) {
        match self {
            Self::Whole(text) => seen(&text, keeps),
            Self::Seen { clean, digest } => (clean, digest),
        }
    }
}

fn seen(text: &str, keeps: OutputLogging) -> (Option<CleanText>, Digest) {
    let clean = match keeps {
        OutputLogging::Output => Some(CleanText::new(text)),
        OutputLogging::Digest => None,
    };
    (clean, Digest { bytes: text.len() as u64, sha256: Hash::of(text.as_bytes()) })
}

/// The end of a call.
#[derive(Debug)]
pub(super) struct CallEnding {
    call_id: String,
    session: String,
    success: bool,
    error: Option<(ErrorCode, String)>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    output: DigestedText,
    data: Option<DigestedText>,
    attachment: Option<Digest>,
    omitted_bytes: u64,
    duration_us: u64,
    denials: Vec<Denial>,
    observed: Vec<Denial>,
    keeps: OutputLogging,
}

/// The call to which a [`CallEnding`] belongs.
#[derive(Debug)]
pub(super) struct EndedCall {
    pub(super) call_id: String,
    pub(super) session: String,
    pub(super) attachment: Option<Digest>,
    pub(super) duration_us: u64,
    pub(super) keeps: OutputLogging,
}

impl CallEnding {
    pub(super) fn new(of: EndedCall, result: &CallResult) -> Self {
        let EndedCall { call_id, session, attachment, duration_us, keeps } = of;
        Self {
            call_id,
            session,
            success: result.success,
            error: result.error.as_ref().map(|error| (error.code, error.message.clone())),
            exit_code: result.exit_code,
            signal: result.signal,
            output: DigestedText::new(&result.output, keeps),
            data: result
                .data
                .as_ref()
                .map(|data| DigestedText::new(data.as_str(), OutputLogging::Digest)),
            attachment,
            omitted_bytes: result.omitted_bytes,
            duration_us,
            denials: result.denials.clone(),
            observed: result
                .receipt
                .as_ref()
                .and_then(|receipt| receipt.observed.as_ref())
                .map_or_else(Vec::new, |observed| observed.would_refuse.clone()),
            keeps,
        }
    }

    /// The end of a call whose client disconnected before it.
    pub(super) fn abandoned(of: EndedCall) -> Self {
        let EndedCall { call_id, session, attachment, duration_us, .. } = of;
        let message = "the client disconnected before the call ended".to_owned();
        Self {
            call_id,
            session,
            success: false,
            error: Some((ErrorCode::Cancelled, message)),
            exit_code: None,
            signal: None,
            output: DigestedText::Whole(String::new()),
            data: None,
            attachment,
            omitted_bytes: 0,
            duration_us,
            denials: Vec::new(),
            observed: Vec::new(),
            keeps: OutputLogging::Output,
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
            data_digest: self.data.map(|data| data.finish(OutputLogging::Digest).1.sha256),
            attachment: self.attachment,
            omitted_bytes: self.omitted_bytes,
            duration_us: self.duration_us,
            denials: self.denials.iter().map(denied).collect(),
            observed: self.observed.iter().map(denied).collect(),
        })
    }
}

/// Converts a denial for the log: without secrets.
pub(super) fn denied(denial: &Denial) -> LayerDenial {
    LayerDenial {
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
            for keeps in [OutputLogging::Output, OutputLogging::Digest] {
                let (clean, digest) = DigestedText::new(&text, keeps).finish(keeps);
                assert_eq!(clean, (keeps == OutputLogging::Output).then(|| CleanText::new(&text)));
                assert_eq!(digest.bytes, text.len() as u64);
                assert_eq!(digest.sha256, Hash::of(text.as_bytes()));
            }
        }
    }
}
