//! `palisade profile suggest`: lists what was refused, from the audit log, with the smallest change
//! that would allow each on this host. Can write a profile with all changes.

use super::{
    Directories, draft,
    history::{HistoryRecord, history},
    load,
    refusals::{RefusalContext, Refusals, Suggestion},
    remedy::Enforcement,
    replay, rerun,
};
use crate::{
    audit::Directory,
    call::id::{self, CallSelector},
    failure::Failure,
    paint::{self, Paint, Style, harmless},
    print,
};
use clap::Args;
use palisade_policy::{ProfileSet, Scene};
use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    time::Duration,
};

/// The maximum number of targets that are listed for one change.
const MOST_TARGETS: usize = 5;

/// Suggest changes to profiles from the refusals in the audit log
#[derive(Debug, Args)]
#[command(after_help = "\
Refusals that the same smallest change would allow are one suggestion. It shows how often they
occurred and what the change would open. No profile is changed: you decide which refusals are right.

A profile can only name what exists on this host. For a file or directory that does not exist yet,
and for a file that a file tool replaces, the nearest existing directory is suggested.

-o writes a profile that allows all of it, with a reason for each line. A profile that extends no
other is copied with more entries. Otherwise the new profile extends and widens it, and has to be
owned by root, or by you if the daemon is your own. Remove what you do not want to allow; `palisade
profile diff` shows what it opens.

Refusals of a profile that is only observed are marked as such.

--trace takes the refusals from a second run of one call instead, as `palisade why --trace` makes
it. They include paths that exist on this host, and that the profile leaves out of the session.

Exit status: 0 there are suggestions; 1 nothing was refused, or would have been.

Examples:
  palisade profile suggest
  palisade profile suggest --profile workspace --since 7d
  palisade profile suggest --profile mine -o mine-wider.toml
  palisade profile suggest --trace last -o mine-wider.toml
  palisade profile suggest --json | jq .remedy")]
pub(super) struct Suggest {
    /// Only refusals of sessions with this profile, given by name
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Only refusals of this period: 30m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = palisade_options::duration::parse)]
    since: Option<Duration>,
    /// Run this call of a program again, and use what it is refused: an id, a prefix of it, or `last`
    #[arg(long, value_name = "CALL", value_parser = id::parse, conflicts_with_all = ["profile", "since"])]
    trace: Option<CallSelector>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Write a profile that allows all of it to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    directory: Directory,
    #[command(flatten)]
    directories: Directories,
}

impl Suggest {
    pub(super) async fn perform(self) -> Result<u8, Failure> {
        let Some(traced) = &self.trace else { return self.read_log() };
        let trace = rerun::trace(&self.directory, traced, &self.directories).await?;
        let set = load::files(&load::directories(&self.directories))
            .and_then(|files| load::set(&files).map_err(|error| load::bad(&error)))?;
        self.finish(&trace.refusals(&set), &BTreeSet::from([trace.profile.name()]))
    }

    /// Suggests changes from all refusals of the log.
    fn read_log(&self) -> Result<u8, Failure> {
        let set = self.profiles()?;
        let mut refusals = Refusals::default();
        let mut sessions: HashMap<String, (String, Scene)> = HashMap::new();
        let mut tools: HashMap<String, String> = HashMap::new();
        history(&self.directory, self.since, |told| match told {
            HistoryRecord::Opened(open) => {
                let uid = open.runs_as.unwrap_or(open.uid);
                let scene = replay::scene(open.workspace.as_str(), uid);
                sessions.insert(open.session, (open.profile, scene));
            }
            HistoryRecord::Call(call) => {
                tools.insert(call.call_id, call.tool);
            }
            HistoryRecord::Ended(end) => {
                let session = sessions.get(&end.session);
                let profile = session.map_or("", |(profile, _)| profile);
                if self.profile.as_ref().is_none_or(|wanted| wanted == profile) {
                    let (call, set) = (end.call_id.as_str(), set.as_ref());
                    let tool = tools.get(call).map_or("", String::as_str);
                    let scene = session.map(|(_, scene)| scene);
                    let place = RefusalContext { profile, call, tool, scene, set };
                    for denial in &end.denials {
                        refusals.add(&place, denial, Enforcement::Refused);
                    }
                    for would in &end.observed {
                        refusals.add(&place, would, Enforcement::WouldBe);
                    }
                }
            }
        })?;
        let used: BTreeSet<&str> = sessions.values().map(|(profile, _)| profile.as_str()).collect();
        self.finish(&refusals, &used)
    }

