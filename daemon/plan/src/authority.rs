//! The certificate authority of a session whose profile has inspected hosts. Its certificate is
//! placed in the cell, beside those that the host trusts. Pure: no I/O.

use bincode::{
    BorrowDecode, Decode, Encode,
    de::{BorrowDecoder, Decoder},
    error::DecodeError,
};

/// The file in which a session's programs find the certificates that they trust: the host's, and
/// that of the session's own authority.
pub const TRUSTED_CERTIFICATES: &str = "/etc/palisade-certificates.pem";

/// The files in which hosts keep the certificates that they trust, each with all of them. The first
/// that exists is read.
pub const HOST_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Most bytes of the host's certificates.
pub const MAX_HOST_CERTIFICATES: u64 = 4 * 1024 * 1024;

/// The common name of every session's authority.
pub const AUTHORITY_NAME: &str = "Palisade session authority";

/// Most bytes of an authority's certificate.
const MAX_CERTIFICATE: usize = 8 * 1024;

/// The reason that bytes are not the certificate of an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The bytes are too many.
    #[error("it has more than {MAX_CERTIFICATE} bytes")]
    TooLong,
    /// The bytes are not one DER sequence.
    #[error("it is not one sequence of DER")]
    NotDer,
}

/// The certificate of a session's authority: one DER sequence of bounded size. What is in it is only
/// read by the session's own programs.
#[derive(Debug, Clone, PartialEq, Eq, Encode)]
pub struct Authority(Vec<u8>);

impl Authority {
    /// Checks that bytes may be a certificate.
    ///
    /// # Errors
    /// If they are too many, or not one DER sequence.
    pub fn new(der: Vec<u8>) -> Result<Self, AuthorityError> {
        if der.len() > MAX_CERTIFICATE {
            return Err(AuthorityError::TooLong);
        }
        // A certificate has more than 255 bytes and less than 65,536: its length has two bytes.
        match der.as_slice() {
            [0x30, 0x82, high, low, rest @ ..]
                if rest.len() == usize::from(u16::from_be_bytes([*high, *low])) =>
            {
                Ok(Self(der))
            }
            _ => Err(AuthorityError::NotDer),
        }
    }

    /// Returns the certificate as text.
    #[must_use]
    pub fn pem(&self) -> String {
        let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
        // 48 bytes make a line of 64 characters.
        for line in self.0.chunks(48) {
            line.chunks(3).for_each(|three| push_base64(&mut text, three));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
        text
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends one to three bytes as four characters.
fn push_base64(text: &mut String, bytes: &[u8]) {
    let byte = |at: usize| u32::from(bytes.get(at).copied().unwrap_or(0));
    let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (at, shift) in [18, 12, 6, 0].into_iter().enumerate() {
        let index = (bits >> shift & 63) as usize;
        text.push(if at > bytes.len() { '=' } else { char::from(ALPHABET[index]) });
    }
}

fn decoded(der: Vec<u8>) -> Result<Authority, DecodeError> {
    Authority::new(der).map_err(|error| DecodeError::OtherString(format!("authority: {error}")))
}

impl<Context> Decode<Context> for Authority {
    fn decode<D: Decoder<Context = Context>>(decoder: &mut D) -> Result<Self, DecodeError> {
        decoded(Vec::decode(decoder)?)
    }
}

impl<'de, Context> BorrowDecode<'de, Context> for Authority {
    fn borrow_decode<D: BorrowDecoder<'de, Context = Context>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        decoded(Vec::borrow_decode(decoder)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    fn sequence(length: u16) -> Vec<u8> {
        let mut bytes = vec![0x30, 0x82];
        bytes.extend(length.to_be_bytes());
        bytes.extend(vec![b'a'; length.into()]);
        bytes
    }

    #[test]
    fn only_one_bounded_sequence_is_an_authority() {
        assert!(Authority::new(sequence(600)).is_ok());
        for bad in [vec![], vec![0x30, 0x82], sequence(600)[..599].to_vec(), {
            let mut more = sequence(600);
            more.push(0);
            more
        }] {
            assert_eq!(Authority::new(bad), Err(AuthorityError::NotDer));
        }
        assert_eq!(Authority::new(sequence(8189)), Err(AuthorityError::TooLong));
        let bytes = codec::encode(&Authority(b"-----BEGIN".to_vec())).unwrap();
        assert!(codec::decode::<Authority>(&bytes).is_err(), "checked when it is received");
        let good = Authority::new(sequence(300)).unwrap();
        assert_eq!(codec::decode::<Authority>(&codec::encode(&good).unwrap()).unwrap(), good);
    }

    #[test]
    fn the_text_is_base64_in_lines() {
        for (bytes, text) in [(&b"Man"[..], "TWFu"), (b"Ma", "TWE="), (b"M", "TQ==")] {
            let mut told = String::new();
            push_base64(&mut told, bytes);
            assert_eq!(told, text);
        }
        let pem = Authority::new(sequence(300)).unwrap().pem();
        let lines: Vec<_> = pem.lines().collect();
        assert_eq!((lines[0], lines[1].len()), ("-----BEGIN CERTIFICATE-----", 64));
        assert!(lines[1].starts_with("MIIBLGFh"), "{}", lines[1]);
        assert_eq!(lines.last(), Some(&"-----END CERTIFICATE-----"));
    }
}
