//! Resolves `[net]` of a profile file over the profile that it extends. Pure: no I/O.

use super::laxer::{WIDEN, laxer};
use crate::{
    ProfileError,
    access::Widening,
    document::Document,
    net::{DomainEntry, Net, NetMode, NetText, PortEntry},
    source::WithOrigin,
    written::List,
};

/// Returns the network settings of a file, combined with those that it extends.
pub(super) fn network(
    document: &Document<'_>,
    written: &NetText,
    base: &Net,
    widening: Widening,
) -> Result<Net, ProfileError> {
    let mode = match &written.mode {
        Some(said) if *said.get_ref() > base.mode.value && widening == Widening::No => {
            let why = format!("is {:?} in the extended profile", base.mode.value.name());
            return Err(laxer(document, "net.mode", &why));
        }
        Some(said) => {
            WithOrigin { value: *said.get_ref(), at: Some(document.origin(said.span().start)) }
        }
        None => base.mode.clone(),
    };
    if mode.value != NetMode::Ports {
        let given =
            [("net.ports", written.ports.is_some()), ("net.domains", written.domains.is_some())];
        if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
            let why = format!("is set, but net.mode is {:?}", mode.value.name());
            let instead = "set `mode = \"ports\"` in [net], or leave it out";
            return Err(document.wrong(key, why, instead));
        }
        return Ok(Net { mode, ports: Vec::new(), domains: None });
    }
    let ports = ports(document, base, written.ports.as_ref(), widening)?;
    let domains = domains(document, base, written.domains.as_ref(), widening)?;
    Ok(Net { mode, ports, domains })
}

fn ports(
    document: &Document<'_>,
    base: &Net,
    written: Option<&List<PortEntry>>,
    widening: Widening,
) -> Result<Vec<WithOrigin<PortEntry>>, ProfileError> {
    const KEY: &str = "net.ports";
    let name = "name ports, such as `ports = [53, 443]`, or set `mode = \"none\"`";
    let list = match written {
        None if base.ports.is_empty() => {
            return Err(document.wrong("net.mode", "is \"ports\", but net.ports is missing", name));
        }
        None => return Ok(base.ports.clone()),
        Some(list) if list.is_empty() => return Err(document.wrong(KEY, "is empty", name)),
        Some(list) => list,
    };
    let mut ports: Vec<WithOrigin<PortEntry>> = match widening {
        Widening::Yes => base.ports.clone(),
        Widening::No => Vec::new(),
    };
    for said in list {
        let (value, start) = (*said.get_ref(), said.span().start);
        if ports.iter().any(|port| port.value == value) {
            let why = format!("{} is already listed", value.0);
            return Err(document.wrong_at(start, KEY, why, "leave one of the two out"));
        }
        if widening == Widening::No && base.port(value.0).is_none() {
            let why = format!("{} is not open in the extended profile", value.0);
            return Err(document.wrong_at(start, KEY, why, WIDEN));
        }
        ports.push(WithOrigin { value, at: Some(document.origin(start)) });
    }
    ports.sort_by_key(|said| said.value);
    Ok(ports)
}

fn domains(
    document: &Document<'_>,
    base: &Net,
    written: Option<&List<DomainEntry>>,
    widening: Widening,
) -> Result<Option<Vec<DomainEntry>>, ProfileError> {
    const KEY: &str = "net.domains";
    let list = match written {
        None => return Ok(base.domains.clone()),
        Some(list) if list.is_empty() => {
            return Err(document.wrong(KEY, "is empty", "name a domain, or leave it out"));
        }
        Some(list) => list,
    };
    let mut domains = match widening {
        Widening::Yes => base.domains.clone().unwrap_or_default(),
        Widening::No => Vec::new(),
    };
    for said in list {
        let (value, start) = (said.get_ref(), said.span().start);
        let clash = |other: &&DomainEntry| other.covers(value) || value.covers(other);
        if let Some(other) = domains.iter().find(clash) {
            let why = format!("{:?} and {:?} overlap", value.0, other.0);
            return Err(document.wrong_at(start, KEY, why, "leave the narrower one out"));
        }
        let allowed = |all: &Vec<DomainEntry>| all.iter().any(|other| other.covers(value));
        if widening == Widening::No && !base.domains.as_ref().is_none_or(allowed) {
            let why = format!("{:?} is not in the extended profile", value.0);
            return Err(document.wrong_at(start, KEY, why, WIDEN));
        }
        domains.push(value.clone());
    }
    domains.sort();
    Ok(Some(domains))
}
