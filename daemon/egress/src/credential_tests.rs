use super::*;

const TOKEN: &str = "token-0123456789";

fn request(headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().uri("/x");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

#[test]
fn a_credential_is_one_line_of_a_known_kind() {
    let header = |text: &str| {
        let made = parse(text).unwrap();
        assert!(made.value.is_sensitive());
        assert!(!format!("{made:?}").contains(TOKEN));
        format!("{}: {}", made.header, made.value.to_str().unwrap())
    };
    assert_eq!(header(&format!("bearer {TOKEN}\n")), format!("authorization: Bearer {TOKEN}"));
    let basic = STANDARD.encode(format!("user:{TOKEN}"));
    assert_eq!(header(&format!("basic user:{TOKEN}")), format!("authorization: Basic {basic}"));
    let named = header(&format!("header Private-Token: {TOKEN}"));
    assert_eq!(named, format!("private-token: {TOKEN}"));
    for bad in
        ["", TOKEN, "bearer", "Bearer x", "basic user", "header x", "bearer a\nb", "bearer é"]
    {
        assert_eq!(parse(bad).unwrap_err(), FORM, "{bad:?}");
    }
    assert!(parse("bearer short").unwrap_err().contains("shorter than 8"));
}

#[test]
fn a_placeholder_is_exchanged_and_an_absent_header_filled_in() {
    let credential = parse(&format!("bearer {TOKEN}")).unwrap();
    let real = format!("Bearer {TOKEN}");
    let basic = format!("Basic {}", STANDARD.encode("x:placeholder-1"));
    for (given, expected) in [
        (vec![], real.as_str()),
        (vec![("authorization", "Bearer placeholder-1")], &real),
        (vec![("authorization", basic.as_str())], &real),
        (vec![("authorization", "Bearer mine"), ("range", "bytes=0-3")], "Bearer mine"),
    ] {
        let mut request = request(&given);
        fill_in(request.headers_mut(), &credential, "placeholder-1");
        assert_eq!(request.headers()[AUTHORIZATION], expected);
        assert_eq!(request.headers()[ACCEPT_ENCODING], "identity");
        assert!(!request.headers().contains_key(RANGE));
    }
}

#[test]
fn a_placeholder_in_another_place_is_found() {
    let host = |host: &[u8], name: &str, placeholder: &str| {
        let target = Target { host: crate::name::read_host(host).unwrap(), port: 443 };
        HostCredential { target, name: name.to_owned(), placeholder: placeholder.to_owned() }
    };
    let hosts =
        vec![host(b"a.test", "api", "placeholder-1"), host(b"b.test", "git", "placeholder-2")];
    let session = SessionCredentials { files: CredentialFiles::new(), hosts };
    let credential = parse(&format!("bearer {TOKEN}")).unwrap();
    let own = Some((&credential, "placeholder-1"));
    let sent = request(&[("authorization", "Bearer placeholder-1")]);
    assert_eq!(session.misplaced(&sent, own), None);
    assert_eq!(session.misplaced(&sent, None), Some("api"));
    let of_another = request(&[("authorization", "Bearer placeholder-2")]);
    assert_eq!(session.misplaced(&of_another, own), Some("git"));
    let other = request(&[("x-other", "a placeholder-1")]);
    assert_eq!(session.misplaced(&other, own), Some("api"));
    let query = Request::builder().uri("/x?placeholder-1").body(()).unwrap();
    assert_eq!(session.misplaced(&query, own), Some("api"));
    assert_eq!(session.misplaced(&request(&[("x", "placeholder-3")]), None), None);
}

#[test]
fn a_credential_is_read_anew_for_each_request() {
    let directory = std::env::temp_dir().join(format!("palisade-store-{}", std::process::id()));
    fs::create_dir_all(directory.join("below")).unwrap();
    let path = directory.join("api");
    fs::write(&path, format!("bearer {TOKEN}\n")).unwrap();
    let files = open_all(&directory).unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["api"], "files only");
    let target = Target { host: crate::name::read_host(b"a.test").unwrap(), port: 443 };
    let host = |name: &str| {
        let (target, placeholder) = (target.clone(), "placeholder-1".to_owned());
        vec![HostCredential { target, name: name.to_owned(), placeholder }]
    };
    let session = SessionCredentials { files: files.clone(), hosts: host("api") };
    let value = || session.of(&target).map(|found| found.unwrap().0.value.clone());
    assert_eq!(value().unwrap(), format!("Bearer {TOKEN}"));
    fs::write(&path, format!("bearer other-{TOKEN}\n")).unwrap();
    assert_eq!(value().unwrap(), format!("Bearer other-{TOKEN}"));
    for (text, why) in [
        (format!("{TOKEN}\n"), FORM.to_owned()),
        (format!("bearer {TOKEN}{}", "x".repeat(MAX_CREDENTIAL)), "more than 16 KiB".to_owned()),
    ] {
        fs::write(&path, text).unwrap();
        let error = value().unwrap_err();
        assert!(error.starts_with("credential \"api\" can not be used: "), "{error}");
        assert!(error.contains(&why) && !error.contains(TOKEN), "{error}");
    }
    let without = SessionCredentials { files, hosts: host("other") };
    let error = without.of(&target).unwrap_err();
    assert!(error.contains("add LoadCredential=other:FILE to palisade-egress@.service"), "{error}");
    let elsewhere = Target { port: 444, ..target.clone() };
    assert!(without.of(&elsewhere).unwrap().is_none());
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn base64_of_a_value_is_recognised_wherever_it_stands() {
    let echoes = echoes_of(TOKEN);
    for before in ["", "a", "ab", "abc", "user:"] {
        for after in ["", "b", "bc", "bcd"] {
            let text = STANDARD.encode(format!("{before}{TOKEN}{after}"));
            let found = echoes.iter().any(|echo| {
                text.as_bytes().windows(echo.len()).any(|part| part == echo.as_slice())
            });
            assert!(found, "{before} {after}");
        }
    }
}
