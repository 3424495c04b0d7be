//! Archives: complete files of the log, compressed, each with a manifest that can be signed.
//!
//! An archive is two files: `c0000-000000000001.jsonl.gz`, the file of the log as `gzip` compresses
//! it, and `c0000-000000000001.manifest.json`. An archive without a manifest does not count. The
//! file of the log is deleted only when its archive and manifest are on disk and were read back.

mod manifest;
mod open;
mod write;

pub use manifest::Manifest;
pub(crate) use manifest::SignedManifest;
pub use open::ArchiveDefect;
pub(crate) use open::{Archive, archives};
pub use write::{ArchiveError, Archiver, CompleteFile};

/// The directory beside the files of a log that its archives are in, unless another is named.
pub const ARCHIVE_DIRECTORY: &str = "archive";

#[cfg(test)]
pub(crate) mod tests;
