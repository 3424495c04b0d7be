//! Credentials that are filled in outside of a session: their files, which only the room reads, and the
//! exchange of placeholders in requests. A value is in no message, error or debugging output.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use hyper::{
    HeaderMap, Request,
    header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderName, HeaderValue, IF_RANGE, RANGE},
};
use palisade_egress_protocol::{HostCredential, host::Target};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
};
use zeroize::Zeroizing;

/// The variable with the directory of credentials that the service manager gives to a service.
const DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// Most bytes of a credential.
const MAX_CREDENTIAL: usize = 16 * 1024;

/// Fewest bytes of a value: a shorter one could not be told from other text in an answer.
const LEAST_VALUE: usize = 8;

/// Why a credential can not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialError {
    /// The room has no such credential.
    #[error(
        "the egress room does not have it; add LoadCredential={0}:FILE to \
         palisade-egress@.service, and restart the daemon"
    )]
    Missing(String),
    /// The file can not be read.
    #[error("it can not be read: {0}")]
    Read(#[from] io::Error),
    /// The file is not a credential.
    #[error("its file is invalid: {0}")]
    Form(&'static str),
}

/// The files of credentials, by name. They are opened before the room is confined, or by the broker.
pub(crate) type CredentialFiles = BTreeMap<String, Arc<File>>;

/// Opens the credentials that the service manager gave to this process; none without a service manager.
pub(crate) fn open_own() -> io::Result<CredentialFiles> {
    match std::env::var_os(DIRECTORY) {
        Some(directory) => open_all(Path::new(&directory)),
        None => Ok(CredentialFiles::new()),
    }
}

fn open_all(directory: &Path) -> io::Result<CredentialFiles> {
    let mut files = CredentialFiles::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if let (true, Ok(name)) = (entry.file_type()?.is_file(), entry.file_name().into_string()) {
            files.insert(name, Arc::new(File::open(entry.path())?));
        }
    }
    Ok(files)
}

/// Reads a credential. This is done for each request, so that a value which is written to the same file
/// counts at once.
fn read(file: &File) -> Result<Credential, CredentialError> {
    let mut bytes = Zeroizing::new(vec![0; MAX_CREDENTIAL + 1]);
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64)? {
            0 => break,
            read => length += read,
        }
    }
    let text = match bytes.get(..length).filter(|bytes| bytes.len() <= MAX_CREDENTIAL) {
        Some(text) => str::from_utf8(text).map_err(|_| CredentialError::Form(FORM))?,
        None => return Err(CredentialError::Form("it has more than 16 KiB")),
    };
    parse(text).map_err(CredentialError::Form)
}

/// Reads the credential of the operator's proxy, as the value of `Proxy-Authorization`.
pub(crate) fn read_authorization(
    files: &CredentialFiles,
    name: &str,
) -> Result<Zeroizing<Vec<u8>>, String> {
    let missing = || CredentialError::Missing(name.to_owned());
    let found = files.get(name).ok_or_else(missing).and_then(|file| read(file));
    let found = found.and_then(|credential| match credential.header {
        AUTHORIZATION => Ok(Zeroizing::new(credential.value.as_bytes().to_vec())),
        _ => Err(CredentialError::Form("a proxy takes `basic USER:PASSWORD` or `bearer TOKEN`")),
    });
    found.map_err(|error| format!("credential {name:?} can not be used: {error}"))
}

/// A credential: the header that it is sent in, and the texts by which it is recognised in answers.
pub(crate) struct Credential {
    header: HeaderName,
    value: HeaderValue,
    pub(crate) echoes: Vec<Zeroizing<Vec<u8>>>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("header", &self.header).finish_non_exhaustive()
    }
}

const FORM: &str = "it has one line: `bearer TOKEN`, `basic USER:PASSWORD` or `header NAME: VALUE`";

fn parse(text: &str) -> Result<Credential, &'static str> {
    let line = text.strip_suffix('\n').unwrap_or(text);
    if line.contains(|c: char| c.is_control() || !c.is_ascii()) {
        return Err(FORM);
    }
    let (kind, rest) = line.split_once(' ').ok_or(FORM)?;
    let (header, value, secrets) = match kind {
        "bearer" => (AUTHORIZATION, Zeroizing::new(format!("Bearer {rest}")), vec![rest]),
        "basic" => {
            let (_, password) = rest.split_once(':').ok_or(FORM)?;
            let value = Zeroizing::new(format!("Basic {}", STANDARD.encode(rest)));
            (AUTHORIZATION, value, vec![password])
        }
        "header" => {
            let (name, value) = rest.split_once(": ").ok_or(FORM)?;
            let name = name.parse().map_err(|_| FORM)?;
            (name, Zeroizing::new(value.to_owned()), vec![value])
        }
        _ => return Err(FORM),
    };
    if secrets.iter().any(|secret| secret.len() < LEAST_VALUE) {
        return Err("a value shorter than 8 bytes can not be recognised in answers");
    }
    // The longer texts come first, because they contain the others.
    let whole = if kind == "basic" { echoes_of(rest) } else { Vec::new() };
    let parts = secrets.iter().flat_map(|secret| echoes_of(secret));
    let echoes = whole.into_iter().chain(parts).collect();
    let mut value = HeaderValue::from_str(&value).map_err(|_| FORM)?;
    value.set_sensitive(true);
    Ok(Credential { header, value, echoes })
}

