//! Landlock: every right that the running kernel knows is denied unless a rule grants it. The
//! ruleset is kept, so that each call can have a domain of its own. Runs in the cell.

use crate::{
    failure::StepFailure,
    kernel::{self, DenialLogging},
};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope, make_bitflags,
};
use palisade_plan::{Access, Cover, Grant, MissingPath, Tcp};
use palisade_workspace::Layers;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use std::os::fd::{AsFd as _, OwnedFd};

/// The newest ABI whose rights this build knows by name.
const NEWEST: (u32, ABI) = (7, ABI::V7);

/// The first ABI with scopes.
const SCOPES_ABI: u32 = 6;

/// The first ABI with rules on TCP.
const TCP_ABI: u32 = 4;

/// The Landlock restrictions in force on this process.
#[derive(Debug)]
pub struct LandlockRestrictions {
    /// The ruleset that restricts a child: one domain per call.
    pub ruleset: OwnedFd,
    /// A ruleset for a child that is already under this process's rules. It puts the child into a
    /// domain of its own, from which this process can not be reached, and costs the kernel one rule
    /// only. `None` if a child needs the full ruleset for that.
    pub apart: Option<OwnedFd>,
    /// The kernel's Landlock ABI version.
    pub abi: u32,
    /// The names of the handled rights.
    pub rights: Vec<String>,
    /// The names of the restricted scopes.
    pub scopes: Vec<String>,
    /// The number of rules.
    pub rules: u32,
    /// The TCP rules in force.
    pub tcp: Tcp,
}

const fn known(abi: u32) -> ABI {
    match abi {
        0 => ABI::Unsupported,
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        _ => NEWEST.1,
    }
}

/// Returns the Landlock rights that an access stands for.
fn rights(access: Access, abi: ABI) -> BitFlags<AccessFs> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let wanted = match access {
        Access::List => AccessFs::ReadDir.into(),
        Access::Read => read,
        Access::Execute => read | AccessFs::Execute,
        // All rights except making the two kinds of device nodes, which no session ever makes.
        Access::Write => {
            AccessFs::from_all(abi) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock})
        }
        Access::Device => read | make_bitflags!(AccessFs::{WriteFile | Truncate | IoctlDev}),
    };
    wanted & AccessFs::from_all(abi)
}

/// Builds the ruleset and applies it to this process. In a transaction this process gets one that
/// also lets it reach the two layers; its programs are under both rulesets and can not.
pub(crate) fn enforce(
    grants: &[Grant],
    tcp: Tcp,
    layers: Option<&Layers>,
) -> Result<LandlockRestrictions, StepFailure> {
    let abi_number = kernel::landlock_query(1).map_err(StepFailure::kernel("ask for Landlock"))?;
    let abi = known(abi_number);
    let tcp = match tcp {
        // Where the kernel has no TCP rules, the plan permits going without them.
        Tcp::Refused if abi_number < TCP_ABI => Tcp::NotHandled,
        Tcp::Connect(_) if abi_number < TCP_ABI => {
            return Err(StepFailure::Setup("Landlock knows no ports here".to_owned()));
        }
        Tcp::NotHandled | Tcp::Refused | Tcp::Connect(_) => tcp,
    };
    let mut programs = create(abi, &tcp)?;
    let mut own = layers.map(|_| create(abi, &tcp)).transpose()?;
    let rules = add_rules([Some(&mut programs), own.as_mut()], grants, abi, &tcp)?;
    if let (Some(own), Some(layers)) = (&mut own, layers) {
        add_layers(own, layers, abi)?;
    }
    let (ruleset, own) = (descriptor(programs)?, own.map(descriptor).transpose()?);
    let apart = match own {
        // This process may reach more than its programs, so they need the full ruleset.
        Some(_) => None,
        None => apart(abi_number)?,
    };
    kernel::landlock_restrict(own.as_ref().unwrap_or(&ruleset).as_fd(), DenialLogging::Usual)
        .map_err(StepFailure::kernel("landlock_restrict_self"))?;
    let mut rights: Vec<_> =
        AccessFs::from_all(abi).iter().map(|right| format!("{right:?}")).collect();
    if tcp != Tcp::NotHandled {
        rights.extend(AccessNet::from_all(abi).iter().map(|right| format!("{right:?}")));
    }
    let scopes = Scope::from_all(abi).iter().map(|scope| format!("{scope:?}")).collect();
    Ok(LandlockRestrictions { ruleset, apart, abi: abi_number, rights, scopes, rules, tcp })
}

fn fail(error: landlock::RulesetError) -> StepFailure {
    StepFailure::Setup(error.to_string())
}

