use super::*;

fn rendered(bytes: &[u8], header: &str, format: PageFormat) -> Rendered {
    let body = Body { bytes: bytes.to_vec(), is_cut: false };
    let page = Url::parse("https://docs.example/a/").unwrap();
    render(body, &ContentType::parse(header), format, (&page, 1000)).unwrap()
}

fn text(bytes: &[u8], header: &str, format: PageFormat) -> String {
    let rendered = rendered(bytes, header, format);
    assert_eq!(rendered.kind, PageContent::Text, "{header}");
    String::from_utf8(rendered.bytes).unwrap()
}

#[test]
fn html_is_converted_and_other_text_is_not() {
    let html = b"<h1>A &amp; B</h1><p><a href=b>c</a>";
    assert_eq!(
        text(html, "text/html", PageFormat::Markdown),
        "# A & B\n\n[c](https://docs.example/a/b)"
    );
    assert_eq!(text(html, "Text/HTML; charset=utf-8", PageFormat::Text), "A & B\n\nc");
    assert_eq!(text(html, "text/html", PageFormat::Html).as_bytes(), html);
    assert_eq!(text(html, "text/plain", PageFormat::Markdown).as_bytes(), html);
    assert_eq!(text(b" <!DOCTYPE html><p>x", "", PageFormat::Markdown), "x");
    assert_eq!(text(b"{\"a\": 1}", "application/json", PageFormat::Markdown), "{\"a\": 1}");
    assert_eq!(text(b"<svg/>", "image/svg+xml", PageFormat::Markdown), "<svg/>");
}

#[test]
fn encodings_are_those_that_the_host_or_the_page_names() {
    for (bytes, header) in [
        (&b"gr\xfc\xdfe"[..], "text/plain; charset=iso-8859-1"),
        (b"gr\xfc\xdfe", "text/plain; charset=\"windows-1252\""),
        (b"gr\xfc\xdfe", "text/plain"),
        ("grüße".as_bytes(), "text/plain"),
        (b"\xff\xfeg\0r\0\xfc\0\xdf\0e\0", "text/plain"),
    ] {
        assert_eq!(text(bytes, header, PageFormat::Markdown), "grüße", "{bytes:?}");
    }
    let page = b"<meta charset=\"iso-8859-1\"><p>gr\xfc\xdfe";
    assert_eq!(text(page, "text/html", PageFormat::Markdown), "grüße");
}

#[test]
fn bytes_are_what_is_no_text_or_asked_for_as_they_are() {
    for (bytes, header) in [
        (&b"\x89PNG\r\n\x1a\n"[..], "image/png"),
        (b"text in name only", "image/png"),
        (b"a\0b", "text/plain"),
        (b"\xff\x01", "application/octet-stream"),
    ] {
        let rendered = rendered(bytes, header, PageFormat::Markdown);
        assert_eq!((rendered.kind, rendered.bytes.as_slice()), (PageContent::Bytes, bytes));
    }
    let raw = rendered(b"<p>x", "text/html", PageFormat::Raw);
    assert_eq!((raw.kind, raw.bytes.as_slice()), (PageContent::Bytes, &b"<p>x"[..]));
}

#[test]
fn long_text_is_cut_and_other_long_bodies_are_refused() {
    let page = Url::parse("https://docs.example/").unwrap();
    let long = "ä".repeat(600);
    let plain = ContentType::parse("text/plain");
    let body = |bytes: &[u8], is_cut| Body { bytes: bytes.to_vec(), is_cut };
    let cut = render(body(long.as_bytes(), false), &plain, PageFormat::Text, (&page, 999)).unwrap();
    assert_eq!((cut.bytes.len(), cut.is_cut), (998, true));
    let cut = render(body(&long.as_bytes()[..999], true), &plain, PageFormat::Text, (&page, 999));
    assert_eq!(cut.unwrap().bytes.len(), 998, "a character that was cut through is left out");
    let image = ContentType::parse("image/png");
    let refused = render(body(b"x", true), &image, PageFormat::Markdown, (&page, 1));
    assert_eq!(refused, Err(PageFailure::TooLarge));
    let refused = render(body(b"x", true), &plain, PageFormat::Raw, (&page, 1));
    assert_eq!(refused, Err(PageFailure::TooLarge));
}

#[test]
fn a_media_type_is_a_short_word() {
    for (header, media_type) in [
        ("Text/Html; x=y", "text/html"),
        ("", ""),
        ("text/html\u{1b}[2J", ""),
        (&"x".repeat(101), ""),
    ] {
        assert_eq!(ContentType::parse(header).media_type, media_type, "{header:?}");
    }
}
