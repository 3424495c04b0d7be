//! The status of the daemon, and what this host can enforce, with advice for what is missing. Runs
//! in the broker.

use crate::{base::release::NAME, front::server::Server};
use palisade_plan::{BUILD_ID, Facts, Found, KERNEL_RECORDS, Layer};
use palisade_protocol::{LayerStatus, RecordsStatus, Status};

/// Returns the status, limited to what this user may see.
pub(crate) fn of(server: &Server, uid: u32) -> Status {
    let launcher = server.host.link.state();
    let records = match &launcher {
        Ok(launcher) => records(launcher.facts(), launcher.records().unavailable_reason()),
        Err(why) => RecordsStatus { detail: why.clone(), ..RecordsStatus::default() },
    };
    let (facts, launcher) = match &launcher {
        Ok(launcher) => (Some(launcher.facts()), "connected, same build".to_owned()),
        Err(why) => (None, format!("gone: {why}; no call can be confined, so none runs")),
    };
    Status {
        server: NAME.to_owned(),
        build_id: BUILD_ID.to_owned(),
        kernel: facts.map_or_else(String::new, |facts| facts.kernel.clone()),
        mode: facts.map_or("unknown", mode).to_owned(),
        broker: broker(server.telemetry.audit.fault()),
        launcher,
        egress: server.rooms.describe(),
        layers: facts.map(layers).unwrap_or_default(),
        profiles: server.live().profiles.keys().cloned().collect(),
        sessions: server.host.sessions_of(uid).iter().map(|session| session.status()).collect(),
        kept: server.kept_of(uid),
        records,
    }
}

/// Returns whether the kernel's records of denials arrive, and what to do if not.
fn records(facts: &Facts, unknown: Option<String>) -> RecordsStatus {
    let Some(why) = unknown else {
        let detail = match &facts.audit_session {
            Found::Yes(_) => "denials by Landlock and by the system call filter".to_owned(),
            Found::No(why) => format!("denials by Landlock, not by the system call filter: {why}"),
        };
        return RecordsStatus { available: true, detail, advice: String::new() };
    };
    let advice = match &facts.records {
        Found::No(_) if !facts.privileged => {
            "an ordinary user's daemon can not read the kernel's audit records: run it as a system \
             service"
        }
        Found::No(_) => {
            "give the launcher CAP_AUDIT_READ and leave --kernel-audit at `use`; for the service, \
             install its example drop-ins kernel-audit*.conf"
        }
        Found::Yes(_) => {
            "turn kernel audit on, by `auditctl -e 1` or a launcher with --kernel-audit enable, \
             and keep the launcher in the host's network namespace; for the service, install its \
             example drop-ins kernel-audit*.conf"
        }
    };
    let detail = match &facts.records {
        Found::Yes(more) if more != KERNEL_RECORDS => format!("{why}; {more}"),
        Found::Yes(_) | Found::No(_) => why,
    };
    RecordsStatus { available: false, detail, advice: advice.to_owned() }
}

const fn mode(facts: &Facts) -> &'static str {
    if facts.privileged { "system" } else { "user" }
}

/// Describes this process: its id, uid and capability sets. If it can not run anything, that comes
/// first.
fn broker(fault: Option<String>) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let sets: Vec<_> = status
        .lines()
        .filter(|line| line.starts_with("Cap"))
        .map(|line| line.replace(":\t", " "))
        .collect();
    let uid = rustix::process::geteuid().as_raw();
    let fault = fault.map(|why| format!("NOT RECORDING ({why}), so nothing runs; "));
    let (fault, pid) = (fault.unwrap_or_default(), std::process::id());
    format!("{fault}pid {pid}, uid {uid}, {}", sets.join(", "))
}

fn layers(facts: &Facts) -> Vec<LayerStatus> {
    Layer::ALL.into_iter().map(|layer| layer_status(facts, layer)).collect()
}

fn layer_status(facts: &Facts, layer: Layer) -> LayerStatus {
    let found = facts.layer(layer);
    let (available, advice) = match &found {
        Found::Yes(_) => (true, String::new()),
        Found::No(_) => (
            false,
            format!(
                "sessions are refused unless their profile names this layer as optional; {}",
                remedy(facts, layer)
            ),
        ),
    };
    let detail = match layer_details(facts, layer) {
        Some(more) => format!("{}; {more}", found.detail()),
        None => found.detail().to_owned(),
    };
    LayerStatus { layer: layer.to_string(), available, detail, advice }
}

/// Returns details of a layer beyond whether it is available.
fn layer_details(facts: &Facts, layer: Layer) -> Option<String> {
    match layer {
        Layer::Landlock if facts.landlock_abi > 0 => {
            Some(format!("errata fixed: {:#x}", facts.landlock_errata))
        }
        Layer::Pid if !facts.privileged && facts.layer(Layer::Pid).is_yes() => {
            Some(format!("user namespace: {}", facts.user_namespace.detail()))
        }
        Layer::Network => Some(match &facts.ports {
            Found::Yes(ports) => format!("outbound TCP: available, {ports}"),
            Found::No(why) => format!("outbound TCP: unavailable, {why}"),
        }),
        Layer::Hide if facts.overlay.read.is_yes() && !facts.overlay.write.is_yes() => {
            Some("available for a read-only workspace, as in readonly and strict".into())
        }
        Layer::Landlock
        | Layer::Pid
        | Layer::Mount
        | Layer::Ipc
        | Layer::Uts
        | Layer::Cgroup
        | Layer::Seccomp
        | Layer::Limits
        | Layer::Hide
        | Layer::Protect => None,
    }
}

