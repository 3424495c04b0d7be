//! A certificate authority of a test's own, and the servers that it vouches for.

use crate::World;
use palisade_plan::authority::HOST_CERTIFICATES;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::{crypto::ring, pki_types::PrivatePkcs8KeyDer};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A certificate authority.
pub struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Vec<u8>,
}

impl std::fmt::Debug for TestAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestAuthority").finish_non_exhaustive()
    }
}

impl Default for TestAuthority {
    fn default() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").der().to_vec();
        Self { issuer: Issuer::new(params, key), certificate }
    }
}

impl TestAuthority {
    /// Returns the settings of a server with a certificate for names.
    #[must_use]
    pub fn server(&self, names: &[&str]) -> Arc<rustls::ServerConfig> {
        let (certificate, key) = self.issue(names);
        let key = PrivatePkcs8KeyDer::from(key);
        let made = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("TLS")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.into()], key.into());
        Arc::new(made.expect("a server"))
    }

    /// Returns a certificate for names, and its key.
    #[must_use]
    pub fn issue(&self, names: &[&str]) -> (Vec<u8>, Vec<u8>) {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.der().to_vec(), key.serialize_der())
    }

    /// Returns the certificate as text.
    #[must_use]
    pub fn pem(&self) -> String {
        let authority = palisade_plan::authority::Authority::new(self.certificate.clone());
        authority.expect("a certificate").pem()
    }

    /// Writes a file with the certificates that the host trusts and this one, and returns it with
    /// the path at which the host has its own.
    pub(crate) fn certificates_file(&self, world: &World) -> (PathBuf, &'static Path) {
        let mut known = HOST_CERTIFICATES.iter().map(Path::new);
        let at = known.find(|path| path.exists()).expect("the host's certificates");
        let text = fs::read_to_string(at).expect("the host's certificates") + &self.pem();
        let path = world.outside().parent().expect("a directory").join("certificates");
        fs::write(&path, text).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
        (path, at)
    }
}
