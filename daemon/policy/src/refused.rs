//! Converts a refusal that the kernel recorded to a denial: the layer, the right, the target, the
//! line of the profile that decides, and what would allow it. Pure: no I/O; the broker reads the
//! records.

use crate::{Act, Decision, Explanation, Profile, Scene, explain, net::NetMode, noise::is_noise};
use palisade_plan::Layer;
use palisade_protocol::Denial;

/// A refusal that the kernel recorded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KernelRefusal {
    /// Refused by Landlock.
    Landlock {
        /// The missing rights, as the kernel names them: `fs.make_reg`, `scope.signal`.
        rights: Vec<String>,
        /// The target of the refused access.
        target: RefusalTarget,
    },
    /// Refused by the system call filter.
    Seccomp(Syscall),
}

/// The target of an access that Landlock refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RefusalTarget {
    /// A file or directory, as the program sees it. If a file was to be made or deleted, its
    /// directory.
    Path(String),
    /// A process, by its name.
    Process(String),
    /// An address with its port.
    Address(String),
    /// An abstract Unix socket.
    Socket(String),
    /// The record names no target.
    Unknown,
}

/// A system call that the filter refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syscall {
    /// The number of the system call.
    Number(u32),
    /// A system call of another architecture than the filter's; the process was killed.
    Foreign,
}

/// The remedy for refusals that no profile can change.
const NEVER: &str = "no profile can allow it";

/// Returns the denial for a recorded refusal; `None` if the refusal did no harm.
#[must_use]
pub fn denial_of(profile: &Profile, scene: &Scene, refused: &KernelRefusal) -> Option<Denial> {
    match refused {
        KernelRefusal::Landlock { rights, target } => landlock(profile, scene, rights, target),
        KernelRefusal::Seccomp(call) => seccomp(profile, *call),
    }
}

fn landlock(
    profile: &Profile,
    scene: &Scene,
    rights: &[String],
    target: &RefusalTarget,
) -> Option<Denial> {
    let names: Vec<&str> = rights.iter().map(String::as_str).collect();
    let (kind, shown, sentence) = match target {
        RefusalTarget::Path(path) => {
            if is_noise(&names, path) {
                return None;
            }
            return Some(on_path(profile, scene, &names, path));
        }
        RefusalTarget::Process(name) => {
            let act = if names.contains(&"ptrace") { "ptrace" } else { "signal" };
            let why =
                format!("a program can reach only processes of its own call; {name} is not one");
            (act, name.as_str(), why)
        }
        RefusalTarget::Socket(name) => {
            let why = "a program can reach only sockets that its own call created";
            ("connect", name.as_str(), why.to_owned())
        }
        RefusalTarget::Address(address) => {
            return Some(on_address(profile, scene, &names, address));
        }
        RefusalTarget::Unknown => ("access", "", "the kernel's record names no target".to_owned()),
    };
    let rule = format!("{kind}: {sentence} ({})", names.join(", "));
    Some(without_remedy(Layer::Landlock, rule, shown))
}

fn on_address(profile: &Profile, scene: &Scene, rights: &[&str], address: &str) -> Denial {
    let named = rights.join(", ");
    let bind = rights.contains(&"net.bind_tcp");
    let act = if bind { "bind" } else { "connect" };
    let told = |why: &str| format!("{act}: {why} ({named})");
    match (profile.settings.net.mode.value, bind) {
        (NetMode::None | NetMode::Loopback | NetMode::Domains, _) => {
            let why = "no network namespace is available here, so Landlock denies all TCP";
            without_remedy(Layer::Landlock, told(why), address)
        }
        (NetMode::Ports, true) => {
            let why = "with net.mode = \"ports\" no port can be bound";
            without_remedy(Layer::Landlock, told(why), address)
        }
        (NetMode::Ports, false) => {
            // Landlock refuses by port, whatever the address.
            let port = address.rsplit([':', ' ']).next().unwrap_or_default();
            let explained = explain(profile, scene, Act::Connect, &format!("0.0.0.0:{port}"));
            match explained.ok().and_then(|explained| explained.denial()) {
                Some(denial) => {
                    let rule = format!("{} ({named})", denial.rule);
                    Denial { rule, target: address.to_owned(), ..denial }
                }
                None => without_remedy(Layer::Landlock, told("it is denied"), address),
            }
        }
    }
}

fn without_remedy(layer: Layer, rule: String, target: &str) -> Denial {
    Denial {
        layer: layer.name().to_owned(),
        rule,
        target: target.to_owned(),
        remedy: NEVER.to_owned(),
        at: String::new(),
        opens: String::new(),
    }
}

