//! `read_file`: turns pieces from the cell into text, numbered text, bytes or events. Runs in the
//! broker.

use super::exchange::{done, unexpected};
use crate::{
    base::{error::CallError, media, outcome::Outcome, results, task::Numbering},
    cells::{context::Context, files::Lease},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use palisade_plan::{
    Path,
    cell::{Conversion, FileReply, FileRequest, Form, Part},
};
use palisade_protocol::{RawPath, Stream, arguments::Encoding};
use palisade_text::escape_bytes;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The most bytes that fit into one result in either codec, base64 included; more is sent as raw
/// pieces.
const INLINE: u64 = 11 * 1024 * 1024;

/// A request to read a file.
#[derive(Debug)]
pub(super) struct ReadRequest {
    pub(super) path: Path,
    pub(super) part: Part,
    pub(super) encoding: Encoding,
    pub(super) numbering: Numbering,
}

impl ReadRequest {
    fn form(&self) -> Form {
        match self.encoding {
            Encoding::Auto | Encoding::Text if self.path.0.ends_with(b".ipynb") => Form::Notebook,
            Encoding::Auto | Encoding::Text | Encoding::Base64 | Encoding::Raw => Form::AsIs,
        }
    }
}

pub(super) async fn read(
    wanted: ReadRequest,
    lease: &mut Lease,
    context: &Context,
) -> Result<Outcome, CallError> {
    let failed = |error| context.session.channel_error(error);
    let allowed = context.session.profile.file_bytes();
    let most = match wanted.encoding {
        Encoding::Auto | Encoding::Text | Encoding::Base64 => allowed.min(INLINE),
        Encoding::Raw => allowed,
    };
    let (path, part, form) = (wanted.path.clone(), wanted.part, wanted.form());
    lease.send(&[FileRequest::Read { path, part, most, form }]).await.map_err(failed)?;
    let (mut content, mut taken) = (Vec::new(), 0);
    let end = loop {
        let reply = lease.receive().await.map_err(failed)?;
        let FileReply::Content(piece) = reply else { break reply };
        // The limit is checked here too: memory must not depend on what the cell sends.
        taken += piece.len() as u64;
        if taken > most {
            return Err(CallError::Cell("it sent more than was asked for".to_owned()));
        }
        if wanted.encoding == Encoding::Raw {
            context.show(Stream::Content, &piece);
            context.send(Stream::Content, piece).await;
        } else if content.is_empty() {
            content = piece;
        } else {
            if content.len() <= results::SMALL && taken > results::SMALL as u64 {
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                context.room.reserve(most.saturating_mul(4) / 3).await;
            }
            content.extend_from_slice(&piece);
        }
    };
    let FileReply::Read { bytes, size, complete, mode, made } = end else {
        return Err(unexpected(end));
    };
    let mut data = json!({
        "path": RawPath(wanted.path.0.clone()), "size": size, "bytes": bytes,
        "complete": complete, "mode": mode,
    });
    note(&made, &mut data);
    let output = match wanted.encoding {
        Encoding::Auto => shown(content, &wanted, &mut data)?,
        Encoding::Text => text(content, &wanted)?,
        Encoding::Base64 => {
            data["content"] = STANDARD.encode(content).into();
            String::new()
        }
        Encoding::Raw => String::new(),
    };
    Ok(Outcome { output, ..done(data)? })
}

fn note(made: &Conversion, data: &mut Value) {
    match made {
        Conversion::AsIs => {}
        Conversion::Notebook { cells } => data["cells"] = json!(cells),
        Conversion::NoNotebook { why } => {
            data["note"] = json!(format!("not a notebook, shown as it is: {why}"));
        }
    }
}

fn text(content: Vec<u8>, wanted: &ReadRequest) -> Result<String, CallError> {
    let text =
        String::from_utf8(content).map_err(|_| CallError::NotText(escape_bytes(&wanted.path.0)))?;
    Ok(numbered(text, wanted))
}

/// Returns text as text, and anything else as bytes with their media type.
fn shown(content: Vec<u8>, wanted: &ReadRequest, data: &mut Value) -> Result<String, CallError> {
    if wanted.part != Part::All {
        return text(content, wanted);
    }
    let media = match media::of(&content) {
        Some(media) => media,
        None => {
            if let Some((charset, text)) = utf16(&content) {
                data["charset"] = charset.into();
                return Ok(numbered(text, wanted));
            }
            match String::from_utf8(content) {
                Ok(text) => {
                    if text.starts_with('\u{feff}') {
                        data["charset"] = "utf-8 with a byte order mark".into();
                    }
                    return Ok(numbered(text, wanted));
                }
                Err(error) => return Ok(bytes(&error.into_bytes(), media::UNKNOWN, data)),
            }
        }
    };
    Ok(bytes(&content, media, data))
}

fn bytes(content: &[u8], media: &str, data: &mut Value) -> String {
    data["media_type"] = media.into();
    data["content"] = STANDARD.encode(content).into();
    format!("[{media}, {} bytes: they are in data.content, as base64]", content.len())
}

/// Decodes UTF-16 text with a byte order mark; also returns the name of its encoding.
fn utf16(content: &[u8]) -> Option<(&'static str, String)> {
    let (charset, unit): (_, fn([u8; 2]) -> u16) = match content {
        [0xff, 0xfe, ..] => ("utf-16le", u16::from_le_bytes),
        [0xfe, 0xff, ..] => ("utf-16be", u16::from_be_bytes),
        _ => return None,
    };
    let (units, rest) = content[2..].as_chunks::<2>();
    let units = units.iter().map(|pair| unit(*pair));
    let text: Result<String, _> = char::decode_utf16(units).collect();
    text.ok().filter(|_| rest.is_empty()).map(|text| (charset, text))
}

/// Adds line numbers, if they are wanted.
fn numbered(text: String, wanted: &ReadRequest) -> String {
    let first = match (wanted.numbering, wanted.part) {
        (Numbering::None, _) => return text,
        (Numbering::Lines, Part::Lines { first, .. }) => first,
        (Numbering::Lines, Part::All | Part::Bytes { .. }) => 1,
    };
    let mut numbered = String::with_capacity(text.len() + text.len() / 4);
    for (number, line) in (first..).zip(text.split_inclusive('\n')) {
        // Writing to a string does not fail.
        write!(numbered, "{number:>6}\t{line}").ok();
    }
    numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(part: Part, numbering: Numbering) -> ReadRequest {
        ReadRequest { path: Path(b"/f".to_vec()), part, encoding: Encoding::Auto, numbering }
    }

    #[test]
    fn lines_have_their_numbers_in_the_file() {
        let lines = Part::Lines { first: 9, count: 2 };
        for (part, text, expected) in [
            (Part::All, "a\nb", "     1\ta\n     2\tb"),
            (lines, "a\r\n\n", "     9\ta\r\n    10\t\n"),
            (Part::All, "", ""),
        ] {
            let wanted = reading(part, Numbering::Lines);
            assert_eq!(numbered(text.to_owned(), &wanted), expected);
        }
    }

    #[test]
    fn text_is_text_whatever_its_marks_and_the_rest_is_bytes() {
        let wanted = reading(Part::All, Numbering::None);
        for (content, output, field) in [
            (&b"plain\n"[..], "plain\n", None),
            (b"\xef\xbb\xbfx", "\u{feff}x", Some(("charset", "utf-8 with a byte order mark"))),
            (b"\xff\xfeh\0i\0", "hi", Some(("charset", "utf-16le"))),
            (b"\xfe\xff\0h\0i", "hi", Some(("charset", "utf-16be"))),
            (
                b"\xff\xfeh",
                "[application/octet-stream, 3 bytes: they are in data.content, as base64]",
                Some(("content", "//5o")),
            ),
            (
                b"%PDF-1.7",
                "[application/pdf, 8 bytes: they are in data.content, as base64]",
                Some(("media_type", "application/pdf")),
            ),
        ] {
            let mut data = json!({});
            assert_eq!(shown(content.to_vec(), &wanted, &mut data).unwrap(), output);
            if let Some((name, value)) = field {
                assert_eq!(data[name], value);
            } else {
                assert_eq!(data, json!({}));
            }
        }
    }

    #[test]
    fn lines_of_what_is_no_text_are_an_error() {
        let wanted = reading(Part::Lines { first: 1, count: 1 }, Numbering::None);
        let error = shown(vec![0xff], &wanted, &mut json!({})).unwrap_err();
        assert!(matches!(error, CallError::NotText(_)), "{error}");
    }
}
