//! Denies the broker the system calls that it never makes and that would help whoever takes it over.
//!
//! A broker that could make a user namespace could mount over the agent socket's path, bind a socket
//! of the same name there, and hand the launcher connections that look like those of other users.
//! The units forbid namespaces as well; this filter holds for daemons that no unit starts.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// The bit of system calls of the x32 interface, which x86-64 kernels may have.
const X32: i64 = 0x4000_0000;

/// System calls that make namespaces, change what is mounted, look into other processes, or load code
/// into the kernel.
const DENIED: [libc::c_long; 26] = [
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
];

/// The flags of `clone` that make namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Installs the filters for this process and for what it starts from now on.
pub(crate) fn confine() -> Result<(), seccompiler::Error> {
    seccompiler::apply_filter(&denials()?)?;
    // The flags of `clone3` are behind a pointer, where no filter sees them. The C library uses
    // `clone` where the kernel says that there is no `clone3`.
    let clone3 = [libc::SYS_clone3, libc::SYS_clone3 | X32].map(|number| (number, Vec::new()));
    let unknown = u32::try_from(libc::ENOSYS).unwrap_or_default();
    seccompiler::apply_filter(&program(BTreeMap::from(clone3), unknown)?)
}

/// The filter of what is refused for want of permission.
fn denials() -> Result<BpfProgram, seccompiler::Error> {
    let mut denied: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for number in DENIED {
        denied.extend([(number, Vec::new()), (number | X32, Vec::new())]);
    }
    let makes_namespace =
        NAMESPACES.iter().map(|flag| clone_flag_rule(*flag)).collect::<Result<Vec<_>, _>>()?;
    denied.insert(libc::SYS_clone, makes_namespace.clone());
    denied.insert(libc::SYS_clone | X32, makes_namespace);
    let refused = u32::try_from(libc::EPERM).unwrap_or_default();
    program(denied, refused)
}

/// A rule for calls of `clone` with a flag.
fn clone_flag_rule(flag: libc::c_int) -> Result<SeccompRule, seccompiler::Error> {
    let flag = u64::from(flag.cast_unsigned());
    let is_set =
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?;
    Ok(SeccompRule::new(vec![is_set])?)
}

fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    errno: u32,
) -> Result<BpfProgram, seccompiler::Error> {
    let here: TargetArch = std::env::consts::ARCH.try_into()?;
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), here)?;
    Ok(BpfProgram::try_from(filter)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::{CloneFlags, setns, unshare};
    use rustix::{io::Errno, mount::MountFlags};
    use std::fs::File;

    /// Filters are of one thread, and of those that it starts.
    #[test]
    fn a_confined_thread_makes_no_namespace_and_still_makes_threads_and_processes() {
        let user = CloneFlags::CLONE_NEWUSER;
        let unconfined = std::thread::spawn(move || unshare(CloneFlags::CLONE_FS).is_ok());
        assert!(unconfined.join().unwrap(), "the control");
        // Unconfined, the kernel says that there is no such place, or nothing but a missing privilege.
        let own = File::open("/proc/self/ns/net").unwrap();
        if rustix::process::geteuid().is_root() {
            assert_eq!(setns(own, CloneFlags::empty()), Ok(()), "the control");
        }
        let held = std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            confine().unwrap();
            assert_eq!(unshare(user), Err(nix::Error::EPERM));
            assert_eq!(unshare(CloneFlags::CLONE_FS), Err(nix::Error::EPERM));
            assert_eq!(nix::unistd::chroot("/"), Err(nix::Error::EPERM));
            // As root too: it is the filter that refuses, before the kernel looks at anything.
            for kind in ["user", "mnt", "net"] {
                let own = File::open(format!("/proc/self/ns/{kind}")).unwrap();
                assert_eq!(setns(own, CloneFlags::empty()), Err(nix::Error::EPERM), "{kind}");
            }
            let missing = "/nonexistent/palisade";
            let mounted = rustix::mount::mount("none", missing, "tmpfs", MountFlags::empty(), None);
            assert_eq!(mounted, Err(Errno::PERM));
            let detached = rustix::mount::unmount(missing, rustix::mount::UnmountFlags::empty());
            assert_eq!(detached, Err(Errno::PERM));
            assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        });
        held.join().unwrap();
    }
    /// A word of which some bits are known.
    #[derive(Clone, Copy)]
    struct Word {
        known: u32,
        value: u32,
    }

    /// Finds the answers that a program of these instructions may give to a call of `clone`, whatever
    /// the bits of its flags are that are not known.
    fn answers(program: &BpfProgram, at: usize, word: Word, low: Word, found: &mut Vec<u32>) {
        let step = &program[at];
        let all = |value| Word { known: u32::MAX, value };
        let next = |by: u8| at + 1 + usize::from(by);
        match step.code {
            // Load: the number, the architecture, both halves of the first argument.
            0x20 => {
                let arch = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
                let loaded = match step.k {
                    0 => all(u32::try_from(libc::SYS_clone).unwrap()),
                    4 => all(arch),
                    16 => low,
                    20 => Word { known: 0, value: 0 },
                    other => panic!("a load from {other}"),
                };
                answers(program, at + 1, loaded, low, found);
            }
            // And.
            0x54 => {
                let known = word.known | !step.k;
                let masked = Word { known, value: word.value & step.k };
                answers(program, at + 1, masked, low, found);
            }
            // Jump, and jump if equal.
            0x05 => answers(program, at + 1 + step.k as usize, word, low, found),
            0x15 => {
                if word.known & (word.value ^ step.k) == 0 {
                    answers(program, next(step.jt), word, low, found);
                }
                if word.known != u32::MAX || word.value != step.k {
                    answers(program, next(step.jf), word, low, found);
                }
            }
            0x06 => found.push(step.k),
            other => panic!("instruction {other:#x}"),
        }
    }

    #[test]
    fn clone_with_any_flag_of_a_namespace_is_refused_whatever_else_it_says() {
        let program = denials().unwrap();
        let answers = |known, value| {
            let (mut found, unknown) = (Vec::new(), Word { known: 0, value: 0 });
            answers(&program, 0, unknown, Word { known, value }, &mut found);
            found.sort_unstable();
            found.dedup();
            found
        };
        let (allowed, refused) = (0x7fff_0000, 0x0005_0000 | libc::EPERM.cast_unsigned());
        let mut all = 0;
        for flag in NAMESPACES.map(libc::c_int::cast_unsigned) {
            assert_eq!(answers(flag, flag), [refused], "{flag:#x}");
            all |= flag;
        }
        assert_eq!(answers(all, 0), [allowed], "the control");
        assert_eq!(all, 0x7e02_0000, "every flag that clone has for a namespace");
    }
}
