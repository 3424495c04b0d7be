//! A daemon whose host knows names of the test's own: its `/etc/hosts` is another one, in a mount
//! namespace of its own. The servers behind the names are the test's, on this host's loopback.

use crate::{
    Daemon, Mode, PublicNetwork, Sandbox, TestAuthority, World, binary, processes,
    room_service::RoomService,
};
use palisade_audit::{Connection, ReadError, Reader, Record};
use palisade_client::{Error, Open, Operator};
use std::{
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// A daemon whose host knows names of the test's own.
#[derive(Debug)]
pub struct NamedHosts {
    /// The test's directories and mode.
    pub world: World,
    /// The daemon, which ends with this value.
    pub daemon: Daemon,
    _service: Option<RoomService>,
}

/// The source of the credentials of the egress rooms of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialsFrom {
    /// Files in a directory of the user who starts the daemon. The user that root's daemon switches to
    /// may not read them.
    Directory,
    /// A service manager, which starts the rooms.
    Service,
}

/// Credentials of a test: each is a name, the text of its file, and the file's mode.
pub type GivenCredentials<'a> = (CredentialsFrom, &'a [(&'a str, &'a str, u32)]);

/// The name of the profile.
const PROFILE: &str = "named";

impl NamedHosts {
    /// Starts a daemon with a profile whose `[net]` section has this text. The host resolves `names`
    /// as [`hosts_file`] does.
    #[must_use]
    pub fn new(mode: Mode, names: &[&str], net: &str) -> Self {
        Self::with_profile(mode, names, &named_profile(net))
    }

    /// Starts a daemon with a profile of this text.
    #[must_use]
    pub fn with_profile(mode: Mode, names: &[&str], profile: &str) -> Self {
        Self::start(mode, names, profile, None, (&[], None))
    }

    /// Starts a daemon with a profile of this text, and with arguments of the test.
    #[must_use]
    pub fn with_arguments(mode: Mode, names: &[&str], profile: &str, arguments: &[&str]) -> Self {
        Self::start(mode, names, profile, None, (arguments, None))
    }

    /// Starts a daemon with a profile of this text, on a host that trusts one more authority.
    #[must_use]
    pub fn trusting(
        mode: Mode,
        names: &[&str],
        profile: &str,
        authority: Option<&TestAuthority>,
    ) -> Self {
        Self::start(mode, names, profile, authority, (&[], None))
    }

    /// Starts a daemon with credentials, on a host that trusts one more authority.
    #[must_use]
    pub fn with_credentials(
        mode: Mode,
        names: &[&str],
        profile: &str,
        authority: &TestAuthority,
        credentials: GivenCredentials<'_>,
    ) -> Self {
        Self::start(mode, names, profile, Some(authority), (&[], Some(credentials)))
    }

    /// Starts a daemon with a profile of this text on a network with public addresses. Its names are those
    /// of the network's name server.
    #[must_use]
    pub fn on_public_network(mode: Mode, profile: &str) -> (Self, PublicNetwork) {
        let world = World::new(mode);
        let network = PublicNetwork::new(&world);
        let started = Self::start_in(world, Some(&network), &[], profile, None, (&[], None));
        (started, network)
    }

    /// Starts a daemon with arguments and credentials of the test, on a host that may trust one more
    /// authority.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(
        mode: Mode,
        names: &[&str],
        profile: &str,
        authority: Option<&TestAuthority>,
        (arguments, credentials): (&[&str], Option<GivenCredentials<'_>>),
    ) -> Self {
        let world = World::new(mode);
        Self::start_in(world, None, names, profile, authority, (arguments, credentials))
    }

