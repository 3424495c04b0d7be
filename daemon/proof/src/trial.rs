//! Prepares the probes for one session, and evaluates their answers.

use crate::{
    Answer, EscapeAttempt, OutcomeTime, OutsideOutcome, OutsideTargets, Probe, attempt, probes,
    verdict::{Row, Verdict},
};
use palisade_plan::Layer;
use std::collections::{BTreeMap, BTreeSet};

/// The confinement that is in force in a session, according to its receipt.
#[derive(Debug, Clone, Default)]
pub struct Confinement {
    /// Layers that are missing, which the profile allows.
    pub missing: BTreeSet<String>,
    /// The Landlock scopes that are restricted.
    pub scopes: BTreeSet<String>,
    /// The session's network, by its name in receipts.
    pub network: String,
    /// The allowed ports, if the network is `ports`.
    pub ports: Vec<u16>,
}

impl Confinement {
    /// Returns the placeholders that depend on the session.
    fn filled(&self, places: &OutsideTargets) -> BTreeMap<&'static str, String> {
        let (inet, own) = match self.network.as_str() {
            // Without a network of its own a session has no network sockets.
            _ if self.lacks(Layer::Network) => ("read {inside}", "read {inside}"),
            "none" => ("socket inet", "socket inet"),
            _ => ("socket inet", "loopback"),
        };
        let control = |template| places.fill(template, &BTreeMap::new()).unwrap_or_default();
        // Without mounts of its own a session has no private `/tmp`.
        let workspace = places.workspace().display().to_string();
        let [scratch, shared] = match self.lacks(Layer::Mount) {
            true => [workspace.clone(), workspace],
            false => ["/tmp".to_owned(), "/dev/shm".to_owned()],
        };
        let listed = self.ports.first().map(|port| ("listed", port.to_string()));
        let filled = [
            ("inet", control(inet)),
            ("own", control(own)),
            ("scratch", scratch),
            ("shared-scratch", shared),
        ];
        listed.into_iter().chain(filled).collect()
    }

    fn lacks(&self, layer: Layer) -> bool {
        self.missing.contains(layer.name())
    }
}

/// A probe, with the outcome of its attempt outside if it was made there.
#[derive(Debug)]
struct PreparedProbe {
    probe: &'static Probe,
    outside: Option<Answer>,
}

/// The probes for one session.
#[derive(Debug)]
pub struct Trial {
    ready: Vec<PreparedProbe>,
    words: Vec<String>,
    attempts: Vec<EscapeAttempt>,
    missing: BTreeSet<String>,
}

impl Trial {
    /// Prepares the probes that can be tried here, and makes the attempts outside.
    #[must_use]
    pub fn new(places: &OutsideTargets, held: &Confinement) -> Self {
        let mut trial =
            Self { ready: vec![], words: vec![], attempts: vec![], missing: held.missing.clone() };
        let session = held.filled(places);
        for probe in probes().filter(|probe| probe.within.has(&held.network)) {
            if probe.scope.is_some_and(|scope| !held.scopes.contains(scope)) {
                continue;
            }
            let fill = |template| places.fill(template, &session);
            let pair = (fill(probe.attempt), fill(probe.control));
            let (Some(word), Some(control)) = pair else { continue };
            if probe.when == OutcomeTime::AtTheEnd {
                // Without the layer nothing would discard the changes.
                if !held.missing.contains(probe.layer.name()) {
                    trial.attempts.push(EscapeAttempt::new(probe, word, control));
                }
                continue;
            }
            let outside = match probe.outside {
                OutsideOutcome::Succeeds => Some(attempt(&word)),
                OutsideOutcome::Untried => None,
            };
            trial.ready.push(PreparedProbe { probe, outside });
            trial.words.extend([word, control]);
        }
        trial
    }

    /// Iterates over the probes, each with its attempt and its control.
    pub fn attempts(&self) -> impl Iterator<Item = (&'static Probe, &str, &str)> {
        self.ready.iter().zip(self.words.chunks_exact(2)).filter_map(|(ready, words)| {
            let [attempt, control] = words else { return None };
            Some((ready.probe, attempt.as_str(), control.as_str()))
        })
    }

    /// Returns the attempts to make inside.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Takes the escapes that are tried in separate calls.
    #[must_use]
    pub fn separate_attempts(&mut self) -> Vec<EscapeAttempt> {
        std::mem::take(&mut self.attempts)
    }

