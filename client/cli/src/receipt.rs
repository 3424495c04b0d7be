//! The lines on standard error about a result: what was enforced, what was refused and why.

use crate::{
    paint::{Paint, Style, harmless},
    print,
};
use palisade_client::{CallResult, Degraded, ErrorCode, Receipt, WireError};
use palisade_protocol::Observed;

/// The maximum number of refusals that are shown; the rest is only counted.
const DENIALS: usize = 5;

/// The daemon's name for missing records of one call, in a place where it otherwise names layers.
const RECORDS: &str = "records";

/// The layer of the limits of a whole session, for which a cgroup is needed.
const LIMITS: &str = "limits";

/// The detail of a receipt. `Full` prints what was enforced even if nothing is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Full,
    Problems,
}

impl From<bool> for Detail {
    fn from(verbose: bool) -> Self {
        if verbose { Self::Full } else { Self::Problems }
    }
}

/// Prints what a person should know about a result besides its output.
pub(crate) fn tell(result: &CallResult, detail: Detail, paint: Paint) {
    for text in lines(result, detail, paint) {
        print::note(&text);
    }
}

fn lines(result: &CallResult, detail: Detail, paint: Paint) -> Vec<String> {
    let mut lines = error(result, paint);
    if result.oom {
        lines.push("note: the kernel killed a process because memory ran out".to_owned());
    }
    if detail == Detail::Full && lines.is_empty() {
        lines = refusals(result, "");
    }
    let Some(receipt) = result.receipt.as_deref() else { return lines };
    if detail == Detail::Full {
        lines.push(confined(receipt));
        lines.extend(unrecorded(receipt));
    }
    lines.extend(observed(receipt));
    lines.extend(degraded(&receipt.degraded, detail, paint));
    lines
}

/// Says which layers are missing, in a line for each cause. The causes are long, so that a result has
/// them only if it was asked for; `palisade doctor` always has them.
pub(crate) fn degraded(missing: &[Degraded], detail: Detail, paint: Paint) -> Vec<String> {
    let label = paint.apply(Style::Warning, "warning:");
    let (limits, layers): (Vec<_>, Vec<_>) =
        missing.iter().partition(|missing| missing.layer == LIMITS);
    let mut causes: Vec<(&str, Vec<String>)> = Vec::new();
    for Degraded { layer, why } in layers {
        let cause = if detail == Detail::Full { why } else { "" };
        match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, layers)) => layers.push(harmless(layer)),
            None => causes.push((cause, vec![harmless(layer)])),
        }
    }
    let mut lines = Vec::new();
    for (cause, layers) in causes {
        let verb = if layers.len() == 1 { "is" } else { "are" };
        let (layers, cause) = (layers.join(", "), harmless(cause));
        lines.push(match detail {
            Detail::Full => format!("{label} {layers} {verb} not enforced: {cause}"),
            Detail::Problems => {
                format!("{label} {layers} {verb} not enforced on this host (see palisade doctor)")
            }
        });
    }
    lines.extend(limits.into_iter().map(|Degraded { why, .. }| match detail {
        Detail::Full => format!("{label} {}", harmless(why)),
        Detail::Problems => format!(
            "{label} limits apply to each process only: no cgroup is delegated (see palisade doctor)"
        ),
    }));
    lines
}

/// Says in a line that refusals are not reported, because records are missing on this host or for
/// this call.
fn unrecorded(receipt: &Receipt) -> Vec<String> {
    let (call, host): (Vec<_>, Vec<_>) =
        receipt.unrecorded.iter().partition(|missing| missing.layer == RECORDS);
    let layers: Vec<_> = host.iter().map(|missing| harmless(&missing.layer)).collect();
    let mut lines = Vec::new();
    if !layers.is_empty() {
        let layers = layers.join(" and ");
        lines.push(format!(
            "note: refusals by {layers} are not recorded on this host (see palisade doctor)"
        ));
    }
    let missing = call.iter().map(|missing| harmless(&missing.why));
    lines.extend(missing.map(|why| format!("note: records of refusals are missing: {why}")));
    lines
}