/// Returns the act that a right belongs to, and a verb for what the program attempted.
fn meaning(right: &str) -> (Option<Act>, &'static str) {
    match right {
        "fs.execute" => (Some(Act::Execute), "run"),
        "fs.read_file" => (Some(Act::Read), "read"),
        "fs.read_dir" => (Some(Act::Read), "list"),
        "fs.write_file" => (Some(Act::Write), "write to"),
        "fs.truncate" => (Some(Act::Write), "truncate"),
        "fs.make_reg" => (Some(Act::Write), "create a file in"),
        "fs.make_dir" => (Some(Act::Write), "create a directory in"),
        "fs.make_sym" => (Some(Act::Write), "create a symbolic link in"),
        "fs.make_sock" => (Some(Act::Write), "create a socket in"),
        "fs.make_fifo" => (Some(Act::Write), "create a FIFO in"),
        "fs.remove_file" => (Some(Act::Write), "delete a file from"),
        "fs.remove_dir" => (Some(Act::Write), "delete a directory from"),
        "fs.refer" => (Some(Act::Write), "move or link between directories with different rules,"),
        "fs.ioctl_dev" => (None, "control the device"),
        "fs.make_char" | "fs.make_block" => (None, "create a device in"),
        "fs.change_topology" => (None, "change what is mounted at"),
        _ => (None, "use"),
    }
}

fn on_path(profile: &Profile, scene: &Scene, rights: &[&str], path: &str) -> Denial {
    let named = rights.join(", ");
    let (act, verb) = rights.first().map_or((None, "use"), |right| meaning(right));
    let rule = |act: &str| format!("{act}: no program of the session may {verb} {path} ({named})");
    let explained = act.and_then(|act| explain(profile, scene, act, path).ok());
    match explained {
        Some(Explanation { act, decision: Decision::Deny, at, change, note, .. }) => {
            let (remedy, opens) = match change {
                Some(change) => (change.how, change.opens),
                None => (note, String::new()),
            };
            let at = at.as_ref().map_or_else(String::new, ToString::to_string);
            let (layer, target) = (Layer::Landlock.name().to_owned(), path.to_owned());
            Denial { layer, rule: rule(act.name()), target, remedy, at, opens }
        }
        // The profile allows the act as a whole, but Landlock may still refuse a part of it.
        Some(Explanation { act, decision: Decision::Allow | Decision::Ask, .. }) => {
            without_remedy(Layer::Landlock, rule(act.name()), path)
        }
        None => without_remedy(Layer::Landlock, rule(act.map_or("use", Act::name)), path),
    }
}

