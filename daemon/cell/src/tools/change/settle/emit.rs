//! From what the program did to the steps that do it to the workspace, and what is said of them:
//! what is new or other first, what is gone last. Room: the cell.

use super::{
    super::{seen::Seen, spot::Dir, stage::Stage, step::Step},
    found::{Item, is_special},
    grow::{Names, touched},
    leave::Leave,
    moves::Gone,
    staging::Staging,
    upper::UpperLayer,
};
use crate::{
    channel::Channel,
    hidden::kind_of,
    overlay::Layers,
    tools::{Stop, go_on},
};
use palisade_plan::{Path, cell::FileError};
use rustix::fs::FileType;
use std::{cell::OnceCell, collections::BTreeMap, rc::Rc};

/// The bits without which the owner of a directory can not change what is in it.
const USABLE: u32 = 0o300;

/// Plans what the program did.
pub(super) struct Emission<'s, 'a> {
    pub(super) stage: &'s mut Stage<'a>,
    pub(super) channel: &'s Channel,
    pub(super) layers: &'s Layers,
    pub(super) upper: Rc<UpperLayer>,
    pub(super) staging: Rc<Staging>,
    /// Times to be set when all else is done, by file.
    pub(super) times: BTreeMap<(u64, u64), (Path, Step)>,
    /// How many items are about each file.
    pub(super) touched: Names,
    /// How often each file has a name in the workspace, if that had to be found out.
    pub(super) names: OnceCell<Option<Names>>,
}

impl<'s, 'a> Emission<'s, 'a> {
    pub(super) fn new(
        stage: &'s mut Stage<'a>,
        channel: &'s Channel,
        (layers, upper): (&'s Layers, &Rc<UpperLayer>),
        base: &Rc<Dir>,
    ) -> Self {
        let staging = Rc::new(Staging::new(base, layers.kept.durable));
        stage.staging = Some(Rc::clone(&staging));
        let upper = Rc::clone(upper);
        let (times, touched, names) = (BTreeMap::new(), Names::new(), OnceCell::new());
        Self { stage, channel, layers, upper, staging, times, touched, names }
    }

    pub(super) fn all(&mut self, items: Vec<Item>, left: &mut Leave<'_>) -> Result<(), Stop> {
        let leave: Vec<bool> = items.iter().map(|item| left.has(&item.spot.path())).collect();
        let is_left = |at: usize| leave.get(at).copied().unwrap_or(false);
        let mut gone = Gone::of(&items);
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
                        // Until all else is done it has to be one that can be changed.
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

impl Emission<'_, '_> {
    /// Refuses a hidden name before anything of what has it in the workspace is looked at.
    fn refuse_hidden(&self, item: &Item) -> Result<(), FileError> {
        let path = item.spot.path();
        let kinds = [&item.lower, &item.upper].into_iter().flatten().map(|s| kind_of(s.kind()));
        let mut hidden = kinds.filter(|kind| self.stage.view.hides(&path, *kind));
        hidden.next().map_or(Ok(()), |kind| self.stage.view.refuse(&path, kind))
    }
}

fn is_directory(seen: &Seen) -> bool {
    seen.kind() == FileType::Directory
}
