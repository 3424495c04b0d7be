//! The history of a session for others: Markdown for people, messages for a model. Pure.

mod markdown;
mod messages;

pub use markdown::Markdown;
pub use messages::{Messages, Style};

use crate::record::CallResult;

/// What a call gave; of what was only read, what is known of it.
fn output(result: &CallResult) -> String {
    match &result.output {
        Some(output) => output.to_string(),
        None if result.output_bytes == 0 => String::new(),
        None => format!(
            "[{} bytes that were read, not kept; SHA-256 {}]",
            result.output_bytes, result.output_digest
        ),
    }
}

#[cfg(test)]
mod tests;
