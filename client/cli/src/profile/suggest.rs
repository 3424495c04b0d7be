//! `palisade profile suggest`: what was refused, from the audit log, the smallest change that would
//! allow each on this host, and a profile with all of them.

use super::{
    Directories, draft,
    history::{Told, history},
    load,
    refusals::{Met, Place, Refusals, Suggestion},
    replay,
};
use crate::{
    audit::Directory,
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

/// How many targets of one change are named.
const MOST_TARGETS: usize = 5;

/// Suggest changes of profiles from what was refused, by the audit log
#[derive(Debug, Args)]
#[command(after_help = "\
Refusals with the same smallest change are one suggestion, with how often it was met and what the
change would open. Nothing is changed: whether a refusal was right is yours to say.

What a session can be given is what is there on this host: for a file or directory that is yet to be
made, and for one that a file tool replaces, the nearest directory that is there is suggested.

With -o a profile is written that allows all of it, each line with its reason: of a profile that
extends none its own text with more entries, else one that extends it and widens it, which has to be a
file of root's. Take out what you do not want to allow. `palisade profile diff` says what it opens.

What a profile that is only observed would have refused is said to be that.

Exit status: 0 there is something to suggest; 1 nothing was refused, or would have been.

Examples:
  palisade profile suggest
  palisade profile suggest --profile workspace --since 7d
  palisade profile suggest --profile mine -o mine-wider.toml
  palisade profile suggest --json | jq .remedy")]
pub(super) struct Suggest {
    /// Only refusals of sessions with this profile, by its name
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Only what was refused since: 30m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = crate::duration::parse)]
    since: Option<Duration>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Write a profile that allows all of it
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    directory: Directory,
    #[command(flatten)]
    directories: Directories,
}

impl Suggest {
    pub(super) fn perform(self) -> Result<u8, Failure> {
        let set = self.profiles()?;
        let mut refusals = Refusals::default();
        let mut sessions: HashMap<String, (String, Scene)> = HashMap::new();
        let mut tools: HashMap<String, String> = HashMap::new();
        history(&self.directory, self.since, |told| match told {
            Told::Opened(open) => {
                let uid = open.runs_as.unwrap_or(open.uid);
                let scene = replay::scene(open.workspace.as_str(), uid);
                sessions.insert(open.session, (open.profile, scene));
            }
            Told::Call(call) => {
                tools.insert(call.call_id, call.tool);
            }
            Told::Ended(end) => {
                let session = sessions.get(&end.session);
                let profile = session.map_or("", |(profile, _)| profile);
                if self.profile.as_ref().is_none_or(|wanted| wanted == profile) {
                    let (call, set) = (end.call_id.as_str(), set.as_ref());
                    let tool = tools.get(call).map_or("", String::as_str);
                    let scene = session.map(|(_, scene)| scene);
                    let place = Place { profile, call, tool, scene, set };
                    for denial in &end.denials {
                        refusals.add(&place, denial, Met::Refused);
                    }
                    for would in &end.observed {
                        refusals.add(&place, would, Met::WouldBe);
                    }
                }
            }
        })?;
        let used: BTreeSet<&str> = sessions.values().map(|(profile, _)| profile.as_str()).collect();
        self.tell(&refusals, &used)?;
        if let Some(path) = &self.output
            && !refusals.met.is_empty()
        {
            draft::write(path, &refusals, &self.directories)?;
        }
        Ok(u8::from(refusals.met.is_empty()))
    }

    /// The profiles of this host. Without them the log's own words are told.
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
                "{many} more refusals are left out: their profile allows it by now"
            ));
        }
        if suggestions.is_empty() {
            let told = match self.profile.as_deref() {
                Some(name) if !used.contains(name) => {
                    let used = used.iter().copied().collect::<Vec<_>>().join(", ");
                    format!("the log has no session with profile {name:?}, but with: {used}")
                }
                Some(name) => format!("nothing was refused to sessions with profile {name:?}"),
                None => "nothing was refused".to_owned(),
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
    text += &line("met", &format!("{met}, with profile {profile}"));
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
    use palisade_audit::{CleanText, Denied};

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
        let place = |profile, call| Place { profile, call, tool: "", scene: None, set: None };
        let of = denial("/srv/x", "add \"/srv/x\" to fs.read");
        refusals.add(&place("workspace", "c1"), &of, Met::Refused);
        let of = denial("/srv/y", "add \"/srv/y\" to fs.read");
        // A job and its call tell the same once.
        for call in ["c1", "c2", "c3", "c3"] {
            refusals.add(&place("workspace", call), &of, Met::Refused);
        }
        refusals.add(&place("strict", "c3"), &of, Met::WouldBe);
        let suggestions = refusals.suggestions();
        let told: Vec<_> = suggestions.iter().map(|s| (s.profile, s.times, s.calls)).collect();
        assert_eq!(told, [("workspace", 3, 3), ("workspace", 1, 1), ("strict", 1, 1)]);
        assert_eq!(
            text(&suggestions[0], Paint::Plain),
            "add \"/srv/y\" to fs.read\n  met        3 times in 3 calls, with profile workspace\n  \
             refused    /srv/y, by layer mount\n  opens      it could be read\n"
        );
        let would = text(suggestions.iter().find(|s| s.profile == "strict").unwrap(), Paint::Plain);
        let expected = "  would be   refused, were it enforced: /srv/y, by layer mount\n";
        assert!(would.contains(expected), "{would}");
    }
}
