//! Parses the kernel's audit records. Runs in the broker. Pure: no I/O.

use palisade_policy::refused::{KernelRefusal, RefusalTarget, Syscall};
use std::time::Duration;

const CONFIG_CHANGE: u16 = 1305;
const SECCOMP: u16 = 1326;
const LANDLOCK_ACCESS: u16 = 1423;
const LANDLOCK_DOMAIN: u16 = 1424;

/// The length of the header before a netlink message's text.
const HEADER: usize = 16;

/// This machine's architecture, which the filter is for, as audit records write it.
const NATIVE: &str = "c000003e";

/// A parsed audit record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KernelAuditRecord {
    /// Landlock denied an access in a domain.
    Access { domain: u64, refused: KernelRefusal },
    /// A domain was created by a process of this name.
    Domain { domain: u64, name: String },
    /// A domain ended, after this many denials.
    Over { domain: u64, refusals: u64 },
    /// The seccomp filter denied a system call to a process of an audit session.
    Call {
        session: u32,
        /// The time since 1970, by a clock that is late by up to a tick.
        at: Duration,
        /// The name of the process.
        name: String,
        refused: KernelRefusal,
    },
    /// The kernel's audit was turned off, or its rules changed.
    Changed,
}

impl KernelAuditRecord {
    /// Parses a netlink message; `None` if it is about something else.
    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
        let text = String::from_utf8_lossy(message.get(HEADER..)?);
        let (stamp, text) = text.trim_end_matches('\0').split_once("): ")?;
        match kind {
            CONFIG_CHANGE => Some(Self::Changed),
            LANDLOCK_ACCESS => access(text),
            LANDLOCK_DOMAIN => domain(text),
            SECCOMP => {
                let number = || field(text, "syscall")?.parse().ok().map(Syscall::Number);
                let native = field(text, "arch")? == NATIVE;
                let call = if native { number()? } else { Syscall::Foreign };
                let session = field(text, "ses")?.parse().ok()?;
                let (at, name) = (since_1970(stamp)?, string(text, "comm")?);
                Some(Self::Call { session, at, name, refused: KernelRefusal::Seccomp(call) })
            }
            _ => None,
        }
    }
}

/// Parses the time of `audit(1794744962.906:1944`.
fn since_1970(stamp: &str) -> Option<Duration> {
    let (time, _) = stamp.strip_prefix("audit(")?.split_once(':')?;
    let (seconds, millis) = time.split_once('.')?;
    let seconds = Duration::from_secs(seconds.parse().ok()?);
    seconds.checked_add(Duration::from_millis(millis.parse().ok()?))
}

fn access(text: &str) -> Option<KernelAuditRecord> {
    let domain = u64::from_str_radix(field(text, "domain")?, 16).ok()?;
    let rights = field(text, "blockers")?.split(',').map(str::to_owned).collect::<Vec<_>>();
    let socket = rights.iter().any(|right| right == "scope.abstract_unix_socket");
    let target = if let Some(path) = string(text, "path") {
        // An abstract name begins with a NUL.
        match path.strip_prefix('\0') {
            Some(name) => RefusalTarget::Socket(format!("@{}", name.trim_end_matches('\0'))),
            None if socket => RefusalTarget::Socket(path),
            None => RefusalTarget::Path(path),
        }
    } else if let Some(name) = string(text, "ocomm") {
        RefusalTarget::Process(name)
    } else {
        let address = |host, port| Some(format!("{}:{}", field(text, host)?, field(text, port)?));
        let bare = |port| Some(format!("port {}", field(text, port)?));
        address("daddr", "dest")
            .or_else(|| address("saddr", "src"))
            .or_else(|| bare("dest"))
            .or_else(|| bare("src"))
            // The kernel omits fields whose value is zero.
            .or_else(|| rights.iter().any(|r| r.starts_with("net.")).then(|| "any port".to_owned()))
            .map_or(RefusalTarget::Unknown, RefusalTarget::Address)
    };
    Some(KernelAuditRecord::Access { domain, refused: KernelRefusal::Landlock { rights, target } })
}

fn domain(text: &str) -> Option<KernelAuditRecord> {
    let domain = u64::from_str_radix(field(text, "domain")?, 16).ok()?;
    match field(text, "status")? {
        "allocated" => Some(KernelAuditRecord::Domain { domain, name: string(text, "comm")? }),
        "deallocated" => {
            let refusals = field(text, "denials")?.parse().ok()?;
            Some(KernelAuditRecord::Over { domain, refusals })
        }
        _ => None,
    }
}

/// Returns the value of a field as written. The kernel writes values that a program chooses in
/// quotes without spaces, or in hexadecimal. So they can not look like another field.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split(' ').find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
}

