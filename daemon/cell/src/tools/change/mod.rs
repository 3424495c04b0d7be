//! Changes of files in two phases: worked out whole, then done whole or not at all. Room: the
//! cell.

mod act;
mod arrange;
mod aside;
mod commit;
mod cut;
mod delete;
mod done;
mod fresh;
mod incoming;
mod keep;
mod names;
mod patch;
mod plan;
mod print;
mod restore;
mod revert;
mod seen;
mod settle;
mod spot;
mod stage;
mod step;
mod target;
mod told;
mod tree;
mod write;

pub(crate) use self::{names::with_free_name, tree::remove as remove_tree};

use self::{arrange::Over, done::Done, incoming::Incoming, restore::Force, stage::Stage};
use super::{Reach, Stop, failure};
use crate::{channel::Channel, overlay::Layers, view::View};
use palisade_plan::{
    cell::FileErrorKind,
    change::{Act, Change, Prepared},
};

/// Works a change out, says what it would be, and does it if that is the answer.
pub(crate) fn change(channel: &Channel, change: &Change, view: &View) -> Result<(), Stop> {
    let incoming = Incoming { channel };
    if let Act::Resolve { begun } = &change.act {
        return settle::resolve::resolve(&incoming, view, begun.as_deref());
    }
    let mut stage = Stage::new(change, view);
    work_out(&mut stage, &incoming)?;
    offer(stage, &incoming, |_| ())
}

/// Works out what a transaction's program did, says what it was, and does it if that is the answer.
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
    let incoming = Incoming { channel };
    let mut stage = Stage::new(change, view);
    let unchanged = settle::settle(&mut stage, channel, layers, leave)?;
    offer(stage, &incoming, |done| settle::earlier::note(layers, done, unchanged))
}

/// Says what a change would be, and does it if that is the answer; `note` then learns what was done.
fn offer(
    mut stage: Stage<'_>,
    incoming: &Incoming<'_>,
    note: impl FnOnce(&[Done]),
) -> Result<(), Stop> {
    let channel = incoming.channel;
    told::refuse_many(&stage.effects, &stage.conflicts)?;
    let prepared = Prepared {
        effects: stage.effects.clone(),
        digest: stage.digest(),
        diff: std::mem::take(&mut stage.diff),
        diff_complete: stage.diff_complete,
        conflicts: std::mem::take(&mut stage.conflicts),
    };
    stage.take_kept().send(channel, told::prepared(prepared))?;
    incoming.decision()?;
    let changed = commit::commit(stage, note)?;
    Ok(channel.send_all(&told::changed(changed))?)
}

fn work_out(stage: &mut Stage<'_>, incoming: &Incoming<'_>) -> Result<(), Stop> {
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
            delete::delete(stage, channel, path, Reach::from_recursive(*recursive))
        }
        Act::Move { from, to, overwrite } => {
            let over = if *overwrite { Over::Files } else { Over::Nothing };
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