fn descriptor(ruleset: RulesetCreated) -> Result<OwnedFd, StepFailure> {
    Option::<OwnedFd>::from(ruleset)
        .ok_or_else(|| StepFailure::Setup("Landlock made no ruleset".into()))
}

/// Builds a ruleset of scopes and one right. The kernel denies renames and links between
/// directories under every ruleset that does not grant that right, even if it does not handle it.
fn apart(abi: u32) -> Result<Option<OwnedFd>, StepFailure> {
    if abi < SCOPES_ABI {
        return Ok(None);
    }
    let root = PathFd::new("/").map_err(|error| StepFailure::Setup(error.to_string()))?;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)
        .and_then(|set| set.scope(Scope::from_all(known(abi))))
        .and_then(Ruleset::create)
        .and_then(|set| set.add_rule(PathBeneath::new(root, AccessFs::Refer)))
        .map_err(fail)?;
    descriptor(ruleset).map(Some)
}

/// Creates a ruleset without rules. Only rights that this kernel knows are named, and the kernel must
/// then handle each of them.
fn create(abi: ABI, tcp: &Tcp) -> Result<RulesetCreated, StepFailure> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        .map_err(fail)?;
    if *tcp != Tcp::NotHandled {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi)).map_err(fail)?;
    }
    let scopes = Scope::from_all(abi);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes).map_err(fail)?;
    }
    ruleset.create().map_err(fail)
}

/// Adds the same rules to each ruleset; returns their number. Each path is opened once.
fn add_rules(
    rulesets: [Option<&mut RulesetCreated>; 2],
    grants: &[Grant],
    abi: ABI,
    tcp: &Tcp,
) -> Result<u32, StepFailure> {
    let mut rulesets: Vec<_> = rulesets.into_iter().flatten().collect();
    let mut rules = 0;
    let ports = match tcp {
        Tcp::NotHandled | Tcp::Refused => &[][..],
        Tcp::Connect(ports) => ports,
    };
    for port in ports {
        for ruleset in &mut rulesets {
            ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(fail)?;
        }
        rules += 1;
    }
    let cover = Cover::of(grants);
    for grant in grants {
        // Skip covered rules: the kernel copies every rule for every call.
        if cover.has(grant) && is_without_links(grant) {
            continue;
        }
        let Some(fd) = open(grant)? else { continue };
        let stat = rustix::fs::fstat(fd.as_fd()).map_err(StepFailure::kernel("fstat"))?;
        let mut allowed = rights(grant.access, abi);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            allowed &= AccessFs::from_file(abi);
        }
        for ruleset in &mut rulesets {
            ruleset.add_rule(PathBeneath::new(&fd, allowed)).map_err(fail)?;
        }
        rules += 1;
    }
    Ok(rules)
}

/// Adds rules that let this process commit a transaction: read what the program wrote, and write
/// the workspace.
fn add_layers(ruleset: &mut RulesetCreated, layers: &Layers, abi: ABI) -> Result<(), StepFailure> {
    let (write, read) = (rights(Access::Write, abi), rights(Access::Read, abi));
    for layers in layers.roots() {
        ruleset
            .add_rule(PathBeneath::new(&layers.lower, write))
            .and_then(|set| set.add_rule(PathBeneath::new(&layers.upper, read)))
            .map_err(fail)?;
    }
    Ok(())
}

/// Returns `true` if the path exists and has no symbolic link in it.
fn is_without_links(grant: &Grant) -> bool {
    let (flags, resolve) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::NO_SYMLINKS);
    rustix::fs::openat2(CWD, grant.path.as_path(), flags, Mode::empty(), resolve).is_ok()
}

/// Opens the path of a rule; `None` if it is missing and the rule permits that.
fn open(grant: &Grant) -> Result<Option<PathFd>, StepFailure> {
    match PathFd::new(grant.path.as_path()) {
        Ok(fd) => Ok(Some(fd)),
        Err(_) if grant.missing == MissingPath::Skip => Ok(None),
        Err(error) => Err(StepFailure::Setup(format!("rule for {:?}: {error}", grant.path))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_covers_another_access_has_all_its_rights() {
        let all = [Access::List, Access::Read, Access::Execute, Access::Write, Access::Device];
        for number in 1..=NEWEST.0 {
            let abi = known(number);
            for (a, b) in all.into_iter().flat_map(|a| all.map(|b| (a, b))) {
                let more = rights(a, abi).contains(rights(b, abi));
                assert!(more || !a.covers(b), "{a:?} {b:?} {number}");
            }
        }
    }
}
