//! Finds out what prevents creating namespaces, as far as the kernel's settings show it. Runs in
//! the launcher.

use palisade_plan::{Found, Layer, OverlayFacts};

/// Kernel settings that forbid user namespaces: name, forbidding value, and remedy.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("user/max_user_namespaces", "0", "set it above 0"),
    ("kernel/unprivileged_userns_clone", "0", "set it to 1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "set it to 0, or load a profile for palisade-launcher that has `userns,`: the package has one, \
         systemd/apparmor/palisade-launcher in the sources",
    ),
];

/// The message where a system call filter is in force.
const FILTER: &str = "a system call filter is in force: RestrictNamespaces= of the unit";

/// The system calls that a container's filter must allow besides.
const CALLS: &str = "the filter of a container must allow unshare(2), mount(2) and sethostname(2): \
                     podman with `--security-opt seccomp=unconfined --security-opt unmask=ALL`, \
                     docker with `--security-opt seccomp=unconfined --security-opt \
                     systempaths=unconfined --security-opt apparmor=unconfined`, Kubernetes with \
                     `seccompProfile: {type: Unconfined}` and `procMount: Unmasked`";

/// Explains why no user namespace could be created.
pub(crate) fn of_user_namespaces() -> String {
    told(&|file| std::fs::read_to_string(file).ok())
}

fn told(read: &dyn Fn(&str) -> Option<String>) -> String {
    let mut found = Vec::new();
    for (name, forbids, remedy) in SETTINGS {
        if read(&format!("/proc/sys/{name}")).is_some_and(|value| value.trim() == forbids) {
            found.push(format!("sysctl {} is {forbids}: {remedy}", name.replace('/', ".")));
        }
    }
    if is_filtered(read) {
        found.push(format!("{FILTER} must allow `user`; {CALLS}"));
    }
    if found.is_empty() {
        "no known setting forbids user namespaces; check the host's security module".to_owned()
    } else {
        found.join("; ")
    }
}

fn is_filtered(read: &dyn Fn(&str) -> Option<String>) -> bool {
    let status = read("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

/// Adds the cause to each layer that is missing because a namespace could not be created. Where
/// there are no user namespaces, all of these layers and overlays have that one cause.
pub(crate) fn explain(
    layers: &mut [(Layer, Found)],
    overlay: &mut OverlayFacts,
    user_namespace: &Found,
    pid_namespaces: &Found,
) {
    if let Found::No(cause) = user_namespace {
        for found in [&mut overlay.read, &mut overlay.write, &mut overlay.memory] {
            if let Found::No(why) = found {
                *why = without_user_namespaces(cause);
            }
        }
    }
    let is_filtered = is_filtered(&|file| std::fs::read_to_string(file).ok());
    for (layer, found) in layers {
        let (true, Found::No(why)) = (is_namespace(*layer), found) else { continue };
        if let (Layer::Pid, Found::No(_)) = (*layer, pid_namespaces) {
            continue;
        }
        match user_namespace {
            Found::No(cause) => *why = without_user_namespaces(cause),
            Found::Yes(_) if is_filtered => {
                let namespaces = "cgroup, ipc, mnt, net, pid, user and uts";
                *why = format!("{why}; {FILTER} must allow {namespaces}; {CALLS}");
            }
            Found::Yes(_) => {}
        }
    }
}

fn without_user_namespaces(cause: &str) -> String {
    format!("user namespaces are unavailable: {cause}")
}

const fn is_namespace(layer: Layer) -> bool {
    match layer {
        Layer::Mount | Layer::Pid | Layer::Network | Layer::Ipc | Layer::Uts | Layer::Cgroup => {
            true
        }
        Layer::Landlock | Layer::Seccomp | Layer::Limits | Layer::Hide | Layer::Protect => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(host: &'static [(&str, &str)]) -> String {
        told(&|file| {
            host.iter().find(|(name, _)| *name == file).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_setting_that_forbids_is_named_with_what_to_do() {
        for (host, said) in [
            (
                &[("/proc/sys/user/max_user_namespaces", "0\n")][..],
                "sysctl user.max_user_namespaces is 0: set it above 0",
            ),
            (
                &[("/proc/sys/kernel/unprivileged_userns_clone", "0\n")],
                "sysctl kernel.unprivileged_userns_clone is 0: set it to 1",
            ),
            (
                &[("/proc/self/status", "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t9\n")],
                "a system call filter is in force: RestrictNamespaces= of the unit must allow \
                 `user`; the filter of a container must allow unshare(2), mount(2) and \
                 sethostname(2): podman with `--security-opt seccomp=unconfined --security-opt \
                 unmask=ALL`, docker with `--security-opt seccomp=unconfined --security-opt \
                 systempaths=unconfined --security-opt apparmor=unconfined`, Kubernetes with \
                 `seccompProfile: {type: Unconfined}` and `procMount: Unmasked`",
            ),
            (
                &[
                    ("/proc/sys/user/max_user_namespaces", "96142\n"),
                    ("/proc/sys/kernel/unprivileged_userns_clone", "1\n"),
                    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0\n"),
                    ("/proc/self/status", "Name:\tx\nSeccomp:\t0\n"),
                ],
                "no known setting forbids user namespaces; check the host's security module",
            ),
        ] {
            assert_eq!(on(host), said);
        }
        let apparmor = on(&[("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")]);
        assert!(apparmor.contains("has `userns,`"), "{apparmor}");
    }

    #[test]
    fn only_what_takes_a_namespace_is_explained_by_it() {
        let no = || Found::No("EPERM".into());
        let mut layers = vec![(Layer::Mount, no()), (Layer::Landlock, no())];
        layers.push((Layer::Pid, Found::Yes("here".into())));
        let user_namespace = Found::No("forbidden".into());
        let mut overlay =
            OverlayFacts { read: Found::Yes("here".into()), ..OverlayFacts::all(no()) };
        let untried = Found::Yes("not tried".into());
        explain(&mut layers, &mut overlay, &user_namespace, &untried);
        let details: Vec<&str> = layers.iter().map(|(_, found)| found.detail()).collect();
        let mount = "user namespaces are unavailable: forbidden";
        assert_eq!(details, [mount, "EPERM", "here"]);
        let overlays = [&overlay.read, &overlay.write, &overlay.memory].map(Found::detail);
        assert_eq!(overlays, ["here", mount, mount]);
        // Where user namespaces are there, an overlay is missing for a reason of its own.
        let mut overlay = OverlayFacts::all(no());
        explain(&mut [], &mut overlay, &Found::Yes("own".into()), &untried);
        assert_eq!(overlay.write.detail(), "EPERM");
    }
}
