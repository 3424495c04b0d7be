//! What the kernel's own record says was refused, told as a denial: the layer, the right, on what,
//! which line of the profile decides and what would allow it. Pure: the record is the broker's.

use crate::{Act, Decision, Explanation, Profile, Scene, explain, net::NetMode, noise::is_noise};
use palisade_plan::Layer;
use palisade_protocol::Denial;

/// What a record says was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Refused {
    /// By Landlock.
    Landlock {
        /// The rights that were missing, as the kernel names them: `fs.make_reg`, `scope.signal`.
        rights: Vec<String>,
        /// On what.
        target: Target,
    },
    /// By the system call filter.
    Seccomp(Syscall),
}

/// What Landlock kept out of reach.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// A file or directory as the program sees it; of what is made or removed, the directory.
    Path(String),
    /// A process, by its name.
    Process(String),
    /// An address with its port.
    Address(String),
    /// A Unix socket without a path.
    Socket(String),
    /// The record does not say.
    Unknown,
}

/// A system call that the filter refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syscall {
    /// By its number.
    Number(u32),
    /// Of another architecture than the filter is for; the process was killed.
    Foreign,
}

/// What no profile can change.
const NEVER: &str = "no profile can allow it";

/// The denial that a record tells; none if nothing was the worse for it.
#[must_use]
pub fn told(profile: &Profile, scene: &Scene, refused: &Refused) -> Option<Denial> {
    match refused {
        Refused::Landlock { rights, target } => landlock(profile, scene, rights, target),
        Refused::Seccomp(call) => seccomp(profile, *call),
    }
}