    /// Prints the suggestions, and writes the profile that was asked for.
    fn finish(&self, refusals: &Refusals, used: &BTreeSet<&str>) -> Result<u8, Failure> {
        self.tell(refusals, used)?;
        if let Some(path) = &self.output
            && !refusals.met.is_empty()
        {
            draft::write(path, refusals, &self.directories)?;
        }
        Ok(u8::from(refusals.met.is_empty()))
    }

    /// Loads the profiles of this host. Without them, the remedies recorded in the log are shown.
    fn profiles(&self) -> Result<Option<ProfileSet>, Failure> {
        let loaded = load::files(&load::directories(&self.directories))
            .and_then(|files| load::set(&files).map_err(|error| load::bad(&error)));
        match (loaded, &self.output) {
            (Ok(set), _) => Ok(Some(set)),
            (Err(failure), Some(_)) => Err(failure),
            (Err(failure), None) => {
                print::failure(&failure);
                Ok(None)
            }
        }
    }

    fn tell(&self, refusals: &Refusals, used: &BTreeSet<&str>) -> Result<(), Failure> {
        let suggestions = refusals.suggestions();
        for suggestion in &suggestions {
            if self.json {
                print::json(suggestion)?;
            } else {
                print::bytes(text(suggestion, paint::stdout()).as_bytes())?;
            }
        }
        if refusals.by_now > 0 {
            let many = refusals.by_now;
            print::note(&format!(
                "{many} more refusals are omitted: their profile allows them now"
            ));
        }
        if suggestions.is_empty() {
            let told = match self.profile.as_deref() {
                Some(name) if !used.contains(name) => {
                    let used = used.iter().copied().collect::<Vec<_>>().join(", ");
                    format!("the log has no session with profile {name:?}; it has: {used}")
                }
                Some(name) => format!("no refusal is recorded for sessions with profile {name:?}"),
                None => "no refusal is recorded".to_owned(),
            };
            print::note(&harmless(&told));
        }
        Ok(())
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
    let met = match (times, calls) {
        (1, _) => "once".to_owned(),
        (times, 1) => format!("{times} times in one call"),
        (times, calls) => format!("{times} times in {calls} calls"),
    };
    text += &line("occurred", &format!("{met}, with profile {profile}"));
    let shown: Vec<_> = suggestion.targets.iter().take(MOST_TARGETS).copied().collect();
    let more = suggestion.targets.len().saturating_sub(MOST_TARGETS);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let word = match suggestion.met {
        Enforcement::Refused => "refused",
        Enforcement::WouldBe => "would be",
        Enforcement::LeftOut => "left out",
    };
    let refused = match suggestion.met {
        Enforcement::Refused | Enforcement::LeftOut => "",
        Enforcement::WouldBe => " refused if it were enforced: ",
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
    use palisade_audit::{CleanText, LayerDenial};

    fn denial(target: &str, remedy: &str) -> LayerDenial {
        let clean = CleanText::new;
        LayerDenial {
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
        let place =
            |profile, call| RefusalContext { profile, call, tool: "", scene: None, set: None };
        let of = denial("/srv/x", "add \"/srv/x\" to fs.read");
        refusals.add(&place("workspace", "c1"), &of, Enforcement::Refused);
        let of = denial("/srv/y", "add \"/srv/y\" to fs.read");
        // A refusal that both a job and its call report counts once.
        for call in ["c1", "c2", "c3", "c3"] {
            refusals.add(&place("workspace", call), &of, Enforcement::Refused);
        }
        refusals.add(&place("strict", "c3"), &of, Enforcement::WouldBe);
        // What an approver denied is no reason to change the profile.
        let answered = LayerDenial { layer: CleanText::new("policy"), ..denial("bash", "") };
        refusals.add(&place("strict", "c4"), &answered, Enforcement::Refused);
        let suggestions = refusals.suggestions();
        let told: Vec<_> = suggestions.iter().map(|s| (s.profile, s.times, s.calls)).collect();
        assert_eq!(told, [("workspace", 3, 3), ("workspace", 1, 1), ("strict", 1, 1)]);
        assert_eq!(
            text(&suggestions[0], Paint::Plain),
            "add \"/srv/y\" to fs.read\n  occurred   3 times in 3 calls, with profile workspace\n  \
             refused    /srv/y, by layer mount\n  opens      it could be read\n"
        );
        let would = text(suggestions.iter().find(|s| s.profile == "strict").unwrap(), Paint::Plain);
        let expected = "  would be   refused if it were enforced: /srv/y, by layer mount\n";
        assert!(would.contains(expected), "{would}");
    }
}