    /// Evaluates the answers, one line for each attempt.
    #[must_use]
    pub fn read(&self, answers: &str) -> Vec<Row> {
        let mut lines = answers.lines();
        let mut next = || lines.next().unwrap_or_default().to_owned();
        let row = |ready: &PreparedProbe| {
            let (answer, control) = (next(), next());
            let verdict = self.verdict(ready, &answer, &control);
            Row { probe: ready.probe, answer, control, verdict }
        };
        self.ready.iter().map(row).collect()
    }

    fn verdict(&self, ready: &PreparedProbe, answer: &str, control: &str) -> Verdict {
        let outside = ready.outside.is_none_or(|outside| outside == Answer::Done);
        match (answer, control) {
            ("", _) | (_, "") => Verdict::Silent,
            ("ok", _) if self.missing.contains(ready.probe.layer.name()) => Verdict::Open,
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
    use crate::{Owner, ProbeNetworks, ProverNetwork, RestrictedNames};
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
            let list = if probe.within == ProbeNetworks::Ports { &on_ports } else { usual };
            let entry = list.entries().iter().find(|entry| entry.name == call);
            let entry = entry.unwrap_or_else(|| panic!("{call} is not in the list"));
            let refusal = format!("-> {}", probe.stopped);
            let refuses = entry.when.iter().any(|clause| clause.ends_with(&refusal));
            assert!(refuses || entry.otherwise == probe.stopped, "{call}: {entry:?}");
            checked += 1;
        }
        assert_eq!(checked, 20);
        let names: BTreeSet<_> = probes().map(|probe| probe.name).collect();
        assert_eq!(names.len(), probes().count());
    }

    #[test]
    fn what_is_reached_outside_is_there_and_every_attempt_is_known() {
        let top = tempfile::tempdir().unwrap();
        let mut places = OutsideTargets::create(top.path(), ProverNetwork::Host).unwrap();
        let some = |name: &str| Some(name.to_owned());
        let names = RestrictedNames {
            hidden: some(".env"),
            made: some(".env"),
            protected: some("kept"),
            below: some("below/kept"),
        };
        places.name(&names, Owner::Prover).unwrap();
        let scopes: BTreeSet<_> = ["Signal", "AbstractUnixSocket"].map(str::to_owned).into();
        let held = |network: &str, ports: &[u16]| {
            let (network, ports, scopes) = (network.to_owned(), ports.to_vec(), scopes.clone());
            Confinement { network, ports, scopes, ..Confinement::default() }
        };
        let mut tried = BTreeSet::new();
        for held in [held("none", &[]), held("ports", &[9]), held("loopback", &[])] {
            let mut trial = Trial::new(&places, &held);
            tried.extend(trial.separate_attempts().iter().map(|attempt| attempt.probe.name));
            for ready in &trial.ready {
                let name = ready.probe.name;
                let succeeds = matches!(ready.probe.outside, OutsideOutcome::Succeeds);
                assert_eq!(ready.outside, succeeds.then_some(Answer::Done), "{name}");
                tried.insert(name);
                // Only those that must succeed anywhere are tried here.
                let control = places.fill(ready.probe.control, &held.filled(&places)).unwrap();
                if !control.contains("/palisade-proof") && !control.starts_with("make-") {
                    assert_eq!(attempt(&control), Answer::Done, "{control}");
                }
            }
        }
        assert_eq!(tried.len(), probes().count(), "each is tried somewhere");
        let attempts = Trial::new(&places, &held("loopback", &[])).separate_attempts();
        // Outside, each of them succeeds and has an effect.
        for mut escape in attempts {
            places.name(&names, Owner::Prover).unwrap();
            while let Some(word) = escape.next().map(str::to_owned) {
                assert_eq!(attempt(&word), Answer::Done, "{word}");
                escape.record(vec!["protect".to_owned(), "hide".to_owned()]);
            }
            assert_eq!(escape.row().verdict, Verdict::Escaped, "{}", escape.probe.name);
        }
        assert_eq!(attempt("no-such-thing").to_string(), "EOPNOTSUPP");
    }

    #[test]
    fn only_the_right_answer_beside_a_control_is_a_proof() {
        let top = tempfile::tempdir().unwrap();
        let places = OutsideTargets::create(top.path(), ProverNetwork::NoNetwork).unwrap();
        let mut trial = Trial::new(&places, &Confinement::default());
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
        assert_eq!(first(&trial, "ok\nok\n"), Verdict::Open);
        trial.ready[0].outside = Some(Answer::Refused(nix::errno::Errno::EACCES));
        assert_eq!(first(&trial, "ENOENT\nok\n"), Verdict::Vacuous);
    }
}
