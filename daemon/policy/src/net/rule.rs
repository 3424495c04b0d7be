//! `[[net.rule]]`: a host whose requests are judged one by one, because TLS to it ends in the egress
//! room. Pure: no I/O.

use super::entry::HostEntry;
use crate::keys::{noun, text};
use palisade_egress_protocol::{WebRequest, host::Target};
use serde::{Deserialize, Serialize};
use std::fmt;
use toml::Spanned;

/// The port of a rule that names none.
const HTTPS_PORT: u16 = 443;

/// The requests of a rule that names none.
const DEFAULT_METHODS: [&str; 2] = ["GET", "HEAD"];

/// Most characters of a method.
const MAX_METHOD: usize = 32;

text! {
    /// A rule as it is written in a profile.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    "net.rule." pub(crate) struct HostRuleText {
        /// the host; without a port, port 443
        host: Spanned<HostEntry> ["a name, with or without a port"], "must be there";
        /// the requests that are allowed: a method, or a method and a path
        methods: Option<Spanned<Vec<RequestPattern>>>, "`[\"GET\", \"HEAD\"]`";
        /// the credential that the egress room adds to the requests; programs find a placeholder in
        /// `PALISADE_CREDENTIAL_NAME`. See [network.md](network.md#credentials)
        credential: Option<CredentialName>, "none";
    }
}

noun! {
    RequestPattern: "request", "requests";
    CredentialName: "a name of `a-z`, `0-9` and `-`", "names";
}

impl HostRuleText {
    /// Returns the rule with its defaults.
    pub(crate) fn rule(&self) -> HostRule {
        let methods = self.methods.as_ref().map_or_else(
            || DEFAULT_METHODS.map(RequestPattern::any_path).to_vec(),
            |methods| methods.get_ref().clone(),
        );
        let (host, credential) = (self.host.get_ref().clone(), self.credential.clone());
        HostRule { host, methods, credential }
    }
}

/// A host whose requests are judged one by one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct HostRule {
    /// One name, and a port if it is not that of HTTPS.
    pub(crate) host: HostEntry,
    /// The requests that are allowed; never empty.
    pub(crate) methods: Vec<RequestPattern>,
    /// The credential that the egress room fills in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) credential: Option<CredentialName>,
}

impl HostRule {
    pub(crate) fn port(&self) -> u16 {
        self.host.port.unwrap_or(HTTPS_PORT)
    }

    /// Returns the host with its port, as an entry of `net.allow` would open it.
    pub(crate) fn entry(&self) -> HostEntry {
        HostEntry { hosts: self.host.hosts.clone(), port: Some(self.port()) }
    }

    /// Returns `true` if the rule is for the same host and port as another one.
    pub(crate) fn is_for_host_of(&self, other: &Self) -> bool {
        self.entry() == other.entry()
    }

    /// Returns `true` if the rule is for a target.
    pub(crate) fn is_for(&self, target: &Target) -> bool {
        self.entry().allows(target)
    }

    /// Returns the pattern that allows a request, or the reason why none does.
    pub(crate) fn judge(&self, request: &WebRequest) -> Result<&RequestPattern, String> {
        let of_method: Vec<_> =
            self.methods.iter().filter(|one| one.method == request.method).collect();
        if of_method.is_empty() {
            return Err(format!("it allows {self}, but not {}", Quoted(&request.method)));
        }
        if let Some(any) = of_method.iter().find(|one| one.path.is_none()) {
            return Ok(any);
        }
        check_path(&request.path).map_err(|why| {
            format!("{why}, so that the path can not be compared with those that it allows")
        })?;
        let allows = |one: &&&RequestPattern| {
            one.path.as_ref().is_some_and(|path| matches(path, &request.path))
        };
        of_method.iter().find(allows).copied().ok_or_else(|| {
            let (method, path) = (Quoted(&request.method), Quoted(&request.path));
            format!("it allows {self}, but not {method} {path}")
        })
    }

    /// Returns `true` if this rule allows every request that another one allows, with its credential.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let credential = other.credential.is_none() || other.credential == self.credential;
        credential && other.methods.iter().all(|one| self.methods.iter().any(|by| by.covers(one)))
    }

    /// Returns the requests that this rule and another one for the same host both allow; `None` if
    /// there are none.
    pub(crate) fn common(&self, other: &Self) -> Option<Self> {
        let within = |one: &&RequestPattern, by: &Self| by.methods.iter().any(|p| p.covers(one));
        let mut methods: Vec<_> =
            self.methods.iter().filter(|one| within(one, other)).cloned().collect();
        let more = other.methods.iter().filter(|one| within(one, self));
        methods.extend(more.filter(|one| !self.methods.contains(one)).cloned());
        methods.sort();
        let credential =
            self.credential.clone().filter(|own| Some(own) == other.credential.as_ref());
        (!methods.is_empty()).then(|| Self { host: self.host.clone(), methods, credential })
    }
}

