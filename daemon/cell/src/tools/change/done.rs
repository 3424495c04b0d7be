//! Steps that were done: taken back, or finished for good. Room: the cell.

use super::{
    act::{Below, StepError, exchange, put_back, set_mode, set_time},
    cut::Cut,
    fresh::Fresh,
    names::rename_new,
    seen::Seen,
    settle::{
        append,
        back::{give_back, restore_name},
        staging::Staging,
        whole::files,
    },
    spot::{Spot, look},
    tree,
};
use palisade_plan::Path;
use rustix::{fs::AtFlags, io::Errno};
use std::rc::Rc;

/// A step that was done, with what it takes to undo it.
#[derive(Debug)]
pub(super) enum Done {
    MadeDir {
        spot: Spot,
        mode: Option<u32>,
    },
    New {
        spot: Spot,
        id: Option<(u64, u64)>,
        fresh: Option<Fresh>,
    },
    Aside {
        spot: Spot,
        aside: String,
        below: Below,
        fresh: Option<Fresh>,
    },
    Moved {
        from: Spot,
        to: Spot,
    },
    MovedOver {
        from: Spot,
        to: Spot,
        aside: String,
    },
    Mode {
        spot: Spot,
        old: u32,
    },
    Placed {
        spot: Spot,
        staging: Rc<Staging>,
        /// The name in the staging directory of what was there.
        replaced: Option<Vec<u8>>,
        id: Option<(u64, u64)>,
        late: Vec<(Vec<u8>, u32)>,
    },
    Taken {
        spot: Spot,
        staging: Rc<Staging>,
        kept: Vec<u8>,
    },
    Touched {
        spot: Spot,
        old: (i64, u32),
    },
    Appended {
        spot: Spot,
        old: Seen,
        /// Its size by then.
        end: u64,
    },
    Cut(Box<Cut>),
}

impl Done {
    /// Where it was done.
    pub(super) fn path(&self) -> Path {
        match self {
            Self::MadeDir { spot, .. }
            | Self::New { spot, .. }
            | Self::Aside { spot, .. }
            | Self::Placed { spot, .. }
            | Self::Taken { spot, .. }
            | Self::Touched { spot, .. }
            | Self::Appended { spot, .. }
            | Self::Mode { spot, .. } => spot.path(),
            Self::Cut(cut) => cut.spot.path(),
            Self::Moved { to, .. } | Self::MovedOver { to, .. } => to.path(),
        }
    }

    /// The spot at which it left something of the program's or the call's.
    pub(super) fn left(&self) -> Option<&Spot> {
        match self {
            Self::New { spot, .. }
            | Self::Placed { spot, .. }
            | Self::Touched { spot, .. }
            | Self::Appended { spot, .. }
            | Self::Mode { spot, .. } => Some(spot),
            Self::Cut(cut) => Some(&cut.spot),
            Self::Aside { spot, fresh, .. } => fresh.as_ref().map(|_| spot),
            Self::Moved { to, .. } | Self::MovedOver { to, .. } => Some(to),
            Self::MadeDir { .. } | Self::Taken { .. } => None,
        }
    }

    /// What can only be done when all else is: a directory that nobody may write would else not
    /// have got what is in it.
    pub(super) fn late(&self) -> Result<(), StepError> {
        match self {
            Self::MadeDir { spot, mode: Some(mode) } => Ok(set_mode(&spot.handle()?, *mode)?),
            Self::Placed { spot, late, .. } => {
                // What is below goes first: who may not enter a directory can not go on there.
                late.iter()
                    .rev()
                    .try_for_each(|(way, mode)| Ok(set_mode(&spot.below(way).handle()?, *mode)?))
            }
            Self::MadeDir { mode: None, .. }
            | Self::New { .. }
            | Self::Aside { .. }
            | Self::Moved { .. }
            | Self::MovedOver { .. }
            | Self::Mode { .. }
            | Self::Taken { .. }
            | Self::Touched { .. }
            | Self::Appended { .. }
            | Self::Cut(_) => Ok(()),
        }
    }

    /// Makes a directory that was made one that can be emptied again.
    pub(super) fn reopen(&self) {
        if let Self::MadeDir { spot, mode: Some(_) } = self {
            // If this fails, so does taking it back, and that is told.
            spot.handle().and_then(|handle| set_mode(&handle, 0o700)).ok();
        }
        if let Self::Placed { spot, late, .. } = self {
            for (way, mode) in late {
                let below = spot.below(way);
                below.handle().and_then(|handle| set_mode(&handle, mode | 0o700)).ok();
            }
        }
    }

