//! The key of a lingering daemon: a digest of everything that it takes from the command that starts
//! it. A command with another key has another daemon, so none is served on terms of another.

use super::directory::NAMES;
use palisade_client::Embedded;
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read as _},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

/// The variables that tell the daemon where its directories are.
const PLACES: [&str; 3] = ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"];

/// The variables that built-in profiles pass on from the daemon's environment to commands.
const PASSED: [&str; 5] = ["GOROOT", "JAVA_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "TZ"];

/// The thread that describes itself and then starts the daemon. The file of the whole process would
/// describe its first thread, in which the C library blocks every signal while it makes another.
const OWN: &str = "/proc/thread-self";

/// The fields of `status` that a thread hands on to the processes that it starts.
const STATUS: [&str; 16] = [
    "Umask",
    "Uid",
    "Gid",
    "Groups",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "Speculation_Store_Bypass",
    "SpeculationIndirectBranch",
    "Cpus_allowed",
    "Mems_allowed",
];

/// The fields of `status` with signals that stay ignored or blocked in a started process.
const SIGNALS: [&str; 2] = ["SigBlk", "SigIgn"];

/// The signals 32 and 33, which the C library uses for itself and may leave ignored.
const OF_THE_C_LIBRARY: u64 = 0b11 << 31;

/// The other files that describe what is handed on.
const FILES: [&str; 3] = ["limits", "cgroup", "oom_score_adj"];

/// The namespaces of a process.
const NAMESPACES: [&str; 10] = [
    "cgroup",
    "ipc",
    "mnt",
    "net",
    "pid",
    "pid_for_children",
    "time",
    "time_for_children",
    "user",
    "uts",
];

/// The digest, and the environment that the daemon is started with.
#[derive(Debug)]
pub(super) struct LingerKey {
    digest: String,
    pub(super) variables: Vec<(OsString, OsString)>,
}

impl LingerKey {
    /// Returns the name of the daemon's socket.
    pub(super) fn socket_name(&self) -> String {
        format!("{}{}{}", NAMES.0, self.digest, NAMES.1)
    }
}

/// Returns the key of a daemon for this profile. `None` if this process can not describe itself, or
/// there is a configuration file: what that names is not part of the key.
pub(super) fn of(private: &Embedded, profile: Option<&str>, rest: Duration) -> Option<LingerKey> {
    let (configuration, state) = places()?;
    if configuration.join("palisaded.toml").symlink_metadata().is_ok() {
        return None;
    }
    let mut hash = Fields(Sha256::new());
    hash.add("build", env!("CARGO_PKG_VERSION").as_bytes());
    hash.add("rest", &rest.as_millis().to_le_bytes());
    hash.add("profile", profile.unwrap_or_default().as_bytes());
    for program in private.programs().ok()? {
        hash.add("program", program.as_os_str().as_bytes());
        hash.add("file", &identity(&program).unwrap_or_default());
    }
    // A daemon whose state directory was deleted records nothing, and so runs nothing.
    let found = state.metadata().ok()?;
    hash.add("state", &[found.dev().to_le_bytes(), found.ino().to_le_bytes()].concat());
    let passed = profiles(&configuration.join("profiles"), &mut hash).ok()?;
    let names = PLACES.into_iter().chain(PASSED).map(str::to_owned).chain(passed);
    let names: BTreeSet<String> = names.collect();
    let variables = names.into_iter().filter_map(|name| Some((env::var_os(&name)?, name)));
    let variables: Vec<_> = variables.map(|(value, name)| (OsString::from(name), value)).collect();
    for (name, value) in &variables {
        hash.add("variable", name.as_bytes());
        hash.add("value", value.as_bytes());
    }
    process(&mut hash).ok()?;
    let digest = palisade_text::hex(&hash.0.finalize()[..16]);
    Some(LingerKey { digest, variables })
}

/// A digest of fields, each with its name and length.
struct Fields(Sha256);

impl Fields {
    fn add(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), value] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }
}

/// Returns the daemon's default directories of configuration and state.
fn places() -> Option<(PathBuf, PathBuf)> {
    if rustix::process::geteuid().is_root() {
        return Some(("/etc/palisade".into(), "/var/lib/palisade".into()));
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let place = |name, in_home| absolute(name).or_else(|| Some(absolute("HOME")?.join(in_home)));
    let configuration = place("XDG_CONFIG_HOME", ".config")?;
    Some((
        configuration.join("palisade"),
        place("XDG_STATE_HOME", ".local/state")?.join("palisade"),
    ))
}

/// Returns what distinguishes a file from what may later have its path.
fn identity(path: &Path) -> io::Result<Vec<u8>> {
    let found = path.metadata()?;
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    let numbers = [found.dev(), found.ino(), found.size(), found.mode().into(), found.uid().into()];
    let times = times.into_iter().flat_map(i64::to_le_bytes);
    Ok(times.chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect())
}

/// Adds the user's profiles. Returns the variables that they pass on from the daemon's environment.
fn profiles(directory: &Path, hash: &mut Fields) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    hash.add("profiles", &identity(directory)?);
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<BTreeSet<_>>>()?;
    let mut passed = Vec::new();
    for path in paths.iter().filter(|path| path.extension() == Some(OsStr::new("toml"))) {
        let text = fs::read_to_string(path)?;
        hash.add("profile", path.as_os_str().as_bytes());
        hash.add("file", &identity(path)?);
        hash.add("text", text.as_bytes());
        passed.extend(passed_by(&text).ok_or(io::ErrorKind::InvalidData)?);
    }
    Ok(passed)
}

