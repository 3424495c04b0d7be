//! Changes files in two phases: the whole change is planned first, and then made completely or not
//! at all. Runs in the cell.

mod act;
mod arrange;
mod aside;
mod commit;
mod cut;
mod delete;
mod done;
mod evidence;
mod fresh;
mod incoming;
mod keep;
mod names;
mod omitted;
mod patch;
mod plan;
mod print;
mod report;
mod restore;
mod revert;
mod settle;
mod spot;
mod stage;
mod step;
mod target;
mod tree;
mod write;

pub(crate) use self::{evidence::tracked_below, names::with_free_name};

use self::{
    arrange::Overwrite, done::TakenStep, evidence::EarlierTrees, incoming::MessageReceiver,
    restore::Force, stage::Stage,
};
use super::{Stop, WalkDepth, failure, refused};
use palisade_channel::Channel;
use palisade_plan::{
    cell::FileErrorKind,
    change::{Act, Change, Prepared},
};
use palisade_workspace::{Layers, View};

/// Plans a change, reports its effects, and makes it if the broker says so.
pub(crate) fn change(channel: &Channel, change: &Change, view: &View) -> Result<(), Stop> {
    let incoming = MessageReceiver { channel };
    if let Act::Resolve { begun } = &change.act {
        return settle::resolve::resolve(&incoming, view, begun.as_deref());
    }
    let mut stage = Stage::new(change, view);
    plan_act(&mut stage, &incoming)?;
    offer(stage, &incoming, None, |_| ())
}

/// Plans the commit of a transaction, reports its effects, and makes it if the broker says so.
pub(crate) fn settle(
    channel: &Channel,
    change: &Change,
    view: &View,
    layers: &mut Layers,
) -> Result<(), Stop> {
    let Act::Settle { leave, .. } = &change.act else {
        let message = "in a transaction there is nothing but what its program did".to_owned();
        return Err(failure(FileErrorKind::Invalid, None, message).into());
    };
    let incoming = MessageReceiver { channel };
    let mut stage = Stage::new(change, view);
    let unchanged = settle::settle(&mut stage, channel, layers, leave)?;
    let lower = |layers: &Layers| {
        rustix::io::fcntl_dupfd_cloexec(&layers.lower, 4)
            .map_err(|e| refused("open", &layers.path, e))
    };
    let main = layers.main.as_deref().map(lower).transpose()?;
    let before = EarlierTrees { workspace: lower(layers)?, main };
    let note = |done: &[TakenStep]| settle::earlier::note(layers, done, &unchanged);
    offer(stage, &incoming, Some(before), note)
}

/// Reports the effects of a change, and makes it if the broker says so. `note` is then called with
/// the steps that were taken.
fn offer(
    mut stage: Stage<'_>,
    incoming: &MessageReceiver<'_>,
    before: Option<EarlierTrees>,
    note: impl FnOnce(&[TakenStep]),
) -> Result<(), Stop> {
    let channel = incoming.channel;
    report::refuse_many(&stage.effects, &stage.conflicts)?;
    let evidence = evidence::collect(&mut stage, before);
    let prepared = Prepared {
        effects: stage.effects.clone(),
        digest: stage.digest(),
        diff: std::mem::take(&mut stage.diff),
        diff_complete: stage.diff_complete,
        conflicts: std::mem::take(&mut stage.conflicts),
        evidence: Box::new(evidence),
    };
    stage.take_kept().send(channel, report::prepared(prepared))?;
    incoming.decision()?;
    let changed = commit::commit(stage, note)?;
    Ok(channel.send_all(&report::changed(changed))?)
}

fn plan_act(stage: &mut Stage<'_>, incoming: &MessageReceiver<'_>) -> Result<(), Stop> {
    let channel = incoming.channel;
    match &stage.change.act {
        Act::Write { path, mode } => write::write(stage, incoming, path, *mode),
        Act::Edit { files } => {
            if files.is_empty() {
                let message = "no file to edit was named".to_owned();
                return Err(failure(FileErrorKind::Invalid, None, message).into());
            }
            for file in files {
                super::go_on(channel)?;
                write::edit(stage, file)?;
            }
            Ok(())
        }
        Act::Patch { base } => {
            let mut text = Vec::new();
            incoming.content(|data| {
                if text.len() + data.len() > palisade_edits::MAX_PATCH {
                    let most = palisade_edits::MAX_PATCH;
                    let message = format!("the patch is larger than {most} bytes");
                    return Err(failure(FileErrorKind::TooLarge, None, message));
                }
                text.extend_from_slice(data);
                Ok(())
            })?;
            patch::patch(stage, channel, base, &text)
        }
        Act::Delete { path, recursive } => {
            delete::delete(stage, channel, path, WalkDepth::from_recursive(*recursive))
        }
        Act::Move { from, to, overwrite } => {
            let over = if *overwrite { Overwrite::Files } else { Overwrite::Nothing };
            Ok(arrange::rename(stage, from, to, over)?)
        }
        Act::MakeDir { path } => Ok(arrange::make_dir(stage, path)?),
        Act::Restore { entries, force } => {
            let force = if *force { Force::Yes } else { Force::No };
            restore::restore(stage, incoming, entries, force)
        }
        Act::Settle { .. } | Act::Resolve { .. } => {
            let message = "there is no transaction here to be settled".to_owned();
            Err(failure(FileErrorKind::Invalid, None, message).into())
        }
    }
}

#[cfg(test)]
mod tests;
