use super::*;
use proptest::prelude::*;

#[test]
fn secrets_are_taken_out_and_what_is_around_them_stays() {
    let long = "aB3".repeat(14);
    for (text, expected) in [
        ("aws AKIAIOSFODNN7EXAMPLE x".to_owned(), "aws [redacted] x"),
        (
            format!("git push https://ghp_{long}@github.com/a"),
            "git push https://[redacted]@github.com/a",
        ),
        (format!("X=gho_{long}"), "X=[redacted]"),
        (format!("github_pat_{long}_{long}."), "[redacted]."),
        (format!("'sk-ant-api03-{long}-x'"), "'[redacted]'"),
        ("xoxb-123456789012-abcdef".to_owned(), "[redacted]"),
        (format!("(eyJ{long}.eyJ{long}.sig)"), "([redacted])"),
        (
            "curl -H 'Authorization: Bearer abc.DEF-123_x' u".to_owned(),
            "curl -H 'Authorization: Bearer [redacted]' u",
        ),
        ("authorization: Basic dXNlcjpwYXNz".to_owned(), "authorization: Basic [redacted]"),
        ("mysql --password=hunter2 db".to_owned(), "mysql --password=[redacted] db"),
        ("tool --api-key hunter2 db".to_owned(), "tool --api-key [redacted] db"),
        (
            "PGPASSWORD=a DB_PASSWORD='b c' psql".to_owned(),
            "PGPASSWORD=[redacted] DB_PASSWORD='[redacted]' psql",
        ),
        ("?token=abc&x=1".to_owned(), "?token=[redacted]&x=1"),
        (
            "{\"apiToken\": \"abc\", \"a\": 1}".to_owned(),
            "{\"apiToken\": \"[redacted]\", \"a\": 1}",
        ),
        ("{\\\"secret\\\":\\\"abc\\\"}".to_owned(), "{\\\"secret\\\":\\\"[redacted]\\\"}"),
        ("password: é✓ x".to_owned(), "password: [redacted] x"),
        ("postgres://me:pa:ss@h/db".to_owned(), "postgres://me:[redacted]@h/db"),
        (
            "a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b".to_owned(),
            "a [redacted] b",
        ),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3B".to_owned(), "[redacted]"),
    ] {
        assert_eq!(redact(&text), expected, "{text}");
    }
}

#[test]
fn options_of_programs_are_known() {
    for (text, expected) in [
        ("curl -u me:hunter2 https://h/x", "curl -u me:[redacted] https://h/x"),
        ("curl -ume:hunter2 h", "curl -ume:[redacted] h"),
        ("curl -sSu me:hunter2 h", "curl -sSu me:[redacted] h"),
        ("curl -u 'me:hunter 2' h", "curl -u 'me:[redacted]' h"),
        ("curl -u \"me:hunter2\" h", "curl -u \"me:[redacted]\" h"),
        ("curl --user me:a:b@c h", "curl --user me:[redacted] h"),
        ("curl --user=me:hunter2 h", "curl --user=me:[redacted] h"),
        (
            "curl -U me:pw --proxy-user me:pw h",
            "curl -U me:[redacted] --proxy-user me:[redacted] h",
        ),
        ("a | sudo /usr/bin/curl -u me:pw", "a | sudo /usr/bin/curl -u me:[redacted]"),
        ("tool -u admin:hunter2", "tool -u admin:[redacted]"),
        ("wget --user=me --password=hunter2 h", "wget --user=me --password=[redacted] h"),
        ("wget --user me --password hunter2 h", "wget --user me --password [redacted] h"),
        (
            "wget --http-password=a --ftp-password b",
            "wget --http-password=[redacted] --ftp-password [redacted]",
        ),
        ("mysql -uroot -phunter2 db", "mysql -uroot -p[redacted] db"),
        ("mysql -u root -p'hunter 2' db", "mysql -u root -p'[redacted]' db"),
        ("cd x && mysqldump -h h -phunter2 db > f", "cd x && mysqldump -h h -p[redacted] db > f"),
        ("bash -c 'mariadb -phunter2'", "bash -c 'mariadb -p[redacted]'"),
        ("$(mysql -phunter2)", "$(mysql -p[redacted])"),
        ("\"argv\":[\"mysql\",\"-phunter2\"]", "\"argv\":[\"mysql\",\"-p[redacted]\"]"),
        ("sshpass -p hunter2 ssh -p 22 me@h", "sshpass -p [redacted] ssh -p 22 me@h"),
        ("sshpass -phunter2 scp -p a h:b", "sshpass -p[redacted] scp -p a h:b"),
        ("sshpass -v -p 'hunter 2' ssh h", "sshpass -v -p '[redacted]' ssh h"),
        ("SSHPASS=hunter2 sshpass -e ssh h", "SSHPASS=[redacted] sshpass -e ssh h"),
        ("DB_PASS=a MYSQL_PWD=b c", "DB_PASS=[redacted] MYSQL_PWD=[redacted] c"),
        ("docker login -u me -p hunter2 h", "docker login -u me -p [redacted] h"),
        ("redis-cli -a hunter2 ping", "redis-cli -a [redacted] ping"),
        ("smbclient //h/s -U me%hunter2", "smbclient //h/s -U me%[redacted]"),
        ("zip -P hunter2 a.zip b", "zip -P [redacted] a.zip b"),
    ] {
        assert_eq!(redact(text), expected, "{text}");
        assert_eq!(redact(expected), expected, "a second time");
    }
}