fn seccomp(profile: &Profile, call: Syscall) -> Option<Denial> {
    let number = match call {
        Syscall::Number(number) => number,
        Syscall::Foreign => {
            let why = "32-bit: only system calls of this machine's own architecture are allowed";
            let target = "a system call of another architecture";
            return Some(without_remedy(Layer::Seccomp, why.to_owned(), target));
        }
    };
    // A call that is not in the list fails with ENOSYS, as on an older kernel.
    let list = profile.syscalls().ok()?;
    let entry = list.entries().iter().find(|entry| entry.rule.number == number)?;
    if entry.otherwise == "ENOSYS" {
        return None;
    }
    let rule = match entry.when.is_empty() {
        true => format!("{}: denied to every session: {}", entry.name, entry.why),
        false => format!("{}: denied with these arguments: {}", entry.name, entry.why),
    };
    Some(without_remedy(Layer::Seccomp, rule, &entry.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SyscallList;

    fn profile() -> Profile {
        let (_, text) = crate::builtin()[0];
        Profile::parse("test", text).unwrap()
    }

    fn scene() -> Scene {
        let user = "tester".to_owned();
        Scene { workspace: "/w".into(), home: None, user, uid: 1000, gid: 1000 }
    }

    const ON_PORTS: &str = "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"read\"\n\
        execute = [\"!/usr\"]\n[net]\nmode = \"ports\"\nports = [443]\n";

    #[test]
    fn in_the_hosts_network_a_port_is_told_with_its_line_and_what_would_open_it() {
        let profile = Profile::parse("test", ON_PORTS).unwrap();
        let on = |right: &str, address: &str| {
            let target = RefusalTarget::Address(address.into());
            let refused = KernelRefusal::Landlock { rights: vec![right.to_owned()], target };
            denial_of(&profile, &scene(), &refused).unwrap()
        };
        for address in ["192.0.2.1:80", "2001:db8::1:80", "port 80"] {
            let denial = on("net.connect_tcp", address);
            assert_eq!((denial.layer.as_str(), denial.target.as_str()), ("landlock", address));
            assert_eq!(denial.rule, "connect: net.ports allows 443, but not 80 (net.connect_tcp)");
            assert_eq!(denial.remedy, "in test.toml, add 80 to net.ports");
            assert!(denial.opens.contains("every address"), "{}", denial.opens);
            assert_eq!(denial.at, "test.toml:7:8");
        }
        let denial = on("net.bind_tcp", "port 80");
        assert!(denial.rule.starts_with("bind: ") && denial.remedy == NEVER, "{denial:?}");
        let listen = crate::numbers::number("listen").unwrap();
        let refused = KernelRefusal::Seccomp(Syscall::Number(listen));
        let denial = denial_of(&profile, &scene(), &refused).unwrap();
        assert_eq!((denial.layer.as_str(), denial.target.as_str()), ("seccomp", "listen"));
    }

    fn on(right: &str, target: RefusalTarget) -> Option<Denial> {
        let refused = KernelRefusal::Landlock { rights: vec![right.to_owned()], target };
        denial_of(&profile(), &scene(), &refused)
    }

    #[test]
    fn a_path_is_told_with_its_line_and_what_would_allow_it() {
        let denial = on("fs.make_dir", RefusalTarget::Path("/srv/x".into())).unwrap();
        assert_eq!(denial.layer, "landlock");
        assert_eq!(
            denial.rule,
            "write: no program of the session may create a directory in /srv/x (fs.make_dir)"
        );
        assert_eq!(denial.target, "/srv/x");
        assert!(denial.remedy.contains("add \"/srv/x\" to fs.unguarded"), "{}", denial.remedy);
        assert!(denial.opens.contains("/srv/x"), "{}", denial.opens);
        let denial = on("fs.execute", RefusalTarget::Path("/etc/passwd".into())).unwrap();
        assert!(denial.rule.starts_with("exec: "), "{}", denial.rule);
        assert!(!denial.at.is_empty());
    }

    #[test]
    fn what_the_plan_allows_is_never_given_a_line_that_denies() {
        let denial = on("fs.refer", RefusalTarget::Path("/w".into())).unwrap();
        assert_eq!((denial.at.as_str(), denial.remedy.as_str()), ("", NEVER));
        let denial = on("fs.brand_new", RefusalTarget::Path("/w".into())).unwrap();
        assert_eq!(denial.rule, "use: no program of the session may use /w (fs.brand_new)");
    }

    #[test]
    fn processes_sockets_and_addresses_are_named() {
        let denial = on("scope.signal", RefusalTarget::Process("init".into())).unwrap();
        assert!(denial.rule.starts_with("signal: ") && denial.target == "init");
        let denial = on("ptrace", RefusalTarget::Process("init".into())).unwrap();
        assert!(denial.rule.starts_with("ptrace: "));
        let socket = RefusalTarget::Socket("@x".into());
        assert_eq!(on("scope.abstract_unix_socket", socket).unwrap().target, "@x");
        let denial = on("net.bind_tcp", RefusalTarget::Address("0.0.0.0:80".into())).unwrap();
        assert!(denial.rule.starts_with("bind: "));
    }

    #[test]
    fn noise_is_not_told() {
        assert_eq!(on("fs.read_file", RefusalTarget::Path("/dev/tty".into())), None);
        for name in ["clone3", "io_uring_setup", "statmount"] {
            let number = crate::numbers::number(name).unwrap();
            let refused = KernelRefusal::Seccomp(Syscall::Number(number));
            assert_eq!(denial_of(&profile(), &scene(), &refused), None, "{name}");
        }
        let unlisted = KernelRefusal::Seccomp(Syscall::Number(100_000));
        assert_eq!(denial_of(&profile(), &scene(), &unlisted), None);
    }

    #[test]
    fn every_call_that_is_answered_with_eperm_is_told_with_its_reason() {
        let list = SyscallList::builtin().unwrap();
        let refused = list.entries().iter().filter(|entry| entry.otherwise == "EPERM");
        let mut count = 0;
        for entry in refused {
            let refused = KernelRefusal::Seccomp(Syscall::Number(entry.rule.number));
            let denial = denial_of(&profile(), &scene(), &refused).unwrap();
            assert_eq!((denial.layer.as_str(), &denial.target), ("seccomp", &entry.name));
            assert!(denial.rule.contains(&entry.why), "{}", denial.rule);
            count += 1;
        }
        assert!(count > 50, "{count}");
        let foreign = KernelRefusal::Seccomp(Syscall::Foreign);
        assert!(denial_of(&profile(), &scene(), &foreign).is_some());
    }
}
