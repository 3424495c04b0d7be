//! The arguments of the tools that use the network.

use serde::{Deserialize, Serialize};

/// Arguments of `web_fetch`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WebFetch {
    /// The page's URL, with http or https and without a user name or password.
    pub url: String,
    /// How the page is returned.
    #[serde(default, skip_serializing_if = "WebFormat::is_markdown")]
    pub format: WebFormat,
    /// The maximum number of bytes to read, up to 5242880; 1048576 if absent. Longer text is cut;
    /// other content fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Milliseconds after which the call ends.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout")]
    pub timeout_ms: Option<u64>,
    /// What to look for in the page, in a few words, for people who review the call. The page is
    /// returned whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// How a page is returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WebFormat {
    /// HTML as Markdown, other text as it is.
    #[default]
    Markdown,
    /// HTML as text without markup, other text as it is.
    Text,
    /// Text as it is, HTML included.
    Html,
    /// The exact bytes as base64 in `data.content`, whatever they are.
    Raw,
}

impl WebFormat {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_markdown(&self) -> bool {
        *self == Self::Markdown
    }
}
