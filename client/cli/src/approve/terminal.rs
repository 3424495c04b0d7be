//! The controlling terminal: reads single keys while an approval request is shown, and restores the
//! terminal on every exit.

use crate::stream::escape;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    termios::{
        InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush,
        tcgetattr, tcgetwinsize, tcsetattr,
    },
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::task::{JoinHandle, spawn_blocking};

/// The terminal's original modes; global, so that every way of exiting can restore them.
static KEPT: Mutex<Option<(Arc<File>, Termios)>> = Mutex::new(None);

/// Clears the prompt's line.
pub(crate) const CLEAR: &str = "\r\x1b[K";

/// The lock for writing to the terminal: a program's output waits while an approval request is
/// shown.
pub(crate) static SCREEN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Resets what a program may have left behind. That is an incomplete sequence (CAN), a scroll
/// region (the cursor stays where it is), colours, character sets, a hidden cursor, the alternate
/// screen.
const RESET: &str = "\x18\x1b[?1047l\x1b7\x1b[r\x1b8\x1b[0m\x1b(B\x1b)B\x0f\x1b[?25h";

/// Resets more of it, without moving the cursor:
/// - insert and no-wrap modes, reverse video, what keys send;
/// - reports of mouse, focus and pastes;
/// - updates in one step, the cursor's shape and whether it blinks.
const RESET_MODES: &str = "\x1b[4l\x1b[?7h\x1b[?5l\x1b[?1l\x1b>\x1b[>4m\x1b[=0u\x1b[?1000l\x1b[?1002l\
     \x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?2026l\x1b[0 q\x1b[?12l";

/// Resets the rest, if a program has moved the cursor: the alternate screen by its other name, origin
/// mode, margins. This moves the cursor, as the program did, so new text begins below everything.
const RESET_CURSOR: &str = "\x1b[?1049l\x1b[?6l\x1b[?69l\x1b[r\x1b[0m\x1b[999;1H\n";

/// The controlling terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: Arc<File>,
    /// A wait for something to read. It reads nothing, so that another reader misses nothing.
    waiting: Option<JoinHandle<io::Result<()>>>,
}

/// While this value lives, the terminal has other modes than before.
#[derive(Debug)]
pub(crate) struct ChangedModes {
    tty: Arc<File>,
    /// The modes of before; `None` if they are the terminal's original ones.
    before: Option<Termios>,
}

impl Drop for ChangedModes {
    fn drop(&mut self) {
        let Some(before) = &self.before else { return restore() };
        // Once the original modes are restored, they stay.
        if KEPT.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            put_back(&self.tty, before);
        }
    }
}

/// Restores the terminal's original modes. Calling it twice is harmless.
pub(crate) fn restore() {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((tty, modes)) = kept {
        put_back(&tty, &modes);
    }
}

fn put_back(mut tty: &File, modes: &Termios) {
    let cleared = tty.write_all(CLEAR.as_bytes());
    if tcsetattr(tty, OptionalActions::Flush, modes).is_err() || cleared.is_err() {
        // The terminal hung up: there is nothing left to restore.
    }
}

impl Terminal {
    /// Opens the controlling terminal, if there is one.
    pub(crate) fn open() -> io::Result<Self> {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        Ok(Self { tty: Arc::new(tty), waiting: None })
    }

    /// Switches to reading keys one by one. Output is as in the terminal's original modes.
    pub(crate) fn read_keys(&self) -> io::Result<ChangedModes> {
        self.change(|modes| {
            modes.local_modes -=
                LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
            modes.input_modes -= InputModes::ICRNL | InputModes::IXON;
            modes.special_codes[SpecialCodeIndex::VMIN] = 1;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        })
    }

    /// Switches to passing on everything as it is, for a program with a terminal of its own.
    pub(crate) fn pass_through(&self) -> io::Result<ChangedModes> {
        self.change(Termios::make_raw)
    }

    /// Switches to the terminal's original modes, for a program that changes them itself.
    pub(crate) fn as_found(&self) -> io::Result<ChangedModes> {
        self.change(|_| {})
    }

