//! Monitoring: what a scrape is told of calls, denials, checkpoints and sessions; and that there is
//! nothing to scrape unless it is configured.

use crate::queries;
use palisade_client::Open;
use palisade_tests::{Daemon, Mode, Sandbox, World, rooms::until};
use serde_json::json;
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::PathBuf,
};

struct Watched {
    daemon: Daemon,
    world: World,
}

impl Watched {
    fn new(mode: Mode, listen: impl FnOnce(&PathBuf) -> String) -> Self {
        let world = World::new(mode);
        world.configure(&listen(&world.run()));
        let daemon = world.configured_daemon(|_| {});
        Self { daemon, world }
    }

    fn open(&self, profile: &str) -> Sandbox {
        let open = Open::new(self.world.workspace()).profile(profile);
        Sandbox::over(self.daemon.connect(self.world.mode), None, open).expect("a session")
    }

    /// A scrape over the Unix socket.
    fn scrape(&self) -> String {
        let path = self.world.run().join("metrics.sock");
        // It is bound after the agents' socket, which was waited for.
        until("it is to be scraped", || UnixStream::connect(&path).is_ok());
        let stream = self.world.mode.act(|| UnixStream::connect(path).expect("connect"));
        let reply = ask(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let kind = "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n";
        assert!(head.contains(kind), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
        body.to_owned()
    }
}

fn ask(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("write");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("read");
    reply
}

/// Every line is a comment or a name with a number, and every name was declared.
fn assert_well_formed(text: &str) {
    let mut declared = Vec::new();
    for line in text.lines() {
        if let Some(declaration) = line.strip_prefix("# TYPE ") {
            declared.push(declaration.split(' ').next().unwrap().to_owned());
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect(line);
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let name = name.split('{').next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        assert!(declared.iter().any(|known| known == family || known == name), "{line}");
    }
}

/// The values with which a text's queries compare labels: `label="value"` and `label=~"one|other"`.
fn compared(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("=~\"").chain(text.match_indices("=\"")) {
        let (before, after) = text.split_at(at);
        let label = before.rsplit(|c: char| c != '_' && !c.is_ascii_lowercase()).next().unwrap();
        let values = after.trim_start_matches(['=', '~', '"']).split('"').next().unwrap();
        found.extend(values.split('|').map(|value| (label, value)));
    }
    found
}

/// A file of rules in the part of YAML that it needs: mappings and lists by indentation, plain,
/// quoted and folded scalars.
fn assert_is_yaml_of_rules(rules: &str) {
    let mut alerts = Vec::new();
    let mut folded = None;
    for line in rules.lines().filter(|line| !line.starts_with('#')) {
        let text = line.trim_start();
        let depth = line.len() - text.len();
        if folded.is_some_and(|above| depth > above) {
            continue;
        }
        folded = None;
        assert!(depth % 2 == 0 && !line.contains('\t') && !text.is_empty(), "{line:?}");
        let (depth, text) = match text.strip_prefix("- ") {
            Some(item) => (depth + 2, item),
            None => (depth, text),
        };
        let (key, value) = text.split_once(':').unwrap_or_else(|| panic!("no key: {line:?}"));
        let value = value.strip_prefix(' ').unwrap_or(value);
        let is_plain = !value.contains(": ")
            && !value.contains(" #")
            && !value.ends_with(':')
            && !value.starts_with(['`', '"', '\'', '{', '[', '&', '*', '!', '|', '%', '@', ' ']);
        let is_quoted = value.len() > 1
            && value.starts_with('"')
            && value.ends_with('"')
            && !value[1..value.len() - 1].contains(['"', '\\']);
        match value {
            ">-" => folded = Some(depth),
            "" => assert!(["groups", "rules", "labels", "annotations"].contains(&key), "{line:?}"),
            _ => assert!(is_plain || is_quoted, "{line:?}"),
        }
        match (depth, key) {
            (0, "groups") | (4, "name" | "rules") => {}
            (8, "alert") => alerts.push((value, Vec::new())),
            (8, "expr" | "for" | "labels" | "annotations")
            | (10, "severity" | "summary" | "description") => {
                alerts.last_mut().expect("an alert").1.push(key);
            }
            _ => panic!("{key} is not a key of a rule: {line:?}"),
        }
    }
    assert!(alerts.len() >= 8, "{alerts:?}");
    for (alert, keys) in alerts {
        for key in ["expr", "severity", "summary", "description"] {
            assert_eq!(keys.iter().filter(|found| **found == key).count(), 1, "{alert}: {key}");
        }
    }
}

/// The queries of the alert rules and the dashboard fit the scrape, and so do the values with which they
/// compare labels.
fn assert_monitored(scrape: &str) {
    let rules = include_str!("../../../systemd/monitoring/palisade.rules.yml");
    let dashboard = include_str!("../../../systemd/monitoring/palisade-dashboard.json");
    let parsed: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    assert!(parsed["panels"].as_array().unwrap().len() > 10);
    assert_is_yaml_of_rules(rules);
    let queries = [rules.to_owned(), dashboard.replace("\\\"", "\"")];
    let compared: Vec<_> = queries.iter().flat_map(|text| compared(text)).collect();
    assert!(compared.contains(&("outcome", "launcher_gone")), "control: {compared:?}");
    for (label, value) in compared.iter().filter(|(_, value)| !value.contains('$')) {
        let is_known = match *label {
            // An outcome is in a scrape only once it has happened.
            "outcome" => {
                let code = serde_json::from_value::<palisade_protocol::ErrorCode>((*value).into());
                *value == "ok" || code.is_ok_and(|code| code.name() == *value)
            }
            // Keys of the dashboard's own JSON are no labels.
            _ => scrape.contains(&format!("{label}=\"{value}\"")),
        };
        assert!(is_known, "nothing has {label}={value:?}");
    }
    let metrics = queries::metrics(scrape);
    for (file, queries, least) in
        [("rules", queries::of_rules(rules), 8), ("dashboard", queries::of_dashboard(&parsed), 15)]
    {
        assert!(queries.len() >= least, "{file}: {queries:?}");
        for query in queries {
            let faults = queries::faults(&query, &metrics);
            assert!(faults.is_empty(), "{file}: {}: {faults:?}", query.text);
        }
    }
    for stage in ["checkpoint", "execute", "effects"] {
        let line = format!("palisade_calls_in_stage{{stage=\"{stage}\"}} 0");
        assert!(scrape.lines().any(|told| told == line), "{line}");
    }
}

#[test]
fn a_scrape_tells_what_happened() {
    for mode in Mode::all() {
        let unix = |run: &PathBuf| {
            format!("[metrics]\nlisten = \"unix:{}\"\n", run.join("metrics.sock").display())
        };
        let watched = Watched::new(mode, unix);
        let before = watched.scrape();
        assert_well_formed(&before);
        assert!(before.contains("\npalisade_sessions 0\n"), "{before}");
        assert!(!before.contains("palisade_calls_total{"), "{before}");

        let sandbox = watched.open("workspace");
        assert_eq!(sandbox.ok("echo one"), "one\n");
        assert_eq!(sandbox.ok("echo two"), "two\n");
        assert!(!sandbox.bash("exit 3").success);
        assert!(!sandbox.call("no_such_tool", json!({})).success);
        fs::write(watched.world.workspace().join("kept"), "x").unwrap();
        watched.world.give(&watched.world.workspace().join("kept"));
        // Nobody is there to be asked.
        assert!(!sandbox.bash("rm -rf kept").success);
        let text = watched.scrape();
        assert_well_formed(&text);
        for line in [
            "palisade_calls_total{tool=\"bash\",outcome=\"ok\"} 2",
            "palisade_calls_total{tool=\"bash\",outcome=\"command_failed\"} 1",
            "palisade_calls_total{tool=\"bash\",outcome=\"denied\"} 1",
            "palisade_calls_total{tool=\"unknown\",outcome=\"tool_not_found\"} 1",
            "palisade_call_duration_seconds_bucket{tool=\"bash\",le=\"+Inf\"} 4",
            "palisade_call_duration_seconds_count{tool=\"bash\"} 4",
            "palisade_denials_total{layer=\"policy\"} 1",
            "palisade_checkpoints_total{decision=\"denied\"} 1",
            "palisade_checkpoints_pending 0",
            "palisade_sessions 1",
            "palisade_calls_under_way 0",
            "palisade_jobs 0",
            "palisade_egress_rooms 0",
            "palisade_connections 0",
            "palisade_calls_in_stage{stage=\"queue\"} 0",
            "palisade_calls_in_stage{stage=\"execute\"} 0",
            "palisade_cells 1",
            "palisade_journal_lost_lines_total 0",
            "palisade_traces_lost_calls_total 0",
            "palisade_launcher_up 1",
            "palisade_audit_lost_records_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let memory = text.lines().find_map(|line| line.strip_prefix("palisade_memory_bytes "));
        assert!(memory.unwrap().parse::<u64>().unwrap() > 1 << 20, "{memory:?}");
        // The documentation names every metric with its kind, and no other.
        let page = include_str!("../../../docs/operations.md");
        let row = |line: &str| {
            let (name, rest) = line.strip_prefix("| `palisade_")?.split_once("` | ")?;
            Some(format!("palisade_{name} {}", rest.split_once(" |")?.0))
        };
        let mut documented: Vec<String> = page.lines().filter_map(row).collect();
        let told = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut told: Vec<String> = told.map(str::to_owned).collect();
        documented.sort();
        told.sort();
        assert_eq!(told, documented);
        // Output is stored and a configuration is refused, so that these are in the scrape too.
        assert!(sandbox.bash("seq 200000").success);
        until("its output is counted", || watched.scrape().contains("\npalisade_kept_bytes{"));
        watched.world.configure("nonsense = 1\n");
        watched.daemon.signal(rustix::process::Signal::HUP);
        let refused = "\npalisade_reloads_total{result=\"refused\"} 1\n";
        until("the reload is refused", || watched.scrape().contains(refused));
        assert_monitored(&watched.scrape());
        drop(sandbox);
        until("the session is over", || watched.scrape().contains("\npalisade_sessions 0\n"));
        // A request that is not a scrape gets an error, and holds up nobody.
        let path = watched.world.run().join("metrics.sock");
        let other = |request: &str| {
            let stream = mode.act(|| UnixStream::connect(&path).expect("connect"));
            ask(stream, request)
        };
        assert!(other("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 Not Found\r\n"));
        assert!(other("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o007, 0);
    }
}

#[test]
fn it_is_off_unless_configured_and_never_on_a_public_address() {
    for mode in Mode::all() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let watched = Watched::new(mode, |_| String::new());
        assert!(!watched.world.run().join("metrics.sock").exists());
        assert!(TcpStream::connect(free).is_err());
        drop(watched);
        let watched = Watched::new(mode, |_| format!("[metrics]\nlisten = \"{free}\"\n"));
        until("it listens", || TcpStream::connect(free).is_ok());
        let stream = TcpStream::connect(free).unwrap();
        let reply = ask(stream, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(reply.contains("\npalisade_launcher_up 1\n"), "{reply}");
        let mut check = watched.world.command("palisaded");
        watched.world.configure("[metrics]\nlisten = \"0.0.0.0:9464\"\n");
        check.arg("--check").arg("--config").arg(watched.world.configuration());
        let output = mode.act(|| check.output().unwrap());
        assert_eq!(output.status.code(), Some(78));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let why = "2:10: metrics.listen: \"0.0.0.0:9464\" is not a loopback address";
        assert!(said.contains(why), "{said}");
    }
}
