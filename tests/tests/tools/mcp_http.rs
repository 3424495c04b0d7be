//! The MCP server over HTTP: who may connect, and that calls reach the sandbox and end with it.

use palisade_tests::{Mode, UNASKED, World, processes, rooms::until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read, Write},
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::PathBuf,
    process::{Child, Stdio},
};

const TOKEN: &str = "0123456789abcdef0123";

/// A server that listens.
struct Server {
    child: Child,
    address: Option<String>,
    socket: PathBuf,
}

/// An answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    session: Option<String>,
    body: String,
}

impl Answer {
    /// The message in the answer, which is alone or the last event of a stream.
    fn message(&self) -> Value {
        let mut events = self.body.lines().filter_map(|line| line.strip_prefix("data: {"));
        let text =
            events.next_back().map_or_else(|| self.body.clone(), |event| format!("{{{event}"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Server {
    fn on_loopback(world: &World) -> Self {
        Self::start(world, &["--listen", "127.0.0.1:0", "--token-file", &token(world, 0o600)])
    }

    fn start(world: &World, arguments: &[&str]) -> Self {
        let profiles = world.profiles();
        let all = ["--profile", UNASKED, "--profiles", profiles.to_str().unwrap()];
        let mut command = world.command("palisade-mcp");
        command.args(all).args(arguments).stderr(Stdio::piped());
        let mut child = world.mode.act(|| command.spawn().expect("start the server"));
        let socket = world.workspace().join("mcp.sock");
        let mut address = None;
        if arguments.contains(&"127.0.0.1:0") {
            let mut line = String::new();
            BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
            let found = line.trim().strip_prefix("listening on http://").expect(&line);
            address = Some(found.trim_end_matches('/').to_owned());
        } else {
            until("the socket takes connections", || UnixStream::connect(&socket).is_ok());
        }
        Self { child, address, socket }
    }

    /// Sends a request of one message.
    fn post(&self, headers: &str, message: &Value) -> Answer {
        self.send("POST", headers, &message.to_string())
    }

    fn send(&self, method: &str, headers: &str, body: &str) -> Answer {
        match &self.address {
            Some(address) => exchange(TcpStream::connect(address).unwrap(), method, headers, body),
            None => exchange(UnixStream::connect(&self.socket).unwrap(), method, headers, body),
        }
    }

    /// Opens a session of the protocol; returns the headers of its requests.
    fn initialize(&self, headers: &str) -> String {
        let client = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let first = self.post(headers, &request("initialize", params));
        assert_eq!(first.message()["result"]["serverInfo"]["name"], "palisade", "{first:?}");
        let headers = format!("{headers}Mcp-Session-Id: {}\r\n", first.session.unwrap());
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&headers, &ready).status, 202);
        headers
    }

    fn bash(&self, headers: &str, line: &str) -> String {
        let answer = self.post(headers, &bash(line));
        let message = answer.message();
        let text = message["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{answer:?}"))
            .replace("\n[not enforced on this host: limits]", "")
    }

    /// Ends the server by a signal.
    fn end(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn bash(line: &str) -> Value {
    let arguments = json!({"command": line, "timeout_ms": 500_000});
    request("tools/call", json!({"name": "bash", "arguments": arguments}))
}

/// Writes the token into a file with this mode; returns its path.
fn token(world: &World, mode: u32) -> String {
    let path = world.outside().join("token");
    fs::write(&path, format!("{TOKEN}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    world.give(&path);
    path.to_str().unwrap().to_owned()
}

fn exchange<S: Read + Write>(mut stream: S, method: &str, headers: &str, body: &str) -> Answer {
    let host = if headers.contains("Host: ") { "" } else { "Host: localhost\r\n" };
    let head = format!(
        "{method} /mcp HTTP/1.1\r\n{host}Connection: close\r\nContent-Type: application/json\r\nAccept: \
         application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    let is_chunked = head.contains("transfer-encoding: chunked");
    let body = if is_chunked { joined(body) } else { body.to_owned() };
    Answer { status, session: session.map(str::to_owned), body }
}

/// Joins the chunks of a body.
fn joined(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    whole
}

fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}\r\n")
}

#[test]
fn only_clients_with_the_token_are_served_on_loopback() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let server = Server::on_loopback(&world);
        let headers = server.initialize(&bearer());
        assert_eq!(server.bash(&headers, "echo one > made; cat made"), "one\n[exit 0]", "{mode:?}");
        let made = world.workspace().join("made");
        assert_eq!(fs::read_to_string(&made).unwrap(), "one\n");
        // Each client has its own session, with its own directory and /tmp.
        assert_eq!(server.bash(&headers, "cd /tmp; echo mine > /tmp/mine"), "[exit 0]");
        let other = server.initialize(&bearer());
        let at = format!("{}\n[exit 0]", world.workspace().display());
        assert_eq!(server.bash(&other, "pwd"), at, "{mode:?}");
        assert_eq!(server.bash(&other, "ls /tmp | grep -c mine"), "0\n[exit 1]", "{mode:?}");
        assert_eq!(server.bash(&headers, "pwd; cat mine"), "/tmp\nmine\n[exit 0]", "{mode:?}");

        let own = |removed: &str| headers.replace(removed, "");
        let spoof = |line: &str| format!("{headers}{line}\r\n");
        let refused = [
            (own(&bearer()), 401),
            (own(&bearer()) + "Authorization: Bearer 0123456789abcdef0124\r\n", 401),
            (spoof("Host: attacker.example"), 403),
            (spoof("Origin: http://attacker.example"), 403),
        ];
        for (headers, status) in refused {
            let answer = server.post(&headers, &bash(&format!("rm {}", made.display())));
            assert_eq!(answer.status, status, "{mode:?} {headers}: {answer:?}");
        }
        assert!(made.exists());
        server.end();
    }
}

#[test]
fn a_client_that_ends_its_session_ends_everything_in_it_and_nothing_else() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let server = Server::on_loopback(&world);
        let [mark, other] = [processes::mark(), processes::mark()];
        let [mine, others] = [&mark, &other].map(|mark| {
            let headers = server.initialize(&bearer());
            let arguments =
                json!({"command": format!("exec -a {mark} sleep 600"), "background": true});
            let call = json!({"name": "bash", "arguments": arguments});
            let started = server.post(&headers, &request("tools/call", call));
            assert_eq!(started.message()["result"]["isError"], false, "{mode:?}: {started:?}");
            until("the job runs", || !processes::marked(mark).is_empty());
            headers
        });
        let ended = server.send("DELETE", &mine, "");
        assert_eq!((ended.status, ended.body.as_str()), (204, ""), "{mode:?}: {ended:?}");
        until("the session's job is gone", || processes::marked(&mark).is_empty());
        assert_eq!(server.post(&mine, &bash("echo on")).status, 404, "{mode:?}");
        assert_eq!(server.bash(&others, "echo on"), "on\n[exit 0]", "{mode:?}");
        assert!(!processes::marked(&other).is_empty(), "{mode:?}");
        server.end();
        until("all jobs are gone", || processes::marked(&other).is_empty());
    }
}