    /// Sets the original modes with a change.
    fn change(&self, change: impl FnOnce(&mut Termios)) -> io::Result<ChangedModes> {
        let found = tcgetattr(&*self.tty)?;
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut modes, before) = match &*kept {
            Some((_, original)) => (original.clone(), Some(found)),
            None => {
                // Stored before the change, so that a signal in between can restore the modes.
                *kept = Some((Arc::clone(&self.tty), found.clone()));
                (found, None)
            }
        };
        drop(kept);
        let changed = ChangedModes { tty: Arc::clone(&self.tty), before };
        change(&mut modes);
        tcsetattr(&*self.tty, OptionalActions::Now, &modes)?;
        Ok(changed)
    }

    /// Returns what was typed next; empty if the terminal is gone. The caller has [`SCREEN`].
    pub(crate) async fn typed(&mut self) -> io::Result<Vec<u8>> {
        loop {
            self.readable().await?;
            if let Some(typed) = self.read()? {
                return Ok(typed);
            }
        }
    }

    /// Returns what was typed next while no approval request was shown; empty if the terminal is
    /// gone.
    pub(crate) async fn typed_beside_requests(&mut self) -> io::Result<Vec<u8>> {
        loop {
            self.readable().await?;
            let _turn = SCREEN.lock().await;
            if let Some(typed) = self.read()? {
                return Ok(typed);
            }
        }
    }

    /// Waits until there is something to read, which another reader may read first. If this future is
    /// cancelled, the next one goes on waiting.
    async fn readable(&mut self) -> io::Result<()> {
        let tty = Arc::clone(&self.tty);
        let waiting = self
            .waiting
            .get_or_insert_with(|| spawn_blocking(move || has_input(&tty, None).map(drop)));
        let waited = waiting.await;
        self.waiting = None;
        waited.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Reads what was typed, if there is anything.
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        if !has_input(&self.tty, Some(&Timespec::default()))? {
            return Ok(None);
        }
        let mut buffer = [0; 4096];
        let count = (&*self.tty).read(&mut buffer)?;
        Ok(Some(buffer.get(..count).unwrap_or_default().to_vec()))
    }

    /// Discards input that was typed and not read yet.
    pub(crate) fn discard(&self) -> io::Result<()> {
        Ok(tcflush(&*self.tty, QueueSelector::IFlush)?)
    }

    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        (&*self.tty).write_all(text.as_bytes())
    }

    /// Resets what a program may have done to the terminal, so that the next text is shown as
    /// written.
    pub(crate) fn reset(&self) -> io::Result<()> {
        self.write(RESET)?;
        if escape::take_cursor_moved() {
            self.write(&format!("{RESET_MODES}{RESET_CURSOR}"))
        } else {
            Ok(())
        }
    }

    /// Resets what a program may have left behind when it ended, with the cursor where it is.
    pub(crate) fn reset_after_program(&self) -> io::Result<()> {
        escape::take_cursor_moved();
        self.write(&format!("{RESET}{RESET_MODES}"))
    }

    /// Returns the terminal's current width in columns.
    pub(crate) fn width(&self) -> usize {
        tcgetwinsize(&*self.tty).map_or(0, |size| usize::from(size.ws_col)).max(20)
    }

    /// Returns the terminal's current number of rows and columns.
    pub(crate) fn size(&self) -> (u16, u16) {
        let size = tcgetwinsize(&*self.tty).map(|size| (size.ws_row, size.ws_col));
        size.ok().filter(|(rows, cols)| *rows > 0 && *cols > 0).unwrap_or((24, 80))
    }

    /// Returns a handle of the terminal, for a program.
    pub(crate) fn to_stdio(&self) -> io::Result<Stdio> {
        Ok(Stdio::from(self.tty.try_clone()?))
    }
}

/// Returns `true` if there is something to read at the latest when this time is over.
fn has_input(tty: &File, most: Option<&Timespec>) -> io::Result<bool> {
    match poll(&mut [PollFd::new(tty, PollFlags::IN)], most) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