/// Returns what to do about a layer that is missing.
fn remedy(facts: &Facts, layer: Layer) -> &'static str {
    match layer {
        Layer::Mount | Layer::Pid | Layer::Network | Layer::Ipc | Layer::Uts | Layer::Cgroup => {
            if facts.privileged {
                "restore RestrictNamespaces= and CAP_SYS_ADMIN in the launcher's unit (`systemctl \
                 cat palisade-launcher`); in a container: run the daemon outside of it, or give \
                 the container CAP_SYS_ADMIN"
            } else {
                "remove what forbids namespaces, as the reason says; or run the daemon as a system \
                 service; or give a container the socket of the host's daemon"
            }
        }
        Layer::Landlock => {
            "boot kernel 5.13 or later with landlock in the list of lsm= (CONFIG_LSM)"
        }
        Layer::Seccomp => "boot a kernel with CONFIG_SECCOMP_FILTER",
        // Without mounts of its own, a cell has no overlay either.
        Layer::Hide | Layer::Protect if !facts.layer(Layer::Mount).is_yes() => {
            remedy(facts, Layer::Mount)
        }
        Layer::Hide | Layer::Protect => {
            "boot kernel 6.6 or later with overlayfs, or use a profile without fs.hide and \
             fs.protect, or one that only reads the workspace"
        }
        Layer::Limits => {
            "run the daemon as a system service with Delegate=yes, or below a cgroup that was \
             delegated to this user (systemd-run --user --scope -p Delegate=yes)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::{CgroupFacts, OverlayFacts};

    fn facts(privileged: bool, missing: Layer) -> Facts {
        Facts {
            kernel: "6.18".into(),
            privileged,
            user_namespace: Found::No("forbidden".into()),
            layers: Layer::ALL
                .into_iter()
                .map(|layer| match layer == missing {
                    true => (layer, Found::No("EPERM".into())),
                    false => (layer, Found::Yes("here".into())),
                })
                .collect(),
            landlock_abi: 7,
            landlock_errata: 0x6,
            overlay: OverlayFacts::all(match is_of_overlay(missing) {
                true => Found::No("EINVAL".into()),
                false => Found::Yes("here".into()),
            }),
            records: Found::No("not here".into()),
            audit_session: Found::No("not here".into()),
            cgroup: CgroupFacts::default(),
            ports: Found::No("not given".into()),
        }
    }

    /// Returns `true` if the layer needs an overlay. Names are hidden and protected by one, so both
    /// are missing without it.
    fn is_of_overlay(layer: Layer) -> bool {
        matches!(layer, Layer::Hide | Layer::Protect)
    }

    #[test]
    fn what_is_missing_has_advice_and_what_is_there_has_none() {
        for missing in Layer::ALL {
            for privileged in [true, false] {
                for status in layers(&facts(privileged, missing)) {
                    let both = [Layer::Hide, Layer::Protect].map(Layer::name);
                    let is_missing = status.layer == missing.name()
                        || is_of_overlay(missing) && both.contains(&status.layer.as_str());
                    assert_eq!(status.available, !is_missing, "{status:?}");
                    assert_eq!(status.advice.is_empty(), !is_missing, "{status:?}");
                }
            }
        }
    }

    #[test]
    fn names_that_can_not_be_hidden_without_mounts_have_the_remedy_for_mounts() {
        let advice = |facts: &Facts, layer| layer_status(facts, layer).advice;
        let overlays = facts(false, Layer::Hide);
        assert!(advice(&overlays, Layer::Hide).contains("boot kernel 6.6"));
        let mut mounts = facts(false, Layer::Mount);
        mounts.overlay = OverlayFacts::all(Found::No("EPERM".into()));
        for layer in [Layer::Hide, Layer::Protect] {
            assert_eq!(advice(&mounts, layer), advice(&mounts, Layer::Mount));
            assert!(advice(&mounts, layer).contains("what forbids namespaces"));
        }
    }

    #[test]
    fn what_can_only_be_hidden_of_what_is_read_is_said() {
        let mut facts = facts(true, Layer::Hide);
        facts.overlay.read = Found::Yes("here".into());
        let told = layer_status(&facts, Layer::Hide);
        assert!(!told.available);
        assert_eq!(
            told.detail,
            "EINVAL; available for a read-only workspace, as in readonly and strict"
        );
        assert_eq!(layer_status(&facts, Layer::Protect).detail, "EINVAL");
    }

    #[test]
    fn missing_records_have_their_reason_and_the_remedy() {
        let mut facts = facts(false, Layer::Uts);
        let why = || Some("why".to_owned());
        let user = records(&facts, why());
        assert!(!user.available && user.advice.contains("system service"), "{user:?}");
        facts.privileged = true;
        assert!(records(&facts, why()).advice.contains("CAP_AUDIT_READ"));
        facts.records = Found::Yes(KERNEL_RECORDS.to_owned());
        let off = records(&facts, why());
        assert!(off.advice.contains("--kernel-audit enable") && off.detail == "why", "{off:?}");
        facts.records = Found::Yes("not turned on: EPERM".to_owned());
        assert_eq!(records(&facts, why()).detail, "why; not turned on: EPERM");
        let there = records(&facts, None);
        assert!(there.available && there.advice.is_empty());
        assert_eq!(there.detail, "denials by Landlock, not by the system call filter: not here");
    }

    #[test]
    fn landlock_says_its_errata_and_pid_its_user_namespace() {
        let statuses = layers(&facts(false, Layer::Uts));
        let detail = |layer: Layer| {
            let found = statuses.iter().find(|status| status.layer == layer.name());
            found.map(|status| status.detail.clone()).unwrap()
        };
        assert_eq!(detail(Layer::Landlock), "here; errata fixed: 0x6");
        assert_eq!(detail(Layer::Pid), "here; user namespace: forbidden");
        assert_eq!(detail(Layer::Uts), "EPERM");
    }
}
