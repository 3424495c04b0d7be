//! Sequences of calls at random, with no approver: afterwards plain git, the tree and undo recover
//! every byte that was there at first, but for untracked noise, and git obeys nothing new.

use palisade_client::Answer;
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{
    Desk, Dice, Disregarded, InitialState, Mode, RandomStep, World, cases, is_denied, outside,
    profile_with, random_steps, random_tree, report, setting, unconfined,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const NOISE: Disregarded =
    Disregarded { directories: &["target", "node_modules"], endings: &[".o"] };

const IGNORED: Disregarded = Disregarded { directories: &["dist"], endings: &[".log"] };

/// Without git nothing is ignored.
const NOTHING: Disregarded = Disregarded { directories: &[], endings: &[] };

/// A condition that is true if git, run outside, would run a program that a call has planted.
const IS_PLANTED: &str = "for directory in . bare; do (cd $directory 2>/dev/null && \
                          git config core.fsmonitor) && exit 0; done; exit 1";

/// The number of failures that are reported in full.
const TOLD: usize = 5;

/// The totals of the sequences and their calls.
#[derive(Default)]
struct Tally {
    sequences: usize,
    done: usize,
    denied: usize,
    needed_undo: usize,
    /// Sequences that lost, unasked, what only undo has, by none of the rules.
    unasked: usize,
    /// Sequences whose lines lose something without a sandbox.
    lost_in_control: usize,
    failures: Vec<String>,
}

/// The calls of a sequence as they were made.
#[derive(Default)]
struct History {
    lines: Vec<String>,
    /// The undo ids of the calls that can be undone.
    undo: Vec<String>,
    done: usize,
    denied: usize,
    /// Calls that named the bytes that they replaced.
    named: usize,
}

impl History {
    fn add(&mut self, what: &str, result: &CallResult) {
        let came = match &result.error {
            None => "done",
            Some(error) if error.code == ErrorCode::CommandFailed => "failed",
            Some(_) if is_denied(result) => "denied",
            Some(_) => "refused",
        };
        self.lines.push(format!("  {came}: {what}"));
        self.denied += usize::from(is_denied(result));
        self.done += usize::from(result.undo.is_some());
        self.undo.extend(result.undo.clone());
        let names = ["edit", "apply_patch"].contains(&result.tool.as_str());
        self.named += usize::from(names && result.success);
    }
}

fn undo(desk: &Desk, call: &str, force: bool) -> (Value, CallResult) {
    let arguments = json!({"call_id": call, "force": force});
    let result = desk.sandbox.call("undo", arguments.clone());
    (arguments, result)
}

fn make(desk: &Desk, step: &RandomStep, history: &mut History) {
    let session = &desk.sandbox.session;
    match step {
        RandomStep::Call(tool, arguments) => {
            let result = desk.sandbox.call(tool, arguments.clone());
            history.add(&step.to_string(), &result);
        }
        RandomStep::Both([(one, first), (two, second)]) => {
            let (left, right) = desk.sandbox.wait(async {
                let (left, right) = (session.call(one, first), session.call(two, second));
                tokio::join!(async { left.await.unwrap() }, async { right.await.unwrap() })
            });
            history.add(&format!("{one} {first}, at the same time as the next"), &left);
            history.add(&format!("{two} {second}"), &right);
        }
        RandomStep::Undo { call, force } => {
            let Some(id) = history.undo.get(*call).or(history.undo.first()) else { return };
            let (arguments, result) = undo(desk, &id.clone(), *force);
            history.add(&format!("undo {arguments}"), &result);
        }
    }
}

/// Returns the losses that no rule permits: undo alone keeps only what was in an ignored directory,
/// and one file for each call that named what it replaced. That file may have kept what was staged.
fn lost_unasked<'a>(scene: &Scene, lost: &'a BTreeSet<String>, named: usize) -> Vec<&'a String> {
    let of = |kind: &'static str| lost.iter().filter(move |one| one.starts_with(kind));
    let is_ignored = |one: &&String| scene.has_git && one.starts_with("file dist/");
    let files = of("file ").filter(|one| !is_ignored(one)).skip(named);
    let others = lost.iter().filter(|one| !one.starts_with("file ") && !one.starts_with("staged "));
    others.chain(of("staged ").skip(named)).chain(files).collect()
}

/// Undoes the calls, the newest first, until everything has been seen again; gives what has not.
fn lost_after_undo(
    desk: &Desk,
    directory: &Path,
    initial: &InitialState,
    history: &mut History,
    mut lost: BTreeSet<String>,
) -> BTreeSet<String> {
    if lost.is_empty() {
        return lost;
    }
    // Whoever wants something back approves that.
    desk.attach();
    for id in history.undo.clone().iter().rev() {
        for force in [false, true] {
            let arguments = json!({"call_id": id, "force": force});
            let (result, _) = desk.call("undo", arguments, |_| Some(Answer::approve()));
            history.add(&format!("afterwards: undo {id}, force {force}"), &result);
            if result.success {
                break;
            }
        }
        let still = initial.lost(&desk.world, directory);
        lost.retain(|one| still.contains(one));
        if lost.is_empty() {
            break;
        }
    }
    lost
}

/// A directory as a seed has it, and the steps that are taken there.
struct Scene {
    script: String,
    steps: Vec<RandomStep>,
    has_git: bool,
    directory: PathBuf,
    initial: InitialState,
}

