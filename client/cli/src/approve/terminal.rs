//! The terminal of whoever types: keys one by one while a question is shown, and everything as it
//! was on any way out.

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

/// What a terminal was before it was changed; shared, so that every way out can put it back.
static KEPT: Mutex<Option<(Arc<File>, Termios)>> = Mutex::new(None);

/// Takes back the line that the prompt is on.
pub(crate) const CLEAR: &str = "\r\x1b[K";

/// Held by whoever writes to the terminal: a program's output waits while a question is shown.
pub(crate) static SCREEN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Ends what a program may have left: a sequence that is not whole (CAN), a scroll region (the
/// cursor stays where it is), colours, character sets, a hidden cursor, the alternate screen.
const RESET: &str = "\x18\x1b[?1047l\x1b7\x1b[r\x1b8\x1b[0m\x1b(B\x1b)B\x0f\x1b[?25h";

/// Ends more of it: origin, insert and no-wrap modes, reverse video, the alternate screen by its
/// other name, reports of mouse, focus and pastes, other encodings of keys. Some of these move the
/// cursor, and the program did: what follows begins below everything.
const RESET_STEERED: &str = "\x1b[?1049l\x1b[?6l\x1b[4l\x1b[?7h\x1b[?5l\x1b[?69l\x1b[?1l\x1b>\
     \x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[>4m\x1b[=0u\x1b[r\x1b[0m\
     \x1b[999;1H\n";

/// The controlling terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: Arc<File>,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

/// Keys come one by one and unechoed until this is dropped.
#[derive(Debug)]
pub(crate) struct Raw(());

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back as it was found. To do so twice is no mistake.
pub(crate) fn restore() {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((tty, modes)) = kept else { return };
    let cleared = (&*tty).write_all(CLEAR.as_bytes());
    if tcsetattr(&*tty, OptionalActions::Flush, &modes).is_err() || cleared.is_err() {
        // It hung up: there is nothing left to put back.
    }
}

impl Terminal {
    /// The controlling terminal, if there is one.
    pub(crate) fn open() -> io::Result<Self> {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        Ok(Self { tty: Arc::new(tty), reading: None })
    }

    /// Takes keys one by one. Output is left as it is.
    pub(crate) fn raw(&self) -> io::Result<Raw> {
        let found = tcgetattr(&*self.tty)?;
        let mut modes = found.clone();
        modes.local_modes -=
            LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        modes.input_modes -= InputModes::ICRNL | InputModes::IXON;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the change: a signal in between finds what to put back.
        *kept = Some((Arc::clone(&self.tty), found));
        drop(kept);
        let raw = Raw(());
        tcsetattr(&*self.tty, OptionalActions::Now, &modes)?;
        Ok(raw)
    }

    /// What was typed next; nothing means that the terminal is gone. May be given up: what is
    /// typed then comes with the next.
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

    /// Forgets what was typed and not read yet.
    pub(crate) fn discard(&self) -> io::Result<()> {
        Ok(tcflush(&*self.tty, QueueSelector::IFlush)?)
    }

    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        (&*self.tty).write_all(text.as_bytes())
    }

    /// Undoes what a program may have done to it, so that what is written next is seen as it is.
    pub(crate) fn reset(&self) -> io::Result<()> {
        self.write(RESET)?;
        if escape::take_steered() { self.write(RESET_STEERED) } else { Ok(()) }
    }

    /// How many columns it has now.
    pub(crate) fn width(&self) -> usize {
        tcgetwinsize(&*self.tty).map_or(0, |size| usize::from(size.ws_col)).max(20)
    }

    /// The terminal itself, for a program.
    pub(crate) fn lend(&self) -> io::Result<Stdio> {
        Ok(Stdio::from(self.tty.try_clone()?))
    }
}
