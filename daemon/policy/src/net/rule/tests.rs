//! Tests of the rules for inspected hosts.

use super::*;

fn pattern(text: &str) -> RequestPattern {
    RequestPattern::try_from(text.to_owned()).unwrap()
}

fn rule(methods: &[&str]) -> HostRule {
    let host = HostEntry::try_from("api.git.example".to_owned()).unwrap();
    let methods = methods.iter().map(|text| pattern(text)).collect();
    HostRule { host, methods, credential: None }
}

fn judged(rule: &HostRule, method: &str, path: &str) -> Result<String, String> {
    let request = WebRequest { method: method.to_owned(), path: path.to_owned() };
    rule.judge(&request).map(RequestPattern::to_string)
}

#[test]
fn a_star_stands_for_any_characters() {
    for (pattern, text, expected) in [
        ("/a", "/a", true),
        ("/a", "/ab", false),
        ("/a", "/", false),
        ("/a/*", "/a/", true),
        ("/a/*", "/a/b/c", true),
        ("/a/*", "/a", false),
        ("/*/x", "/a/b/x", true),
        ("/*/x", "/a/b/y", false),
        ("/a*b*c", "/a-b-b-c", true),
        ("/a*b*c", "/a-c-b", false),
        ("/aba*aba", "/aba", false),
        ("/*", "/", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn a_request_is_judged_by_method_and_path() {
    let rule = rule(&["GET", "POST /repos/acme/*", "PUT /one"]);
    assert_eq!(judged(&rule, "GET", "/any/%2e%2e/path//"), Ok("GET".to_owned()));
    assert_eq!(judged(&rule, "POST", "/repos/acme/x/pulls").unwrap(), "POST /repos/acme/*");
    assert_eq!(judged(&rule, "PUT", "/one").unwrap(), "PUT /one");
    for (method, path) in [
        ("DELETE", "/repos/acme/x"),
        ("get", "/"),
        ("POST", "/repos/other/x"),
        ("POST", "/repos/acme"),
        ("PUT", "/one/two"),
        ("HEAD", "/"),
        ("", ""),
    ] {
        let why = judged(&rule, method, path).unwrap_err();
        assert!(why.starts_with("it allows \"GET\", \"POST /repos/acme/*\", \"PUT /one\", but "));
    }
}

#[test]
fn a_path_that_servers_read_differently_is_refused() {
    let rule = rule(&["POST /repos/acme/*"]);
    for (path, why) in [
        ("/repos/acme/../other/x", "\"..\""),
        ("/repos/acme/./x", "\".\""),
        ("/repos/acme/..", "\"..\""),
        ("/repos/acme/..;a=b/other", "\"..\""),
        ("/repos/acme/%2e%2e/other", "%2e"),
        ("/repos/acme/.%2E/other", "%2e"),
        ("/repos/acme/..%2fother", "%2f"),
        ("/repos/acme/%252e%252e/x", "%25"),
        ("/repos/acme/..%5cother", "%5c"),
        ("/repos/acme/x%00", "%00"),
        ("/repos/acme/x%", "two hexadecimal digits"),
        ("/repos/acme/x%zz", "two hexadecimal digits"),
        ("/repos/acme//x", "\"//\""),
        ("/repos/acme/..\\other", "'\\\\'"),
        ("/repos/acme/\0", "'\\0'"),
        ("/repos/acme/é", "'é'"),
        ("*", "does not begin"),
        ("repos/acme/x", "does not begin"),
    ] {
        let told = judged(&rule, "POST", path).unwrap_err();
        assert!(told.contains(why) && told.contains("can not be compared"), "{path}: {told}");
    }
    assert!(judged(&rule, "POST", "/repos/acme/a%20b/..x/x..;y").is_ok());
}

#[test]
fn patterns_are_read_with_a_reason() {
    for text in ["GET", "POST /", "VERSION-CONTROL /a/*", "PUT /a;b=c/%20"] {
        assert_eq!(pattern(text).to_string(), text);
    }
    for (text, why) in [
        ("", "upper case"),
        ("get", "upper case"),
        ("GET  /", "no space"),
        ("GET x", "does not begin"),
        ("GET /a b", "no space"),
        ("GET /a?b", "the query is not compared"),
        ("GET /a/../b", "\"..\""),
        ("GET /a//b", "\"//\""),
        ("CONNECT", "never sent"),
        ("* /a", "upper case"),
    ] {
        let told = RequestPattern::try_from(text.to_owned()).unwrap_err();
        assert!(told.starts_with(&format!("{text:?} is not a request: ")), "{told}");
        assert!(told.contains(why), "{text}: {told}");
    }
}

#[test]
fn a_credential_counts_as_more() {
    let name = |text: &str| CredentialName::try_from(text.to_owned());
    let plain = rule(&["GET"]);
    let with = |text: &str| HostRule { credential: Some(name(text).unwrap()), ..plain.clone() };
    assert!(with("a").covers(&plain) && with("a").covers(&with("a")));
    assert!(!plain.covers(&with("a")) && !with("a").covers(&with("b")));
    assert_eq!(with("a").common(&with("b")), Some(plain.clone()));
    assert_eq!(with("a").common(&with("a")), Some(with("a")));
    assert_eq!(with("a").to_string(), "\"GET\" with credential \"a\"");
    assert_eq!(name("git-host").unwrap().variable(), "PALISADE_CREDENTIAL_GIT_HOST");
    for bad in ["", "A", "../x", "a_b", "a b"] {
        assert!(name(bad).unwrap_err().contains("is not the name of a credential"));
    }
}

#[test]
fn a_narrower_rule_is_within_a_wider_one() {
    let wide = rule(&["GET", "POST /repos/*", "PUT /a/*/c"]);
    for narrow in [&["GET"][..], &["GET /x"], &["POST /repos/acme/*"], &["PUT /a/*/b/*/c"]] {
        assert!(wide.covers(&rule(narrow)), "{narrow:?}");
        assert!(!rule(narrow).covers(&wide));
    }
    for wider in [&["POST"][..], &["POST /*"], &["PUT /a/*"], &["GET", "DELETE"]] {
        assert!(!wide.covers(&rule(wider)), "{wider:?}");
    }
    let common = wide.common(&rule(&["POST /repos/acme/*", "GET /x", "DELETE"])).unwrap();
    assert_eq!(common.to_string(), "\"GET /x\", \"POST /repos/acme/*\"");
    assert_eq!(wide.common(&rule(&["DELETE"])), None);
}