/// A client that breaks its connection off gives up a call only where the protocol has no sessions, in
/// which it could ask for the answer again.
#[test]
fn a_client_that_disconnects_ends_its_call_only_where_the_protocol_has_no_sessions() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let server = Server::on_loopback(&world);
        let address = server.address.clone().unwrap();
        let begin = |headers: &str, message: &Value| {
            let mut stream = TcpStream::connect(&address).unwrap();
            let body = message.to_string();
            let head = format!(
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n",
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            stream
        };
        let [kept, given_up] = [processes::mark(), processes::mark()];
        let tree = |mark: &str, rest: &str| {
            let outliving = format!("(setsid bash -c 'exec -a {mark} sleep 600' &)");
            format!("trap '' TERM; {outliving}; {rest}")
        };
        let headers = server.initialize(&bearer());
        let waits = "until [ -e go ]; do sleep 0.1; done; echo x >> finished";
        let with_session = begin(&headers, &bash(&tree(&kept, waits)));
        let mut message = bash(&tree(&given_up, &format!("exec -a {given_up} sleep 600")));
        message["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let era =
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: bash\r\n";
        let without = begin(&format!("{}{era}", bearer()), &message);
        until("the one call is under way", || !processes::marked(&kept).is_empty());
        until("the other call is under way", || processes::marked(&given_up).len() >= 2);
        drop((with_session, without));
        until("the other call has ended", || processes::marked(&given_up).is_empty());
        // The one goes on to its end, once.
        assert!(!processes::marked(&kept).is_empty(), "{mode:?}");
        let [go, finished] = ["go", "finished"].map(|name| world.workspace().join(name));
        assert!(!finished.exists(), "{mode:?}");
        fs::write(&go, "").unwrap();
        until("the one call has ended", || processes::marked(&kept).is_empty());
        assert_eq!(fs::read_to_string(&finished).unwrap(), "x\n", "{mode:?}");
        server.end();
    }
}

