//! Resolves the host lists of a profile file, `net.allow` and `net.fetch`, over the profile that it
//! extends. Pure: no I/O.

use super::with_origin;
use crate::{
    ProfileError,
    access::Widening,
    document::Document,
    net::{
        Net,
        entry::{HostEntry, Hosts},
    },
    resolve::laxer::WIDEN,
    source::WithOrigin,
    written::List,
};
use palisade_plan::listeners::can_be_direct;

pub(super) const ALLOW: &str = "net.allow";
pub(super) const FETCH: &str = "net.fetch";

/// A list of hosts, as it is resolved.
type HostList = Vec<WithOrigin<HostEntry>>;

/// The reason why an entry is refused, and what to write instead.
type EntryRefusal = (String, &'static str);

/// Returns the hosts that programs may connect to.
pub(super) fn allow(
    document: &Document<'_>,
    base: &Net,
    written: Option<&List<HostEntry>>,
    widening: Widening,
) -> Result<HostList, ProfileError> {
    let is_in_base = |entry: &HostEntry| base.covers(entry);
    resolve(document, (ALLOW, &base.allow, written), widening, refuse_allow, is_in_base)
}

/// Returns the hosts that `web_fetch` may also get pages from.
pub(super) fn fetch(
    document: &Document<'_>,
    base: &Net,
    written: Option<&List<HostEntry>>,
    widening: Widening,
) -> Result<HostList, ProfileError> {
    let is_in_base = |entry: &HostEntry| base.covers_fetch(entry);
    resolve(document, (FETCH, &base.fetch, written), widening, refuse_fetch, is_in_base)
}

/// Combines a list of a file with that of the extended profile. `refuse` checks an entry against
/// those before it; `is_in_base` tells whether the extended profile allows it already.
fn resolve(
    document: &Document<'_>,
    (key, base, written): (&'static str, &HostList, Option<&List<HostEntry>>),
    widening: Widening,
    refuse: fn(&HostEntry, &[WithOrigin<HostEntry>]) -> Option<EntryRefusal>,
    is_in_base: impl Fn(&HostEntry) -> bool,
) -> Result<HostList, ProfileError> {
    let Some(list) = written else { return Ok(base.clone()) };
    let mut resolved = match widening {
        Widening::Yes => base.clone(),
        Widening::No => Vec::new(),
    };
    for said in list {
        let (entry, start) = (said.get_ref(), said.span().start);
        let wrong = |why: String, instead: &str| document.wrong_at(start, key, why, instead);
        if let Some(why) = entry.too_wide() {
            return Err(wrong(format!("\"{entry}\" allows too much: {why}"), "name less"));
        }
        if let Some((why, instead)) = refuse(entry, &resolved) {
            return Err(wrong(why, instead));
        }
        if widening == Widening::No && !is_in_base(entry) {
            let why = format!("\"{entry}\" is not allowed in the extended profile");
            return Err(wrong(why, WIDEN));
        }
        resolved.push(with_origin(document, said));
    }
    resolved.sort_by(|a, b| a.value.cmp(&b.value));
    Ok(resolved)
}

fn refuse_allow(entry: &HostEntry, known: &[WithOrigin<HostEntry>]) -> Option<EntryRefusal> {
    if let Some(port) = entry.port.filter(|port| !can_be_direct(*port)) {
        let why = format!("\"{entry}\" has port {port}, which Palisade uses in the session");
        return Some((why, "name another port"));
    }
    let clash = |other: &&WithOrigin<HostEntry>| {
        let ports = (entry.open_ports(), other.value.open_ports());
        let within = |a: &[u16], b: &[u16]| a.iter().all(|port| b.contains(port));
        (other.value.covers_hosts(entry) && within(&ports.0, &ports.1))
            || (entry.covers_hosts(&other.value) && within(&ports.1, &ports.0))
    };
    let other = known.iter().find(clash)?;
    let why = format!("\"{entry}\" and \"{}\" overlap", other.value);
    Some((why, "leave the narrower one out"))
}

fn refuse_fetch(entry: &HostEntry, known: &[WithOrigin<HostEntry>]) -> Option<EntryRefusal> {
    // Names of the whole session could lead to an address that is named here.
    if let Hosts::Addresses(_) = entry.hosts {
        let why = format!("\"{entry}\" is an address");
        return Some((why, "give a name, or add the address to net.allow"));
    }
    let is_known = known.iter().any(|other| other.value == *entry);
    is_known.then(|| (format!("\"{entry}\" is already listed"), "leave one of the two out"))
}
