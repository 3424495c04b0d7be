//! Detects the type of a file by its first bytes; a name can say anything. Pure: no I/O.

/// The media type of a file that is neither text nor known.
pub(crate) const UNKNOWN: &str = "application/octet-stream";

/// The media type of an image or a document, from its first bytes.
pub(crate) fn of(bytes: &[u8]) -> Option<&'static str> {
    // For almost every file the first byte decides.
    match bytes.first()? {
        0x89 if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        0xff if bytes.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
        b'G' if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") => Some("image/gif"),
        b'R' if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") => {
            Some("image/webp")
        }
        b'B' if is_bitmap(bytes) => Some("image/bmp"),
        b'I' if bytes.starts_with(b"II*\0") => Some("image/tiff"),
        b'M' if bytes.starts_with(b"MM\0*") => Some("image/tiff"),
        0 if bytes.starts_with(b"\0\0\x01\0") => Some("image/x-icon"),
        0 if bytes.get(4..12) == Some(b"ftypavif") => Some("image/avif"),
        0 if bytes.get(4..12) == Some(b"ftypheic") => Some("image/heic"),
        b'%' if bytes.starts_with(b"%PDF-") => Some("application/pdf"),
        _ => None,
    }
}

/// Returns `true` if the bytes are a bitmap. A text may begin with BM too, but hardly with its own
/// length after that.
fn is_bitmap(bytes: &[u8]) -> bool {
    let size = bytes.get(2..6).and_then(|size| size.try_into().ok()).map(u32::from_le_bytes);
    bytes.starts_with(b"BM") && size.is_some_and(|size| size as usize == bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_decide() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a\x01\0", Some("image/gif")),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x10\0\0\0WAVEfmt ", None),
            (b"BM\x0a\0\0\0\0\0\0\0", Some("image/bmp")),
            (b"BMW is a car", None),
            (b"II*\0", Some("image/tiff")),
            (b"\0\0\x01\0\x01\0", Some("image/x-icon")),
            (b"\0\0\0\x1cftypavif", Some("image/avif")),
            (b"%PDF-1.7\n", Some("application/pdf")),
            (b"<svg xmlns=", None),
            (b"GIF", None),
            (b"plain", None),
            (b"", None),
        ] {
            assert_eq!(of(bytes), expected, "{bytes:?}");
        }
    }
}
