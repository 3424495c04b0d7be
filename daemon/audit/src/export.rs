//! Exports records: Markdown for people, messages for a model, events for monitoring. Pure: no I/O.

mod markdown;
mod messages;
mod ocsf;

pub use markdown::Markdown;
pub use messages::{Messages, Style};
pub use ocsf::ocsf;

use crate::record::CallResult;

/// Returns the output of a call or, for data that was only read, its length and digest.
fn output(result: &CallResult) -> String {
    match &result.output {
        Some(output) => output.to_string(),
        None if result.output_bytes == 0 => String::new(),
        None => format!(
            "[{} bytes were read and are not stored; SHA-256 {}]",
            result.output_bytes, result.output_digest
        ),
    }
}

#[cfg(test)]
mod tests;