/// Returns a value as it is, its base64 text, and the part of that text which does not depend on what is
/// before and behind the value.
fn echoes_of(secret: &str) -> Vec<Zeroizing<Vec<u8>>> {
    let mut echoes = vec![
        Zeroizing::new(secret.as_bytes().to_vec()),
        Zeroizing::new(STANDARD_NO_PAD.encode(secret).into_bytes()),
        Zeroizing::new(URL_SAFE_NO_PAD.encode(secret).into_bytes()),
    ];
    for before in 0..3 {
        let bytes = Zeroizing::new([&vec![0; before], secret.as_bytes()].concat());
        let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let text = Zeroizing::new(engine.encode(&*bytes));
            let fixed = text.as_bytes().get(first..last).unwrap_or_default();
            if echoes.iter().all(|known| known.as_slice() != fixed) {
                echoes.push(Zeroizing::new(fixed.to_vec()));
            }
        }
    }
    echoes
}

/// The credentials of one session, by host.
#[derive(Debug, Default)]
pub(crate) struct SessionCredentials {
    pub(crate) files: CredentialFiles,
    pub(crate) hosts: Vec<HostCredential>,
}

impl SessionCredentials {
    /// Reads the credential of an inspected host, and returns it with its placeholder; `None` if the
    /// rule of the host has none.
    pub(crate) fn of(&self, target: &Target) -> Result<Option<(Credential, &str)>, String> {
        let Some(own) = self.hosts.iter().find(|one| one.target == *target) else {
            return Ok(None);
        };
        let missing = || CredentialError::Missing(own.name.clone());
        let found = self.files.get(&own.name).ok_or_else(missing).and_then(|file| read(file));
        match found {
            Ok(credential) => Ok(Some((credential, own.placeholder.as_str()))),
            Err(error) => Err(format!("credential {:?} can not be used: {error}", own.name)),
        }
    }

    /// Returns the name of a credential whose placeholder a request has that goes elsewhere: to a host
    /// that the credential is not for, or in a header that it is not sent in. `own` is the credential of
    /// the request's host, with its placeholder.
    pub(crate) fn misplaced<B>(
        &self,
        request: &Request<B>,
        own: Option<(&Credential, &str)>,
    ) -> Option<&str> {
        let uri = request.uri().to_string();
        let found = self.hosts.iter().find(|one| {
            let of_host = own.filter(|(_, placeholder)| *placeholder == one.placeholder);
            let header = of_host.map(|(credential, _)| &credential.header);
            let mut others = request.headers().iter().filter(|(name, _)| header != Some(*name));
            let in_header = others.any(|(_, value)| has_placeholder(value, &one.placeholder));
            in_header || uri.contains(&one.placeholder)
        });
        found.map(|one| one.name.as_str())
    }

    /// Returns the name of a credential whose placeholder a text has.
    pub(crate) fn placeholder_in(&self, text: &str) -> Option<&str> {
        let found = self.hosts.iter().find(|one| text.contains(&one.placeholder));
        found.map(|one| one.name.as_str())
    }
}

/// Returns `true` if a header has a placeholder, as it is or as a part of a base64 text.
fn has_placeholder(value: &HeaderValue, placeholder: &str) -> bool {
    let Ok(text) = str::from_utf8(value.as_bytes()) else { return false };
    text.contains(placeholder)
        || text.split([' ', ',']).any(|word| {
            let decoded = STANDARD.decode(word).or_else(|_| URL_SAFE_NO_PAD.decode(word));
            decoded.is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(placeholder))
        })
}

/// Puts a credential into an allowed request. A header that has the placeholder, or is absent, becomes
/// the credential's; one that the program has filled in otherwise is left.
pub(crate) fn fill_in(headers: &mut HeaderMap, credential: &Credential, placeholder: &str) {
    let present: Vec<_> = headers.get_all(&credential.header).iter().collect();
    if present.is_empty() || present.iter().any(|value| has_placeholder(value, placeholder)) {
        headers.insert(credential.header.clone(), credential.value.clone());
    }
    // Echoes are looked for in whole answers that are not compressed.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.remove(RANGE);
    headers.remove(IF_RANGE);
}

#[cfg(test)]
#[path = "credential_tests.rs"]
mod tests;
