//! The history of a session for others: Markdown for people, messages for a model. Pure.

mod markdown;
mod messages;

pub use markdown::Markdown;
pub use messages::{Messages, Style};

#[cfg(test)]
mod tests;
