//! The targets outside that a session tries to reach: files, sockets and a process of the prover's
//! own. All of them are removed when this value is dropped.

use crate::attempt;
use rustix::{
    fs::Mode,
    pty::{OpenptFlags, openpt, ptsname, unlockpt},
};
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io::{self, Write as _},
    net::TcpListener,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, chown},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
};

/// The network that the prover itself can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProverNetwork {
    /// The host's network.
    Host,
    /// None, as in a hardened service. Probes that need a network are left out.
    NoNetwork,
}

/// Names that the profile hides or protects, relative to the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestrictedNames {
    /// A hidden file.
    pub hidden: Option<String>,
    /// A hidden file where the session may write.
    pub made: Option<String>,
    /// A protected file.
    pub protected: Option<String>,
    /// A protected file in a directory that is not protected.
    pub below: Option<String>,
}

/// The owner of the files that the session tries to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The prover, who is the session's user.
    Prover,
    /// Another user, to whom the prover can give them.
    Given(u32),
    /// The prover, who is not the session's user. Attempts that only an owner can make are left
    /// out.
    Another,
}

/// The targets outside, and the empty workspace beside them.
#[derive(Debug)]
pub struct OutsideTargets {
    top: PathBuf,
    shared: Option<PathBuf>,
    filled: BTreeMap<&'static str, String>,
    _listening: (UnixListener, UnixListener, Option<TcpListener>),
    _terminal: Option<OwnedFd>,
}

impl OutsideTargets {
    /// Creates all of them in an existing directory that everybody may enter.
    ///
    /// # Errors
    /// Returns what could not be created.
    pub fn create(top: &Path, reach: ProverNetwork) -> io::Result<Self> {
        let top = top.canonicalize()?;
        // The pid alone would not be unique: another process can get it as soon as this one ends.
        let name = format!("palisade-proof-{}-{}", std::process::id(), unique(&top)?);
        let mut filled = BTreeMap::new();
        for directory in ["workspace", "outside"] {
            let path = top.join(directory);
            DirBuilder::new().mode(0o755).create(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        let mut file = |key, path: PathBuf| -> io::Result<()> {
            let mut options = fs::OpenOptions::new();
            let mut made = options.write(true).create_new(true).mode(0o644).open(&path)?;
            made.set_permissions(fs::Permissions::from_mode(0o644))?;
            made.write_all(b"palisade\n")?;
            filled.insert(key, text(&path)?);
            Ok(())
        };
        file("outside", top.join("outside/file"))?;
        file("inside", top.join("workspace/file"))?;
        let shared = PathBuf::from("/dev/shm").join(&name);
        let shared = file("shared", shared.clone()).is_ok().then_some(shared);
        let socket = top.join("outside/socket");
        let path = UnixListener::bind(&socket)?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777))?;
        filled.insert("socket", text(&socket)?);
        let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        filled.insert("abstract", name);
        let network = match reach {
            ProverNetwork::Host => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                filled.insert("port", listener.local_addr()?.port().to_string());
                Some(listener)
            }
            ProverNetwork::NoNetwork => None,
        };
        let closed = top.join("workspace/closed");
        fs::write(&closed, "palisade\n")?;
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000))?;
        filled.insert("closed", text(&closed)?);
        // A hardened service has no terminals.
        let terminal = terminal().ok();
        if let Some((_, path)) = &terminal {
            filled.insert("terminal", path.clone());
        }
        filled.insert("process", attempt::identity()?);
        for kind in ["ipc", "uts", "cgroup"] {
            let name = fs::read_link(format!("/proc/self/ns/{kind}"))?;
            filled.insert(kind, format!("{kind} {}", text(&name)?));
        }
        let _terminal = terminal.map(|(terminal, _)| terminal);
        Ok(Self { top, shared, filled, _listening: (path, hidden, network), _terminal })
    }

    /// Returns the workspace of the session.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.top.join("workspace")
    }

    /// Creates files with these names in the workspace.
    ///
    /// # Errors
    /// Returns what could not be created.
    pub fn name(&mut self, names: &RestrictedNames, owner: Owner) -> io::Result<()> {
        let workspace = self.workspace();
        let RestrictedNames { hidden, made, protected, below } = names;
        let every = [
            ("hidden", hidden),
            ("made", made),
            ("protected", protected),
            ("own-protected", protected),
            ("own-below", below),
        ];
        for (key, name) in every {
            let Some(name) = name else { continue };
            let path = workspace.join(name);
            self.put(&path, owner)?;
            // Others may replace and delete files in a directory that they can write, but nothing
            // more.
            let own = owner != Owner::Another;
            if own || (!key.starts_with("own-") && path.parent() == Some(&workspace)) {
                self.filled.insert(key, text(&path)?);
            }
        }
        if made.is_some() || protected.is_some() {
            fs::set_permissions(&workspace, fs::Permissions::from_mode(0o777))?;
            self.filled.insert("ordinary", text(&workspace.join("ordinary"))?);
            let below = workspace.join("plain/ordinary");
            open_up(&workspace.join("plain"), owner)?;
            self.filled.insert("ordinary-below", text(&below)?);
        }
        Ok(())
    }

    /// Creates a file that the session's user may change, with its parent directories.
    fn put(&self, path: &Path, owner: Owner) -> io::Result<()> {
        let workspace = self.workspace();
        let above = path.ancestors().skip(1).take_while(|above| **above != *workspace);
        let above: Vec<_> = above.collect();
        above.into_iter().rev().try_for_each(|directory| open_up(directory, owner))?;
        fs::write(path, "palisade\n")?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
        give(path, owner)
    }

    /// Fills in the placeholders of an attempt, those of the session first; `None` if one has no
    /// value here.
    pub(crate) fn fill(
        &self,
        template: &str,
        session: &BTreeMap<&'static str, String>,
    ) -> Option<String> {
        let Some((before, rest)) = template.split_once('{') else {
            return Some(template.to_owned());
        };
        let (key, after) = rest.split_once('}')?;
        Some(format!("{before}{}{after}", session.get(key).or_else(|| self.filled.get(key))?))
    }

    /// Copies a program into the workspace, which everybody may run.
    ///
    /// # Errors
    /// If the program can not be copied.
    pub fn install(&self, program: &Path) -> io::Result<PathBuf> {
        let place = self.workspace().join("prover");
        fs::copy(program, &place)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(Mode::from_raw_mode(0o755).bits()))?;
        Ok(place)
    }
}