fn landlock(
    profile: &Profile,
    scene: &Scene,
    rights: &[String],
    target: &Target,
) -> Option<Denial> {
    let names: Vec<&str> = rights.iter().map(String::as_str).collect();
    let (kind, shown, sentence) = match target {
        Target::Path(path) => {
            if is_noise(&names, path) {
                return None;
            }
            return Some(on_path(profile, scene, &names, path));
        }
        Target::Process(name) => {
            let act = if names.contains(&"ptrace") { "ptrace" } else { "signal" };
            let why = format!("a program reaches only processes of its own call; {name} is none");
            (act, name.as_str(), why)
        }
        Target::Socket(name) => {
            let why = "a program reaches only sockets that its own call made";
            ("connect", name.as_str(), why.to_owned())
        }
        Target::Address(address) => {
            return Some(on_address(profile, scene, &names, address));
        }
        Target::Unknown => ("access", "", "the record does not say on what".to_owned()),
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
        (NetMode::None | NetMode::Loopback, _) => {
            let why = "there is no network namespace here, so Landlock refuses TCP altogether";
            without_remedy(Layer::Landlock, told(why), address)
        }
        (NetMode::Ports, true) => {
            let why = "with net.mode = \"ports\" nothing is served: no port can be bound";
            without_remedy(Layer::Landlock, told(why), address)
        }
        (NetMode::Ports, false) => {
            // The port is what was refused, whatever the address.
            let port = address.rsplit([':', ' ']).next().unwrap_or_default();
            let explained = explain(profile, scene, Act::Connect, &format!("0.0.0.0:{port}"));
            match explained.ok().and_then(|explained| explained.denial()) {
                Some(denial) => {
                    let rule = format!("{} ({named})", denial.rule);
                    Denial { rule, target: address.to_owned(), ..denial }
                }
                None => without_remedy(Layer::Landlock, told("it is refused"), address),
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

/// What a right is about, and what a program did that needed it.
fn meaning(right: &str) -> (Option<Act>, &'static str) {
    match right {
        "fs.execute" => (Some(Act::Execute), "run"),
        "fs.read_file" => (Some(Act::Read), "read"),
        "fs.read_dir" => (Some(Act::Read), "list"),
        "fs.write_file" => (Some(Act::Write), "write to"),
        "fs.truncate" => (Some(Act::Write), "cut"),
        "fs.make_reg" => (Some(Act::Write), "make a file in"),
        "fs.make_dir" => (Some(Act::Write), "make a directory in"),
        "fs.make_sym" => (Some(Act::Write), "make a symbolic link in"),
        "fs.make_sock" => (Some(Act::Write), "make a socket in"),
        "fs.make_fifo" => (Some(Act::Write), "make a FIFO in"),
        "fs.remove_file" => (Some(Act::Write), "remove a file from"),
        "fs.remove_dir" => (Some(Act::Write), "remove a directory from"),
        "fs.refer" => (Some(Act::Write), "move or link between directories of different rules,"),
        "fs.ioctl_dev" => (None, "control the device"),
        "fs.make_char" | "fs.make_block" => (None, "make a device in"),
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
        // What the plan allows as a whole Landlock may still refuse in part.
        Some(Explanation { act, decision: Decision::Allow, .. }) => {
            without_remedy(Layer::Landlock, rule(act.name()), path)
        }
        None => without_remedy(Layer::Landlock, rule(act.map_or("use", Act::name)), path),
    }
}

fn seccomp(profile: &Profile, call: Syscall) -> Option<Denial> {
    let number = match call {
        Syscall::Number(number) => number,
        Syscall::Foreign => {
            let why = "32-bit: programs inside are for this machine's own architecture";
            let target = "a system call of another architecture";
            return Some(without_remedy(Layer::Seccomp, why.to_owned(), target));
        }
    };
    // What is not in the list is answered with ENOSYS, as an older kernel would.
    let list = profile.syscalls().ok()?;
    let entry = list.entries().iter().find(|entry| entry.rule.number == number)?;
    if entry.otherwise == "ENOSYS" {
        return None;
    }
    let rule = match entry.when.is_empty() {
        true => format!("{}: refused to every session: {}", entry.name, entry.why),
        false => format!("{}: refused with these arguments: {}", entry.name, entry.why),
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
            let target = Target::Address(address.into());
            let refused = Refused::Landlock { rights: vec![right.to_owned()], target };
            told(&profile, &scene(), &refused).unwrap()
        };
        for address in ["192.0.2.1:80", "2001:db8::1:80", "port 80"] {
            let denial = on("net.connect_tcp", address);
            assert_eq!((denial.layer.as_str(), denial.target.as_str()), ("landlock", address));
            assert_eq!(denial.rule, "connect: net.ports has 443, and not 80 (net.connect_tcp)");
            assert_eq!(denial.remedy, "in test.toml, add 80 to net.ports");
            assert!(denial.opens.contains("every address"), "{}", denial.opens);
            assert_eq!(denial.at, "test.toml:7:8");
        }
        let denial = on("net.bind_tcp", "port 80");
        assert!(denial.rule.starts_with("bind: ") && denial.remedy == NEVER, "{denial:?}");
        let listen = crate::numbers::number("listen").unwrap();
        let refused = Refused::Seccomp(Syscall::Number(listen));
        let denial = told(&profile, &scene(), &refused).unwrap();
        assert_eq!((denial.layer.as_str(), denial.target.as_str()), ("seccomp", "listen"));
    }

    fn on(right: &str, target: Target) -> Option<Denial> {
        let refused = Refused::Landlock { rights: vec![right.to_owned()], target };
        told(&profile(), &scene(), &refused)
    }

    #[test]
    fn a_path_is_told_with_its_line_and_what_would_allow_it() {
        let denial = on("fs.make_dir", Target::Path("/srv/x".into())).unwrap();
        assert_eq!(denial.layer, "landlock");
        assert_eq!(
            denial.rule,
            "write: no program of the session may make a directory in /srv/x (fs.make_dir)"
        );
        assert_eq!(denial.target, "/srv/x");
        assert!(denial.remedy.contains("add \"/srv/x\" to fs.unguarded"), "{}", denial.remedy);
        assert!(denial.opens.contains("/srv/x"), "{}", denial.opens);
        let denial = on("fs.execute", Target::Path("/etc/passwd".into())).unwrap();
        assert!(denial.rule.starts_with("exec: "), "{}", denial.rule);
        assert!(!denial.at.is_empty());
    }

    #[test]
    fn what_the_plan_allows_is_never_given_a_line_that_denies() {
        let denial = on("fs.refer", Target::Path("/w".into())).unwrap();
        assert_eq!((denial.at.as_str(), denial.remedy.as_str()), ("", NEVER));
        let denial = on("fs.brand_new", Target::Path("/w".into())).unwrap();
        assert_eq!(denial.rule, "use: no program of the session may use /w (fs.brand_new)");
    }

    #[test]
    fn processes_sockets_and_addresses_are_named() {
        let denial = on("scope.signal", Target::Process("init".into())).unwrap();
        assert!(denial.rule.starts_with("signal: ") && denial.target == "init");
        let denial = on("ptrace", Target::Process("init".into())).unwrap();
        assert!(denial.rule.starts_with("ptrace: "));
        let socket = Target::Socket("@x".into());
        assert_eq!(on("scope.abstract_unix_socket", socket).unwrap().target, "@x");
        let denial = on("net.bind_tcp", Target::Address("0.0.0.0:80".into())).unwrap();
        assert!(denial.rule.starts_with("bind: "));
    }

    #[test]
    fn noise_is_not_told() {
        assert_eq!(on("fs.read_file", Target::Path("/dev/tty".into())), None);
        for name in ["clone3", "io_uring_setup", "statmount"] {
            let number = crate::numbers::number(name).unwrap();
            let refused = Refused::Seccomp(Syscall::Number(number));
            assert_eq!(told(&profile(), &scene(), &refused), None, "{name}");
        }
        let unlisted = Refused::Seccomp(Syscall::Number(100_000));
        assert_eq!(told(&profile(), &scene(), &unlisted), None);
    }

    #[test]
    fn every_call_that_is_answered_with_eperm_is_told_with_its_reason() {
        let list = SyscallList::builtin().unwrap();
        let refused = list.entries().iter().filter(|entry| entry.otherwise == "EPERM");
        let mut count = 0;
        for entry in refused {
            let refused = Refused::Seccomp(Syscall::Number(entry.rule.number));
            let denial = told(&profile(), &scene(), &refused).unwrap();
            assert_eq!((denial.layer.as_str(), &denial.target), ("seccomp", &entry.name));
            assert!(denial.rule.contains(&entry.why), "{}", denial.rule);
            count += 1;
        }
        assert!(count > 50, "{count}");
        let foreign = Refused::Seccomp(Syscall::Foreign);
        assert!(told(&profile(), &scene(), &foreign).is_some());
    }
}