impl Scene {
    fn new(desk: &Desk, seed: u64) -> Self {
        let mut dice = Dice::seeded(seed);
        let (script, has_git) = random_tree(&mut dice);
        let steps = random_steps(&mut dice, has_git);
        let directory = desk.world.outside().join("sequence");
        outside(&desk.world, &desk.world.outside(), "mkdir sequence");
        outside(&desk.world, &directory, &script);
        let ignored = if has_git { IGNORED } else { NOTHING };
        let initial = InitialState::of(&desk.world, &directory, NOISE, ignored);
        assert_eq!(initial.lost(&desk.world, &directory), BTreeSet::new(), "PALISADE_SEED={seed}");
        Self { script, steps, has_git, directory, initial }
    }

    /// Removes it, whatever may not be written there any more.
    fn remove(self, world: &World) {
        outside(world, &world.outside(), "chmod -R u+rwX sequence && rm -rf sequence");
    }
}

/// Runs the lines of a sequence without a sandbox; says whether something is lost then.
fn loses_without_sandbox(desk: &Desk, seed: u64) -> bool {
    let scene = Scene::new(desk, seed);
    outside(&desk.world, &desk.world.outside(), "mkdir home");
    let home = desk.world.outside().join("home");
    for step in &scene.steps {
        if let RandomStep::Call("bash", arguments) = step {
            let line = arguments["command"].as_str().unwrap();
            drop(unconfined(&desk.world, &scene.directory, &home, line));
        }
    }
    let lost = scene.initial.lost(&desk.world, &scene.directory);
    fs::remove_dir_all(home).unwrap();
    scene.remove(&desk.world);
    !lost.is_empty()
}

fn run(desk: &mut Desk, seed: u64, tally: &mut Tally) {
    let scene = Scene::new(desk, seed);
    let Scene { script, steps, directory, initial, .. } = &scene;
    desk.move_to(directory);
    let mut history = History::default();
    for step in steps {
        make(desk, step, &mut history);
    }
    tally.sequences += 1;
    tally.done += history.done;
    tally.denied += history.denied;
    let planted = unconfined(&desk.world, directory, &desk.world.state(), IS_PLANTED);
    if planted.status.success() {
        let (mode, calls) = (desk.world.mode, history.lines.join("\n"));
        tally.failures.push(format!("PALISADE_SEED={seed}, {mode:?}: planted\n{script}{calls}\n"));
    }
    let lost = initial.lost(&desk.world, directory);
    let unasked = format!("{:?}", lost_unasked(&scene, &lost, history.named));
    tally.unasked += usize::from(unasked != "[]");
    tally.needed_undo += usize::from(!lost.is_empty());
    let gone = lost_after_undo(desk, directory, initial, &mut history, lost);
    if unasked != "[]" || !gone.is_empty() {
        let (mode, calls) = (desk.world.mode, history.lines.join("\n"));
        tally.failures.push(format!(
            "PALISADE_SEED={seed}, {mode:?}: lost unasked: {unasked}; of it not even undo has: \
             {gone:?}\n{script}calls:\n{calls}\n"
        ));
    }
    scene.remove(&desk.world);
}

fn run_all(mode: Mode, seeds: &[u64]) -> Tally {
    let mut desk = Desk::new(mode, &profile_with(&[]));
    let mut tally = Tally::default();
    for seed in seeds {
        run(&mut desk, *seed, &mut tally);
        tally.lost_in_control += usize::from(loses_without_sandbox(&desk, *seed));
    }
    tally
}

/// One of its own for each sequence, so that each can be run again alone.
fn seeds() -> Vec<Vec<u64>> {
    let modes = Mode::all().len();
    if let Some(seed) = setting("PALISADE_SEED") {
        return vec![vec![seed]; modes];
    }
    let mut dice = Dice::new("sequences");
    let number = cases(40, 10_000) / modes;
    (0..modes).map(|_| (0..number).map(|_| dice.seed()).collect()).collect()
}

#[test]
fn every_initial_byte_is_recovered_after_any_sequence_of_unasked_calls() {
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let start = |(mode, seeds): (Mode, Vec<u64>)| scope.spawn(move || run_all(mode, &seeds));
        let started: Vec<_> = Mode::all().into_iter().zip(seeds()).map(start).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sum = |of: fn(&Tally) -> usize| tallies.iter().map(of).sum::<usize>();
    let failures: Vec<&str> =
        tallies.iter().flat_map(|tally| &tally.failures).map(String::as_str).collect();
    let (sequences, unasked) = (sum(|tally| tally.sequences), sum(|tally| tally.unasked));
    report("sequences of calls that lost something unasked", format!("{unasked} of {sequences}"));
    report("sequences that needed undo", sum(|tally| tally.needed_undo));
    let (done, denied) = (sum(|tally| tally.done), sum(|tally| tally.denied));
    report("calls of them that changed something; that were denied", format!("{done}; {denied}"));
    let lost = sum(|tally| tally.lost_in_control);
    report("sequences whose lines lose something without a sandbox", lost);
    let told = failures[..failures.len().min(TOLD)].join("\n");
    assert!(failures.is_empty(), "{} of {sequences} lost something:\n{told}", failures.len());
    if setting("PALISADE_SEED").is_none() {
        assert!(done > 0 && denied > 0 && lost > 0, "harmless: {done}, {denied}, {lost}");
    }
}
