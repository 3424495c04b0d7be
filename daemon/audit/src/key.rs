//! The ed25519 keys that sign archives and heads. They are PEM files as `openssl` writes them.

use palisade_programs::named;
use palisade_text::{hex, parse_hex};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer, pem::PemObject as _};
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// An error from loading a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file can not be read.
    #[error("can not read the key {0}: {1}")]
    Unreadable(PathBuf, io::Error),
    /// The file is not a private key.
    #[error(
        "{0} is not an ed25519 private key in PEM form; `openssl genpkey -algorithm ed25519 -out \
         FILE` makes one"
    )]
    NotPrivate(PathBuf),
    /// The file is not a public key.
    #[error(
        "{0} is not an ed25519 public key in PEM form; `openssl pkey -in PRIVATE -pubout -out \
         FILE` makes one"
    )]
    NotPublic(PathBuf),
}

/// The bytes before the key itself in a public key: a structure of the algorithm `1.3.101.112`, which
/// is ed25519, and a string of 32 bytes.
const PUBLIC_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A private key, which signs. Clones share it.
#[derive(Clone)]
pub struct SigningKey {
    pair: Arc<Ed25519KeyPair>,
    public: PublicKey,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public)
    }
}

impl SigningKey {
    /// Reads a private key from a PEM file.
    ///
    /// # Errors
    /// If the file can not be read or is not such a key.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let pem = fs::read(path).map_err(|error| KeyError::Unreadable(named(path), error))?;
        let der = PrivatePkcs8KeyDer::from_pem_slice(&pem).ok();
        // A key of `openssl` does not contain the public key, so there is nothing to check.
        let pair = der.and_then(|der| {
            Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).ok()
        });
        pair.and_then(Self::new).ok_or_else(|| KeyError::NotPrivate(named(path)))
    }

    fn new(pair: Ed25519KeyPair) -> Option<Self> {
        let public = PublicKey(pair.public_key().as_ref().try_into().ok()?);
        Some(Self { pair: Arc::new(pair), public })
    }

    /// Returns the public key that belongs to it.
    #[must_use]
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn sign(&self, message: &[u8]) -> SignatureText {
        let signature = hex(self.pair.sign(message).as_ref());
        SignatureText { key: self.public.to_string(), signature }
    }
}

/// A public key, which checks signatures. It is displayed as 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Reads a public key from a PEM file.
    ///
    /// # Errors
    /// If the file can not be read or is not such a key.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let pem = fs::read(path).map_err(|error| KeyError::Unreadable(named(path), error))?;
        let der = SubjectPublicKeyInfoDer::from_pem_slice(&pem).ok();
        let key = der.and_then(|der| der.strip_prefix(&PUBLIC_PREFIX)?.try_into().ok());
        key.map(Self).ok_or_else(|| KeyError::NotPublic(named(path)))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// A signature and the public key that it is checked with, both in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureText {
    /// The public key.
    pub key: String,
    /// The signature.
    pub signature: String,
}

/// The reason why a signature does not prove anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureFault {
    /// There is no signature, and one was expected.
    Missing,
    /// The signature does not fit the signed text.
    Invalid,
    /// The signature was made with another key than the expected one.
    OtherKey,
}

impl fmt::Display for SignatureFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "is not signed",
            Self::Invalid => "has a signature that does not fit it",
            Self::OtherKey => "is signed with another key than the expected one",
        })
    }
}

impl SignatureText {
    /// Checks the signature of a message, by the expected key or else by the one that it names.
    pub(crate) fn check(
        &self,
        message: &[u8],
        expected: Option<&PublicKey>,
    ) -> Result<(), SignatureFault> {
        let key: [u8; 32] = parse_hex(&self.key).ok_or(SignatureFault::Invalid)?;
        if expected.is_some_and(|expected| expected.0 != key) {
            return Err(SignatureFault::OtherKey);
        }
        let signature: [u8; 64] = parse_hex(&self.signature).ok_or(SignatureFault::Invalid)?;
        let key = UnparsedPublicKey::new(&ED25519, key);
        key.verify(message, &signature).map_err(|_| SignatureFault::Invalid)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A key from `openssl genpkey -algorithm ed25519`, for tests only.
    pub(crate) const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    /// The public key of [`PRIVATE`]: test 1 of RFC 8032.
    pub(crate) const PUBLIC: &str =
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    pub(crate) fn key() -> SigningKey {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key.pem");
        fs::write(&path, PRIVATE).unwrap();
        SigningKey::load(&path).unwrap()
    }

    #[test]
    fn the_signature_is_that_of_rfc_8032() {
        let signed = key().sign(b"");
        assert_eq!(signed.key, PUBLIC);
        assert_eq!(
            signed.signature,
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701\
             cf9b46bd25bf5f0595bbe24655141438e7a100b"
        );
        assert_eq!(signed.check(b"", Some(&key().public())), Ok(()));
        assert_eq!(signed.check(b"", None), Ok(()));
        assert_eq!(signed.check(b"x", None), Err(SignatureFault::Invalid));
        let other = SignatureText { key: PUBLIC.replace("d75a", "d75b"), ..signed.clone() };
        assert!(other.check(b"", None).is_err());
        let short = SignatureText { signature: "00".into(), ..signed };
        assert_eq!(short.check(b"", None), Err(SignatureFault::Invalid));
    }

    #[test]
    fn what_is_no_key_is_refused_with_the_command_that_makes_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key.pem");
        fs::write(&path, "x").unwrap();
        let refused = SigningKey::load(&path).unwrap_err().to_string();
        assert!(refused.contains("openssl genpkey -algorithm ed25519"), "{refused}");
        fs::write(&path, PRIVATE).unwrap();
        let refused = PublicKey::load(&path).unwrap_err().to_string();
        assert!(refused.contains("openssl pkey -in PRIVATE -pubout"), "{refused}");
        assert!(!format!("{:?}", key()).contains("9d61"), "the secret is not shown");
    }
}
