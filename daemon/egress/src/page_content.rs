//! The content of a page in the form that was asked for: text from its encoding, HTML as Markdown or
//! text, anything else as bytes. Pure: no I/O.

use crate::markdown::{Markup, convert};
use encoding_rs::{Encoding, WINDOWS_1252};
use palisade_egress_protocol::fetch::{PageContent, PageFailure, PageFormat};
use url::Url;

/// Most bytes of the name of a media type.
const MAX_MEDIA_TYPE: usize = 100;

/// The bytes at the beginning of a page in which HTML may name its encoding.
const MAX_PRESCAN: usize = 1024;

/// The type of a body, as the host declares it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContentType {
    /// The media type, in lower case and without parameters; empty if there is none.
    pub(crate) media_type: String,
    charset: Option<String>,
}

impl ContentType {
    /// Reads a `Content-Type` header.
    pub(crate) fn parse(header: &str) -> Self {
        let mut parts = header.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"/+-._".contains(&byte);
        let is_plain = media_type.len() <= MAX_MEDIA_TYPE && media_type.bytes().all(is_known);
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let is_charset = name.trim().eq_ignore_ascii_case("charset");
            is_charset.then(|| value.trim().trim_matches(['"', '\'']).to_owned())
        });
        Self { media_type: if is_plain { media_type } else { String::new() }, charset }
    }

    fn is_html(&self, text: &str) -> bool {
        match self.media_type.as_str() {
            "text/html" | "application/xhtml+xml" => true,
            "" => {
                let start = text.trim_start().get(..14).unwrap_or_default().to_ascii_lowercase();
                start.starts_with("<!doctype html") || start.starts_with("<html")
            }
            _ => false,
        }
    }

    fn is_media(&self) -> bool {
        let kinds = ["image/", "audio/", "video/", "font/"];
        kinds.iter().any(|kind| self.media_type.starts_with(kind))
            && self.media_type != "image/svg+xml"
    }
}

/// A body as it came.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    /// True if there is more of it.
    pub(crate) is_cut: bool,
}

/// The content of a page in the form that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) kind: PageContent,
    pub(crate) bytes: Vec<u8>,
    /// True if its end is missing.
    pub(crate) is_cut: bool,
}

/// Returns the content of a page in at most `most` bytes.
///
/// # Errors
/// If the body is longer and not text.
pub(crate) fn render(
    body: Body,
    kind: &ContentType,
    format: PageFormat,
    (page, most): (&Url, usize),
) -> Result<Rendered, PageFailure> {
    let text = match format {
        PageFormat::Raw => None,
        PageFormat::Markdown | PageFormat::Text | PageFormat::Html => decode(&body, kind),
    };
    let Some(text) = text else {
        if body.is_cut {
            return Err(PageFailure::TooLarge);
        }
        return Ok(Rendered { kind: PageContent::Bytes, bytes: body.bytes, is_cut: false });
    };
    let markup = match format {
        PageFormat::Markdown => Some(Markup::Markdown),
        PageFormat::Text => Some(Markup::None),
        PageFormat::Html | PageFormat::Raw => None,
    };
    let (mut text, is_cut) = match markup {
        Some(markup) if kind.is_html(&text) => {
            let converted = convert(&text, page, markup, most);
            (converted.text, converted.is_cut)
        }
        Some(_) | None => {
            let is_cut = text.len() > most;
            (text, is_cut)
        }
    };
    text.truncate(text.floor_char_boundary(most));
    let is_cut = is_cut || body.is_cut;
    Ok(Rendered { kind: PageContent::Text, bytes: text.into_bytes(), is_cut })
}

/// Returns a body as text; `None` if it is none.
fn decode(body: &Body, kind: &ContentType) -> Option<String> {
    let bytes = body.bytes.as_slice();
    if kind.is_media() {
        return None;
    }
    let named = kind.charset.clone().or_else(|| named_inside(bytes, kind));
    let encoding = named.and_then(|name| Encoding::for_label(name.as_bytes()));
    let encoding = encoding.or_else(|| Encoding::for_bom(bytes).map(|(encoding, _)| encoding));
    if let Some(encoding) = encoding {
        return Some(encoding.decode(bytes).0.into_owned());
    }
    if bytes.contains(&0) {
        return None;
    }
    match str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        // The cut went through a character.
        Err(error) if body.is_cut && error.error_len().is_none() => {
            let whole = bytes.get(..error.valid_up_to()).unwrap_or_default();
            Some(String::from_utf8_lossy(whole).into_owned())
        }
        Err(_) if kind.media_type.starts_with("text/") => {
            Some(WINDOWS_1252.decode(bytes).0.into_owned())
        }
        Err(_) => None,
    }
}

/// Returns the encoding that HTML names in its first bytes.
fn named_inside(bytes: &[u8], kind: &ContentType) -> Option<String> {
    if !kind.is_html("") {
        return None;
    }
    let start = bytes.get(..MAX_PRESCAN.min(bytes.len()))?;
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let (_, rest) = start.split_once("charset=")?;
    let name = rest.trim_start_matches(['"', '\'']);
    name.split(['"', '\'', ' ', ';', '>', '/']).next().map(str::to_owned)
}

#[cfg(test)]
#[path = "page_content_tests.rs"]
mod tests;
