//! Steps that were done: taken back, or finished for good. Room: the cell.

use super::{
    fresh::Fresh,
    names::rename_new,
    seen::Seen,
    spot::{Spot, look},
    step::{Below, StepError, exchange, put_back, set_mode},
    tree,
};
use palisade_plan::Path;
use rustix::{fs::AtFlags, io::Errno};

/// A step that was done, with what it takes to undo it.
#[derive(Debug)]
pub(super) enum Done {
    MadeDir { spot: Spot, mode: Option<u32> },
    New { spot: Spot, id: Option<(u64, u64)>, fresh: Option<Fresh> },
    Aside { spot: Spot, aside: String, below: Below, fresh: Option<Fresh> },
    Moved { from: Spot, to: Spot },
    MovedOver { from: Spot, to: Spot, aside: String },
    Mode { spot: Spot, old: u32 },
}

impl Done {
    /// Where it was done.
    pub(super) fn path(&self) -> Path {
        match self {
            Self::MadeDir { spot, .. }
            | Self::New { spot, .. }
            | Self::Aside { spot, .. }
            | Self::Mode { spot, .. } => spot.path(),
            Self::Moved { to, .. } | Self::MovedOver { to, .. } => to.path(),
        }
    }

    /// What can only be done when all else is: a directory that nobody may write would else not
    /// have got what is in it.
    pub(super) fn late(&self) -> Result<(), StepError> {
        if let Self::MadeDir { spot, mode: Some(mode) } = self {
            set_mode(&spot.handle()?, *mode)?;
        }
        Ok(())
    }

    /// Makes a directory that was made one that can be emptied again.
    pub(super) fn reopen(&self) {
        if let Self::MadeDir { spot, mode: Some(_) } = self {
            // If this fails, so does taking it back, and that is told.
            spot.handle().and_then(|handle| set_mode(&handle, 0o700)).ok();
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
            | Self::Mode { .. }) => Ok(other.rename_back()?),
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
            Self::MadeDir { .. } | Self::New { .. } | Self::Moved { .. } | Self::Mode { .. } => {}
        }
    }

    /// The file that it put there, as it is now.
    pub(super) fn wrote(&self) -> Option<Seen> {
        match self {
            Self::New { spot, fresh: Some(fresh), .. }
            | Self::Aside { spot, fresh: Some(fresh), .. } => {
                fresh.version().or_else(|| spot.look().ok().flatten())
            }
            Self::New { fresh: None, .. }
            | Self::Aside { fresh: None, .. }
            | Self::MadeDir { .. }
            | Self::Moved { .. }
            | Self::MovedOver { .. }
            | Self::Mode { .. } => None,
        }
    }
}