    fn start_in(
        world: World,
        network: Option<&PublicNetwork>,
        names: &[&str],
        profile: &str,
        authority: Option<&TestAuthority>,
        (arguments, credentials): (&[&str], Option<GivenCredentials<'_>>),
    ) -> Self {
        let mode = world.mode;
        world.add_unasked(PROFILE, profile);
        let mut files = vec![(hosts_file(&world, names), Path::new("/etc/hosts"))];
        files.extend(authority.map(|authority| authority.certificates_file(&world)));
        files.extend(network.map(PublicNetwork::resolver_file));
        let run = world.run();
        fs::create_dir(&run).expect("mkdir");
        fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).expect("chmod");
        world.give(&run);
        let socket = run.join("agent.sock");
        let mut command = among_files(&world, &files, network, "palisaded");
        command.arg("--state").arg(world.state()).arg("--profiles").arg(world.profiles());
        command.arg("--socket").arg(&socket).args(arguments).stdin(Stdio::null());
        let mut service = None;
        if let Some((from, credentials)) = credentials {
            write_credentials(&world, credentials);
            match (from, mode) {
                // The one that the user's daemon finds by itself.
                (CredentialsFrom::Directory, Mode::User) => {}
                (CredentialsFrom::Directory, Mode::System) => {
                    command.arg("--credentials").arg(credential_directory(&world));
                }
                (CredentialsFrom::Service, _) => {
                    let mut room = among_files(&world, &files, None, "palisade-egress");
                    room.env("CREDENTIALS_DIRECTORY", credential_directory(&world));
                    let path = run.join("egress.sock");
                    command.arg("--egress-socket").arg(&path).arg("--credentials").arg("/none");
                    service = Some(RoomService::start(&path, room));
                }
            }
        }
        let child = command.spawn().expect("start palisaded");
        let (operators, providers) = (run.join("operator.sock"), run.join("provider.sock"));
        let mut daemon = Daemon { child, socket, operators, providers };
        while UnixStream::connect(&daemon.operators).is_err() {
            let ended = daemon.child.try_wait().expect("wait");
            assert!(ended.is_none(), "palisaded ended with {ended:?}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Self { world, daemon, _service: service }
    }

    /// Returns the directory of credentials of a daemon that starts its rooms itself.
    #[must_use]
    pub fn credentials(&self) -> PathBuf {
        credential_directory(&self.world)
    }

    /// Opens a session.
    ///
    /// # Panics
    /// If it is refused.
    #[must_use]
    pub fn open(&self) -> Sandbox {
        self.try_open(Open::new(self.world.workspace())).expect("a session")
    }

    /// Opens a session with options of the test.
    ///
    /// # Errors
    /// The daemon's error.
    pub fn try_open(&self, open: Open) -> Result<Sandbox, Error> {
        Sandbox::over(self.daemon.connect(self.world.mode), None, open.profile(PROFILE))
    }

    /// Connects an operator.
    #[must_use]
    pub fn operator(&self, sandbox: &Sandbox) -> Operator {
        let stream = self.world.mode.act(|| UnixStream::connect(&self.daemon.operators));
        sandbox.wait(async {
            let stream = stream.expect("the operators' socket");
            stream.set_nonblocking(true).expect("non-blocking");
            let stream = tokio::net::UnixStream::from_std(stream).expect("a stream");
            Operator::from_stream(stream).await.expect("an operator")
        })
    }

    /// Returns a command of `palisade` for this daemon.
    #[must_use]
    pub fn palisade(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.command("palisade");
        command.args(arguments).env("PALISADE_SOCKET", &self.daemon.socket);
        command
    }

    /// Returns the process ids of the daemon's egress rooms.
    #[must_use]
    pub fn rooms(&self) -> Vec<i32> {
        let broker = i32::try_from(self.daemon.child.id()).expect("a pid");
        let below = processes::tree(broker).into_iter();
        below.filter(|process| process.name == "palisade-egress").map(|room| room.pid).collect()
    }

    /// Returns the records of connections so far. What has just ended may not be recorded yet, so
    /// they are read until no more come.
    #[must_use]
    pub fn connections(&self) -> Vec<Connection> {
        let mut found = self.recorded_connections();
        loop {
            thread::sleep(Duration::from_millis(100));
            let now = self.recorded_connections();
            if now.len() == found.len() {
                return now;
            }
            found = now;
        }
    }

    fn recorded_connections(&self) -> Vec<Connection> {
        let mut found = Vec::new();
        let read = Reader::new(&self.world.state().join("audit")).read::<ReadError>(|sighted| {
            if let Record::Connection(connection) = sighted?.entry.record {
                found.push(connection);
            }
            Ok(())
        });
        read.expect("the audit log");
        found
    }
}

/// Returns the default profile with another `[net]` section. Sessions do not see the host's list of
/// names, which here leads to the test's servers.
#[must_use]
pub fn named_profile(net: &str) -> String {
    let old = "mode = \"loopback\"\n";
    crate::profile_with(&[(old, &format!("{net}\n")), (" \"hosts\",", "")])
}

fn credential_directory(world: &World) -> PathBuf {
    world.user_configuration().join("credentials")
}

fn write_credentials(world: &World, credentials: &[(&str, &str, u32)]) {
    let directory = credential_directory(world);
    fs::create_dir_all(&directory).expect("mkdir");
    for above in directory.ancestors().take(3) {
        fs::set_permissions(above, fs::Permissions::from_mode(0o700)).expect("chmod");
        world.give(above);
    }
    for (name, text, mode) in credentials {
        let path = directory.join(name);
        fs::write(&path, text).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).expect("chmod");
        world.give(&path);
    }
}

/// Writes a file for `/etc/hosts` that resolves names to 127.0.0.1, or to the address that follows
/// the name: `far.test=203.0.113.7`.
#[must_use]
pub fn hosts_file(world: &World, names: &[&str]) -> PathBuf {
    let path = world.outside().parent().expect("a directory").join("hosts");
    let line = |name: &&str| {
        let (name, address) = name.split_once('=').unwrap_or((name, "127.0.0.1"));
        format!("{address} {name}\n")
    };
    fs::write(&path, ["localhost"].iter().chain(names).map(line).collect::<String>())
        .expect("write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
    path
}

/// Returns a command that runs a program as the world's user, where `/etc/hosts` is another file.
#[must_use]
pub fn among_names(world: &World, hosts: &Path, name: &str) -> Command {
    among_files(world, &[(hosts.to_owned(), Path::new("/etc/hosts"))], None, name)
}

/// Returns a command that runs a program as the world's user, where some files are others, and on another
/// network if there is one.
fn among_files(
    world: &World,
    files: &[(PathBuf, &Path)],
    network: Option<&PublicNetwork>,
    name: &str,
) -> Command {
    let own = world.command(name);
    let (uid, program) = (world.mode.uid().to_string(), binary(name));
    let mut command = Command::new("unshare");
    let mounts = files.iter().flat_map(|(file, over)| [file.as_path(), over]);
    let line = "while [ \"$1\" != end ]; do mount --bind \"$1\" \"$2\" || exit 1; shift 2; done; \
                shift; [ \"$1\" = none ] || . \"$1/network.sh\"; shift; exec \"$@\"";
    let own_network = network.map(|_| "--net");
    let network = network.map_or(Path::new("none"), PublicNetwork::directory);
    if rustix::process::geteuid().is_root() {
        command.args(own_network);
        command.args(["--mount", "--propagation", "private", "sh", "-c", line, "sh"]);
        command.args(mounts).arg("end").arg(network);
        if world.mode == Mode::User {
            command.args(["setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups"]);
        }
    } else {
        let gid = rustix::process::getegid().as_raw();
        command.args(own_network);
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", line, "sh"]);
        command.args(mounts).arg("end").arg(network);
        command.args(["unshare", "--user", &format!("--map-user={uid}")]);
        command.arg(format!("--map-group={gid}"));
    }
    command.arg(program).env_clear();
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(world.workspace());
    command
}

/// A web server on this host's loopback, in threads of the test.
#[derive(Debug)]
pub struct WebServer {
    /// Its port.
    pub port: u16,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    heads: Mutex<Vec<String>>,
    received: AtomicU64,
    /// The number of connections that were made.
    accepted: AtomicU64,
}

impl WebServer {
    /// Starts a server. It answers `/files/…` with the files below a directory, `/raw/…` with files that
    /// have a whole answer (the file `index` for a directory), `/endless` with bytes for as long as the client reads, `/echo` with the head
    /// of the request, `/git/…` with the repositories below the directory to those who send a password,
    /// and everything else with `hello from` and the path.
    #[must_use]
    pub fn start(files: &Path) -> Self {
        Self::with(files, answer)
    }

    /// Starts a server of the same kind that speaks TLS.
    #[must_use]
    pub fn start_tls(files: &Path, settings: Arc<rustls::ServerConfig>) -> Self {
        Self::with(files, move |stream, seen, files| {
            let tls = rustls::ServerConnection::new(Arc::clone(&settings));
            let mut stream = rustls::StreamOwned::new(tls.map_err(std::io::Error::other)?, stream);
            answer(&mut stream, seen, files)?;
            stream.conn.send_close_notify();
            stream.flush()
        })
    }

    fn with(
        files: &Path,
        serve: impl Fn(TcpStream, &Seen, &Path) -> std::io::Result<()> + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::<Seen>::default();
        let (shared, files) = (Arc::clone(&seen), files.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, files, serve) = (Arc::clone(&shared), files.clone(), serve.clone());
                let Ok(stream) = stream else { return };
                shared.accepted.fetch_add(1, Ordering::AcqRel);
                // A client that disconnects early is the client's affair.
                std::thread::spawn(move || serve(stream, &shared, &files).unwrap_or_default());
            }
        });
        Self { port, seen }
    }

    /// Takes the heads of the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.heads.lock().expect("a lock"))
    }

    /// Returns the number of connections that were made.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.seen.accepted.load(Ordering::Acquire)
    }

    /// Returns the number of bytes that were received, heads included.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.seen.received.load(Ordering::Acquire)
    }
}

