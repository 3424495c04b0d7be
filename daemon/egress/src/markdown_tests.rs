use super::*;
use proptest::prelude::*;

fn markdown(html: &str) -> String {
    convert(html, &page(), Markup::Markdown, usize::MAX).text
}

fn plain(html: &str) -> String {
    convert(html, &page(), Markup::None, usize::MAX).text
}

fn page() -> Url {
    Url::parse("https://docs.example/a/b").unwrap()
}

#[test]
fn text_and_marks() {
    for (html, expected) in [
        ("<title>T</title><h1>One</h1><p>a  b\n c<p>d", "T\n\n# One\n\na b c\n\nd"),
        ("<h3>Three</h3>x", "### Three\n\nx"),
        ("a<b> b</b> <i>c</i><code>d</code>", "a **b** *c*`d`"),
        ("<b><strong>x</strong></b></b>", "**x**"),
        ("a<br>b<hr>c", "a\nb\n\n---\n\nc"),
        ("&lt;b&gt; &#x1F600; &nbsp;x", "<b> 😀 x"),
        ("<!-- no --><script>if (a<b) {}</script><style>p{}</style>yes", "yes"),
        ("<template><p>no</p><template>no</template>no</template>yes", "yes"),
        ("<svg><text>no</text></svg><svg/>yes", "yes"),
        ("<p></p><div></div>", ""),
    ] {
        assert_eq!(markdown(html), expected, "{html}");
    }
}

#[test]
fn links_are_whole_and_lead_to_pages_only() {
    for (html, expected) in [
        ("<a href=c>x</a>", "[x](https://docs.example/a/c)"),
        ("<a href='/d?e=(f)'> x  y </a>z", "[x y](https://docs.example/d?e=%28f%29) z"),
        ("<a href=//o.example>x", "[x](https://o.example/)"),
        ("<a href=#here>x</a>", "x"),
        ("<a href='javascript:alert(1)'>x</a>", "x"),
        ("<a href='data:text/html,y'>x</a>", "x"),
        ("<a href=c></a>x", "x"),
        (
            "<a href=c>x<a href=d>y</a>",
            "[x](https://docs.example/a/c)[y](https://docs.example/a/d)",
        ),
        ("<img src=i.png alt='an  image'>", "[image: an image](https://docs.example/a/i.png)"),
        ("<img src=i.png>x<img src='data:image/png;base64,AA' alt=y>", "x[image: y]"),
    ] {
        assert_eq!(markdown(html), expected, "{html}");
    }
}

#[test]
fn lists_quotes_and_code() {
    for (html, expected) in [
        ("<ul><li>a<li>b<ol><li>c</li><li>d</ol></ul>e", "- a\n- b\n  1. c\n  2. d\n\ne"),
        ("<ul><li><p>a</p><p>b</p></li></ul>", "- a\n\n  b"),
        ("<blockquote>a<p>b</blockquote>c", "> a\n\n> b\n\nc"),
        ("<pre>\n a\n  <b>b</b>\n</pre>c", "```\n a\n  b\n```\n\nc"),
        ("<pre>```</pre>", "````\n```\n````"),
        ("<pre>x", "```\nx\n```"),
    ] {
        assert_eq!(markdown(html), expected, "{html}");
    }
}

#[test]
fn tables_have_a_line_for_each_row() {
    let html = "<table><thead><tr><th>a<th>b</tr></thead><tbody><tr><td><p>c</p>d</td><td>e</td></tr>\
                </table>f";
    assert_eq!(markdown(html), "| a | b |\n| --- | --- |\n| c d | e |\n\nf");
    let nested = "<table><tr><td>a<table><tr><td>b</table>c<tr><td>d</table>";
    assert_eq!(markdown(nested), "| a b c |\n| --- |\n| d |");
    assert_eq!(plain(html), "| a | b |\n| c d | e |\n\nf");
}

#[test]
fn text_without_marks() {
    let html = "<h1>A</h1><p><b>b</b> <a href=c>d</a><pre>e\nf</pre><ul><li>g</ul>";
    assert_eq!(plain(html), "A\n\nb d\n\ne\nf\n\n- g");
}

#[test]
fn a_page_can_be_as_deep_as_it_likes() {
    for tag in
        ["<div>", "<b><i>", "<blockquote>", "<ul><li>", "<table><tr><td>", "<a href=x>", "<svg>"]
    {
        let html = format!("{}x", tag.repeat(100_000));
        let text = markdown(&html);
        assert!(text.len() < 100 * html.len(), "{tag}: {}", text.len());
    }
}

#[test]
fn a_page_that_grows_is_cut() {
    let far = Url::parse(&format!("https://docs.example/{}/", "x".repeat(1500))).unwrap();
    let html = "<a href=a>b</a>".repeat(10_000);
    let cut = convert(&html, &far, Markup::Markdown, 100_000);
    assert!(cut.is_cut && cut.text.len() < 110_000, "{}", cut.text.len());
    let pre = format!("<pre>{}", "y\n".repeat(100_000));
    assert!(convert(&pre, &far, Markup::None, 1000).is_cut);
}

proptest! {
    /// Whatever the page: it ends, does not panic, and no script's text is in it.
    #[test]
    fn any_page_has_a_text(pieces in proptest::collection::vec(0_usize..24, 0..60)) {
        const PIECES: [&str; 24] = [
            "<p>", "</p>", "<ul>", "</ul>", "<ol>", "<li>", "</li>", "<table>", "</table>", "<tr>",
            "<td>", "</td>", "</tr>", "<a href=x>", "</a>", "<pre>", "</pre>", "<b>", "</b>", "é x ",
            "<script>no</script>", "<blockquote>", "</blockquote>", "<br>",
        ];
        let html: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        let text = markdown(&html);
        prop_assert!(!text.contains("no"), "{html}: {text}");
        plain(&html);
    }
}
