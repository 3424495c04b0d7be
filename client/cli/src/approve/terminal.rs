//! The controlling terminal: reads single keys while an approval request is shown, and restores the
//! terminal on every exit.

use crate::stream::escape;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush,
    tcgetattr, tcgetwinsize, tcsetattr,
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

/// Resets more of it, if a program has moved the cursor:
/// - origin, insert and no-wrap modes, reverse video;
/// - the alternate screen by its other name;
/// - reports of mouse, focus and pastes, other encodings of keys.
///
/// Some of these move the cursor, as the program did, so new text begins below everything.
const RESET_AFTER_MOVE: &str = "\x1b[?1049l\x1b[?6l\x1b[4l\x1b[?7h\x1b[?5l\x1b[?69l\x1b[?1l\x1b>\
     \x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[>4m\x1b[=0u\x1b[r\x1b[0m\
     \x1b[999;1H\n";

/// The controlling terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: Arc<File>,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

/// While this value lives, keys are read one by one, without echo.
#[derive(Debug)]
pub(crate) struct RawMode(());

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal's original modes. Calling it twice is harmless.
pub(crate) fn restore() {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((tty, modes)) = kept else { return };
    let cleared = (&*tty).write_all(CLEAR.as_bytes());
    if tcsetattr(&*tty, OptionalActions::Flush, &modes).is_err() || cleared.is_err() {
        // The terminal hung up: there is nothing left to restore.
    }
}

impl Terminal {
    /// Opens the controlling terminal, if there is one.
    pub(crate) fn open() -> io::Result<Self> {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        Ok(Self { tty: Arc::new(tty), reading: None })
    }

    /// Switches to reading keys one by one. Output is not changed.
    pub(crate) fn raw(&self) -> io::Result<RawMode> {
        let found = tcgetattr(&*self.tty)?;
        let mut modes = found.clone();
        modes.local_modes -=
            LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        modes.input_modes -= InputModes::ICRNL | InputModes::IXON;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        // Stored before the change, so that a signal in between can restore the modes.
        *kept = Some((Arc::clone(&self.tty), found));
        drop(kept);
        let raw = RawMode(());
        tcsetattr(&*self.tty, OptionalActions::Now, &modes)?;
        Ok(raw)
    }

    /// Returns what was typed next; empty if the terminal is gone. If this future is cancelled, the
    /// next one returns what was typed.
    pub(crate) async fn typed(&mut self) -> io::Result<Vec<u8>> {
        let tty = Arc::clone(&self.tty);
        let reading = self.reading.get_or_insert_with(|| {
            spawn_blocking(move || {
                let mut buffer = [0; 256];
                let count = (&*tty).read(&mut buffer)?;
                Ok(buffer.get(..count).unwrap_or_default().to_vec())
            })
        });
        let read = reading.await;
        self.reading = None;
        read.unwrap_or_else(|error| Err(io::Error::other(error)))
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
        if escape::take_cursor_moved() { self.write(RESET_AFTER_MOVE) } else { Ok(()) }
    }

    /// Returns the terminal's current width in columns.
    pub(crate) fn width(&self) -> usize {
        tcgetwinsize(&*self.tty).map_or(0, |size| usize::from(size.ws_col)).max(20)
    }

    /// Returns a handle of the terminal, for a program.
    pub(crate) fn to_stdio(&self) -> io::Result<Stdio> {
        Ok(Stdio::from(self.tty.try_clone()?))
    }
}