fn answer(
    mut stream: impl std::io::Read + std::io::Write,
    seen: &Seen,
    files: &Path,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        let read = stream.read(&mut piece)?;
        seen.received.fetch_add(read as u64, Ordering::AcqRel);
        if read == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&piece[..read]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    seen.heads.lock().expect("a lock").push(head.clone());
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    let mut body = bytes.split_off(end);
    let mut left = length.unwrap_or(0).saturating_sub(body.len());
    while left > 0 {
        let read = stream.read(&mut piece)?;
        seen.received.fetch_add(read as u64, Ordering::AcqRel);
        if read == 0 {
            return Ok(());
        }
        body.extend_from_slice(&piece[..read]);
        left = left.saturating_sub(read);
    }
    let path = head.split_whitespace().nth(1).unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if let Some(inside) = path.strip_prefix("/git") {
        return stream.write_all(&git_backend(files, &head, (inside, query), &body)?);
    }
    if path == "/endless" {
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
        loop {
            stream.write_all(&[b'x'; 1024])?;
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    if let Some(file) = path.strip_prefix("/raw/") {
        let index = if file.ends_with('/') { "index" } else { "" };
        return stream.write_all(&fs::read(files.join(format!("{file}{index}")))?);
    }
    let (status, body) = match path.strip_prefix("/files/") {
        None if path == "/echo" => ("200 OK", head.into_bytes()),
        Some(file) => match fs::read(files.join(file)) {
            Ok(body) => ("200 OK", body),
            Err(_) => ("404 Not Found", Vec::new()),
        },
        None => ("200 OK", format!("hello from {path}\n").into_bytes()),
    };
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)
}

/// Answers a request of git by the program that web servers use for it.
fn git_backend(
    files: &Path,
    head: &str,
    (path, query): (&str, &str),
    body: &[u8],
) -> std::io::Result<Vec<u8>> {
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    };
    let close = "Connection: close\r\n";
    if header("authorization").is_empty() {
        let asks = "WWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\n";
        return Ok(format!("HTTP/1.1 401 Unauthorized\r\n{asks}{close}\r\n").into_bytes());
    }
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", files)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("REMOTE_USER", "user")
        .env("REQUEST_METHOD", head.split(' ').next().unwrap_or_default())
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child.stdin.take().expect("a pipe").write_all(body)?;
    let made = child.wait_with_output()?.stdout;
    let end = made.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0);
    let status = String::from_utf8_lossy(&made[..end]).into_owned();
    let status = status.lines().find_map(|line| line.strip_prefix("Status: "));
    let status = status.unwrap_or("200 OK");
    let length = made.len() - end - 4;
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{close}");
    Ok([head.as_bytes(), &made].concat())
}
