//! The manifest of an archive: what is in it, and by which hashes it is part of the chain. Pure: no
//! I/O.

use crate::{
    files::Head,
    hash::Hash,
    key::{PublicKey, SignatureFault, SignatureText, SigningKey},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// The version of the format.
const FORMAT: u32 = 1;

/// The contents of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the format.
    format: u32,
    /// The name of the compressed file.
    pub file: String,
    /// The number of the first record.
    pub first: u64,
    /// The hash of the record before the first one: zeros if there is none.
    pub prev: Hash,
    /// The last record.
    pub last: Head,
    /// The number of records.
    pub records: u64,
    /// The time of the first record.
    pub from: Timestamp,
    /// The time of the last record.
    pub to: Timestamp,
    /// The length of the records in bytes.
    pub bytes: u64,
    /// The length of the compressed file in bytes.
    pub compressed_bytes: u64,
    /// The SHA-256 of the compressed file.
    pub sha256: Hash,
}

/// The records of a file and their place in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordRange {
    pub(crate) first: u64,
    pub(crate) prev: Hash,
    pub(crate) last: Head,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) bytes: u64,
}

impl Manifest {
    pub(crate) fn new(
        file: String,
        range: RecordRange,
        compressed_bytes: u64,
        sha256: Hash,
    ) -> Self {
        let RecordRange { first, prev, last, from, to, bytes } = range;
        let records = last.seq + 1 - first;
        let format = FORMAT;
        Self { format, file, first, prev, last, records, from, to, bytes, compressed_bytes, sha256 }
    }
}

/// A manifest as it is written: one line of JSON, and one with its signature if there is one.
#[derive(Debug, Clone)]
pub(crate) struct SignedManifest {
    pub(crate) manifest: Manifest,
    line: Vec<u8>,
    signature: Option<SignatureText>,
}

impl SignedManifest {
    pub(crate) fn new(
        manifest: Manifest,
        key: Option<&SigningKey>,
    ) -> Result<Self, serde_json::Error> {
        let mut line = serde_json::to_vec(&manifest)?;
        line.push(b'\n');
        let signature = key.map(|key| key.sign(&line));
        Ok(Self { manifest, line, signature })
    }

    pub(crate) fn render(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut text = self.line.clone();
        if let Some(signature) = &self.signature {
            serde_json::to_writer(&mut text, signature)?;
            text.push(b'\n');
        }
        Ok(text)
    }

    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let end = text.iter().position(|byte| *byte == b'\n').ok_or("it has no whole line")?;
        let (line, rest) = text.split_at(end + 1);
        let manifest: Manifest = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if manifest.format != FORMAT {
            return Err(format!("its format is {}, and {FORMAT} is known", manifest.format));
        }
        let signature = if rest.is_empty() {
            None
        } else {
            Some(serde_json::from_slice(rest).map_err(|error| format!("its signature: {error}"))?)
        };
        Ok(Self { manifest, line: line.to_vec(), signature })
    }

    /// Checks the signature. Without an expected key, an unsigned manifest is accepted.
    pub(crate) fn check(&self, expected: Option<&PublicKey>) -> Result<(), SignatureFault> {
        match (&self.signature, expected) {
            (Some(signature), expected) => signature.check(&self.line, expected),
            (None, Some(_)) => Err(SignatureFault::Missing),
            (None, None) => Ok(()),
        }
    }
}
