//! Groups refusals of the audit log by the change that would allow them, for `suggest`.

use super::remedy::{self, Answer, Enforcement, Remedy};
use palisade_audit::{CleanText, LayerDenial};
use palisade_policy::{ProfileSet, Scene};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A change to a profile, by which refusals are grouped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProfileChange {
    pub(super) met: Enforcement,
    pub(super) profile: String,
    pub(super) remedy: String,
    opens: String,
    layer: String,
    /// The keys to change: one more entry for a list, or a value.
    pub(super) changes: Vec<(&'static str, String)>,
}

/// The accesses that a change would have allowed.
#[derive(Debug, Default)]
pub(super) struct AllowedAccesses {
    pub(super) times: u64,
    calls: BTreeSet<String>,
    pub(super) targets: BTreeSet<String>,
    /// The refusals counted so far; one that both a job and its call report counts once.
    told: BTreeSet<(String, String, String)>,
}

/// A change, and what it would have allowed.
#[derive(Debug, Serialize)]
pub(super) struct Suggestion<'a> {
    pub(super) met: Enforcement,
    pub(super) profile: &'a str,
    pub(super) layer: &'a str,
    pub(super) remedy: &'a str,
    pub(super) opens: &'a str,
    pub(super) times: u64,
    pub(super) calls: usize,
    pub(super) targets: Vec<&'a str>,
    pub(super) changes: Vec<Entry<'a>>,
}

/// One more entry of a list, or a value.
#[derive(Debug, Serialize)]
pub(super) struct Entry<'a> {
    key: &'a str,
    value: &'a str,
}

/// The refusals, grouped by the change that would allow them.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    pub(super) met: BTreeMap<ProfileChange, AllowedAccesses>,
    /// The number of refusals that the profile allows by now.
    pub(super) by_now: u64,
}

/// The circumstances of a refusal.
pub(super) struct RefusalContext<'a> {
    pub(super) profile: &'a str,
    pub(super) call: &'a str,
    pub(super) tool: &'a str,
    pub(super) scene: Option<&'a Scene>,
    pub(super) set: Option<&'a ProfileSet>,
}

impl Refusals {
    pub(super) fn add(
        &mut self,
        place: &RefusalContext<'_>,
        denial: &LayerDenial,
        met: Enforcement,
    ) {
        // An approver denied it, which no change of the profile answers.
        if denial.layer.as_str() == "policy" && denial.remedy.as_str().is_empty() {
            return;
        }
        let text = |clean: &CleanText| clean.as_str().to_owned();
        let profile = place.set.and_then(|set| set.get(place.profile));
        let answer = match (profile, place.scene) {
            (Some(profile), Some(scene)) => {
                remedy::answer(profile, scene, place.tool, (denial, met), remedy::there)
            }
            (Some(_) | None, _) => Answer::AsRecorded,
        };
        let Remedy { how, opens, changes } = match answer {
            Answer::Remedy(remedy) => remedy,
            Answer::AllowedByNow => {
                self.by_now += 1;
                return;
            }
            Answer::AsRecorded => {
                let (how, opens) = (text(&denial.remedy), text(&denial.opens));
                Remedy { how, opens, changes: Vec::new() }
            }
        };
        let profile = place.profile.to_owned();
        let layer = text(&denial.layer);
        let change = ProfileChange { met, profile, remedy: how, opens, layer, changes };
        let met = self.met.entry(change).or_default();
        let (call, target) = (place.call.to_owned(), text(&denial.target));
        if met.told.insert((call.clone(), target.clone(), text(&denial.rule))) {
            met.times += 1;
            met.calls.insert(call);
            met.targets.insert(target);
        }
    }

    /// Returns the suggestions, most frequent first. Of equally frequent ones, real refusals come
    /// first.
    pub(super) fn suggestions(&self) -> Vec<Suggestion<'_>> {
        let mut order: Vec<(&ProfileChange, &AllowedAccesses)> = self.met.iter().collect();
        order.sort_by_key(|(_, met)| std::cmp::Reverse(met.times));
        order
            .into_iter()
            .map(|(change, met)| Suggestion {
                met: change.met,
                profile: &change.profile,
                layer: &change.layer,
                remedy: &change.remedy,
                opens: &change.opens,
                times: met.times,
                calls: met.calls.len(),
                targets: met.targets.iter().map(String::as_str).collect(),
                changes: change.changes.iter().map(|(key, value)| Entry { key, value }).collect(),
            })
            .collect()
    }
}