impl Drop for OutsideTargets {
    fn drop(&mut self) {
        for directory in ["workspace", "outside"] {
            // A leftover directory does no harm: it contains nothing of value.
            drop(fs::remove_dir_all(self.top.join(directory)));
        }
        if let Some(shared) = &self.shared {
            drop(fs::remove_file(shared));
        }
    }
}

/// Creates a directory that everybody may write, if it does not exist.
fn open_up(path: &Path, owner: Owner) -> io::Result<()> {
    if !path.is_dir() {
        fs::create_dir(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
        give(path, owner)?;
    }
    Ok(())
}

fn give(path: &Path, owner: Owner) -> io::Result<()> {
    match owner {
        Owner::Given(id) => chown(path, Some(id), Some(id)),
        Owner::Prover | Owner::Another => Ok(()),
    }
}

/// Returns a path as text for an attempt.
fn text(path: &Path) -> io::Result<String> {
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "the directory's name is no text")),
    }
}

/// Makes a terminal, and returns its other end and its path.
fn terminal() -> io::Result<(OwnedFd, String)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags)?;
    unlockpt(&terminal)?;
    let path = ptsname(&terminal, Vec::new())?;
    let path = path.into_string().map_err(io::Error::other)?;
    Ok((terminal, path))
}

/// Returns a number that no other directory of the host has.
fn unique(top: &Path) -> io::Result<u64> {
    Ok(rustix::fs::stat(top)?.st_ino)
}