/// Says that the profile is only observed, and what it would have refused.
fn observed(receipt: &Receipt) -> Vec<String> {
    let Some(Observed { under, would_refuse }) = &receipt.observed else { return Vec::new() };
    let (profile, under) = (harmless(&receipt.profile), harmless(under));
    let mut lines =
        vec![format!("observed, not enforced: profile {profile}; profile {under} is enforced")];
    for would in would_refuse.iter().take(DENIALS) {
        let (layer, target) = (harmless(&would.layer), harmless(&would.target));
        let (rule, remedy) = (harmless(&would.rule), harmless(&would.remedy));
        lines.push(format!("  {layer} would have refused {target}: {rule}"));
        if !remedy.is_empty() {
            lines.push(format!("  to allow it: {remedy}"));
        }
    }
    if would_refuse.len() > DENIALS {
        lines.push(format!("  and {} more; --json shows all", would_refuse.len() - DENIALS));
    }
    lines
}

/// Says why the call did not succeed, unless the program's own status and output say it.
fn error(result: &CallResult, paint: Paint) -> Vec<String> {
    let Some(error) = result.error.as_ref().filter(|e| e.code != ErrorCode::CommandFailed) else {
        return Vec::new();
    };
    let label = paint.apply(Style::Error, "error:");
    let kind = error.code.name().replace('_', " ");
    let mut lines = vec![format!("{label} {kind}: {}", harmless(&error.message))];
    lines.extend(refusals(result, &error.hint));
    let hint = hint(error);
    if !hint.is_empty() {
        let label = paint.apply(Style::Hint, "hint:");
        lines.push(format!("{label} {}", harmless(hint)));
    }
    lines
}

/// Returns what a person at a command line can do. The daemon's hint may name an argument that has
/// an option here.
fn hint(error: &WireError) -> &str {
    if error.code == ErrorCode::TimedOut {
        return "give it more time with --timeout, up to the profile's limit, or do less in one command";
    }
    &error.hint
}

/// Lists what was refused, and what would allow it.
fn refusals(result: &CallResult, hint: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for denial in result.denials.iter().take(DENIALS) {
        let (layer, rule) = (harmless(&denial.layer), harmless(&denial.rule));
        lines.push(format!("  {layer} refused {}: {rule}", harmless(&denial.target)));
        // The remedy is not repeated if the hint already contains it.
        if !denial.remedy.is_empty() && !hint.contains(&denial.remedy) {
            lines.push(format!("  to allow it: {}", harmless(&denial.remedy)));
        }
    }
    if result.denials.len() > DENIALS {
        lines.push(format!("  and {} more; --json shows all", result.denials.len() - DENIALS));
    }
    lines
}

