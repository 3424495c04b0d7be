//! Replaces the value of a credential in answers, so that a host which repeats it does not tell it to
//! the session. Each byte becomes `*`, and no length changes.

use hyper::{
    HeaderMap,
    body::Bytes,
    header::{HeaderName, HeaderValue},
};
use memchr::memmem;
use zeroize::Zeroizing;

/// The texts that are replaced in one answer, and the end of what came that may be the beginning of one.
pub(crate) struct EchoFilter {
    echoes: Vec<Zeroizing<Vec<u8>>>,
    held: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for EchoFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EchoFilter").finish_non_exhaustive()
    }
}

impl EchoFilter {
    pub(crate) fn new(echoes: Vec<Zeroizing<Vec<u8>>>) -> Self {
        Self { echoes, held: Zeroizing::default() }
    }

    /// Takes a piece of an answer, and returns as much as can be passed on.
    pub(crate) fn pass(&mut self, piece: &[u8]) -> Bytes {
        self.held.extend_from_slice(piece);
        self.replace();
        let ready = self.ready();
        Bytes::from(self.held.drain(..ready).collect::<Vec<_>>())
    }

    /// Returns the rest, after the last piece.
    pub(crate) fn finish(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut *self.held))
    }

    /// Returns `true` if there is a rest.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns how many bytes can be passed on: those before the first that may begin a text.
    fn ready(&self) -> usize {
        let longest = self.echoes.iter().map(|echo| echo.len()).max().unwrap_or_default();
        let first = self.held.len().saturating_sub(longest.saturating_sub(1));
        let begins = |at: &usize| {
            let rest = self.held.get(*at..).unwrap_or_default();
            self.echoes.iter().any(|echo| echo.starts_with(rest))
        };
        (first..self.held.len()).find(begins).unwrap_or(self.held.len())
    }

    fn replace(&mut self) {
        for echo in &self.echoes {
            let found: Vec<_> = memmem::find_iter(&self.held, echo.as_slice()).collect();
            for at in found {
                self.held[at..at + echo.len()].fill(b'*');
            }
        }
    }

    /// Replaces the texts in the headers of an answer. A header with one in its name is left out.
    pub(crate) fn clean(&self, headers: &mut HeaderMap) {
        let mut cleaned: Vec<(HeaderName, HeaderValue)> = Vec::with_capacity(headers.len());
        let is_in = |name: &HeaderName| {
            let has = |echo: &[u8]| memmem::find(name.as_str().as_bytes(), echo).is_some();
            self.echoes.iter().any(|echo| has(&Zeroizing::new(echo.to_ascii_lowercase())))
        };
        for (name, value) in headers.iter().filter(|(name, _)| !is_in(name)) {
            let mut once = Self::new(self.echoes.clone());
            let mut bytes = once.pass(value.as_bytes()).to_vec();
            bytes.extend_from_slice(&once.finish());
            // A value stays one: only its own bytes and asterisks are in it.
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                cleaned.push((name.clone(), value));
            }
        }
        headers.clear();
        for (name, value) in cleaned {
            headers.append(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter() -> EchoFilter {
        let echoes = ["secret-value", "c2VjcmV0"].map(|text| Zeroizing::new(text.into()));
        EchoFilter::new(echoes.to_vec())
    }

    #[test]
    fn a_value_is_replaced_however_the_answer_is_cut() {
        let text = b"a secret-value b c2VjcmV0 secret-valu secret-valuesecret-value";
        let expected = b"a ************ b ******** secret-valu ************************";
        for size in 1..text.len() {
            let mut filter = filter();
            let mut passed = Vec::new();
            for piece in text.chunks(size) {
                passed.extend_from_slice(&filter.pass(piece));
            }
            passed.extend_from_slice(&filter.finish());
            assert_eq!(passed, expected, "{size}");
            assert!(filter.is_empty());
        }
    }

    #[test]
    fn an_answer_that_comes_slowly_is_passed_on_at_once() {
        let mut filter = filter();
        assert_eq!(filter.pass(b"data: one\n\n"), b"data: one\n\n".as_slice());
        assert_eq!(filter.pass(b"data: secret"), b"data: ".as_slice());
        assert_eq!(filter.pass(b"s\n\n"), b"secrets\n\n".as_slice());
    }

    #[test]
    fn headers_are_cleaned() {
        let mut headers = HeaderMap::new();
        headers.append("x-secret-value", HeaderValue::from_static("a"));
        headers.append("x-c2vjcmv0", HeaderValue::from_static("a"));
        headers.append("x-a", HeaderValue::from_static("secret-value"));
        headers.append("x-a", HeaderValue::from_static("b c2VjcmV0"));
        filter().clean(&mut headers);
        let told: Vec<_> = headers.get_all("x-a").iter().map(|v| v.to_str().unwrap()).collect();
        assert_eq!(told, ["************", "b ********"]);
        assert_eq!(headers.len(), 2, "no name has it");
    }
}
