//! Learns the smallest profile that a person would write for a command, from a record of what the
//! command used. Each line of the profile has a reason. Pure: no I/O.

mod general;
mod need;
mod text;

use crate::{
    PlanError, Profile, Scene,
    access::PathAccess,
    entries::PRIVATE,
    net::{Net, NetMode},
};
use general::{ProfileEntry, target};
pub use need::{Access, RefusedAccess, Run};
use need::{Need, Needs};
use palisade_egress_protocol::host::{Host, HostName, Target};
use palisade_plan::listeners::{NAMES_PORT, PROXY_PORT, is_synthetic};
pub use palisade_plan::record::{Right, TargetKind};
use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

/// The result of learning a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedProfile {
    /// The text of the profile file.
    pub text: String,
    /// The number of path entries in the profile.
    pub entries: usize,
    /// The attempts of the command that the wider profile did not allow either, most wanted first.
    pub refused: Vec<RefusedAccess>,
}

/// Returns the smallest profile under which the run would have gone the same way. It names paths as
/// a person would: directories instead of single files, and no temporary names.
///
/// # Errors
/// If no session can be planned for the scene.
pub fn learn(wide: &Profile, scene: &Scene, run: &Run) -> Result<LearnedProfile, PlanError> {
    let mut needs = gather(wide, scene, run)?;
    needs.merge();
    let entries = needs.paths.len() + needs.etc.len();
    let text = text::write(wide, scene, run, &needs);
    Ok(LearnedProfile { text, entries, refused: needs.refused })
}

fn gather(wide: &Profile, scene: &Scene, run: &Run) -> Result<Needs, PlanError> {
    let placed = wide.placed(scene)?;
    let mut entries: Vec<(PathBuf, PathAccess)> =
        placed.iter().map(|(bind, entry)| (bind.path.as_path().into(), entry.reach)).collect();
    // Innermost entries first.
    entries.sort_by_key(|(path, _)| std::cmp::Reverse(path.components().count()));
    let mut needs = Needs::default();
    for access in &run.accesses {
        needs.take(scene, (&wide.settings.net, &entries), access);
    }
    needs.refused.sort();
    needs.refused.dedup();
    needs.programs.dedup();
    Ok(needs)
}

impl Needs {
    fn take(&mut self, scene: &Scene, wide: (&Net, &[(PathBuf, PathAccess)]), access: &Access) {
        let (net, entries) = wide;
        match access.kind {
            TargetKind::Address => return self.address(net, access),
            TargetKind::Process => {
                let target = access.path.clone();
                return self.refused.push(RefusedAccess { right: access.right, target });
            }
            TargetKind::Missing | TargetKind::Directory | TargetKind::Link | TargetKind::File => {}
        }
        let path = Path::new(&access.path);
        if path.starts_with(&scene.workspace) {
            match access.right {
                Right::Write => self.workspace_written = true,
                Right::Look
                | Right::Read
                | Right::Execute
                | Right::Connect
                | Right::Bind
                | Right::Trace => {
                    self.workspace_read = true;
                }
            }
            return;
        }
        let Some((entry, most)) = entries.iter().find(|(entry, _)| path.starts_with(entry)) else {
            return self.outside(scene, access);
        };
        if access.kind == TargetKind::Missing && access.right != Right::Write {
            return;
        }
        let wanted = match access.right {
            Right::Write => PathAccess::Write,
            Right::Execute => PathAccess::Execute,
            Right::Look | Right::Read | Right::Connect | Right::Bind | Right::Trace => {
                PathAccess::Read
            }
        };
        if wanted > *most {
            return self.refuse(scene, access);
        }
        if access.right == Right::Execute && access.kind == TargetKind::File {
            self.programs.push(path.to_owned());
        }
        match target(scene, entry, path, access) {
            ProfileEntry::Etc(name) => add(self.etc.entry(name).or_default(), wanted, access),
            ProfileEntry::Path(at) => add(self.paths.entry(at).or_default(), wanted, access),
            ProfileEntry::LookedUp => self.looked_up.push(path.to_owned()),
            ProfileEntry::Between => {}
        }
    }

