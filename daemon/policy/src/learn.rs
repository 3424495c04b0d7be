//! From what a command used to the smallest profile that a person would write for it: a pure
//! function, with a reason for each line.

mod general;
mod need;
mod text;

use crate::{
    PlanError, Profile, Scene,
    access::Reach,
    entries::PRIVATE,
    net::{Net, NetMode},
};
use general::{Target, target};
pub use need::{Access, Run, Wanted};
use need::{Need, Needs};
pub use palisade_plan::record::{Kind, Right};
use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

/// What a profile was learned to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// Its file.
    pub text: String,
    /// How many entries of paths it has.
    pub entries: usize,
    /// What the command was after and the wider profile has not either, most wanted first.
    pub refused: Vec<Wanted>,
}

/// The smallest profile under which a run would have gone as it did, and that names what it names as
/// a person would: directories for their files, no temporary names.
///
/// # Errors
/// If the scene gives no session.
pub fn learn(wide: &Profile, scene: &Scene, run: &Run) -> Result<Learned, PlanError> {
    let mut needs = gather(wide, scene, run)?;
    needs.merge();
    let entries = needs.paths.len() + needs.etc.len();
    let text = text::write(wide, scene, run, &needs);
    Ok(Learned { text, entries, refused: needs.refused })
}

fn gather(wide: &Profile, scene: &Scene, run: &Run) -> Result<Needs, PlanError> {
    let placed = wide.placed(scene)?;
    let mut entries: Vec<(PathBuf, Reach)> =
        placed.iter().map(|(bind, entry)| (bind.path.as_path().into(), entry.reach)).collect();
    // The innermost first.
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
    fn take(&mut self, scene: &Scene, wide: (&Net, &[(PathBuf, Reach)]), access: &Access) {
        let (net, entries) = wide;
        if access.kind == Kind::Address {
            return self.address(net, access);
        }
        let path = Path::new(&access.path);
        if path.starts_with(&scene.workspace) {
            match access.right {
                Right::Write => self.workspace_written = true,
                Right::Look | Right::Read | Right::Execute | Right::Connect | Right::Bind => {
                    self.workspace_read = true;
                }
            }
            return;
        }
        let Some((entry, most)) = entries.iter().find(|(entry, _)| path.starts_with(entry)) else {
            return self.outside(scene, access);
        };
        if access.kind == Kind::Missing && access.right != Right::Write {
            return;
        }
        let wanted = match access.right {
            Right::Write => Reach::Write,
            Right::Execute => Reach::Execute,
            Right::Look | Right::Read | Right::Connect | Right::Bind => Reach::Read,
        };
        if wanted > *most {
            return self.refuse(scene, access);
        }
        if access.right == Right::Execute && access.kind == Kind::File {
            self.programs.push(path.to_owned());
        }
        match target(scene, entry, path, access) {
            Target::Etc(name) => add(self.etc.entry(name).or_default(), wanted, access),
            Target::Path(at) => add(self.paths.entry(at).or_default(), wanted, access),
            Target::Looked => self.looked.push(path.to_owned()),
            Target::Between => {}
        }
    }

    fn address(&mut self, net: &Net, access: &Access) {
        let address = access.path.parse::<SocketAddr>().ok();
        let own = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
        match address {
            Some(to) if access.right == Right::Connect && net.port(to.port()).is_some() => {
                self.ports.insert(to.port());
            }
            Some(to) if own(to.ip()) && net.mode.value == NetMode::Loopback => {
                self.loopback.push(access.path.clone());
            }
            Some(_) if access.right == Right::Connect => {
                self.refused.push(Wanted { right: access.right, target: access.path.clone() });
            }
            // A socket of the file system is a path, and one of the session's own needs nothing.
            Some(_) | None => {}
        }
    }

    /// What no entry covers: the session's own, or not there for it.
    fn outside(&mut self, scene: &Scene, access: &Access) {
        let path = Path::new(&access.path);
        let own = PRIVATE.iter().chain(&["/run", "/proc", "/dev"]).any(|own| path.starts_with(own));
        if access.kind == Kind::Missing && !own {
            self.refuse(scene, access);
        }
    }

    fn refuse(&mut self, scene: &Scene, access: &Access) {
        let target = general::named(scene, Path::new(&access.path));
        self.refused.push(Wanted { right: access.right, target });
    }

    /// Leaves out what another covers, and takes in directories that were only looked at if nothing
    /// of them is there otherwise.
    fn merge(&mut self) {
        general::crowded(&mut self.paths);
        for path in std::mem::take(&mut self.looked) {
            let there = |at: &PathBuf| at.starts_with(&path) || path.starts_with(at);
            if !self.paths.keys().any(there) {
                let need = Need { reach: Some(Reach::Read), looked: true, ..Need::default() };
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

fn add(need: &mut Need, wanted: Reach, access: &Access) {
    need.reach = need.reach.max(Some(wanted));
    need.link |= access.kind == Kind::Link;
    let name = Path::new(&access.path).file_name().unwrap_or_default().to_string_lossy();
    if !need.used.iter().any(|used| *used == name) {
        need.used.push(name.into_owned());
    }
}

#[cfg(test)]
mod tests;