    /// Takes it back.
    pub(super) fn undo(self) -> Result<(), StepError> {
        match self {
            Self::Aside { spot, aside, below: _, fresh: None } => {
                put_back(&spot.dir()?, &aside, &spot.name)
            }
            other @ (Self::MadeDir { .. }
            | Self::New { .. }
            | Self::Aside { .. }
            | Self::Moved { .. }
            | Self::MovedOver { .. }
            | Self::Mode { .. }
            | Self::Placed { .. }
            | Self::Taken { .. }
            | Self::Touched { .. }
            | Self::Appended { .. }
            | Self::Cut(_)) => Ok(other.rename_back()?),
        }
    }

    fn rename_back(self) -> Result<(), Errno> {
        match self {
            Self::MadeDir { spot, .. } => {
                rustix::fs::unlinkat(spot.dir()?, spot.name.as_slice(), AtFlags::REMOVEDIR)
            }
            Self::New { spot, id, fresh: _ } => {
                let dir = spot.dir()?;
                match look(&dir, &spot.name)? {
                    // Somebody else's by now stays.
                    Some(now) if Some(now.id()) == id => {
                        rustix::fs::unlinkat(&dir, spot.name.as_slice(), AtFlags::empty())
                    }
                    Some(_) | None => Ok(()),
                }
            }
            // This replaces the new file.
            Self::Aside { spot, aside, .. } => {
                let dir = spot.dir()?;
                rustix::fs::renameat(&dir, aside.as_str(), &dir, spot.name.as_slice())
            }
            Self::Moved { from, to } => {
                rename_new((to.dir()?, to.name.as_slice()), (from.dir()?, from.name.as_slice()))
            }
            Self::MovedOver { from, to, aside } => {
                let (from_dir, to_dir) = (from.dir()?, to.dir()?);
                exchange((&from_dir, aside.as_bytes()), (&to_dir, to.name.as_slice()))?;
                rename_new((&from_dir, aside.as_bytes()), (&from_dir, from.name.as_slice()))
            }
            Self::Mode { spot, old } => set_mode(&spot.handle()?, old),
            Self::Touched { spot, old } => set_time(&spot.handle()?, old),
            Self::Appended { spot, old, end } => append::cut(&spot, old.id(), end, old.past()),
            Self::Cut(cut) => cut.undo(),
            Self::Taken { spot, staging, kept } => {
                give_back(&staging, &kept, &spot.dir()?, &spot.name)
            }
            Self::Placed { spot, staging, replaced: Some(kept), .. } => {
                let put_back = staging
                    .dir()
                    .and_then(|aside| restore_name(aside, &kept, &spot.dir()?, &spot.name));
                put_back.inspect_err(|_| staging.keep())
            }
            Self::Placed { spot, staging, replaced: None, id, .. } => {
                let dir = spot.dir()?;
                match look(&dir, &spot.name)? {
                    // Somebody else's by now stays.
                    Some(now) if Some(now.id()) == id => {
                        rename_new((&dir, &spot.name), (staging.dir()?, &staging.name()))
                    }
                    Some(_) | None => Ok(()),
                }
            }
        }
    }

    /// Lets go for good of what it replaced. What can not be removed keeps a name that says what
    /// it is, and is swept up later.
    pub(super) fn finish(&self) {
        match self {
            Self::Aside { spot, aside, below, .. } => {
                let Ok(dir) = spot.dir() else { return };
                match below {
                    Below::Nothing => {
                        rustix::fs::unlinkat(&dir, aside.as_str(), AtFlags::empty()).ok();
                    }
                    Below::Empty | Below::Tree(_) => {
                        tree::remove(&dir, aside.as_bytes()).ok();
                    }
                }
            }
            Self::MovedOver { from, aside, .. } => {
                let Ok(dir) = from.dir() else { return };
                rustix::fs::unlinkat(&dir, aside.as_str(), AtFlags::empty()).ok();
            }
            // What was replaced goes with the directory that it is in.
            Self::Placed { .. }
            | Self::Taken { .. }
            | Self::Touched { .. }
            | Self::Appended { .. }
            | Self::Cut(_)
            | Self::MadeDir { .. }
            | Self::New { .. }
            | Self::Moved { .. }
            | Self::Mode { .. } => {}
        }
    }

    /// The files that it put there, as they are now.
    pub(super) fn wrote(&self) -> Vec<Seen> {
        match self {
            Self::New { spot, fresh: Some(fresh), .. }
            | Self::Aside { spot, fresh: Some(fresh), .. } => {
                fresh.version().or_else(|| spot.look().ok().flatten()).into_iter().collect()
            }
            Self::Placed { spot, .. } => files(spot),
            Self::Touched { spot, .. } | Self::Appended { spot, .. } => {
                spot.look().ok().flatten().into_iter().collect()
            }
            Self::Cut(cut) => cut.spot.look().ok().flatten().into_iter().collect(),
            Self::New { fresh: None, .. }
            | Self::Aside { fresh: None, .. }
            | Self::MadeDir { .. }
            | Self::Moved { .. }
            | Self::MovedOver { .. }
            | Self::Taken { .. }
            | Self::Mode { .. } => Vec::new(),
        }
    }
}
