//! A page that the tool `web_fetch` asks an egress room for, and the room's answer.

use bincode::{Decode, Encode};

/// Most bytes of a URL, with which a message about it still fits.
pub const MAX_URL: usize = 8 * 1024;

/// Most bytes of a page's body that are read.
pub const MAX_PAGE: u64 = 5 * 1024 * 1024;

/// Most bytes of a page in one message.
pub const PAGE_PIECE: usize = 12 * 1024;

/// A request for a page.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PageRequest {
    /// The URL, as the call has it.
    pub url: String,
    /// The form in which the page is wanted.
    pub format: PageFormat,
    /// Most bytes of the body that are read, and of the page that is returned.
    pub max_bytes: u64,
}

/// The form in which a page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum PageFormat {
    /// HTML as Markdown; other text as it is.
    Markdown,
    /// HTML as text without markup; other text as it is.
    Text,
    /// Text as it is, HTML included.
    Html,
    /// The body's bytes.
    Raw,
}

/// A page that was got. Its content was sent before, in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FetchedPage {
    /// The URL after all redirects.
    pub url: String,
    /// The number of redirects.
    pub redirects: u8,
    /// The status that the host answered with.
    pub status: u16,
    /// The media type that the host named, without parameters; empty if it named none.
    pub media_type: String,
    /// The kind of content.
    pub content: PageContent,
    /// The bytes of the body that were read.
    pub body_bytes: u64,
    /// True if the body or the content is longer than was asked for, so that its end is missing.
    pub is_cut: bool,
}

/// The kind of a page's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum PageContent {
    /// UTF-8 text.
    Text,
    /// The body's bytes.
    Bytes,
}

/// The reason why there is no page.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum PageFailure {
    /// The URL, or one that a redirect leads to, can not be fetched.
    Url(String),
    /// The broker denied a host, or its address may not be connected to.
    Denied(String),
    /// The host could not be reached, or did not answer as HTTP wants it.
    Network(String),
    /// The body is longer than was asked for, and is not text, which could be cut.
    TooLarge,
}