/// Returns the variables that a profile's text passes on; `None` if it is not a profile.
fn passed_by(text: &str) -> Option<Vec<String>> {
    let profile: toml::Table = text.parse().ok()?;
    let Some(environment) = profile.get("env") else { return Some(Vec::new()) };
    let Some(passed) = environment.as_table()?.get("pass") else { return Some(Vec::new()) };
    passed.as_array()?.iter().map(|name| Some(name.as_str()?.to_owned())).collect()
}

/// Reads a file of `/proc`, whose size is not known, at once.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(8192);
    File::open(path)?.read_to_end(&mut bytes).map(|_| bytes)
}

/// Adds what this process hands on to those that it starts.
fn process(hash: &mut Fields) -> io::Result<()> {
    let own = Path::new(OWN);
    let status = read(&own.join("status"))?;
    for (name, value) in String::from_utf8_lossy(&status).lines().filter_map(|l| l.split_once(':'))
    {
        if STATUS.contains(&name) {
            hash.add(name, value.as_bytes());
        } else if SIGNALS.contains(&name) {
            let signals = u64::from_str_radix(value.trim(), 16);
            let signals = signals.map_err(|_| io::ErrorKind::InvalidData)? & !OF_THE_C_LIBRARY;
            hash.add(name, &signals.to_le_bytes());
        }
    }
    for name in FILES {
        hash.add(name, &read(&own.join(name))?);
    }
    for name in NAMESPACES {
        // A kernel may lack one.
        let namespace = fs::read_link(own.join("ns").join(name)).unwrap_or_default();
        hash.add(name, namespace.as_os_str().as_bytes());
    }
    // Without a security module there is no label.
    hash.add("label", &read(&own.join("attr/current")).unwrap_or_default());
    let root = Path::new("/").metadata()?;
    hash.add("root", &[root.dev().to_le_bytes(), root.ino().to_le_bytes()].concat());
    let nice = rustix::process::getpriority_process(None)?;
    hash.add("nice", &nice.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::ProfileSet;

    #[test]
    fn what_built_in_profiles_pass_on_is_part_of_every_key() {
        let set = ProfileSet::new([]).unwrap();
        let passed = set.names().filter_map(|name| set.get(name));
        let passed: BTreeSet<String> = passed
            .flat_map(|profile| profile.passed_variables().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        assert_eq!(passed, PASSED.into_iter().map(str::to_owned).collect());
    }

    #[test]
    fn what_a_profile_passes_on_is_read_from_its_text() {
        let passed = |text: &str| passed_by(text);
        assert_eq!(passed("version = 1\n"), Some(Vec::new()));
        assert_eq!(passed("[env]\nset = { A = \"b\" }\n"), Some(Vec::new()));
        assert_eq!(passed("[env]\npass = [\"A\", \"B\"]\n"), Some(vec!["A".into(), "B".into()]));
        assert_eq!(passed("env.pass = [\"A\"]\n"), Some(vec!["A".into()]));
        for text in ["env = 1\n", "[env]\npass = \"A\"\n", "[env]\npass = [1]\n", "[env"] {
            assert_eq!(passed(text), None, "{text}");
        }
    }

    #[test]
    fn a_changed_profile_changes_the_digest() {
        let directory = tempfile::tempdir().unwrap();
        let digest = || {
            let mut hash = Fields(Sha256::new());
            let passed = profiles(directory.path(), &mut hash).unwrap();
            (hash.0.finalize().to_vec(), passed)
        };
        let path = directory.path().join("mine.toml");
        let mut seen = vec![digest().0];
        for text in ["version = 1\n", "version = 2\n", "version = 1\n"] {
            fs::write(&path, text).unwrap();
            seen.push(digest().0);
        }
        fs::remove_file(&path).unwrap();
        seen.push(digest().0);
        assert_eq!(digest().0, seen[4], "nothing has changed");
        fs::write(&path, "[env]\npass = [\"A\"]\n").unwrap();
        assert_eq!(digest().1, ["A"]);
        for (at, one) in seen.iter().enumerate() {
            assert!(!seen[..at].contains(one), "{at}");
        }
        fs::write(&path, "[env").unwrap();
        assert!(profiles(directory.path(), &mut Fields(Sha256::new())).is_err());
    }

    #[test]
    fn the_thread_that_starts_the_daemon_describes_itself() {
        let digest = || {
            let mut hash = Fields(Sha256::new());
            process(&mut hash).unwrap();
            hash.0.finalize().to_vec()
        };
        let before = digest();
        assert_eq!(digest(), before, "nothing has changed");
        let (of_thread, changed) = std::thread::spawn(move || {
            let at_start = digest();
            rustix::thread::set_no_new_privs(true).unwrap();
            (at_start, digest())
        })
        .join()
        .unwrap();
        assert_eq!(of_thread, before, "a thread inherits it");
        assert_ne!(changed, before, "what holds for the thread alone counts");
        assert_eq!(digest(), before, "and for no other");
    }
}
