use super::*;

#[test]
fn a_url_is_read_to_one_host_and_port() {
    for (text, target, path, header) in [
        ("https://Docs.Example/a/../b?q=1#x", "docs.example:443", "/b?q=1", "docs.example"),
        ("http://docs.example", "docs.example:80", "/", "docs.example"),
        ("http://docs.example:8080/x", "docs.example:8080", "/x", "docs.example:8080"),
        ("https://docs.example:443/", "docs.example:443", "/", "docs.example"),
        ("https://docs.example./", "docs.example:443", "/", "docs.example"),
        (
            "https://münchen.example/ä",
            "xn--mnchen-3ya.example:443",
            "/%C3%A4",
            "xn--mnchen-3ya.example",
        ),
        // The forms of an address are the address.
        ("http://127.1/", "127.0.0.1:80", "/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1:80", "/", "127.0.0.1"),
        ("http://0x7f.0.0.1/", "127.0.0.1:80", "/", "127.0.0.1"),
        ("http://[::ffff:127.0.0.1]/", "127.0.0.1:80", "/", "127.0.0.1"),
        ("http://[2001:db8::1]/", "[2001:db8::1]:80", "/", "[2001:db8::1]"),
        // What a browser takes for the host is the host.
        ("https:\\\\docs.example\\x", "docs.example:443", "/x", "docs.example"),
    ] {
        let url = PageUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!(url.target.to_string(), target, "{text}");
        assert_eq!((url.path_and_query().as_str(), url.host_header().as_str()), (path, header));
    }
}

#[test]
fn other_urls_are_refused() {
    let long = format!("https://docs.example/{}", "a".repeat(MAX_URL));
    let grows = format!("https://docs.example/{}", "ä".repeat(MAX_URL / 4));
    for (text, why) in [
        ("", "it is not a URL"),
        ("docs.example/x", "it is not a URL"),
        ("/x", "it is not a URL"),
        ("ftp://docs.example/", "its scheme is \"ftp\""),
        ("file:///etc/passwd", "its scheme is \"file\""),
        ("data:text/html,x", "its scheme is \"data\""),
        ("javascript:alert(1)", "its scheme is \"javascript\""),
        ("unix:/run/x.sock", "its scheme is \"unix\""),
        ("https://user@docs.example/", "user name or a password"),
        ("https://user:secret@docs.example/", "user name or a password"),
        ("https://:secret@docs.example/", "user name or a password"),
        ("https://docs.example:0/", "its port is 0"),
        ("https://docs.example:70000/", "it is not a URL"),
        ("https:///", "it is not a URL"),
        ("https://a%00b.example/", "it is not a URL"),
        (&long, "more than 8192 bytes"),
        (&grows, "more than 8192 bytes"),
    ] {
        match PageUrl::parse(text) {
            Err(PageFailure::Url(reason)) => assert!(reason.contains(why), "{text}: {reason}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_redirect_is_relative_to_its_page_and_stays_encrypted() {
    let page = PageUrl::parse("https://docs.example/a/b?q").unwrap();
    for (location, url) in [
        ("/x", "https://docs.example/x"),
        ("c", "https://docs.example/a/c"),
        ("?p=1", "https://docs.example/a/b?p=1"),
        ("//other.example/y", "https://other.example/y"),
        ("https://other.example:8443/", "https://other.example:8443/"),
    ] {
        assert_eq!(page.follow(location).unwrap().url().as_str(), url);
    }
    for (location, why) in [
        ("http://docs.example/", "from https to http"),
        ("file:///etc/passwd", "its scheme is \"file\""),
        ("https://a:b@docs.example/", "user name or a password"),
    ] {
        match page.follow(location) {
            Err(PageFailure::Url(reason)) => assert!(reason.contains(why), "{location}: {reason}"),
            other => panic!("{location}: {other:?}"),
        }
    }
}