/// Describes in one line what was enforced.
pub(crate) fn confined(receipt: &Receipt) -> String {
    let mut parts = Vec::new();
    if !receipt.profile.is_empty() {
        parts.push(match &receipt.observed {
            Some(observed) => {
                format!(
                    "profile {}, OBSERVED, NOT ENFORCED, under {}",
                    receipt.profile, observed.under
                )
            }
            None => format!("profile {}", receipt.profile),
        });
    }
    match &receipt.landlock {
        Some(landlock) => parts.push(format!("landlock abi {}", landlock.abi)),
        None => parts.push("no landlock".to_owned()),
    }
    match &receipt.seccomp {
        Some(seccomp) => parts.push(format!("seccomp {} syscalls", seccomp.syscalls)),
        None => parts.push("no seccomp".to_owned()),
    }
    match receipt.namespaces.as_slice() {
        [] => parts.push("no namespaces".to_owned()),
        names => parts.push(format!("namespaces {}", names.join(" "))),
    }
    if receipt.network.mode == "ports" {
        let ports: Vec<_> = receipt.network.ports.iter().map(u16::to_string).collect();
        parts.push(format!("the host's network on ports {}", ports.join(" ")));
    }
    if receipt.network.mode == "domains" {
        parts.push("hosts by name through an egress room".to_owned());
    }
    parts.push(match receipt.for_uid {
        Some(peer) => format!("uid {} for uid {peer}", receipt.uid),
        None => format!("uid {}", receipt.uid),
    });
    let mut holders: Vec<&str> = receipt.limits.iter().map(|limit| limit.by.as_str()).collect();
    holders.sort_unstable();
    holders.dedup();
    match holders.as_slice() {
        [] => parts.push("no limits".to_owned()),
        holders => parts.push(format!("limits by {}", holders.join(" and "))),
    }
    let missing: Vec<&str> = receipt.degraded.iter().map(|d| d.layer.as_str()).collect();
    let degraded = if missing.is_empty() { "none".to_owned() } else { missing.join(" ") };
    format!("confined: {}; degraded: {degraded}", harmless(&parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_client::Denial;
    use palisade_protocol::{LandlockReceipt, LimitReceipt, NetworkReceipt, SeccompReceipt};

    fn receipt() -> Receipt {
        let limit = |name: &str, by: &str| LimitReceipt {
            name: name.to_owned(),
            value: 1,
            by: by.to_owned(),
        };
        Receipt {
            profile: "workspace".to_owned(),
            landlock: Some(LandlockReceipt { abi: 7, rights: vec![], scopes: vec![], rules: 3 }),
            seccomp: Some(SeccompReceipt {
                digest: String::new(),
                instructions: 700,
                syscalls: 330,
            }),
            namespaces: vec!["mount".to_owned(), "pid".to_owned()],
            uid: 1000,
            limits: vec![
                limit("memory", "cgroup v2"),
                limit("core", "rlimit"),
                limit("processes", "cgroup v2"),
            ],
            degraded: vec![Degraded { layer: "uts".to_owned(), why: "not here".to_owned() }],
            ..Receipt::default()
        }
    }

    #[test]
    fn the_receipt_is_one_line() {
        assert_eq!(
            confined(&receipt()),
            "confined: profile workspace, landlock abi 7, seccomp 330 syscalls, namespaces mount \
             pid, uid 1000, limits by cgroup v2 and rlimit; degraded: uts"
        );
    }

    #[test]
    fn ports_of_the_host_are_told() {
        let network = NetworkReceipt { mode: "ports".to_owned(), ports: vec![53, 443] };
        let line = confined(&Receipt { network, ..receipt() });
        assert!(line.contains(" pid, the host's network on ports 53 443, uid 1000,"), "{line}");
        let network = NetworkReceipt { mode: "domains".to_owned(), ports: vec![80, 443] };
        let line = confined(&Receipt { network, ..receipt() });
        assert!(line.contains(" pid, hosts by name through an egress room, uid 1000,"), "{line}");
    }

    #[test]
    fn nothing_enforced_says_so_and_never_nothing() {
        let line = confined(&Receipt::default());
        let expected = "confined: no landlock, no seccomp, no namespaces, uid 0, no limits; \
                        degraded: none";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_missing_layer_is_always_told_and_the_rest_when_asked() {
        let mut result = crate::exit::tests::result();
        assert!(lines(&result, Detail::Problems, Paint::Plain).is_empty());
        result.receipt = Some(Box::new(receipt()));
        let told = lines(&result, Detail::Problems, Paint::Plain);
        assert_eq!(told, ["warning: uts is not enforced on this host (see palisade doctor)"]);
        let told = lines(&result, Detail::Full, Paint::Plain);
        assert_eq!(told[1..], ["warning: uts is not enforced: not here"]);
    }

    #[test]
    fn layers_that_lack_for_one_cause_share_a_line() {
        let missing = |layer: &str, why: &str| Degraded { layer: layer.into(), why: why.into() };
        let missing = [missing("mount", "no"), missing("limits", "each"), missing("pid", "no")];
        assert_eq!(
            degraded(&missing, Detail::Full, Paint::Plain),
            ["warning: mount, pid are not enforced: no", "warning: each"]
        );
        let told = degraded(&missing, Detail::Problems, Paint::Plain);
        let expected = "warning: mount, pid are not enforced on this host (see palisade doctor)";
        assert_eq!(told[0], expected);
        assert_eq!(told.len(), 2);
    }

    #[test]
    fn limits_without_a_cgroup_are_told_in_one_line_and_the_reason_when_asked() {
        let mut result = crate::exit::tests::result();
        let why = "limits apply to each process only, since no cgroup can be used: cgroup v2 at \
                   /sys/fs/cgroup/user.slice/user-1000.slice has no memory controller";
        let (layer, why) = ("limits".to_owned(), why.to_owned());
        let degraded = vec![Degraded { layer, why: why.clone() }];
        result.receipt = Some(Box::new(Receipt { degraded, ..Receipt::default() }));
        let told = lines(&result, Detail::Problems, Paint::Plain);
        assert_eq!(
            told,
            ["warning: limits apply to each process only: no cgroup is delegated (see palisade \
              doctor)"]
        );
        assert_eq!(lines(&result, Detail::Full, Paint::Plain)[1..], [format!("warning: {why}")]);
    }

    #[test]
    fn a_host_without_records_is_told_in_one_line_and_lost_ones_with_the_reason() {
        let mut result = crate::exit::tests::result();
        let missing = |layer: &str, why: &str| Degraded { layer: layer.into(), why: why.into() };
        let without = |unrecorded| Some(Box::new(Receipt { unrecorded, ..Receipt::default() }));
        let off = |layer| missing(layer, "audit is off");
        result.receipt = without(vec![off("landlock"), off("seccomp")]);
        assert!(lines(&result, Detail::Problems, Paint::Plain).is_empty());
        assert_eq!(
            lines(&result, Detail::Full, Paint::Plain)[1..],
            [
                "note: refusals by landlock and seccomp are not recorded on this host (see palisade doctor)"
            ]
        );
        result.receipt = without(vec![missing("records", "12 were lost")]);
        assert_eq!(
            lines(&result, Detail::Full, Paint::Plain)[1..],
            ["note: records of refusals are missing: 12 were lost"]
        );
    }

    #[test]
    fn a_denial_says_what_why_and_what_to_do() {
        let mut result = crate::exit::tests::result();
        result.error = Some(WireError::new(ErrorCode::Denied, "no approver", "connect one"));
        result.denials = vec![Denial {
            layer: "policy".to_owned(),
            rule: "destructive".to_owned(),
            target: "delete_file".to_owned(),
            remedy: "ask = \"never\"".to_owned(),
            at: String::new(),
            opens: String::new(),
        }];
        assert_eq!(
            lines(&result, Detail::Problems, Paint::Plain),
            [
                "error: denied: no approver",
                "  policy refused delete_file: destructive",
                "  to allow it: ask = \"never\"",
                "hint: connect one",
            ]
        );
    }

    #[test]
    fn a_hint_is_for_whoever_types_the_command() {
        let mut result = crate::exit::tests::result();
        result.error = Some(WireError::new(ErrorCode::TimedOut, "too long", "set timeout_ms"));
        let hint = |result: &CallResult| lines(result, Detail::Problems, Paint::Plain).pop();
        assert!(hint(&result).unwrap().contains("--timeout"));
        result.error = Some(WireError::new(ErrorCode::Denied, "no", "ask your operator"));
        assert_eq!(hint(&result).unwrap(), "hint: ask your operator");
    }

    #[test]
    fn a_command_that_failed_has_said_so_itself() {
        let mut result = crate::exit::tests::result();
        result.error = Some(WireError::new(ErrorCode::CommandFailed, "status 1", ""));
        assert!(lines(&result, Detail::Problems, Paint::Plain).is_empty());
    }
}
