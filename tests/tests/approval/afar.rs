//! The programs of docs/approvals.md that ask a person from afar, each against a server of its kind
//! that this test makes: the person's answer decides, and an answer of somebody else does not.

use crate::approvers::{Office, WAITING, by, code};
use palisade_protocol::ErrorCode;
use palisade_tests::Mode;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
};

const PAGE: &str = include_str!("../../../docs/approvals.md");

/// Writes the program below a heading of the page to a file of the world.
fn program(office: &Office, heading: &str) -> String {
    let (_, section) = PAGE.split_once(&format!("\n### {heading}\n")).expect("a heading");
    let (_, code) = section.split_once("```python\n").expect("a program");
    let (code, _) = code.split_once("```").expect("its end");
    let path = office.world.outside().join(format!("ask-{heading}"));
    fs::write(&path, code).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A request over HTTP: the path with its query, and the body.
struct Heard {
    path: String,
    body: String,
    stream: TcpStream,
}

impl Heard {
    fn read(stream: TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let path = line.split(' ').nth(1)?.to_owned();
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let (name, value) = match header.trim().split_once(':') {
                Some(header) => header,
                None => break,
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(Self { path, body: String::from_utf8(body).unwrap(), stream })
    }

    fn answer(mut self, value: &Value) {
        let text = value.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{text}",
            text.len()
        );
        self.stream.write_all(head.as_bytes()).unwrap();
    }
}

/// Serves each request by a thread of its own; returns the server's address.
fn serve(answer: impl Fn(Heard) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || {
                if let Some(heard) = Heard::read(stream) {
                    answer(heard);
                }
            });
        }
    });
    address
}

/// Deletes a file while the program asks, once for each decision.
fn decides(heading: &str, decision: &str, arguments: impl Fn(&Office) -> Vec<String>) {
    for mode in Mode::all() {
        let office = Office::new(mode, WAITING);
        let program = program(&office, heading);
        let arguments = arguments(&office);
        let mut words = vec!["--exec", &program, "--"];
        words.extend(arguments.iter().map(String::as_str));
        let result = office.attended(&words, || office.delete());
        assert!(by(&result).contains(&format!("ask-{heading}")), "{mode:?}: {result:?}");
        let expected = if decision == "deny" { Some(ErrorCode::Denied) } else { None };
        assert_eq!(code(&result), expected, "{mode:?}: {heading}: {result:?}");
        assert_eq!(office.path().exists(), decision == "deny", "{mode:?}: {heading}");
    }
}

