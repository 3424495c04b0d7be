//! Landlock: every right that the running kernel knows is denied unless a rule grants it. The
//! ruleset is kept, so that each call can have a domain of its own. Room: the cell.

use crate::{kernel, steps::StepFailure};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, Scope, make_bitflags,
};
use palisade_plan::{Access, Grant, MissingPath};
use rustix::fs::FileType;
use std::os::fd::{AsFd as _, OwnedFd};

/// The newest ABI whose rights this build knows by name.
const NEWEST: (u32, ABI) = (7, ABI::V7);

/// What is in force.
#[derive(Debug)]
pub struct Enforced {
    /// Restricts a child: one domain per call.
    pub ruleset: OwnedFd,
    /// The kernel's ABI.
    pub abi: u32,
    /// Rights handled, by name.
    pub rights: Vec<String>,
    /// Scopes closed, by name.
    pub scopes: Vec<String>,
    /// Rules that grant something.
    pub rules: u32,
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

/// What each kind of access means in rights.
fn rights(access: Access, abi: ABI) -> BitFlags<AccessFs> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let wanted = match access {
        Access::List => AccessFs::ReadDir.into(),
        Access::Read => read,
        Access::Execute => read | AccessFs::Execute,
        // Everything but the two kinds of device nodes: none is ever made in a session.
        Access::Write => {
            AccessFs::from_all(abi) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock})
        }
        Access::Device => read | make_bitflags!(AccessFs::{WriteFile | Truncate | IoctlDev}),
    };
    wanted & AccessFs::from_all(abi)
}

/// Builds the ruleset and puts this process under it.
pub(crate) fn enforce(grants: &[Grant], refuse_tcp: bool) -> Result<Enforced, StepFailure> {
    let abi_number = kernel::landlock_query(1).map_err(StepFailure::kernel("ask for Landlock"))?;
    let abi = known(abi_number);
    let fail = |error: landlock::RulesetError| StepFailure::NotInForce(error.to_string());
    // Only rights that this kernel knows are named, and each of them must then really be handled.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        .map_err(fail)?;
    let mut named: Vec<_> =
        AccessFs::from_all(abi).iter().map(|right| format!("{right:?}")).collect();
    if refuse_tcp && abi_number >= 4 {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi)).map_err(fail)?;
        named.extend(AccessNet::from_all(abi).iter().map(|right| format!("{right:?}")));
    }
    let scopes = Scope::from_all(abi);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes).map_err(fail)?;
    }
    let mut created = ruleset.create().map_err(fail)?;
    let mut rules = 0;
    for grant in grants {
        let Some(fd) = open(grant)? else { continue };
        let stat = rustix::fs::fstat(fd.as_fd()).map_err(StepFailure::kernel("fstat"))?;
        let mut allowed = rights(grant.access, abi);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            allowed &= AccessFs::from_file(abi);
        }
        created = created.add_rule(PathBeneath::new(fd, allowed)).map_err(fail)?;
        rules += 1;
    }
    let ruleset = Option::<OwnedFd>::from(created)
        .ok_or_else(|| StepFailure::NotInForce("Landlock made no ruleset".into()))?;
    kernel::landlock_restrict(ruleset.as_fd())
        .map_err(StepFailure::kernel("landlock_restrict_self"))?;
    Ok(Enforced {
        ruleset,
        abi: abi_number,
        rights: named,
        scopes: scopes.iter().map(|scope| format!("{scope:?}")).collect(),
        rules,
    })
}

/// The path of a rule; none if it is not there and need not be.
fn open(grant: &Grant) -> Result<Option<PathFd>, StepFailure> {
    match PathFd::new(grant.path.as_path()) {
        Ok(fd) => Ok(Some(fd)),
        Err(_) if grant.missing == MissingPath::Skip => Ok(None),
        Err(error) => Err(StepFailure::NotInForce(format!("rule for {:?}: {error}", grant.path))),
    }
}
