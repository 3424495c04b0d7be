//! Assembles and installs the system call filter: the plan's rules, bounded by the fixed ones. Runs
//! in the cell.

use crate::{
    failure::StepFailure,
    kernel::{self, DenialLogging},
};
use palisade_plan::{
    FixedRule, Instruction, NetworkSockets, SetIdBits, Sockets, SyscallRule, assemble, fixed_rules,
};
use std::sync::LazyLock;

/// The sockets of most sessions.
const USUAL: Sockets = Sockets { network: NetworkSockets::Own, unix: true };

/// The sockets and set-id bits that the fixed rules leave to a process.
pub(crate) type Bounds = (Sockets, SetIdBits);

/// The set-id bits that processes may have.
const BITS: [SetIdBits; 3] = [SetIdBits::SetGid, SetIdBits::None, SetIdBits::NoneByAnyCall];

/// The fixed rules of most sessions.
static FIXED: LazyLock<[(SetIdBits, Vec<FixedRule>); 3]> =
    LazyLock::new(|| BITS.map(|bits| (bits, fixed_rules(USUAL, bits))));

/// Makes the fixed rules ahead, while the process waits for its setup.
pub(crate) fn prepare_fixed() {
    LazyLock::force(&FIXED);
}

/// Assembles a plan's rules and the fixed rules.
pub(crate) fn assemble_for(
    rules: &[SyscallRule],
    (sockets, bits): Bounds,
) -> Result<Vec<Instruction>, StepFailure> {
    let known = FIXED.iter().find(|(known, _)| sockets == USUAL && *known == bits);
    let assembled = match known {
        Some((_, fixed)) => assemble(rules, fixed),
        None => assemble(rules, &fixed_rules(sockets, bits)),
    };
    assembled.map_err(|error| StepFailure::NotInForce(error.to_string()))
}

/// The installed filter.
#[derive(Debug)]
pub struct InstalledFilter {
    /// Its instructions, eight bytes each.
    pub program: Vec<u8>,
    /// The number of system calls that it allows.
    pub syscalls: u32,
}

/// Assembles and installs the filter.
pub(crate) fn install(
    rules: &[SyscallRule],
    bounds: Bounds,
    logged: DenialLogging,
) -> Result<InstalledFilter, StepFailure> {
    let instructions = assemble_for(rules, bounds)?;
    let mut program: Vec<_> = instructions
        .iter()
        .map(|i| libc::sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k })
        .collect();
    kernel::seccomp_filter(&mut program, logged).map_err(StepFailure::kernel("seccomp"))?;
    let syscalls = rules.iter().filter(|rule| rule.may_allow()).count();
    Ok(InstalledFilter {
        program: instructions.iter().flat_map(|i| i.to_bytes()).collect(),
        syscalls: u32::try_from(syscalls).unwrap_or(u32::MAX),
    })
}
