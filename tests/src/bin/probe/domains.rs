//! Attempts of `probe` with Landlock domains of its own: how many can be stacked, and which
//! programs run in a stack of them.

use crate::{Answer, check, exec, parse};

pub(crate) fn attempt(words: &[String]) -> Option<Answer> {
    let word = |n: usize| words.get(n).map_or("", String::as_str);
    Some(match word(0) {
        "domains" => stack(parse(word(1))),
        // Runs a program in a stack of this many domains, which restrict almost nothing.
        "exec_in_domains" => stack(parse(word(1))).and_then(|()| Err(exec(&words[2..]))),
        _ => return None,
    })
}

/// Puts this process into nested domains, in which no symbolic links can be created.
fn stack(domains: libc::c_long) -> Answer {
    const MAKE_SYM: u64 = 1 << 12;
    // SAFETY: prctl with these arguments touches no memory.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
    let handled = MAKE_SYM;
    // SAFETY: the attribute is its first field, of the size given.
    let ruleset = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled, size_of::<u64>(), 0)
    };
    check(ruleset)?;
    for _ in 0..domains {
        // SAFETY: landlock_restrict_self touches no memory.
        check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) })?;
    }
    Ok(())
}