/// The requests of the rule, as a list, with its credential.
impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, one) in self.methods.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}\"{one}\"")?;
        }
        match &self.credential {
            Some(credential) => write!(f, " with credential \"{}\"", credential.0),
            None => Ok(()),
        }
    }
}

/// Most characters of the name of a credential.
const MAX_CREDENTIAL: usize = 64;

/// The name of a credential in the store of the egress room.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct CredentialName(pub(crate) String);

impl CredentialName {
    /// Returns the variable in which programs find the placeholder.
    pub(crate) fn variable(&self) -> String {
        format!("PALISADE_CREDENTIAL_{}", self.0.to_ascii_uppercase().replace('-', "_"))
    }
}

impl TryFrom<String> for CredentialName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if text.is_empty() || text.len() > MAX_CREDENTIAL || !text.bytes().all(plain) {
            return Err(format!(
                "{text:?} is not the name of a credential: it has 1 to {MAX_CREDENTIAL} of a-z, 0-9 \
                 and '-'"
            ));
        }
        Ok(Self(text))
    }
}

/// A part of a request in a message: bounded, and without control characters.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 200;
        for c in self.0.chars().take(MOST) {
            write!(f, "{}", c.escape_debug())?;
        }
        if self.0.chars().nth(MOST).is_some() { f.write_str("…") } else { Ok(()) }
    }
}

/// Requests that a rule allows: a method, and a path or every path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct RequestPattern {
    method: String,
    /// The path, in which each `*` stands for any characters, `/` included, or none.
    path: Option<String>,
}

impl RequestPattern {
    fn any_path(method: &str) -> Self {
        Self { method: method.to_owned(), path: None }
    }

    /// Returns `true` if this pattern allows every request that another one allows.
    fn covers(&self, other: &Self) -> bool {
        let path = match (&self.path, &other.path) {
            (None, _) => true,
            (Some(_), None) => false,
            // A `*` of the other can only be matched by one of this.
            (Some(path), Some(other)) => matches(path, other),
        };
        self.method == other.method && path
    }
}

impl fmt::Display for RequestPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.method)?;
        self.path.as_ref().map_or(Ok(()), |path| write!(f, " {path}"))
    }
}

impl From<RequestPattern> for String {
    fn from(pattern: RequestPattern) -> Self {
        pattern.to_string()
    }
}

impl TryFrom<String> for RequestPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse(&text).map_err(|why| format!("{text:?} is not a request: {why}"))
    }
}

fn parse(text: &str) -> Result<RequestPattern, String> {
    let (method, path) = match text.split_once(' ') {
        Some((method, path)) => (method, Some(path)),
        None => (text, None),
    };
    let letters = method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    if method.is_empty() || method.len() > MAX_METHOD || !letters {
        let form = "give a method in upper case, alone or with a path, such as \"GET\" or \
                    \"POST /repos/acme/*\"";
        return Err(form.to_owned());
    }
    if method == "CONNECT" {
        return Err("CONNECT is never sent to an inspected host".to_owned());
    }
    if let Some(path) = path {
        if path.contains(['?', '#', ' ']) {
            return Err("a path has no space, `?` or `#`; the query is not compared".to_owned());
        }
        check_path(path).map_err(|why| format!("{why}, and such a path is never compared"))?;
    }
    Ok(RequestPattern { method: method.to_owned(), path: path.map(str::to_owned) })
}

/// Checks that servers can not take a path for another one. What they disagree about is refused.
fn check_path(path: &str) -> Result<(), String> {
    if !path.starts_with('/') {
        return Err("the path does not begin with \"/\"".to_owned());
    }
    if let Some(bad) = path.chars().find(|c| !c.is_ascii_graphic() || *c == '\\') {
        return Err(format!("the path has the character {bad:?}"));
    }
    let lower = path.to_ascii_lowercase();
    // A dot, a slash, a backslash, a NUL or a percent sign in disguise.
    for disguised in ["%2e", "%2f", "%5c", "%00", "%25"] {
        if lower.contains(disguised) {
            return Err(format!("the path has \"{disguised}\""));
        }
    }
    let hex = |at: usize| lower.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    if lower.match_indices('%').any(|(at, _)| !hex(at + 1) || !hex(at + 2)) {
        return Err("the path has \"%\" without two hexadecimal digits".to_owned());
    }
    if path.contains("//") {
        return Err("the path has \"//\"".to_owned());
    }
    // Some servers cut off what follows a semicolon.
    let is_dots = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
    if path.split('/').any(is_dots) {
        return Err("the path has a part \".\" or \"..\"".to_owned());
    }
    Ok(())
}

/// Returns `true` if `text` matches `pattern`, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        // The first place is as good as any: `*` takes what is between.
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
