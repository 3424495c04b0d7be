//! Finds a time that separates later changes in a file system from earlier ones, by the file
//! system's own timestamps. Runs in the cell.

use crate::tools::with_free_name;
use palisade_workspace::{ChangeTime, version};
use rustix::{
    fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT},
    io::Errno,
    time::{ClockId, clock_gettime},
};
use std::{
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

/// The number of times that the file system's clock is checked for an advance: 20 milliseconds in
/// all, twice the slowest tick.
const LOOKS: usize = 200;

const PAUSE: Duration = Duration::from_micros(100);

/// Returns a time above the timestamps of all earlier changes, and at or below those of all later
/// ones. Where that is not possible, some earlier changes count as later ones.
#[must_use]
pub fn now(in_directory: impl AsFd) -> ChangeTime {
    by_file(in_directory).unwrap_or_else(|_| by_clock())
}

/// Finds the time from the timestamps of an unnamed file. A kernel with fine timestamps gives a new
/// one to a file that was queried, and never an earlier one afterwards. With other kernels the loop
/// waits for the next tick.
fn by_file(in_directory: impl AsFd) -> Result<ChangeTime, Errno> {
    let file = nameless(in_directory)?;
    let first = marked(&file)?;
    for _look in 0..LOOKS {
        let touch = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        };
        rustix::fs::futimens(&file, &touch)?;
        let now = marked(&file)?;
        if now > first {
            return Ok(now);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(first)
}

fn nameless(directory: impl AsFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::openat(&directory, ".", flags | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => {
            let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let made = with_free_name(|name| rustix::fs::openat(&directory, name, flags, mode));
            let (file, name) = made?;
            rustix::fs::unlinkat(&directory, name.as_str(), AtFlags::empty())?;
            Ok(file)
        }
        made => made,
    }
}

fn marked(file: &OwnedFd) -> Result<ChangeTime, Errno> {
    Ok(version(&rustix::fs::fstat(file)?).ctime)
}

/// Finds the time without a file: waits until the coarse clock, which stamps files, has passed the
/// exact clock.
fn by_clock() -> ChangeTime {
    let read = |clock| {
        let now = clock_gettime(clock);
        (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0))
    };
    let exact = read(ClockId::Realtime);
    let mut marks = read(ClockId::RealtimeCoarse);
    for _look in 0..LOOKS {
        if marks > exact {
            break;
        }
        std::thread::sleep(PAUSE);
        marks = read(ClockId::RealtimeCoarse);
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_changed_before_and_afterwards_can_be_told() {
        let temp = tempfile::tempdir().unwrap();
        let dir = fs::File::open(temp.path()).unwrap();
        let file = temp.path().join("file");
        let marked = || version(&rustix::fs::stat(&file).unwrap()).ctime;
        for round in 0..200 {
            fs::write(&file, "before").unwrap();
            let before = marked();
            let now = if round % 20 == 0 { by_clock() } else { now(&dir) };
            assert!(before < now, "{before:?} {now:?} in round {round}");
            fs::write(&file, "afterwards").unwrap();
            assert!(marked() >= now, "{:?} {now:?} in round {round}", marked());
        }
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }
}