#[test]
fn headers_and_addresses_are_known() {
    for (text, expected) in [
        ("-H 'Authorization: token abc123'", "-H 'Authorization: token [redacted]'"),
        ("-H \"authorization: TOKEN abc\" u", "-H \"authorization: TOKEN [redacted]\" u"),
        ("Authorization: Bearer short", "Authorization: Bearer [redacted]"),
        ("Authorization:Basic cHc=", "Authorization:Basic [redacted]"),
        ("Proxy-Authorization: Basic cHc=", "Proxy-Authorization: Basic [redacted]"),
        (
            "'Authorization: Digest username=\"a\", response=\"b\"' u",
            "'Authorization: Digest [redacted]' u",
        ),
        ("'Authorization: Unheard of' u", "'Authorization: [redacted]' u"),
        ("-H Authorization:abc https://h", "-H Authorization:[redacted] https://h"),
        ("{\"Authorization\": \"token abc\"}", "{\"Authorization\": \"token [redacted]\"}"),
        ("git clone https://me:hunter2@h/r", "git clone https://me:[redacted]@h/r"),
        ("https://:hunter2@h/r", "https://:[redacted]@h/r"),
        ("amqp://me:a/b?c@h:5672/v", "amqp://me:[redacted]@h:5672/v"),
        ("redis://:pw@h 'ftp://a:b@c'", "redis://:[redacted]@h 'ftp://a:[redacted]@c'"),
    ] {
        assert_eq!(redact(text), expected, "{text}");
        assert_eq!(redact(expected), expected, "a second time");
    }
}

#[test]
fn options_that_are_no_secrets_stay() {
    for text in [
        "mkdir -p x",
        "mkdir -p mysql/a",
        "git log -p",
        "git log -p mysql",
        "cp -pr a b",
        "cp -pr mysql b",
        "mysql; cp -pr a b",
        "mysql -p db",
        "mysql -P 3306 -h h",
        "tar -xpf a.tar",
        "ssh -p 22 me@h",
        "docker run -u 1000:1000 -p 8080:80 i",
        "docker run --user app:app i",
        "tool -u 1000:1000",
        "sort -u a:b",
        "date -u +%H:%M",
        "ps -u root",
        "curl -u me h",
        "curl -u \"$USER:$PASS\" h",
        "curl -u me:$PASS h",
        "sshpass -e ssh -p 22 h",
        "sshpass -p \"$PW\" ssh h",
        "mysql -p$PW",
        "python -u -m pass",
        "PWD=/srv/x OLDPWD=/ make",
        "3 pass: 12, fail: 0",
        "http://h:8080/a@b",
        "http://[::1]/a@b",
        "-p x --password",
    ] {
        assert_eq!(redact(text), text);
    }
}

#[test]
fn what_is_no_secret_stays() {
    for text in [
        "ls -l /etc",
        "export TOKEN=$OTHER; curl -H \"Authorization: Bearer $TOKEN\"",
        "password=",
        "https://example.com/a:b@c",
        "https://user@example.com",
        "git log --author=me",
        "task-runner disk-usage sk-learn",
        "a bearer of news, basic understanding",
        "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
        "tokenizer: bpe, author: me, cookies",
        "std::token::parse",
    ] {
        assert_eq!(redact(text), text);
    }
}

/// Text in which each byte may begin a secret, and none does: were the rest of it searched each time,
/// this would not end in minutes.
#[test]
fn a_long_text_is_searched_once() {
    for part in ["=-", "=-ua", "=-p", "x://", "a:b://", "token=$", "authorization:$", "=--token=$x"]
    {
        let text = part.repeat((64 << 10) / part.len());
        let hidden = redact(&format!("{text} --password hunter2")).into_owned();
        assert!(!hidden.contains("hunter2"), "{part}");
        assert!(hidden.len() > text.len(), "{part}: {}", hidden.len());
    }
}

/// Text of any length that is marked as a secret is hidden to its end.
#[test]
fn all_of_a_secret_is_hidden() {
    let secret = "s3cret".repeat(4_000);
    for text in [format!("token={secret}"), format!("mysql -p{secret}"), format!("-u me:{secret}")]
    {
        let text = if text.starts_with("-u") { format!("curl {text}") } else { text };
        assert!(!redact(&text).contains("s3cret"), "{}", &text[..20]);
    }
}

/// The separator before it may be anywhere in a value.
#[test]
fn a_value_that_may_end_in_a_secret_is_hidden() {
    let user = "u".repeat(EXAMINED);
    let found = redact(&format!("curl -u {user}:hunter2 https://host.example")).into_owned();
    assert_eq!(found, "curl -u [redacted] https://host.example");
    // Control: with a shorter name only the secret is.
    let found = redact("curl -u user:hunter2 https://host.example").into_owned();
    assert_eq!(found, "curl -u user:[redacted] https://host.example");
}

#[test]
fn names_are_taken_apart_into_words() {
    for name in ["password", "DB_PASSWORD", "dbPassword", "x-api-key", "aws.secret_access_key"] {
        assert!(names_a_secret(name), "{name}");
    }
    for name in ["", "author", "tokens_used", "keyboard", "path", "tokenizer", "é"] {
        assert!(!names_a_secret(name), "{name}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_fail(text in "(--|-p|-u|mysql|sshpass|Authorization:|[:=\"' ,/]|token|password|://|@|-----BEGIN |KEY-----|Bearer |é|[a-zA-Z0-9]){0,40}") {
        redact(&text);
    }

    #[test]
    fn a_second_pass_finds_nothing_more(text in "([ =:]|token|password|AKIAIOSFODNN7EXAMPLE|x){0,12}") {
        let once = redact(&text).into_owned();
        prop_assert_eq!(redact(&once), once.as_str());
    }
}