    fn address(&mut self, net: &Net, access: &Access) {
        let address = access.path.parse::<SocketAddr>().ok();
        let own = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
        match address {
            Some(to) if access.right == Right::Connect && net.port(to.port()).is_some() => {
                self.ports.insert(to.port());
            }
            Some(to) if access.right == Right::Connect && is_egress(net, to) => self.egress = true,
            Some(to)
                if own(to.ip())
                    && matches!(net.mode.value, NetMode::Loopback | NetMode::Domains) =>
            {
                self.loopback.push(access.path.clone());
            }
            // The egress room was asked for the address itself.
            Some(to) if access.right == Right::Connect && is_by_room(net, to) => {
                self.hosts.insert(Target { host: Host::Address(to.ip()), port: to.port() });
            }
            Some(_) if access.right == Right::Connect => {
                self.refused
                    .push(RefusedAccess { right: access.right, target: access.path.clone() });
            }
            None if access.right == Right::Connect => self.hosts.extend(host(&access.path)),
            // A Unix socket in the file system is recorded as a path, and one inside the session
            // needs no entry.
            Some(_) | None => {}
        }
    }

    /// Handles an access that no entry covers: the path is private to the session, or does not
    /// exist in it.
    fn outside(&mut self, scene: &Scene, access: &Access) {
        let path = Path::new(&access.path);
        let own = PRIVATE.iter().chain(&["/run", "/proc", "/dev"]).any(|own| path.starts_with(own));
        if access.kind == TargetKind::Missing && !own {
            self.refuse(scene, access);
        }
    }

    fn refuse(&mut self, scene: &Scene, access: &Access) {
        let target = general::named(scene, Path::new(&access.path));
        self.refused.push(RefusedAccess { right: access.right, target });
    }

    /// Removes entries that another entry covers. Adds directories that were only listed or looked
    /// up, if no entry is inside or above them.
    fn merge(&mut self) {
        general::merge_crowded(&mut self.paths);
        for path in std::mem::take(&mut self.looked_up) {
            let there = |at: &PathBuf| at.starts_with(&path) || path.starts_with(at);
            if !self.paths.keys().any(there) {
                let need =
                    Need { reach: Some(PathAccess::Read), lookup_only: true, ..Need::default() };
                self.paths.insert(path, need);
            }
        }
        let all: Vec<(PathBuf, Need)> = self.paths.clone().into_iter().collect();
        for (inner, need) in &all {
            let outer = all.iter().find(|(outer, _)| inner != outer && inner.starts_with(outer));
            if let Some((outer, _)) = outer {
                self.paths.remove(inner);
                if let Some(over) = self.paths.get_mut(outer) {
                    over.reach = over.reach.max(need.reach);
                }
            }
        }
    }
}

/// Reads the name of a host with its port.
fn host(text: &str) -> Option<Target> {
    let (name, port) = text.rsplit_once(':')?;
    let host = Host::Name(HostName::new(name).ok()?);
    Some(Target { host, port: port.parse().ok()? })
}

/// Returns `true` if an egress room may connect to an address, perhaps with approval.
fn is_by_room(net: &Net, to: SocketAddr) -> bool {
    let target = Target { host: Host::Address(to.ip()), port: to.port() };
    let is_listed = net.allow.iter().any(|said| said.value.allows(&target));
    net.mode.value == NetMode::Domains && (net.ask || is_listed)
}

/// Returns `true` if an address leads to a listener of an egress room.
fn is_egress(net: &Net, to: SocketAddr) -> bool {
    let SocketAddr::V4(to) = to else { return false };
    let own = to.ip().is_loopback() && matches!(to.port(), PROXY_PORT | NAMES_PORT);
    net.mode.value == NetMode::Domains && (own || is_synthetic(*to.ip()))
}

fn add(need: &mut Need, wanted: PathAccess, access: &Access) {
    need.reach = need.reach.max(Some(wanted));
    need.link |= access.kind == TargetKind::Link;
    let name = Path::new(&access.path).file_name().unwrap_or_default().to_string_lossy();
    if !need.used.iter().any(|used| *used == name) {
        need.used.push(name.into_owned());
    }
}

#[cfg(test)]
mod tests;