/// A secret in a file that the world's user can read.
fn token(office: &Office) -> String {
    let path = office.world.outside().join("token");
    fs::write(&path, "t0ken\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn ntfy_asks_by_buttons() {
    for decision in ["approve", "deny"] {
        let waiting: Arc<Mutex<Option<TcpStream>>> = Arc::default();
        let server = serve(move |mut heard| match heard.path.as_str() {
            "/builds-answers/json" => {
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"event\":\"open\"}\n";
                // Before the program can send its message, the stream is there for the answer.
                let mut place = waiting.lock().unwrap();
                heard.stream.write_all(head.as_bytes()).unwrap();
                *place = Some(heard.stream);
            }
            _ => {
                let message: Value = serde_json::from_str(&heard.body).unwrap();
                assert_eq!(message["topic"], "builds");
                assert!(message["message"].as_str().unwrap().contains("/f"), "{message}");
                let buttons = message["actions"].as_array().unwrap().clone();
                heard.answer(&json!({}));
                let pressed = buttons.iter().find(|one| one["label"] == decision).unwrap();
                let mut stream = waiting.lock().unwrap().take().expect("it listens first");
                let other = if decision == "deny" { "approve" } else { "deny" };
                for text in [&json!("nonsense"), &json!(format!("{other} 0000")), &pressed["body"]]
                {
                    let line = json!({"event": "message", "message": text});
                    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
                }
            }
        });
        decides("ntfy", decision, |_| vec![server.clone(), "builds".to_owned()]);
    }
}

#[test]
fn slack_asks_by_reactions_of_named_people() {
    for (decision, reaction, other) in
        [("approve", "white_check_mark", "x"), ("deny", "x", "white_check_mark")]
    {
        let server = serve(move |heard| match heard.path.as_str() {
            "/chat.postMessage" => {
                assert!(heard.body.contains("channel=C1"), "{}", heard.body);
                heard.answer(&json!({"ok": true, "channel": "C1", "ts": "1.5"}));
            }
            _ => {
                assert!(heard.body.contains("timestamp=1.5"), "{}", heard.body);
                let reactions = json!([
                    {"name": other, "users": ["U9"]}, {"name": reaction, "users": ["U9", "U1"]},
                ]);
                heard.answer(&json!({"ok": true, "message": {"reactions": reactions}}));
            }
        });
        decides("Slack", decision, |office| {
            vec![server.clone(), token(office), "C1".to_owned(), "U1".to_owned()]
        });
    }
}

#[test]
fn matrix_asks_by_messages_of_named_people() {
    for decision in ["approve", "deny"] {
        let code: Arc<Mutex<String>> = Arc::default();
        let server = serve(move |heard| {
            let path = heard.path.clone();
            if path.contains("/send/") {
                let last = path.split('?').next().unwrap().rsplit('/').next().unwrap();
                *code.lock().unwrap() = last.to_owned();
                return heard.answer(&json!({"event_id": "$1"}));
            }
            if !path.contains("since=") {
                return heard.answer(&json!({"next_batch": "s0"}));
            }
            let code = code.lock().unwrap().clone();
            let other = if decision == "deny" { "approve" } else { "deny" };
            let said =
                |sender: &str, body: String| json!({"sender": sender, "content": {"body": body}});
            let events = json!([
                said("@eve:test", format!("{other} {code}")),
                said("@ann:test", format!("{other} 0000")),
                said("@ann:test", "hello".to_owned()),
                said("@ann:test", format!("{decision} {code} not today")),
            ]);
            let joined = json!({"!room:test": {"timeline": {"events": events}}});
            heard.answer(&json!({"next_batch": "s1", "rooms": {"join": joined}}));
        });
        decides("Matrix", decision, |office| {
            let (room, ann) = ("!room:test".to_owned(), "@ann:test".to_owned());
            vec![server.clone(), token(office), room, ann]
        });
    }
}

/// A mail server that takes one message after the other, and the Maildir to which each is answered.
fn mail(decision: &'static str, maildir: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut say = |text: &str| stream.write_all(format!("{text}\r\n").as_bytes()).unwrap();
            say("220 test");
            let (mut subject, mut data) = (String::new(), false);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    break;
                }
                match (data, line.trim_end()) {
                    (true, ".") => {
                        data = false;
                        say("250 ok");
                    }
                    (true, text) => {
                        if let Some(found) = text.strip_prefix("Subject: ") {
                            subject = found.to_owned();
                        }
                    }
                    (false, "data") => {
                        data = true;
                        say("354 go on");
                    }
                    (false, "quit" | "QUIT") => {
                        say("221 bye");
                        break;
                    }
                    (false, _) => say("250 ok"),
                }
            }
            let reply = |name: &str, subject: &str, word: &str| {
                let text = format!("From: ann@test\nSubject: Re: {subject}\n\n{word}\n> asked\n");
                fs::write(maildir.join("tmp"), text).unwrap();
                fs::rename(maildir.join("tmp"), maildir.join("new").join(name)).unwrap();
            };
            let other = if decision == "deny" { "approve" } else { "deny" };
            reply("1", "[palisade 0000] another", other);
            reply("2", &subject, decision);
        }
    });
    address
}

#[test]
fn mail_asks_by_a_code_in_the_subject() {
    for decision in ["approve", "deny"] {
        decides("E-mail", decision, |office| {
            let maildir = office.world.outside().join("Maildir");
            fs::create_dir_all(maildir.join("new")).unwrap();
            for path in [&maildir, &maildir.join("new")] {
                fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            let server = mail(decision, maildir.clone());
            let text = str::to_owned;
            vec![server, text("palisade@test"), text("ann@test"), text(maildir.to_str().unwrap())]
        });
    }
}
