//! What the analyst's process does: it confines itself, then answers one question after another.

use crate::{
    confine,
    message::{Answered, Asked},
    parse::Shell,
};
use palisade_channel::{Channel, ChannelError};
use palisade_policy::analysis::{Analysed, TableError, Tables, analyse};
use std::{
    os::fd::{AsFd as _, OwnedFd},
    thread,
};

/// The parser recurses; its stack is part of the memory that it may have.
const STACK: usize = 64 * 1024 * 1024;

/// Why the analyst ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A built-in table is broken.
    #[error("can not read the tables: {0}")]
    Tables(#[from] TableError),
    /// It could not be confined, so it parsed nothing.
    #[error("can not confine the analyst: {0}")]
    Confine(#[from] confine::ConfineError),
    /// There is no thread for the parser.
    #[error("can not start the parser's thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The parser's thread is gone.
    #[error("the parser's thread ended by itself")]
    Died,
    /// The asker could not be heard or answered.
    #[error("the channel to the asker: {0}")]
    Channel(#[from] ChannelError),
}

/// Answers questions on a socket until the asker is gone.
///
/// # Errors
/// If the process can not be confined, or the channel breaks.
pub fn serve(socket: OwnedFd) -> Result<(), ServeError> {
    confine::limit()?;
    // Before the filter: what is read lazily is read now.
    let tables = Tables::builtin()?;
    let channel = Channel::new(socket);
    let parser = thread::Builder::new().stack_size(STACK).name("parser".to_owned());
    let answering = parser.spawn(move || answer(&channel, tables)).map_err(ServeError::Thread)?;
    answering.join().map_err(|_| ServeError::Died)?
}

fn answer(channel: &Channel, tables: &Tables) -> Result<(), ServeError> {
    confine::filter(channel.as_fd())?;
    while let Some((asked, _)) = channel.receive::<Asked>()? {
        let Analysed { found, commands, nature } = analyse(&asked.text, &Shell::new(), tables);
        channel.send(&Answered { number: asked.number, found, commands, nature })?;
    }
    Ok(())
}
