//! The audit log's records as they reach a collector of OTLP logs: over HTTP and in a file; and what
//! is counted while there is no collector.

use palisade_client::Open;
use palisade_tests::{Daemon, Mode, Sandbox, World, rooms::until};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// A collector that accepts documents on a loopback port.
struct Collector {
    address: SocketAddr,
    documents: Arc<Mutex<Vec<Value>>>,
    is_over: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Collector {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let documents = Arc::<Mutex<Vec<Value>>>::default();
        let is_over = Arc::new(AtomicBool::new(false));
        let (kept, end) = (Arc::clone(&documents), Arc::clone(&is_over));
        let serving = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                kept.lock().unwrap().push(receive(stream.unwrap()));
            }
        });
        Self { address, documents, is_over, serving: Some(serving) }
    }

    fn records(&self) -> Vec<Value> {
        self.documents.lock().unwrap().iter().flat_map(records_of).collect()
    }

    /// Closes the port.
    fn end(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address).unwrap());
        self.serving.take().unwrap().join().unwrap();
    }
}

/// Receives one request, and accepts its document.
fn receive(stream: TcpStream) -> Value {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    assert!(head.starts_with("POST /v1/logs HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
    let (_, length) = head.split_once("\r\nContent-Length: ").unwrap();
    let mut body = vec![0; length.split_once('\r').unwrap().0.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn records_of(document: &Value) -> Vec<Value> {
    let resource = document["resourceLogs"][0]["resource"].to_string();
    assert!(resource.contains("\"palisaded\""), "{resource}");
    let records = document.pointer("/resourceLogs/0/scopeLogs/0/logRecords").unwrap();
    records.as_array().unwrap().clone()
}

fn bodies(records: &[Value]) -> Vec<String> {
    records.iter().map(|one| one["body"]["stringValue"].as_str().unwrap().to_owned()).collect()
}

/// The lines of the audit log.
fn lines(world: &World) -> Vec<String> {
    let directory = world.state().join("audit");
    let files = fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    files.sort();
    let texts = files.iter().map(|path| fs::read_to_string(path).unwrap());
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

struct Exporting {
    daemon: Daemon,
    world: World,
}

impl Exporting {
    fn new(mode: Mode, export: impl FnOnce(&World) -> String) -> Self {
        let world = World::new(mode);
        let metrics = world.run().join("metrics.sock");
        world.configure(&format!(
            "[logs]\nexport = {:?}\n[metrics]\nlisten = \"unix:{}\"\n",
            export(&world),
            metrics.display()
        ));
        let daemon = world.configured_daemon(|_| {});
        Self { daemon, world }
    }

    fn open(&self) -> Sandbox {
        let open = Open::new(self.world.workspace());
        Sandbox::over(self.daemon.connect(self.world.mode), None, open).expect("a session")
    }

    /// The number of records that no collector accepted.
    fn lost(&self) -> u64 {
        let path = self.world.run().join("metrics.sock");
        until("it is to be scraped", || UnixStream::connect(&path).is_ok());
        let mut stream = self.world.mode.act(|| UnixStream::connect(&path).unwrap());
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut scrape = String::new();
        stream.read_to_string(&mut scrape).unwrap();
        let name = "palisade_logs_lost_records_total ";
        scrape.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
    }
}

#[test]
fn a_collector_gets_every_line_of_the_log_and_what_it_misses_is_counted() {
    for mode in Mode::all() {
        let mut collector = Collector::new();
        let address = collector.address;
        let exporting = Exporting::new(mode, |_| format!("http://{address}"));
        let sandbox = exporting.open();
        let result = sandbox.bash("echo exported");
        assert_eq!(result.stdout, "exported\n", "{mode:?}");
        let id = result.call_id.as_str();
        until("the collector has every line", || {
            let lines = lines(&exporting.world);
            let has_result =
                |line: &&String| line.contains("\"kind\":\"result\"") && line.contains(id);
            lines.iter().any(|line| has_result(&line)) && bodies(&collector.records()) == lines
        });
        let records = collector.records();
        let attribute = |record: &Value, key: &str| {
            let attributes = record["attributes"].as_array().unwrap();
            let found = attributes.iter().find(|one| one["key"] == key)?;
            Some(found["value"]["stringValue"].as_str().unwrap_or_default().to_owned())
        };
        let of_call: Vec<_> = records
            .iter()
            .filter(|record| attribute(record, "palisade.call").as_deref() == Some(id))
            .collect();
        let kinds: Vec<_> =
            of_call.iter().filter_map(|one| attribute(one, "palisade.kind")).collect();
        assert_eq!(
            (kinds.first().unwrap(), kinds.last().unwrap()),
            (&"call".into(), &"result".into())
        );
        for record in of_call {
            assert_eq!(record["traceId"], id.replace('-', ""), "{mode:?}");
        }
        assert_eq!(exporting.lost(), 0, "{mode:?}");

        // The collector is gone: calls run all the same, the log has them, and the loss is counted.
        collector.end();
        let known = collector.records().len();
        assert_eq!(sandbox.ok("echo on"), "on\n", "{mode:?}");
        // The call and its result, which is recorded after the reply.
        until("every record is in the log or lost", || {
            let lost = exporting.lost() as usize;
            lost >= 2 && lost == lines(&exporting.world).len() - known
        });
        let told = sandbox.call("bash", json!({"command": "echo and on"}));
        assert!(told.success, "{mode:?}: {told:?}");
    }
}

#[test]
fn a_file_gets_every_line_of_the_log() {
    for mode in Mode::all() {
        let file = |world: &World| world.state().join("logs.jsonl");
        let exporting = Exporting::new(mode, |world| format!("file:{}", file(world).display()));
        assert_eq!(exporting.open().ok("echo exported"), "exported\n", "{mode:?}");
        let written = |path: &Path| -> Vec<String> {
            let text = fs::read_to_string(path).unwrap_or_default();
            // The last line may be half written.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let documents = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            documents.flat_map(|document| bodies(&records_of(&document))).collect()
        };
        until("the file has every line", || {
            let lines = lines(&exporting.world);
            lines.len() > 3 && written(&file(&exporting.world)) == lines
        });
        assert_eq!(exporting.lost(), 0, "{mode:?}");
    }
}
