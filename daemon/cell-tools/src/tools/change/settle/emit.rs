//! Turns what the program did into steps and effects on the workspace. New and changed entries come
//! first, deleted ones last. Runs in the cell.

use super::{
    super::{spot::Dir, stage::Stage, step::Step},
    found::{LayerChange, is_special},
    grow::{InodeCounts, touched},
    leave::ExcludedPaths,
    moves::DeletedFiles,
    sizes::FileSizes,
    staging::Staging,
    upper::UpperLayer,
};
use crate::tools::{Stop, go_on};
use palisade_channel::Channel;
use palisade_plan::{Path, cell::FileError};
use palisade_workspace::{EntryMetadata, Layers, kind_of};
use rustix::fs::FileType;
use std::{cell::OnceCell, collections::BTreeMap, rc::Rc};

/// The mode bits that the owner of a directory needs to change its contents.
const USABLE: u32 = 0o300;

/// The planning of a commit.
pub(super) struct CommitPlanner<'s, 'a> {
    pub(super) stage: &'s mut Stage<'a>,
    pub(super) channel: &'s Channel,
    pub(super) layers: &'s Layers,
    pub(super) upper: Rc<UpperLayer>,
    pub(super) staging: Rc<Staging>,
    /// The times to be set after all other steps, by file.
    pub(super) times: BTreeMap<(u64, u64), (Path, Step)>,
    /// The number of changes to each file.
    pub(super) touched: InodeCounts,
    /// The number of names that each file has in the workspace, if that had to be found out.
    pub(super) names: OnceCell<Option<InodeCounts>>,
    pub(super) sizes: FileSizes,
}

impl<'s, 'a> CommitPlanner<'s, 'a> {
    pub(super) fn new(
        stage: &'s mut Stage<'a>,
        channel: &'s Channel,
        (layers, upper): (&'s Layers, &Rc<UpperLayer>),
        base: &Rc<Dir>,
    ) -> Self {
        let staging = Rc::new(Staging::new(base, layers.kept.durable));
        stage.stagings.push(Rc::clone(&staging));
        let upper = Rc::clone(upper);
        let (times, touched, names) = (BTreeMap::new(), InodeCounts::new(), OnceCell::new());
        let sizes = FileSizes::new(stage.change.most);
        Self { stage, channel, layers, upper, staging, times, touched, names, sizes }
    }

    pub(super) fn all(
        &mut self,
        items: Vec<LayerChange>,
        left: &mut ExcludedPaths<'_>,
    ) -> Result<(), Stop> {
        let leave: Vec<bool> = items.iter().map(|item| left.has(&item.spot.path())).collect();
        let is_left = |at: usize| leave.get(at).copied().unwrap_or(false);
        let mut gone = DeletedFiles::of(&items);
        self.touched = touched(&items);
        let mut moved = vec![false; items.len()];
        let (mut last, mut modes) = (Vec::new(), Vec::new());
        for (at, item) in items.iter().enumerate() {
            if is_left(at) {
                continue;
            }
            go_on(self.channel)?;
            self.refuse_hidden(item)?;
            match (&item.lower, &item.upper) {
                (_, None) => last.push(at),
                (_, Some(new)) if is_special(new.kind()) => self.special(item.spot.path()),
                (Some(old), Some(new)) if is_directory(old) && is_directory(new) => {
                    match (old.mode() == new.mode(), new.mode() & USABLE == USABLE) {
                        (true, _) => {}
                        (false, true) => self.mode(&item.spot, old, new.mode())?,
                        // The directory must be writable until all other steps are taken.
                        (false, false) => modes.push((&item.spot, old, new.mode())),
                    }
                }
                (Some(old), Some(new)) => self.other(&item.spot, old, new)?,
                (None, Some(new)) => {
                    let was = gone.take(item, |was| {
                        !is_left(was) && items.get(was).is_some_and(|was| self.is_same(was, item))
                    });
                    match was.and_then(|was| Some((was, items.get(was)?))) {
                        Some((at, was)) => {
                            if let Some(flag) = moved.get_mut(at) {
                                *flag = true;
                            }
                            self.moved(was, &item.spot, new)?;
                        }
                        None => self.new_one(&item.spot, new)?,
                    }
                }
            }
        }
        for at in last {
            if let (Some(item), Some(false)) = (items.get(at), moved.get(at)) {
                self.gone(item)?;
            }
        }
        for (path, step) in std::mem::take(&mut self.times).into_values() {
            self.stage.plan(path, Some(FileType::RegularFile), step)?;
        }
        modes.into_iter().rev().try_for_each(|(spot, old, mode)| Ok(self.mode(spot, old, mode)?))
    }
}

impl CommitPlanner<'_, '_> {
    /// Refuses a hidden name before anything of the entry in the workspace is read.
    fn refuse_hidden(&self, item: &LayerChange) -> Result<(), FileError> {
        let path = item.spot.path();
        let kinds = [&item.lower, &item.upper].into_iter().flatten().map(|s| kind_of(s.kind()));
        let mut hidden = kinds.filter(|kind| self.stage.view.hides(&path, *kind));
        hidden.next().map_or(Ok(()), |kind| self.stage.view.refuse(&path, kind))
    }
}

fn is_directory(seen: &EntryMetadata) -> bool {
    seen.kind() == FileType::Directory
}
