//! The main loop of the analyst's process: it confines itself, then answers one request after
//! another. Runs in the analyst.

use crate::{
    confine,
    message::{Answered, Asked},
    parse::Shell,
};
use palisade_channel::{Channel, ChannelError};
use palisade_policy::analysis::{CommandAnalysis, TableError, Tables, analyse};
use std::{
    os::fd::{AsFd as _, OwnedFd},
    thread,
};

/// The stack size of the parser, which is recursive. It counts towards the memory limit.
const STACK: usize = 64 * 1024 * 1024;

/// The reason why the analyst ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A built-in table is invalid.
    #[error("can not read the tables: {0}")]
    Tables(#[from] TableError),
    /// The process could not be confined, so it parsed nothing.
    #[error("can not confine the analyst: {0}")]
    Confine(#[from] confine::ConfineError),
    /// The parser's thread could not be started.
    #[error("can not start the parser's thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The parser's thread panicked.
    #[error("the parser's thread ended by itself")]
    Died,
    /// Receiving a request or sending an answer failed.
    #[error("the channel to the asker: {0}")]
    Channel(#[from] ChannelError),
}

/// Answers requests on a socket until the client closes it.
///
/// # Errors
/// If the process can not be confined, or the channel fails.
pub fn serve(socket: OwnedFd) -> Result<(), ServeError> {
    confine::limit()?;
    // Lazily loaded data is read now, because the filter would deny it later.
    let tables = Tables::builtin()?;
    let channel = Channel::new(socket);
    let parser = thread::Builder::new().stack_size(STACK).name("parser".to_owned());
    let answering = parser.spawn(move || answer(&channel, tables)).map_err(ServeError::Thread)?;
    answering.join().map_err(|_| ServeError::Died)?
}

fn answer(channel: &Channel, tables: &Tables) -> Result<(), ServeError> {
    confine::filter(channel.as_fd())?;
    while let Some((asked, _)) = channel.receive::<Asked>()? {
        let CommandAnalysis { found, commands, nature } =
            analyse(&asked.text, &Shell::new(), tables);
        channel.send(&Answered { number: asked.number, found, commands, nature })?;
    }
    Ok(())
}
