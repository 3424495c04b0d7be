//! Names of hosts on the network, in the one form in which they are compared, asked about and
//! looked up. Text from a session becomes a [`HostName`] once, in the egress room; every other part
//! of Palisade only sees the result.

use bincode::{
    BorrowDecode, Decode, Encode,
    de::{BorrowDecoder, Decoder},
    error::DecodeError,
};
use std::{fmt, net::IpAddr};

/// Most bytes of a host name.
pub const MAX_HOST_NAME: usize = 253;

/// Most bytes of a label, which is a part of a host name between dots.
const MAX_LABEL: usize = 63;

/// The reason that a text is not a host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostNameError {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// The text is too long for a host name.
    #[error("it has more than {MAX_HOST_NAME} bytes")]
    TooLong,
    /// A part between two dots is empty or too long, or begins or ends with `-`.
    #[error("each part between dots has 1 to 63 characters and neither begins nor ends with '-'")]
    Label,
    /// A character that host names do not have. Upper case is one of them.
    #[error("a name consists of a-z, 0-9, '-' and '_', separated by dots")]
    Character,
    /// The last label is a number, so that some programs take the text for an address.
    #[error("programs would take it for an address")]
    Number,
}

/// A host name: ASCII, lower case, without a trailing dot, and nothing that any program takes for an
/// address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode)]
pub struct HostName(String);

impl HostName {
    /// Checks that a text is a host name in this form. Nothing is converted.
    ///
    /// # Errors
    /// If the text has another form.
    pub fn new(text: impl Into<String>) -> Result<Self, HostNameError> {
        let text = text.into();
        if text.is_empty() {
            return Err(HostNameError::Empty);
        }
        if text.len() > MAX_HOST_NAME {
            return Err(HostNameError::TooLong);
        }
        let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
        if !text.bytes().all(plain) {
            return Err(HostNameError::Character);
        }
        let good = |label: &str| {
            (1..=MAX_LABEL).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if !text.split('.').all(good) {
            return Err(HostNameError::Label);
        }
        let last = text.rsplit('.').next().unwrap_or_default();
        if is_number(last) {
            return Err(HostNameError::Number);
        }
        Ok(Self(text))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if this name is below another one: `a.b.example` is below `b.example`, which
    /// is not below itself.
    #[must_use]
    pub fn is_below(&self, parent: &Self) -> bool {
        let front = self.0.strip_suffix(parent.as_str());
        front.is_some_and(|front| front.ends_with('.'))
    }
}

/// Returns `true` if a last label makes `inet_aton` and the parsers of URLs take the whole text for
/// an IPv4 address: decimal, octal or hexadecimal digits.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x");
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn decoded(text: String) -> Result<HostName, DecodeError> {
    HostName::new(text).map_err(|error| DecodeError::OtherString(format!("host name: {error}")))
}

impl<Context> Decode<Context> for HostName {
    fn decode<D: Decoder<Context = Context>>(decoder: &mut D) -> Result<Self, DecodeError> {
        decoded(String::decode(decoder)?)
    }
}

impl<'de, Context> BorrowDecode<'de, Context> for HostName {
    fn borrow_decode<D: BorrowDecoder<'de, Context = Context>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        decoded(String::borrow_decode(decoder)?)
    }
}

/// A host that a session's program names: by name or by address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Host {
    /// A name, which is looked up only after it is allowed.
    Name(HostName),
    /// An address.
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// The place that a connection goes to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The TCP port.
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::codec;

    #[test]
    fn a_name_has_one_form() {
        for good in
            ["packages.example", "localhost", "a-b.x9.org", "xn--bcher-kva.example", "_x.example"]
        {
            assert_eq!(HostName::new(good).unwrap().as_str(), good);
        }
        let long = format!("{}.example", "a".repeat(64));
        let longer = "a.".repeat(126) + "ab";
        for (bad, why) in [
            ("", HostNameError::Empty),
            (longer.as_str(), HostNameError::TooLong),
            (long.as_str(), HostNameError::Label),
            ("a..example", HostNameError::Label),
            ("a.example.", HostNameError::Label),
            (".example", HostNameError::Label),
            ("-a.example", HostNameError::Label),
            ("A.example", HostNameError::Character),
            ("a\0.example", HostNameError::Character),
            ("a%2e.example", HostNameError::Character),
            ("me@a.example", HostNameError::Character),
            ("bücher.example", HostNameError::Character),
            ("127.0.0.1", HostNameError::Number),
            ("127.1", HostNameError::Number),
            ("2130706433", HostNameError::Number),
            ("0x7f000001", HostNameError::Number),
            ("0x7f.1.0x", HostNameError::Number),
            ("a.0177", HostNameError::Number),
        ] {
            assert_eq!(HostName::new(bad), Err(why), "{bad}");
        }
    }

    #[test]
    fn a_name_from_another_process_is_checked_again() {
        let name = HostName::new("packages.example").unwrap();
        let sent = codec::encode(&name).unwrap();
        assert_eq!(codec::decode::<HostName>(&sent), Ok(name));
        let bad = codec::encode(&"PACKAGES.example".to_owned()).unwrap();
        assert!(codec::decode::<HostName>(&bad).is_err());
    }

    #[test]
    fn below_means_whole_labels() {
        let name = |text: &str| HostName::new(text).unwrap();
        assert!(name("a.b.example").is_below(&name("b.example")));
        assert!(!name("b.example").is_below(&name("b.example")));
        assert!(!name("ab.example").is_below(&name("b.example")));
    }
}
