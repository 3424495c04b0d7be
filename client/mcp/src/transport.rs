//! Messages as lines on standard input and output. Input that is no message is answered with a
//! typed error, and the end of input is told to the calls at once.

use crate::lines::{InputLine, LineReader};
use rmcp::{
    ErrorData, RoleServer,
    model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::Transport,
};
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    sync::Mutex,
};
use tokio_util::sync::CancellationToken;

/// The maximum length of a message, in bytes: that of a frame of the daemon.
const MAX_LINE: usize = palisade_client::limits::MAX_FRAME;

/// A pair of byte streams that carries one message a line.
pub(crate) struct Lines<R, W> {
    reader: LineReader<R>,
    writer: Arc<Mutex<W>>,
    ended: CancellationToken,
}

/// Why a line is not a message, and which request is to be answered so.
type Refusal = (ErrorData, Option<RequestId>);

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    /// Creates a transport that cancels `ended` at the end of its input.
    pub(crate) fn new(reader: R, writer: W, ended: CancellationToken) -> Self {
        let reader = LineReader::new(reader, MAX_LINE);
        Self { reader, writer: Arc::new(Mutex::new(writer)), ended }
    }
}

/// Parses a line; `None` for a blank one.
fn parse(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Box<Refusal>> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    match serde_json::from_slice(line) {
        Ok(message) => Ok(Some(message)),
        Err(wrong) => Err(Box::new(match serde_json::from_slice::<serde_json::Value>(line) {
            Ok(value) => {
                let id = value.get("id").cloned();
                let id = id.and_then(|id| serde_json::from_value(id).ok());
                let message = format!("not a message of the Model Context Protocol: {wrong}");
                (ErrorData::invalid_request(message, None), id)
            }
            Err(error) => (ErrorData::parse_error(format!("not JSON: {error}"), None), None),
        })),
    }
}

async fn write<W: AsyncWrite + Unpin>(
    writer: Arc<Mutex<W>>,
    message: ServerJsonRpcMessage,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(&message)?;
    line.push(b'\n');
    let mut writer = writer.lock().await;
    writer.write_all(&line).await?;
    writer.flush().await
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        write(Arc::clone(&self.writer), message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let parsed = match self.reader.next().await {
                InputLine::Whole(line) => parse(&line),
                InputLine::TooLong => {
                    let message = format!("the message is longer than {MAX_LINE} bytes");
                    Err(Box::new((ErrorData::invalid_request(message, None), None)))
                }
                InputLine::End => {
                    self.ended.cancel();
                    return None;
                }
            };
            match parsed {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(refusal) => {
                    let (error, id) = *refusal;
                    let answer =
                        write(Arc::clone(&self.writer), ServerJsonRpcMessage::error(error, id));
                    // In a task of its own: this future may be dropped, and half a line must not
                    // be written. A client that does not read needs no answer.
                    drop(tokio::spawn(answer));
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.lock().await.flush().await
    }
}
