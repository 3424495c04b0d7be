//! TLS on both sides of an inspected connection: towards programs with certificates of the session's
//! own authority, towards hosts with the certificates that this host trusts. Keys are in memory only.

use crate::{http2, limits::Limits};
use hyper::Version;
use palisade_egress_protocol::{
    AuthorityKey,
    host::{Host, HostName, Target},
};
use palisade_plan::authority::{AUTHORITY_NAME, HOST_CERTIFICATES, MAX_HOST_CERTIFICATES};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject as _},
};
use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read as _},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The name of HTTP/1.1 in TLS.
const HTTP: &[u8] = b"http/1.1";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The time for which a certificate is valid. Sessions are shorter.
const VALID: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Why TLS to an inspected host is not available.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthorityFailure {
    /// The session's key or a certificate for a host is not usable.
    #[error("the session's authority: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS can not be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The certificates that this host trusts can not be read.
    #[error("the certificates that this host trusts: {0}")]
    Trust(String),
}

/// The authority of one session.
pub(crate) struct SessionAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// The key of all certificates for hosts.
    key: KeyPair,
    hosts: Mutex<HashMap<HostName, Arc<ServerConfig>>>,
}

impl std::fmt::Debug for SessionAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionAuthority").finish_non_exhaustive()
    }
}

impl SessionAuthority {
    /// Takes the key that the broker has made for the session.
    pub(crate) fn new(key: &AuthorityKey) -> Result<Self, AuthorityFailure> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(AUTHORITY_NAME);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = Issuer::new(params, KeyPair::try_from(key.0.as_slice())?);
        Ok(Self { issuer, key: KeyPair::generate()?, hosts: Mutex::default() })
    }

    /// Returns the settings for programs that connect to a host.
    pub(crate) fn server(&self, host: &HostName) -> Result<Arc<ServerConfig>, AuthorityFailure> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hosts.get(host) {
            return Ok(Arc::clone(known));
        }
        let mut params = CertificateParams::new([host.to_string()])?;
        params.distinguished_name = named(host.as_str());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        params.not_before = epoch + now.saturating_sub(DAY);
        params.not_after = epoch + now + VALID;
        let certificate = params.signed_by(&self.key, &self.issuer)?;
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der());
        let mut made = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())?;
        made.alpn_protocols = vec![http2::PROTOCOL.to_vec(), HTTP.to_vec()];
        let made = Arc::new(made);
        hosts.insert(host.clone(), Arc::clone(&made));
        Ok(made)
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The certificates that this host trusts, read when the first session needs them.
#[derive(Debug, Default)]
pub(crate) struct HostTrust(OnceLock<Result<Arc<ClientConfig>, String>>);

impl HostTrust {
    /// Returns the settings for connections to hosts.
    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>, AuthorityFailure> {
        let read = self.0.get_or_init(|| read_trust().map_err(|error| error.to_string()));
        read.clone().map_err(AuthorityFailure::Trust)
    }

    /// Begins TLS with a host, whose certificate must be one that this host trusts. HTTP/2 is offered to
    /// it if that is the version of the request. Returns the version that the host has chosen, too.
    pub(crate) async fn connect<D>(
        &self,
        target: &Target,
        (destination, version): (D, Version),
        limits: &Limits,
    ) -> Result<(TlsStream<D>, Version), String>
    where
        D: AsyncRead + AsyncWrite + Unpin,
    {
        let server = match &target.host {
            Host::Name(name) => ServerName::try_from(name.as_str().to_owned())
                .map_err(|error| format!("the name can not have a certificate: {error}"))?,
            Host::Address(address) => ServerName::IpAddress((*address).into()),
        };
        let mut settings = self.client().map_err(|error| error.to_string())?;
        if version == Version::HTTP_2 {
            let protocols = vec![http2::PROTOCOL.to_vec(), HTTP.to_vec()];
            Arc::make_mut(&mut settings).alpn_protocols = protocols;
        }
        let connecting = TlsConnector::from(settings).connect(server, destination);
        let connected = timeout(limits.handshake, connecting).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let stream = connected.map_err(|error| format!("TLS with {target} failed: {error}"))?;
        let is_second = stream.get_ref().1.alpn_protocol() == Some(http2::PROTOCOL);
        Ok((stream, if is_second { Version::HTTP_2 } else { Version::HTTP_11 }))
    }
}

fn read_trust() -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let pem = read_first(&HOST_CERTIFICATES)?;
    // Hosts have certificates that are not understood by everybody; the rest counts.
    let found = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
    let (added, _) = roots.add_parsable_certificates(found);
    if added == 0 {
        return Err(io::Error::other("none of them can be read"));
    }
    let mut made = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    made.alpn_protocols = vec![HTTP.to_vec()];
    Ok(Arc::new(made))
}

/// Reads the first of some files that exists.
fn read_first(paths: &[&str]) -> io::Result<Vec<u8>> {
    for path in paths {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(MAX_HOST_CERTIFICATES).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    Err(io::Error::other(format!("none of {} exists", paths.join(", "))))
}
