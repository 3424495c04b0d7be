//! Bytes, paths and embedded JSON, each with the same meaning in both codecs.

use crate::{limits::MAX_DEPTH, strict};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bincode::{
    BorrowDecode, Decode, Encode,
    de::{BorrowDecoder, Decoder},
    error::DecodeError,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::value::RawValue;
use std::{fmt, os::unix::ffi::OsStrExt as _, path::Path};

/// The white space characters of JSON.
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// A byte string: raw in bincode, base64 text in JSON.
#[derive(Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({} bytes)", self.0.len())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        STANDARD
            .decode(text.as_bytes())
            .map(Self)
            .map_err(|e| D::Error::custom(format!("not base64: {e}")))
    }
}

/// A path of arbitrary bytes. In JSON it is a string if it is UTF-8, otherwise `{"base64": "…"}`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct RawPath(pub Vec<u8>);

impl RawPath {
    /// Returns the path as a [`Path`] of the standard library.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(std::ffi::OsStr::from_bytes(&self.0))
    }
}

impl fmt::Debug for RawPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_path().fmt(f)
    }
}

impl<P: AsRef<Path>> From<P> for RawPath {
    fn from(path: P) -> Self {
        Self(path.as_ref().as_os_str().as_bytes().to_vec())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum PathForm {
    Text(String),
    Bytes { base64: Bytes },
}

impl Serialize for RawPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => PathForm::Bytes { base64: Bytes(self.0.clone()) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RawPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = PathForm::deserialize(deserializer).map_err(|_| {
            D::Error::custom("a path is a string, or {\"base64\": \"…\"} for other bytes")
        })?;
        Ok(match form {
            PathForm::Text(text) => Self(text.into_bytes()),
            PathForm::Bytes { base64 } => Self(base64.0),
        })
    }
}

/// A JSON value carried as its text, because bincode has no form for it. JSON embeds the text
/// unchanged.
///
/// It is always on one line, without repeated keys or lone surrogates, and at most [`MAX_DEPTH`]
/// levels deep.
#[derive(Debug, Clone, PartialEq, Eq, Encode)]
pub struct JsonText(String);

impl JsonText {
    /// Parses text that must be JSON.
    ///
    /// # Errors
    /// The parser's own message, with line and column.
    pub fn parse(text: String) -> Result<Self, serde_json::Error> {
        strict::check(&text, MAX_DEPTH)?;
        let trimmed = text.trim_matches(SPACE);
        // A JSON string can not contain a bare line break, so each line break stands between
        // tokens. A search for one character looks at many bytes at once; one for two does not.
        Ok(Self(if trimmed.contains('\n') || trimmed.contains('\r') {
            trimmed.replace(['\n', '\r'], " ")
        } else if trimmed.len() < text.len() {
            trimmed.to_owned()
        } else {
            text
        }))
    }

    /// Serializes a value to JSON text.
    ///
    /// # Errors
    /// If the value has no JSON form (a map with keys that are not strings).
    pub fn render<T: Serialize>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(Self)
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }
}

impl Default for JsonText {
    fn default() -> Self {
        Self("{}".to_owned())
    }
}

impl<C> Decode<C> for JsonText {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Self::parse(String::decode(decoder)?)
            .map_err(|e| DecodeError::OtherString(format!("not JSON: {e}")))
    }
}

impl<'de, C> BorrowDecode<'de, C> for JsonText {
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        Self::decode(decoder)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(String::from(Box::<str>::from(raw))).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{MAX_KEY, MAX_KEYS};

    fn json<T: Serialize + serde::de::DeserializeOwned>(value: &T) -> (String, T) {
        let text = serde_json::to_string(value).unwrap();
        let back = serde_json::from_str(&text).unwrap();
        (text, back)
    }

    #[test]
    fn bytes_are_base64_in_json() {
        let bytes = Bytes(vec![0, 255, 10]);
        assert_eq!(json(&bytes), ("\"AP8K\"".to_owned(), bytes));
        for bad in ["\"AP8\"", "\"AP8K=\"", "\"A P8K\"", "\"****\"", "[0]", "null"] {
            assert!(serde_json::from_str::<Bytes>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_is_text_where_it_can_be() {
        let path = RawPath::from("/a\nb/é");
        assert_eq!(json(&path), ("\"/a\\nb/é\"".to_owned(), path));
        let path = RawPath(b"/\xff".to_vec());
        assert_eq!(json(&path), ("{\"base64\":\"L/8=\"}".to_owned(), path));
        for bad in ["[47]", "{\"base64\":\"L/8\"}", "{\"base64\":\"L/8=\",\"x\":1}", "null"] {
            assert!(serde_json::from_str::<RawPath>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn json_text_is_one_line() {
        let text = JsonText::parse(" \n{\"a\":\r\n 1.50}\t".to_owned()).unwrap();
        assert_eq!(text.as_str(), "{\"a\":   1.50}");
        let read: JsonText = serde_json::from_str("{\n}").unwrap();
        assert_eq!(read.as_str(), "{ }");
        assert_eq!(json(&text).1, text);
    }

    #[test]
    fn json_text_has_one_meaning() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(JsonText::parse(deep(MAX_DEPTH)).is_ok());
        assert!(JsonText::parse("{\"a\":{\"b\":1},\"b\":[\"\\ud83d\\ude00\"]}".to_owned()).is_ok());
        for (bad, why) in [
            (deep(MAX_DEPTH + 1), "nested too deeply"),
            ("{\"a\":1,\"\\u0061\":2}".to_owned(), "the key \"a\" occurs twice"),
            ("[{\"a\":1,\"b\":2,\"a\":3}]".to_owned(), "the key \"a\" occurs twice"),
            ("\"\\ud800\"".to_owned(), "unexpected end of hex escape"),
            ("{\"\\udc00\":1}".to_owned(), "lone leading surrogate in hex escape"),
            ("{} {}".to_owned(), "trailing characters"),
            ("{\"a\":NaN}".to_owned(), "expected value"),
            ("1e999".to_owned(), "number out of range"),
            (String::new(), "EOF while parsing a value"),
        ] {
            let error = JsonText::parse(bad.clone()).unwrap_err().to_string();
            assert!(error.starts_with(why), "{bad}: {error}");
        }
        let key = |length| format!("{{\"{}\":1}}", "k".repeat(length));
        assert!(JsonText::parse(key(MAX_KEY)).is_ok());
        let error = JsonText::parse(key(MAX_KEY + 1)).unwrap_err().to_string();
        assert!(error.starts_with("a key of more than 65536 bytes"), "{error}");
        let many: Vec<String> = (0..=MAX_KEYS).map(|n| format!("\"{n}\":0")).collect();
        assert!(JsonText::parse(format!("{{{}}}", many[1..].join(","))).is_ok());
        let error = JsonText::parse(format!("{{{}}}", many.join(","))).unwrap_err().to_string();
        assert!(error.starts_with("more than 65536 object keys"), "{error}");
    }
}
