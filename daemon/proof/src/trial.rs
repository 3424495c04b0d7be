//! Probes made ready for one session, and what their answers mean.

use crate::{
    Answer, Deed, Outside, Places, Probe, When, attempt, probes,
    verdict::{Row, Verdict},
};
use std::collections::{BTreeMap, BTreeSet};

/// What a session's receipt says of what is held.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// Layers that the profile allows to be missing and that are.
    pub missing: BTreeSet<String>,
    /// The scopes that Landlock closes.
    pub scopes: BTreeSet<String>,
    /// The network that it has, as receipts name it.
    pub network: String,
    /// With `ports`, which.
    pub ports: Vec<u16>,
}

impl Held {
    /// What an attempt says of the session itself.
    fn filled(&self) -> BTreeMap<&'static str, String> {
        let own = if self.network == "none" { "socket inet" } else { "loopback" };
        let listed = self.ports.first().map(|port| ("listed", port.to_string()));
        listed.into_iter().chain([("own", own.to_owned())]).collect()
    }
}

/// A probe, what it comes to outside if it is tried there, and its two attempts.
#[derive(Debug)]
struct Ready {
    probe: &'static Probe,
    outside: Option<Answer>,
}

/// The probes of one session.
#[derive(Debug)]
pub struct Trial {
    ready: Vec<Ready>,
    words: Vec<String>,
    deeds: Vec<Deed>,
    missing: BTreeSet<String>,
}

impl Trial {
    /// Makes the probes ready that can be tried here, and tries outside what succeeds there.
    #[must_use]
    pub fn new(places: &Places, held: &Held) -> Self {
        let mut trial =
            Self { ready: vec![], words: vec![], deeds: vec![], missing: held.missing.clone() };
        let session = held.filled();
        for probe in probes().filter(|probe| probe.within.has(&held.network)) {
            if probe.scope.is_some_and(|scope| !held.scopes.contains(scope)) {
                continue;
            }
            let fill = |template| places.fill(template, &session);
            let pair = (fill(probe.attempt), fill(probe.control));
            let (Some(word), Some(control)) = pair else { continue };
            if probe.when == When::AtTheEnd {
                // Without the layer there is nothing that would take it back.
                if !held.missing.contains(probe.layer.name()) {
                    trial.deeds.push(Deed::new(probe, word, control));
                }
                continue;
            }
            let outside = match probe.outside {
                Outside::Succeeds => Some(attempt(&word)),
                Outside::Untried => None,
            };
            trial.ready.push(Ready { probe, outside });
            trial.words.extend([word, control]);
        }
        trial
    }

    /// What is to be attempted inside.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// What is to be attempted in calls of its own.
    #[must_use]
    pub fn deeds(&mut self) -> Vec<Deed> {
        std::mem::take(&mut self.deeds)
    }

    /// What the answers mean, a line of them for each attempt.
    #[must_use]
    pub fn read(&self, answers: &str) -> Vec<Row> {
        let mut lines = answers.lines();
        let mut next = || lines.next().unwrap_or_default().to_owned();
        let row = |ready: &Ready| {
            let (answer, control) = (next(), next());
            let verdict = self.verdict(ready, &answer, &control);
            Row { probe: ready.probe, answer, control, verdict }
        };
        self.ready.iter().map(row).collect()
    }

