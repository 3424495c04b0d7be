//! `palisade profile suggest`: what was refused, from the audit log, and the smallest change that
//! would allow each.

use super::history::{Told, history};
use crate::{
    audit::Directory,
    failure::Failure,
    paint::{self, Paint, Style, harmless},
    print,
};
use clap::Args;
use palisade_audit::Denied;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

/// How many targets of one change are named.
const MOST_TARGETS: usize = 5;

/// Suggest changes of profiles from what was refused, by the audit log
#[derive(Debug, Args)]
#[command(after_help = "\
Refusals with the same smallest change are one suggestion, with how often it was met and what the
change would open. Nothing is changed: whether a refusal was right is yours to say.

What a profile that is only observed would have refused is said to be that.

Exit status: 0 there is something to suggest; 1 nothing was refused, or would have been.

Examples:
  palisade profile suggest
  palisade profile suggest --profile workspace --since 7d
  palisade profile suggest --json | jq .remedy")]
pub(super) struct Suggest {
    /// Only refusals of sessions with this profile
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Only what was refused since: 30m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = crate::duration::parse)]
    since: Option<Duration>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

/// What refusals have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    met: Met,
    profile: String,
    remedy: String,
    opens: String,
    layer: String,
}

/// How a refusal was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Met {
    /// It was one.
    Refused,
    /// The profile is only observed.
    WouldBe,
}

/// What a change would have allowed.
#[derive(Debug, Default)]
struct Allowed {
    times: u64,
    calls: BTreeSet<String>,
    targets: BTreeSet<String>,
}

#[derive(Debug, Serialize)]
struct Suggestion<'a> {
    met: Met,
    profile: &'a str,
    layer: &'a str,
    remedy: &'a str,
    opens: &'a str,
    times: u64,
    calls: usize,
    targets: Vec<&'a str>,
}

/// Refusals by what would allow them.
#[derive(Debug, Default)]
struct Refusals(BTreeMap<Change, Allowed>);

impl Suggest {
    pub(super) fn perform(self) -> Result<u8, Failure> {
        let mut profiles: HashMap<String, String> = HashMap::new();
        let mut refusals = Refusals::default();
        history(&self.directory, self.since, |told| match told {
            Told::Opened(open) => {
                profiles.insert(open.session, open.profile);
            }
            Told::Ended(end) => {
                let profile = profiles.get(&end.session).cloned().unwrap_or_default();
                if self.profile.as_ref().is_none_or(|wanted| *wanted == profile) {
                    for denial in &end.denials {
                        refusals.add(&profile, &end.call_id, denial, Met::Refused);
                    }
                    for would in &end.observed {
                        refusals.add(&profile, &end.call_id, would, Met::WouldBe);
                    }
                }
            }
            Told::Call(_) => {}
        })?;
        let suggestions = refusals.suggestions();
        for suggestion in &suggestions {
            if self.json {
                print::json(suggestion)?;
            } else {
                print::bytes(text(suggestion, paint::stdout()).as_bytes())?;
            }
        }
        if suggestions.is_empty() {
            print::note("nothing was refused");
        }
        Ok(u8::from(suggestions.is_empty()))
    }
}

impl Refusals {
    fn add(&mut self, profile: &str, call: &str, denial: &Denied, met: Met) {
        let change = Change {
            met,
            profile: profile.to_owned(),
            remedy: denial.remedy.as_str().to_owned(),
            opens: denial.opens.as_str().to_owned(),
            layer: denial.layer.as_str().to_owned(),
        };
        let met = self.0.entry(change).or_default();
        met.times += 1;
        met.calls.insert(call.to_owned());
        met.targets.insert(denial.target.as_str().to_owned());
    }

    /// Most met first, and of those met as often what was refused first.
    fn suggestions(&self) -> Vec<Suggestion<'_>> {
        let one = |(change, met): (&'_ Change, &'_ Allowed)| (change.clone(), met.times);
        let mut order: Vec<_> = self.0.iter().map(one).collect();
        order.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        let of = |change: &Change| self.0.get_key_value(change);
        order
            .iter()
            .filter_map(|(change, _)| of(change))
            .map(|(change, met)| Suggestion {
                met: change.met,
                profile: &change.profile,
                layer: &change.layer,
                remedy: &change.remedy,
                opens: &change.opens,
                times: met.times,
                calls: met.calls.len(),
                targets: met.targets.iter().map(String::as_str).collect(),
            })
            .collect()
    }
}

fn text(suggestion: &Suggestion<'_>, paint: Paint) -> String {
    let line = |name: &str, value: &str| format!("  {name:10} {}\n", harmless(value));
    let remedy = match suggestion.remedy {
        "" => "no profile can allow it",
        remedy => remedy,
    };
    let mut text = format!("{}\n", paint.apply(Style::Strong, &harmless(remedy)));
    let Suggestion { times, calls, profile, layer, .. } = suggestion;
    text += &line("met", &format!("{times} times in {calls} calls, with profile {profile}"));
    let shown: Vec<_> = suggestion.targets.iter().take(MOST_TARGETS).copied().collect();
    let more = suggestion.targets.len().saturating_sub(MOST_TARGETS);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let word = match suggestion.met {
        Met::Refused => "refused",
        Met::WouldBe => "would be",
    };
    let refused = match suggestion.met {
        Met::Refused => "",
        Met::WouldBe => " refused, were it enforced: ",
    };
    let shown = format!("{refused}{}{more}, by layer {layer}", shown.join(", "));
    text += &line(word, shown.trim_start());
    if !suggestion.opens.is_empty() {
        text += &line("opens", suggestion.opens);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_audit::CleanText;

    fn denial(target: &str, remedy: &str) -> Denied {
        let clean = CleanText::new;
        Denied {
            layer: clean("mount"),
            rule: clean("read: it is not there"),
            target: clean(target),
            remedy: clean(remedy),
            at: clean(""),
            opens: clean("it could be read"),
        }
    }

    #[test]
    fn refusals_with_one_change_are_one_suggestion_and_the_most_met_is_first() {
        let mut refusals = Refusals::default();
        refusals.add(
            "workspace",
            "c1",
            &denial("/srv/x", "add \"/srv/x\" to fs.read"),
            Met::Refused,
        );
        for call in ["c1", "c2", "c2"] {
            let of = denial("/srv/y", "add \"/srv/y\" to fs.read");
            refusals.add("workspace", call, &of, Met::Refused);
        }
        let of = denial("/srv/y", "add \"/srv/y\" to fs.read");
        refusals.add("strict", "c3", &of, Met::WouldBe);
        let suggestions = refusals.suggestions();
        let told: Vec<_> = suggestions.iter().map(|s| (s.profile, s.times, s.calls)).collect();
        assert_eq!(told, [("workspace", 3, 2), ("workspace", 1, 1), ("strict", 1, 1)]);
        assert_eq!(
            text(&suggestions[0], Paint::Plain),
            "add \"/srv/y\" to fs.read\n  met        3 times in 2 calls, with profile workspace\n  \
             refused    /srv/y, by layer mount\n  opens      it could be read\n"
        );
        let would = text(suggestions.iter().find(|s| s.profile == "strict").unwrap(), Paint::Plain);
        let expected = "  would be   refused, were it enforced: /srv/y, by layer mount\n";
        assert!(would.contains(expected), "{would}");
    }
}