#[test]
fn the_version_without_sessions_has_no_initialize() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let server = Server::start(&world, &["--listen", "./mcp.sock"]);
        let client = json!({"name": "test", "version": "1"});
        let message = request(
            "initialize",
            json!({"protocolVersion": "2026-07-28", "capabilities": {}, "clientInfo": client}),
        );
        let version = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: initialize\r\n";
        let answer = server.post(version, &message);
        assert_eq!(answer.status, 404, "{mode:?}: {answer:?}");
        let told = answer.message();
        assert_eq!((&told["id"], &told["error"]["code"]), (&message["id"], &json!(-32601)));
        // The control: an earlier version has it.
        server.initialize("");
        server.end();
    }
}

#[test]
fn a_socket_is_for_its_user_and_ends_with_the_server() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let server = Server::start(&world, &["--listen", "./mcp.sock"]);
        let socket = server.socket.clone();
        assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        let headers = server.initialize("");
        let mark = processes::mark();
        let line =
            format!("(setsid bash -c 'exec -a {mark} sleep 600' &); exec -a {mark} sleep 600");
        let (address, message) = (socket.clone(), bash(&line));
        let call = std::thread::spawn(move || {
            let mut stream = UnixStream::connect(address).unwrap();
            let body = message.to_string();
            let head = format!(
                "POST / HTTP/1.1\r\nHost: any.example\r\nContent-Type: application/json\r\nAccept: \
                 application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n{body}",
                body.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            // Until the server ends.
            stream.read_to_end(&mut Vec::new()).map(drop).unwrap_or_default();
        });
        until("the call is under way", || processes::marked(&mark).len() >= 2);
        server.end();
        assert_eq!(processes::marked(&mark), [], "{mode:?}");
        assert!(!socket.exists());
        call.join().unwrap();
    }
}

#[test]
fn a_server_that_others_could_use_does_not_start() {
    let [mode, ..] = Mode::all()[..] else { panic!("no mode") };
    let world = World::new(mode);
    let exposed = token(&world, 0o644);
    let cases: [(&[&str], i32, &str); 4] = [
        (&["--listen", "127.0.0.1:0"], 125, "--token-file"),
        (&["--listen", "127.0.0.1:0", "--token-file", &exposed], 125, "chmod 600"),
        (&["--listen", "0.0.0.0:0", "--token-file", &exposed], 2, "other hosts"),
        (&["--listen", "probe"], 2, "the path of a socket"),
    ];
    for (arguments, status, said) in cases {
        let output = mode.act(|| world.command("palisade-mcp").args(arguments).output().unwrap());
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {complaint}");
        assert!(complaint.contains(said), "{arguments:?}: {complaint}");
    }
    // What is there already is not replaced.
    let probe = world.workspace().join("probe");
    let before = fs::read(&probe).unwrap();
    let taken = probe.to_str().unwrap();
    let output =
        mode.act(|| world.command("palisade-mcp").args(["--listen", taken]).output().unwrap());
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(fs::read(&probe).unwrap(), before);
}
