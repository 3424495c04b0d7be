//! Bounds on what a server sends: the length of a line, and the number of messages over time.

use super::message::MAX_MESSAGE;
use std::time::Instant;

/// The number of messages that may come at once.
const BURST: f64 = 1000.0;

/// The number of messages that may come in a second, on average.
const PER_SECOND: f64 = 200.0;

/// The reason a server's output is not read any further.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlowError {
    #[error("it sent a line of more than {MAX_MESSAGE} bytes")]
    LongLine,
    #[error("it sent more than {BURST} messages at once, or {PER_SECOND} a second")]
    Flood,
}

/// Puts lines together from pieces of output.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    partial: String,
}

impl LineBuffer {
    /// Adds a piece; returns the lines that it completes.
    pub(super) fn push(&mut self, piece: &str) -> Result<Vec<String>, FlowError> {
        let mut lines = Vec::new();
        for part in piece.split_inclusive('\n') {
            if self.partial.len() + part.len() > MAX_MESSAGE {
                return Err(FlowError::LongLine);
            }
            self.partial.push_str(part);
            if part.ends_with('\n') {
                lines.push(std::mem::take(&mut self.partial));
            }
        }
        Ok(lines)
    }
}

/// A limit on messages over time.
#[derive(Debug)]
pub(super) struct MessageRate {
    left: f64,
    at: Instant,
}

impl MessageRate {
    pub(super) const fn new(now: Instant) -> Self {
        Self { left: BURST, at: now }
    }

    /// Counts a message.
    pub(super) fn count(&mut self, now: Instant) -> Result<(), FlowError> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = passed.mul_add(PER_SECOND, self.left).min(BURST) - 1.0;
        self.at = now;
        if self.left < 0.0 { Err(FlowError::Flood) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn lines_are_put_together_from_pieces() {
        let mut buffer = LineBuffer::default();
        assert_eq!(buffer.push("a").unwrap(), Vec::<String>::new());
        assert_eq!(buffer.push("b\nc\nd").unwrap(), ["ab\n", "c\n"]);
        assert_eq!(buffer.push("\n").unwrap(), ["d\n"]);
    }

    #[test]
    fn a_line_has_a_limit_even_if_it_never_ends() {
        let mut buffer = LineBuffer::default();
        let piece = "x".repeat(MAX_MESSAGE / 4);
        for _ in 0..4 {
            assert_eq!(buffer.push(&piece).unwrap(), Vec::<String>::new());
        }
        assert_eq!(buffer.push("x"), Err(FlowError::LongLine));
    }

    #[test]
    fn a_burst_is_allowed_and_a_flood_is_not() {
        let start = Instant::now();
        let mut rate = MessageRate::new(start);
        for _ in 0..1000 {
            assert_eq!(rate.count(start), Ok(()));
        }
        assert_eq!(rate.count(start), Err(FlowError::Flood));
        let mut rate = MessageRate::new(start);
        for message in 0..10_000 {
            let at = start + Duration::from_millis(message * 6);
            assert_eq!(rate.count(at), Ok(()));
        }
    }
}
