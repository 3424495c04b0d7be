//! Ends the connection of a command to its daemon.

use crate::failure::Failure;
use palisade_client::Client;

/// Ends the connection, and a private daemon with it, whatever the outcome of the call was.
pub(crate) async fn disconnect<T>(
    client: &Client,
    status: Result<T, Failure>,
) -> Result<T, Failure> {
    let ended = client.shutdown().await;
    let status = status?;
    ended?;
    Ok(status)
}
