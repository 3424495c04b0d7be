//! The certificate authority of a session whose profile has inspected hosts, and the placeholders of
//! their credentials. It is made before the
//! cell, which trusts it, and an egress room that is started later can go on with it. The key is in
//! memory only. Runs in the broker.

use palisade_egress_protocol::{AuthorityKey, HostCredential, host::HostName};
use palisade_plan::authority::{AUTHORITY_NAME, Authority};
use palisade_policy::EgressPolicy;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, GeneralSubtree, IsCa, KeyPair,
    KeyUsagePurpose, NameConstraints,
};
use std::{
    collections::BTreeMap,
    io,
    time::{Duration, SystemTime},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The time for which the certificate is valid. Sessions are shorter.
const VALID: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The parts of a session with inspected hosts that its egress room needs.
#[derive(Debug, Clone)]
pub(crate) struct SessionInspection {
    pub(crate) key: AuthorityKey,
    pub(crate) credentials: Vec<HostCredential>,
    /// The variables with the placeholders.
    pub(crate) variables: BTreeMap<String, String>,
}

/// Makes what a session with inspected hosts needs; `None` if it has none.
pub(super) fn inspect(policy: &EgressPolicy) -> io::Result<Option<(SessionInspection, Authority)>> {
    let Some((key, certificate)) = make(&policy.inspected())? else { return Ok(None) };
    let (mut credentials, mut variables) = (Vec::new(), BTreeMap::new());
    for (target, name, variable) in policy.credentials() {
        let placeholder = match variables.get(&variable) {
            Some(known) => String::clone(known),
            None => placeholder()?,
        };
        variables.insert(variable, placeholder.clone());
        credentials.push(HostCredential { target, name, placeholder });
    }
    Ok(Some((SessionInspection { key, credentials, variables }, certificate)))
}

/// Makes a text that stands for a credential inside one session.
fn placeholder() -> io::Result<String> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("palisade-placeholder-{}", palisade_text::hex(&bytes)))
}

/// Makes an authority that can vouch for these hosts only; `None` if there are none.
fn make(hosts: &[HostName]) -> io::Result<Option<(AuthorityKey, Authority)>> {
    if hosts.is_empty() {
        return Ok(None);
    }
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let names = hosts.iter().map(|host| GeneralSubtree::DnsName(host.to_string())).collect();
    params.name_constraints =
        Some(NameConstraints { permitted_subtrees: names, excluded_subtrees: Vec::new() });
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + now + VALID;
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    let certificate = Authority::new(certificate.der().to_vec()).map_err(io::Error::other)?;
    Ok(Some((AuthorityKey(key.serialize_der()), certificate)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_with_inspected_hosts_has_an_authority_of_its_own() {
        assert!(make(&[]).unwrap().is_none());
        let hosts = [HostName::new("api.git.example").unwrap()];
        let (first, second) = (make(&hosts).unwrap().unwrap(), make(&hosts).unwrap().unwrap());
        assert_ne!(first.0, second.0);
        assert_ne!(first.1, second.1);
        assert_eq!(format!("{:?}", first.0), "AuthorityKey");
    }
}
