//! Resolves `net.fetch` of a profile file over the profile that it extends. Pure: no I/O.

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

pub(super) const FETCH: &str = "net.fetch";

/// Returns the hosts of a file that `web_fetch` may also get pages from, combined with those that it
/// extends.
pub(super) fn fetch(
    document: &Document<'_>,
    base: &Net,
    written: Option<&List<HostEntry>>,
    widening: Widening,
) -> Result<Vec<WithOrigin<HostEntry>>, ProfileError> {
    let Some(list) = written else { return Ok(base.fetch.clone()) };
    let mut fetch = match widening {
        Widening::Yes => base.fetch.clone(),
        Widening::No => Vec::new(),
    };
    for said in list {
        let (entry, start) = (said.get_ref(), said.span().start);
        let wrong = |why: String, instead: &str| document.wrong_at(start, FETCH, why, instead);
        // Names of the whole session could lead to an address that is named here.
        if let Hosts::Addresses(_) = entry.hosts {
            let why = format!("\"{entry}\" is an address");
            return Err(wrong(why, "give a name, or add the address to net.allow"));
        }
        if let Some(why) = entry.too_wide() {
            return Err(wrong(format!("\"{entry}\" allows too much: {why}"), "name less"));
        }
        if fetch.iter().any(|known| known.value == *entry) {
            return Err(wrong(
                format!("\"{entry}\" is already listed"),
                "leave one of the two out",
            ));
        }
        if widening == Widening::No && !base.covers_fetch(entry) {
            let why = format!("\"{entry}\" is not allowed in the extended profile");
            return Err(wrong(why, WIDEN));
        }
        fetch.push(with_origin(document, said));
    }
    fetch.sort_by(|a, b| a.value.cmp(&b.value));
    Ok(fetch)
}