    fn verdict(&self, ready: &Ready, answer: &str, control: &str) -> Verdict {
        let outside = ready.outside.is_none_or(|outside| outside == Answer::Done);
        match (answer, control) {
            ("", _) | (_, "") => Verdict::Silent,
            ("ok", _) => Verdict::Escaped,
            _ if control != "ok" || !outside => Verdict::Vacuous,
            _ if answer == ready.probe.stopped => Verdict::Stopped,
            _ if self.missing.contains(ready.probe.layer.name()) => Verdict::Missing,
            _ => Verdict::Otherwise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Names, Owner, Reach, Within};
    use palisade_policy::SyscallList;

    #[test]
    fn the_filter_answers_as_the_probes_say() {
        let (usual, on_ports) =
            (SyscallList::builtin().unwrap(), SyscallList::builtin().unwrap().on_ports());
        let mut checked = 0;
        for probe in probes() {
            let Some(call) = probe.call else {
                assert_ne!(probe.layer, palisade_plan::Layer::Seccomp, "{}", probe.name);
                continue;
            };
            let list = if probe.within == Within::Ports { &on_ports } else { usual };
            let entry = list.entries().iter().find(|entry| entry.name == call);
            assert_eq!(entry.map(|entry| entry.otherwise.as_str()), Some(probe.stopped), "{call}");
            checked += 1;
        }
        assert_eq!(checked, 18);
        let names: BTreeSet<_> = probes().map(|probe| probe.name).collect();
        assert_eq!(names.len(), probes().count());
    }

    #[test]
    fn what_is_reached_outside_is_there_and_every_attempt_is_known() {
        let top = tempfile::tempdir().unwrap();
        let mut places = Places::furnish(top.path(), Reach::Host).unwrap();
        let some = |name: &str| Some(name.to_owned());
        let names = Names {
            hidden: some(".env"),
            made: some(".env"),
            protected: some("kept"),
            below: some("below/kept"),
        };
        places.name(&names, Owner::Prover).unwrap();
        let scopes: BTreeSet<_> = ["Signal", "AbstractUnixSocket"].map(str::to_owned).into();
        let held = |network: &str, ports: &[u16]| {
            let (network, ports, scopes) = (network.to_owned(), ports.to_vec(), scopes.clone());
            Held { network, ports, scopes, ..Held::default() }
        };
        let mut tried = BTreeSet::new();
        for held in [held("none", &[]), held("ports", &[9]), held("loopback", &[])] {
            let mut trial = Trial::new(&places, &held);
            tried.extend(trial.deeds().iter().map(|deed| deed.probe.name));
            for ready in &trial.ready {
                let name = ready.probe.name;
                let succeeds = matches!(ready.probe.outside, Outside::Succeeds);
                assert_eq!(ready.outside, succeeds.then_some(Answer::Done), "{name}");
                tried.insert(name);
                // Only those that must succeed anywhere are tried here.
                let control = places.fill(ready.probe.control, &held.filled()).unwrap();
                if !control.starts_with("make-") && !control.starts_with("append") {
                    assert_eq!(attempt(&control), Answer::Done, "{control}");
                }
            }
        }
        assert_eq!(tried.len(), probes().count(), "each is tried somewhere");
        let deeds = Trial::new(&places, &held("loopback", &[])).deeds();
        // Outside, each of them is done, and counts.
        for mut deed in deeds {
            places.name(&names, Owner::Prover).unwrap();
            while let Some(word) = deed.next().map(str::to_owned) {
                assert_eq!(attempt(&word), Answer::Done, "{word}");
                deed.told(vec!["protect".to_owned(), "hide".to_owned()]);
            }
            assert_eq!(deed.row().verdict, Verdict::Escaped, "{}", deed.probe.name);
        }
        assert_eq!(attempt("no-such-thing").to_string(), "EOPNOTSUPP");
    }

    #[test]
    fn only_the_right_answer_beside_a_control_is_a_proof() {
        let top = tempfile::tempdir().unwrap();
        let places = Places::furnish(top.path(), Reach::NoNetwork).unwrap();
        let mut trial = Trial::new(&places, &Held::default());
        let tried: Vec<_> = trial.ready.iter().map(|ready| ready.probe.name).collect();
        assert!(!tried.contains(&"reach-host-loopback") && !tried.contains(&"signal-keeper"));
        let first = |trial: &Trial, answers: &str| trial.read(answers)[0].verdict;
        assert_eq!(first(&trial, "ENOENT\nok\n"), Verdict::Stopped);
        assert_eq!(first(&trial, "ok\nok\n"), Verdict::Escaped);
        assert_eq!(first(&trial, "EACCES\nok\n"), Verdict::Otherwise);
        assert_eq!(first(&trial, "ENOENT\nENOENT\n"), Verdict::Vacuous);
        assert_eq!(first(&trial, "ENOENT\n"), Verdict::Silent);
        assert_eq!(first(&trial, ""), Verdict::Silent);
        trial.missing.insert("mount".to_owned());
        assert_eq!(first(&trial, "EACCES\nok\n"), Verdict::Missing);
        assert_eq!(first(&trial, "ok\nok\n"), Verdict::Escaped);
        trial.ready[0].outside = Some(Answer::Refused(nix::errno::Errno::EACCES));
        assert_eq!(first(&trial, "ENOENT\nok\n"), Verdict::Vacuous);
    }
}
