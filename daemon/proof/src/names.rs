//! Probes on names in the workspace that a profile hides or protects.

use crate::probes::{
    OutcomeTime,
    OutsideOutcome::{Succeeds, Untried},
    Probe, kept,
};
use palisade_plan::Layer;

/// Defines a probe whose attempt gets no error: it is detected when the program ends, and its
/// changes are discarded.
const fn undone(
    name: &'static str,
    tries: &'static str,
    layer: Layer,
    attempt: &'static str,
    control: &'static str,
) -> Probe {
    let probe = kept(name, tries, layer, (attempt, "refused"), control, Untried);
    Probe { when: OutcomeTime::AtTheEnd, ..probe }
}

/// The probes for a profile that hides or protects such a name.
pub const NAMES: [Probe; 13] = [
    kept(
        "read-hidden",
        "read a hidden file of the workspace",
        Layer::Hide,
        ("read {hidden}", "ENOENT"),
        "read {inside}",
        Succeeds,
    ),
    kept(
        "look-at-hidden",
        "look at it without opening it",
        Layer::Hide,
        ("stat {hidden}", "ENOENT"),
        "stat {inside}",
        Succeeds,
    ),
    kept(
        "list-hidden",
        "find its name in the directory",
        Layer::Hide,
        ("listed {hidden}", "another"),
        "listed {inside}",
        Succeeds,
    ),
    kept(
        "read-hidden-by-fd",
        "read it through a descriptor of its directory in /proc",
        Layer::Hide,
        ("read-by-descriptor {hidden}", "ENOENT"),
        "read-by-descriptor {inside}",
        Succeeds,
    ),
    kept(
        "link-hidden",
        "give it a second name (a hard link)",
        Layer::Hide,
        ("link {hidden}", "ENOENT"),
        "stat {inside}",
        Succeeds,
    ),
    undone(
        "write-hidden",
        "create a file of its name, and write to it",
        Layer::Hide,
        "write {made}",
        "write {ordinary}",
    ),
    undone(
        "replace-hidden",
        "rename another file over its name",
        Layer::Hide,
        "replace {made}",
        "replace {ordinary}",
    ),
    undone(
        "write-protected",
        "write to a protected file of the workspace",
        Layer::Protect,
        "write {own-protected}",
        "write {ordinary}",
    ),
    undone(
        "write-protected-by-fd",
        "write to it through a descriptor in /proc",
        Layer::Protect,
        "write-by-descriptor {own-protected}",
        "write-by-descriptor {ordinary}",
    ),
    undone(
        "replace-protected",
        "rename another file over it",
        Layer::Protect,
        "replace {protected}",
        "replace {ordinary}",
    ),
    undone(
        "rename-protected",
        "give it another name",
        Layer::Protect,
        "rename {own-protected}",
        "rename {ordinary}",
    ),
    undone(
        "delete-protected",
        "delete it",
        Layer::Protect,
        "remove {protected}",
        "remove {ordinary}",
    ),
    undone(
        "move-protected",
        "rename the directory that it is in",
        Layer::Protect,
        "rename-above {own-below}",
        "rename-above {ordinary-below}",
    ),
];
