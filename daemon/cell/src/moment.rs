//! A moment that tells what is changed in a file system from then on from what was changed before,
//! by the marks of the file system itself. Room: the cell.

use crate::tools::with_free_name;
use rustix::{
    fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT},
    io::Errno,
    time::{ClockId, clock_gettime},
};
use std::{
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

/// In seconds and nanoseconds.
pub(crate) type Moment = (i64, u32);

/// How often it is tried to see the file system's clock go on: 20 milliseconds, or twice the
/// slowest that there is.
const LOOKS: usize = 200;

const PAUSE: Duration = Duration::from_micros(100);

/// What was changed before this is marked with less, and what is changed afterwards with this or
/// more. Where it can not be told, some of what was changed before counts as changed afterwards.
pub(crate) fn now(in_directory: impl AsFd) -> Moment {
    by_file(in_directory).unwrap_or_else(|_| by_clock())
}

/// By a file without a name. A kernel that marks files finely does so for one that was looked at,
/// and then marks nothing with less; another is waited for.
fn by_file(in_directory: impl AsFd) -> Result<Moment, Errno> {
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

fn marked(file: &OwnedFd) -> Result<Moment, Errno> {
    Ok(crate::tools::version(&rustix::fs::fstat(file)?).ctime)
}

/// Where nothing can be made: by the clock that marks files, once it is past the exact one.
fn by_clock() -> Moment {
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
        let marked = || crate::tools::version(&rustix::fs::stat(&file).unwrap()).ctime;
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
