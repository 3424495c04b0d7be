//! Makes a planned change, completely or not at all. Runs in the cell.

use super::{
    act::StepError, done::TakenStep, keep::changed, settle::journal::Journal, stage::Stage,
    step::Step,
};
use crate::tools::{refused, refused_io, shown};
use palisade_plan::{
    Path,
    cell::FileError,
    change::{Changed, Effect, EffectKind, Print, Version},
    parts::{ListEntry as _, MOST_REPORT_BYTES},
};
use palisade_workspace::EntryMetadata;
use rustix::io::Errno;
use std::collections::HashMap;

/// The maximum number of written files that are reported.
const MOST_WROTE: usize = 200_000;

/// Takes all steps, and reports the result. If one fails, those before it are rolled back.
pub(super) fn commit(
    mut stage: Stage<'_>,
    note: impl FnOnce(&[TakenStep]),
) -> Result<Changed, FileError> {
    let journals = prepare(&mut stage)?;
    let mut done = Vec::with_capacity(stage.steps.len());
    for step in stage.steps {
        let path = path_of(&step);
        match step.take() {
            Ok(one) => done.push(one),
            Err(error) => return Err(roll_back(done, failed(&path, error))),
        }
    }
    for at in (0..done.len()).rev() {
        if let Some(Err(error)) = done.get(at).map(TakenStep::late) {
            let path = done.get(at).map_or_else(|| Path(Vec::new()), TakenStep::path);
            done.iter().for_each(TakenStep::reopen);
            return Err(roll_back(done, failed(&path, error)));
        }
    }
    if let Err(error) = journals.into_iter().try_for_each(Journal::end) {
        done.iter().for_each(TakenStep::reopen);
        return Err(roll_back(done, error));
    }
    done.iter().for_each(TakenStep::finish);
    note(&done);
    let of = |one: &TakenStep| one.wrote().into_iter().map(|(path, seen)| (path, seen.version()));
    let mut room = MOST_REPORT_BYTES;
    let fits = |one: &(Path, Version)| {
        let left = room.checked_sub(one.max_encoded_len());
        room = left.unwrap_or(0);
        left.is_some()
    };
    let wrote = done.iter().flat_map(of).take(MOST_WROTE).take_while(fits).collect();
    identify_unreadable(&mut stage.effects, &done);
    let mut notes = notes(&stage.effects);
    notes.extend(stage.not_restored.notes());
    let Stage { effects, replacements, .. } = stage;
    Ok(Changed { effects, wrote, replacements, notes, ..Changed::default() })
}

/// Replaces the print of files that their owner can not read by one of their inode, since their
/// content can not be compared later.
fn identify_unreadable(effects: &mut [Effect], done: &[TakenStep]) {
    let closed =
        |effect: &Effect| matches!(effect.print, Print::File { mode, .. } if mode & 0o400 == 0);
    if !effects.iter().any(closed) {
        return;
    }
    let left: HashMap<Path, Print> = done
        .iter()
        .filter_map(|one| Some((one.path(), one.left()?.look().ok().flatten()?.node())))
        .collect();
    for effect in effects.iter_mut().filter(|effect| closed(effect)) {
        if let Some(print) = left.get(&effect.path) {
            effect.print = print.clone();
        }
    }
}

/// Returns a sentence for each effect that was not committed.
fn notes(effects: &[Effect]) -> Vec<String> {
    let special = effects.iter().filter(|effect| effect.kind == EffectKind::Special);
    let sentence = |effect: &Effect| {
        format!("{} is a FIFO or device, which can not be committed", shown(&effect.path))
    };
    special.map(sentence).collect()
}

/// Prepares the change without any visible effect. For the commit of a transaction, the last part
/// is writing its journals.
pub(super) fn prepare(stage: &mut Stage<'_>) -> Result<Vec<Journal>, FileError> {
    let mut stagings = std::mem::take(&mut stage.stagings);
    stagings.retain(|staging| stage.steps.iter().any(|step| staging.has(step)));
    stagings.iter().try_for_each(|staging| staging.begin())?;
    for step in &mut stage.steps {
        step.prepare()?;
    }
    unchanged(stage)?;
    stagings.iter().map(|staging| Journal::begin(stage, staging)).collect()
}

/// Refuses the change if anything differs from what was found when it was planned.
fn unchanged(stage: &Stage<'_>) -> Result<(), FileError> {
    for dir in stage.directories() {
        if !dir.is_in_place() {
            return Err(changed(&Path(dir.real.clone())));
        }
    }
    for (spot, then) in &stage.found {
        let now = match spot.look() {
            Err(Errno::NOTDIR) => None,
            now => now.map_err(|e| refused("look at", &spot.path(), e))?,
        };
        let same = match (then, &now) {
            (Some(then), Some(now)) => is_same(then, now),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            return Err(changed(&spot.path()));
        }
    }
    Ok(())
}

/// Compares what was found with what is there now. The contents of a directory are not compared
/// here, because they may change until its own step.
fn is_same(then: &EntryMetadata, now: &EntryMetadata) -> bool {
    if then.kind() == rustix::fs::FileType::Directory {
        return (then.id(), then.kind(), then.mode()) == (now.id(), now.kind(), now.mode());
    }
    then == now
}

fn path_of(step: &Step) -> Path {
    match step {
        Step::MakeDir { spot, .. }
        | Step::Link { spot, .. }
        | Step::Put { spot, .. }
        | Step::Replace { spot, .. }
        | Step::Remove { spot, .. }
        | Step::Place { spot, .. }
        | Step::Take { spot, .. }
        | Step::Touch { spot, .. }
        | Step::Mode { spot, .. } => spot.path(),
        Step::Move { to, .. } | Step::MoveOver { to, .. } => to.path(),
        Step::Append(append) => append.spot.path(),
        Step::Cut(cut) => cut.spot.path(),
    }
}

fn failed(path: &Path, error: StepError) -> FileError {
    match error {
        StepError::Changed => changed(path),
        StepError::Displaced(name) => {
            let mut error = changed(path);
            error.message += &format!(". The file that had that name is now beside it, as {name}");
            error
        }
        StepError::Kernel(error) if Errno::from_io_error(&error) == Some(Errno::XDEV) => {
            super::arrange::cross_device(path, path)
        }
        StepError::Kernel(error) => refused_io("change", path, &error),
    }
}

/// Rolls back the steps that were taken, last one first.
fn roll_back(done: Vec<TakenStep>, mut error: FileError) -> FileError {
    for one in done.into_iter().rev() {
        let path = one.path();
        if let Err(why) = one.undo() {
            error.message += &format!(
                ". And {} could not be restored: {}",
                shown(&path),
                failed(&path, why).message
            );
        }
    }
    error
}
