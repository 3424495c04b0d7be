//! What the options mean on this host: paths, profiles, whom to become. Broker, before it serves.

use crate::{
    options::{ConfigError, Options},
    own::Own,
    privilege::{self, Account, PrivilegeError},
};
use palisade_audit::Sync;
use palisade_policy::{Owner, ProfileError, ProfileSet, Source};
use std::{
    env, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Everything that is decided before anything is done.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) door: Door,
    pub(crate) operator_door: OperatorDoor,
    /// Where providers come in; none in a private daemon.
    pub(crate) provider_door: Option<PathBuf>,
    pub(crate) profiles: ProfileSet,
    pub(crate) state: State,
    /// Whom to become; none for an ordinary user, who stays who they are.
    pub(crate) account: Option<Account>,
    pub(crate) launcher_socket: Option<PathBuf>,
    pub(crate) log: Option<String>,
    pub(crate) audit_sync: Sync,
    /// Where configuration and profiles are, or would be looked for.
    configured: Vec<PathBuf>,
}

/// How clients come in.
#[derive(Debug)]
pub(crate) enum Door {
    /// By a socket at a path, or the one that the service manager hands over.
    Socket(PathBuf),
    /// One client, connected to standard input.
    Embedded,
}

/// How operators come in.
#[derive(Debug)]
pub(crate) enum OperatorDoor {
    /// By a socket at a path, or the one that the service manager hands over.
    Socket(PathBuf),
    /// One operator, connected to standard output.
    Stdout,
    /// Not at all: whatever would be asked is denied.
    None,
}

/// Where spools go.
#[derive(Debug)]
pub(crate) enum State {
    /// There, or not at all.
    Given(PathBuf),
    /// There, if it can be made.
    Usual(PathBuf),
    /// This user has no place for it.
    Nowhere,
}

/// Why the settings are no good.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The configuration file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A directory of profiles can not be read.
    #[error("can not read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Anyone could change a profile.
    #[error("{0} can be written by everybody; `chmod o-w` it")]
    Writable(PathBuf),
    /// A profile; the error names its file.
    #[error(transparent)]
    Profiles(#[from] ProfileError),
    /// Whom to become.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// There is no place for the socket.
    #[error(
        "XDG_RUNTIME_DIR is not set, so there is no place for the agent socket; give one with --socket"
    )]
    NoRuntimeDirectory,
}

impl Settings {
    /// Finds out what the options mean here.
    pub(crate) fn resolve(options: Options) -> Result<Self, SettingsError> {
        let root = rustix::process::geteuid().is_root();
        let config = if root {
            Some(PathBuf::from("/etc/palisade"))
        } else {
            user_directory("XDG_CONFIG_HOME", ".config")
        };
        let file = config.as_ref().map(|directory| directory.join("palisaded.toml"));
        let mut configured: Vec<_> = config.iter().chain(&options.config).cloned().collect();
        let options = options.with_file(file.as_deref())?;
        configured.extend(options.profiles.iter().cloned());
        let usual = config.map(|directory| directory.join("profiles"));
        let state = match (options.state, root) {
            (Some(path), _) => State::Given(path),
            (None, true) => State::Usual(PathBuf::from("/var/lib/palisade")),
            (None, false) => user_directory("XDG_STATE_HOME", ".local/state")
                .map_or(State::Nowhere, State::Usual),
        };
        let door = match (options.embedded, options.socket) {
            (true, _) => Door::Embedded,
            (false, Some(path)) => Door::Socket(path),
            (false, None) if root => Door::Socket(PathBuf::from("/run/palisade/agent.sock")),
            (false, None) => match absolute_variable("XDG_RUNTIME_DIR") {
                Some(directory) => Door::Socket(directory.join("palisade/agent.sock")),
                None => return Err(SettingsError::NoRuntimeDirectory),
            },
        };
        let operator_door = match (&door, options.operator_socket, options.operator_stdout) {
            (Door::Embedded, _, true) => OperatorDoor::Stdout,
            (Door::Embedded, _, false) => OperatorDoor::None,
            (Door::Socket(_), Some(path), _) => OperatorDoor::Socket(path),
            (Door::Socket(agents), None, _) => {
                OperatorDoor::Socket(agents.with_file_name("operator.sock"))
            }
        };
        let provider_door = match (&door, options.provider_socket) {
            (Door::Embedded, _) => None,
            (Door::Socket(_), Some(path)) => Some(path),
            (Door::Socket(agents), None) => Some(agents.with_file_name("provider.sock")),
        };
        let account = root.then(|| privilege::account(options.user.as_deref())).transpose()?;
        let profiles = load_profiles(&options.profiles, usual.as_deref())?;
        let (launcher_socket, log) = (options.launcher_socket, options.log);
        let audit_sync = options.audit_sync.unwrap_or_default();
        Ok(Self {
            door,
            operator_door,
            provider_door,
            profiles,
            state,
            account,
            launcher_socket,
            log,
            audit_sync,
            configured,
        })
    }

