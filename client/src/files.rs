//! The file tools of a session, which return contents as values instead of results.

use crate::{CallResult, Error, Event, Session};
use palisade_protocol::{
    RawPath, Stream,
    arguments::{
        ApplyPatch, DeleteFile, Edit, Encoding, ListFiles, MakeDir, MoveFile, ReadFile, Undo,
        WriteFile, WriteMode,
    },
    limits::MAX_CHUNK,
};
use serde::Deserialize;
use std::path::Path;

/// The result of `list_files`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Listing {
    /// The entries, sorted by path.
    pub entries: Vec<FileEntry>,
    /// The total number of entries, as far as they were counted.
    pub total: u64,
    /// True if there are more entries than were counted.
    pub more: bool,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FileEntry {
    /// The path, relative to the directory that was listed.
    pub path: RawPath,
    /// The kind of file.
    pub kind: EntryKind,
    /// The size of a regular file, in bytes.
    pub size: u64,
    /// The target of a symbolic link, as the link says it.
    #[serde(default)]
    pub target: Option<RawPath>,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

impl Session {
    /// Reads a whole text file. For some of its lines, use [`call`](Self::call) with [`ReadFile`].
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason, also for a file that is not UTF-8.
    /// [`Error::NotText`] if the file stops being UTF-8 only beyond what one result carries.
    pub async fn read_file(&self, path: impl AsRef<Path>) -> Result<String, Error> {
        let path = path.as_ref();
        let result = succeeded(self.call("read_file", read(path, Encoding::Text)).await?)?;
        if !result.truncated {
            return Ok(result.output);
        }
        // The file is larger than a result: read it again, in pieces.
        let bytes = self.read_bytes(path).await?;
        String::from_utf8(bytes).map_err(|_| Error::NotText(path.to_owned()))
    }

    /// Reads a whole file, byte for byte.
    ///
    /// ```
    /// # use palisade_client::{Client, Open};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let client = Client::embedded().await?;
    /// # let session = client.open(Open::new(directory.path())).await?;
    /// let picture = [0xff, 0x00, 0x0a, 0xfe].repeat(100_000);
    /// session.write_bytes("picture", &picture).await?;
    /// assert_eq!(session.read_bytes("picture").await?, picture);
    /// # client.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason.
    pub async fn read_bytes(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Error> {
        let call = self.call("read_file", read(path.as_ref(), Encoding::Raw)).stream();
        let mut running = call.start().await?;
        let mut bytes = Vec::new();
        while let Some(event) = running.next().await {
            match event {
                Event::Output { stream: Stream::Content, data } => bytes.extend_from_slice(&data),
                Event::Output { stream: Stream::Stdout | Stream::Stderr, .. }
                | Event::Progress { .. } => {}
                Event::Lost { bytes } => {
                    let told = format!("{bytes} bytes of a file were not delivered");
                    return Err(Error::Protocol(told));
                }
            }
        }
        succeeded(running.result().await?)?;
        Ok(bytes)
    }

    /// Writes a text file, replacing an existing one. Missing parent directories are created. The
    /// file is written completely or not at all.
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason.
    pub async fn write_file(
        &self,
        path: impl AsRef<Path>,
        content: impl AsRef<str>,
    ) -> Result<CallResult, Error> {
        let content = content.as_ref();
        if content.len() > MAX_CHUNK {
            return self.write_bytes(path, content.as_bytes()).await;
        }
        let arguments = WriteFile {
            path: RawPath::from(path),
            content: Some(content.to_owned()),
            mode: WriteMode::Overwrite,
        };
        succeeded(self.call("write_file", arguments).await?)
    }

    /// Writes a file byte for byte, as [`write_file`](Self::write_file) does.
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason.
    pub async fn write_bytes(
        &self,
        path: impl AsRef<Path>,
        content: &[u8],
    ) -> Result<CallResult, Error> {
        let arguments =
            WriteFile { path: RawPath::from(path), content: None, mode: WriteMode::Overwrite };
        succeeded(self.call("write_file", arguments).attach(content).await?)
    }

    /// Deletes a file or link. A directory needs [`call`](Self::call) with [`DeleteFile`].
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason: mostly `denied`, because deleting needs
    /// approval.
    pub async fn delete_file(&self, path: impl AsRef<Path>) -> Result<CallResult, Error> {
        let arguments =
            DeleteFile { path: RawPath::from(path), recursive: false, permanent: false };
        succeeded(self.call("delete_file", arguments).await?)
    }

    /// Replaces a text in a file; the text must occur exactly once. For more, use
    /// [`call`](Self::call) with [`Edit`] or `MultiEdit`.
    ///
    /// ```
    /// # use palisade_client::{Client, Open};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let client = Client::embedded().await?;
    /// # let session = client.open(Open::new(directory.path())).await?;
    /// session.write_file("greeting", "hello world\n").await?;
    /// let edited = session.edit("greeting", "world", "there").await?;
    /// assert_eq!(session.read_file("greeting").await?, "hello there\n");
    /// session.undo(&edited).await?;
    /// assert_eq!(session.read_file("greeting").await?, "hello world\n");
    /// # client.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason: `no_match` shows the nearest lines.
    pub async fn edit(
        &self,
        path: impl AsRef<Path>,
        old: impl Into<String>,
        new: impl Into<String>,
    ) -> Result<CallResult, Error> {
        let arguments = Edit {
            path: RawPath::from(path),
            old_string: old.into(),
            new_string: new.into(),
            replace_all: false,
        };
        succeeded(self.call("edit", arguments).await?)
    }

    /// Applies a patch (a unified diff, a git diff, or `*** Begin Patch` text), completely or not
    /// at all.
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason.
    pub async fn apply_patch(&self, patch: impl Into<String>) -> Result<CallResult, Error> {
        succeeded(self.call("apply_patch", ApplyPatch { patch: patch.into() }).await?)
    }

    /// Moves or renames a file or directory; refused if something exists at the new path.
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason.
    pub async fn move_file(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
    ) -> Result<CallResult, Error> {
        let (from, to) = (RawPath::from(from), RawPath::from(to));
        succeeded(self.call("move_file", MoveFile { from, to, overwrite: false }).await?)
    }

    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason.
    pub async fn make_dir(&self, path: impl AsRef<Path>) -> Result<CallResult, Error> {
        succeeded(self.call("make_dir", MakeDir { path: RawPath::from(path) }).await?)
    }

    /// Undoes what a call changed. To undo several calls at once, or by force, use
    /// [`call`](Self::call) with [`Undo`].
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason: `conflict` if something has changed since.
    pub async fn undo(&self, change: &CallResult) -> Result<CallResult, Error> {
        let call_id = Some(change.call_id.clone());
        succeeded(self.call("undo", Undo { call_id, ..Undo::default() }).await?)
    }

    /// Lists the entries of a directory.
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason.
    pub async fn list_files(&self, path: impl AsRef<Path>) -> Result<Listing, Error> {
        let arguments = ListFiles { path: Some(RawPath::from(path)), ..ListFiles::default() };
        let result = succeeded(self.call("list_files", arguments).await?)?;
        let Some(data) = result.data else {
            return Err(Error::Protocol("list_files returned no data".to_owned()));
        };
        serde_json::from_str(data.as_str())
            .map_err(|error| Error::Protocol(format!("the data of list_files: {error}")))
    }
}

fn read(path: &Path, encoding: Encoding) -> ReadFile {
    ReadFile {
        path: RawPath::from(path),
        offset: None,
        limit: None,
        encoding,
        numbered: false,
        byte_offset: None,
        byte_limit: None,
    }
}

/// Returns a successful result, or [`Error::Failed`].
pub(crate) fn succeeded(result: CallResult) -> Result<CallResult, Error> {
    if result.success { Ok(result) } else { Err(Error::Failed(Box::new(result))) }
}