/// Returns the decoded value of a field that a program may choose.
fn string(text: &str, key: &str) -> Option<String> {
    let value = field(text, key)?;
    if let Some(quoted) = value.strip_prefix('"') {
        return Some(quoted.strip_suffix('"')?.to_owned());
    }
    let pairs = value.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    let bytes = bytes.collect::<Option<Vec<u8>>>()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
pub(super) fn message(kind: u16, text: &str) -> Vec<u8> {
    let mut message = vec![0; HEADER];
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message.extend(format!("audit(1794744962.906:1944): {text}").bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn landlock(rights: &[&str], target: RefusalTarget) -> Option<KernelAuditRecord> {
        let rights = rights.iter().map(|right| (*right).to_owned()).collect();
        Some(KernelAuditRecord::Access {
            domain: 0x1d1f,
            refused: KernelRefusal::Landlock { rights, target },
        })
    }

    #[test]
    fn reads_what_the_kernel_writes() {
        let access = |rest: &str| {
            KernelAuditRecord::parse(&message(1423, &format!("domain=1d1f blockers={rest}")))
        };
        let path = |path: &str| RefusalTarget::Path(path.to_owned());
        assert_eq!(
            access("fs.make_reg,fs.refer path=\"/tmp\" dev=\"vda\" ino=246951"),
            landlock(&["fs.make_reg", "fs.refer"], path("/tmp"))
        );
        // A space in a name makes the kernel write hexadecimal.
        assert_eq!(
            access("fs.read_file path=2F746D702F612062 dev=\"vda\" ino=1"),
            landlock(&["fs.read_file"], path("/tmp/a b"))
        );
        assert_eq!(
            access("scope.signal opid=1 ocomm=\"init\""),
            landlock(&["scope.signal"], RefusalTarget::Process("init".to_owned()))
        );
        assert_eq!(
            access("scope.abstract_unix_socket path=006162"),
            landlock(&["scope.abstract_unix_socket"], RefusalTarget::Socket("@ab".to_owned()))
        );
        assert_eq!(
            access("net.connect_tcp daddr=127.0.0.1 dest=80"),
            landlock(&["net.connect_tcp"], RefusalTarget::Address("127.0.0.1:80".to_owned()))
        );
        assert_eq!(
            access("net.bind_tcp src=80"),
            landlock(&["net.bind_tcp"], RefusalTarget::Address("port 80".to_owned()))
        );
        assert_eq!(
            access("net.bind_tcp"),
            landlock(&["net.bind_tcp"], RefusalTarget::Address("any port".to_owned()))
        );
        let text = "domain=a status=allocated mode=enforcing pid=8 uid=0 exe=\"/x\" comm=\"mark\"";
        let name = "mark".to_owned();
        assert_eq!(
            KernelAuditRecord::parse(&message(1424, text)),
            Some(KernelAuditRecord::Domain { domain: 10, name })
        );
        let over =
            KernelAuditRecord::parse(&message(1424, "domain=a status=deallocated denials=5"));
        assert_eq!(over, Some(KernelAuditRecord::Over { domain: 10, refusals: 5 }));
        let call = |arch: &str| {
            let text = format!(
                "auid=4242 uid=4242 gid=4242 ses=7 pid=9 comm=\"x\" exe=\"/x\" sig=0 arch={arch} \
                 syscall=165 compat=0 ip=0x7 code=0x50000"
            );
            KernelAuditRecord::parse(&message(1326, &text))
        };
        let expected = |call| {
            let refused = KernelRefusal::Seccomp(call);
            let name = "x".to_owned();
            let at = Duration::from_millis(1_794_744_962_906);
            Some(KernelAuditRecord::Call { session: 7, at, name, refused })
        };
        let off = KernelAuditRecord::parse(&message(
            1305,
            "op=set audit_enabled=0 old=1 auid=0 ses=1 res=1",
        ));
        assert_eq!(off, Some(KernelAuditRecord::Changed));
        assert_eq!(call(NATIVE), expected(Syscall::Number(165)));
        assert_eq!(call("40000003"), expected(Syscall::Foreign));
    }

    #[test]
    fn a_name_can_not_pass_for_a_field() {
        // Spaces and quotes make the kernel write hexadecimal: " domain=1 status=x".
        let text = "domain=a status=allocated mode=enforcing pid=8 uid=0 exe=\"/x\" \
                    comm=20646F6D61696E3D31207374617475733D78";
        let name = " domain=1 status=x".to_owned();
        assert_eq!(
            KernelAuditRecord::parse(&message(1424, text)),
            Some(KernelAuditRecord::Domain { domain: 10, name })
        );
    }

    #[test]
    fn other_records_are_nothing() {
        assert_eq!(KernelAuditRecord::parse(&message(1300, "domain=a blockers=fs.make_reg")), None);
        assert_eq!(KernelAuditRecord::parse(&message(1423, "blockers=fs.make_reg")), None);
        assert_eq!(KernelAuditRecord::parse(&[]), None);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(kind in 1320u16..1430, text in ".{0,200}", cut in 0usize..220) {
            let message = message(kind, &text);
            drop(KernelAuditRecord::parse(&message[..cut.min(message.len())]));
        }
    }
}