    /// The places that are the daemon's own.
    pub(crate) fn own(&self) -> Own {
        let state = match &self.state {
            State::Given(path) | State::Usual(path) => Some(path),
            State::Nowhere => None,
        };
        let socket = match &self.door {
            Door::Socket(path) => Some(path),
            Door::Embedded => None,
        };
        let operator = match &self.operator_door {
            OperatorDoor::Socket(path) => Some(path),
            OperatorDoor::Stdout | OperatorDoor::None => None,
        };
        let sockets = socket.into_iter().chain(operator).chain(&self.provider_door);
        let sockets = sockets.chain(&self.launcher_socket);
        let hidden = state.into_iter().chain(sockets);
        Own::new(hidden.cloned().collect(), self.configured.clone())
    }

    /// What would be done, for `--check`.
    pub(crate) fn describe(&self) -> String {
        let door = match &self.door {
            Door::Socket(path) => format!("listen on {}", path.display()),
            Door::Embedded => "serve the client on standard input".to_owned(),
        };
        let operators = match &self.operator_door {
            OperatorDoor::Socket(path) => format!("listen on {}", path.display()),
            OperatorDoor::Stdout => "hear the one on standard output".to_owned(),
            OperatorDoor::None => "none, so whatever would be asked is denied".to_owned(),
        };
        let providers = self
            .provider_door
            .as_ref()
            .map_or_else(|| "none".to_owned(), |path| format!("listen on {}", path.display()));
        let state = match &self.state {
            State::Given(path) | State::Usual(path) => format!("in {}", path.display()),
            State::Nowhere => "nowhere".to_owned(),
        };
        let user = self.account.map_or_else(
            || format!("as it is started, uid {}", rustix::process::geteuid().as_raw()),
            |account| format!("as uid {}, gid {}", account.uid, account.gid),
        );
        let launcher = self.launcher_socket.as_ref().map_or_else(
            || "start one".to_owned(),
            |path| format!("connect to {}", path.display()),
        );
        let profiles = self.profiles.names().collect::<Vec<_>>().join(", ");
        format!(
            "clients: {door}\noperators: {operators}\nproviders: {providers}\nrun: {user}\nlauncher: {launcher}\nspools and audit log: {state}\n\
             audit log on the disk: {}\nprofiles: {profiles}\n",
            self.audit_sync
        )
    }
}

fn absolute_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// `palisade` in one of a user's own directories.
fn user_directory(variable: &str, in_home: &str) -> Option<PathBuf> {
    let base = absolute_variable(variable)
        .or_else(|| absolute_variable("HOME").map(|home| home.join(in_home)))?;
    Some(base.join("palisade"))
}

/// Profiles of the given directories, or of the usual one if it exists.
fn load_profiles(given: &[PathBuf], usual: Option<&Path>) -> Result<ProfileSet, SettingsError> {
    let directories: Vec<&Path> = if given.is_empty() {
        usual.into_iter().filter(|directory| directory.is_dir()).collect()
    } else {
        given.iter().map(PathBuf::as_path).collect()
    };
    let mut files = Vec::new();
    for directory in directories {
        let directory_owner = check_writers(directory)?;
        for path in profile_files(directory)? {
            let owner = match (directory_owner, check_writers(&path)?) {
                (Owner::Root, Owner::Root) => Owner::Root,
                (_, Owner::Root | Owner::Other | Owner::Builtin) => Owner::Other,
            };
            let text = fs::read_to_string(&path).map_err(unreadable(&path))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, path.display().to_string(), text, owner));
        }
    }
    let sources =
        files.iter().map(|(name, file, text, owner)| Source { name, file, text, owner: *owner });
    Ok(ProfileSet::new(sources)?)
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> SettingsError + '_ {
    move |source| SettingsError::Read { path: path.to_owned(), source }
}

/// Refuses what everybody can write; says whether root alone can.
fn check_writers(path: &Path) -> Result<Owner, SettingsError> {
    let found = fs::metadata(path).map_err(unreadable(path))?;
    if found.mode() & 0o002 != 0 {
        return Err(SettingsError::Writable(path.to_owned()));
    }
    let roots = found.uid() == 0 && (found.mode() & 0o020 == 0 || found.gid() == 0);
    Ok(if roots { Owner::Root } else { Owner::Other })
}

fn profile_files(directory: &Path) -> Result<Vec<PathBuf>, SettingsError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable(directory))? {
        let path = entry.map_err(unreadable(directory))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn profiles_are_found_by_their_file_names() {
        let directory = tempfile::tempdir().unwrap();
        let (_, text) = palisade_policy::builtin()[0];
        fs::write(directory.path().join("mine.toml"), text).unwrap();
        fs::write(directory.path().join("notes.txt"), "not a profile").unwrap();
        let profiles = load_profiles(&[directory.path().to_owned()], None).unwrap();
        assert!(profiles.get("mine").is_some());
        assert!(profiles.get("notes").is_none());
    }

    #[test]
    fn a_bad_profile_is_named_with_file_and_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bad.toml");
        fs::write(&path, "description = \"x\"\nnonsense = 1\n").unwrap();
        let error = load_profiles(&[directory.path().to_owned()], None).unwrap_err().to_string();
        let expected = format!("{}:2:1: nonsense: is no key; ", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn missing_and_open_directories_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        assert!(matches!(
            load_profiles(std::slice::from_ref(&missing), None),
            Err(SettingsError::Read { .. })
        ));
        load_profiles(&[], Some(&missing)).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(
            load_profiles(&[directory.path().to_owned()], None),
            Err(SettingsError::Writable(_))
        ));
    }
}
