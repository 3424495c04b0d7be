//! Resolves `[net]` of a profile file over the profile that it extends. Pure: no I/O.

mod hosts;
mod rules;

use super::{
    laxer::{WIDEN, laxer},
    services,
};
use crate::{
    ProfileError,
    access::Widening,
    document::Document,
    net::{
        Net, NetMode, NetText, PortEntry,
        entry::{HostEntry, WEB_PORTS},
    },
    source::WithOrigin,
    written::List,
};
use palisade_plan::listeners::MAX_DIRECT_PORTS;
use toml::Spanned;

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
    let given = [
        ("net.ports", NetMode::Ports, written.ports.is_some()),
        ("net.allow", NetMode::Domains, written.allow.is_some()),
        ("net.deny", NetMode::Domains, written.deny.is_some()),
        ("net.fetch", NetMode::Domains, written.fetch.is_some()),
        ("net.ask", NetMode::Domains, written.ask.is_some()),
        ("net.host.ports", NetMode::Domains, written.host.ports.is_some()),
        ("net.publish.ports", NetMode::Domains, written.publish.ports.is_some()),
        ("net.rule", NetMode::Domains, written.rule.is_some()),
    ];
    let misplaced = |(_, of, given): &(_, NetMode, bool)| *given && *of != mode.value;
    if let Some((key, of, _)) = given.into_iter().find(misplaced) {
        let why = format!("is set, but net.mode is {:?}", mode.value.name());
        let instead = format!("set `mode = {:?}` in [net], or leave it out", of.name());
        return Err(document.wrong(key, why, instead));
    }
    let host = services::services(document, &written.host, &base.host, mode.value, widening)?;
    let publish = services::publish(document, &written.publish, &base.publish, widening)?;
    let publish = publish.within(mode.value);
    let mut net = Net { host, publish, ..Net::without_hosts(mode) };
    match net.mode.value {
        NetMode::None | NetMode::Loopback => Ok(net),
        NetMode::Domains => domains(document, net, written, base, widening),
        NetMode::Ports => {
            net.ports = ports(document, base, written.ports.as_ref(), widening)?;
            Ok(net)
        }
    }
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

/// Adds the hosts of mode `domains`.
fn domains(
    document: &Document<'_>,
    net: Net,
    written: &NetText,
    base: &Net,
    widening: Widening,
) -> Result<Net, ProfileError> {
    let ask = written.ask.unwrap_or(base.ask);
    if ask && !base.ask && widening == Widening::No {
        let why = "is true, and the extended profile does not ask about hosts";
        return Err(laxer(document, "net.ask", why));
    }
    let allow = hosts::allow(document, base, written.allow.as_ref(), widening)?;
    let fetch = hosts::fetch(document, base, written.fetch.as_ref(), widening)?;
    let rules =
        rules::rules(document, base, written.rule.as_deref().unwrap_or_default(), widening)?;
    let has_services = !net.host.ports.is_empty() || !net.publish.is_empty();
    let has_hosts = !allow.is_empty() || !fetch.is_empty() || !rules.is_empty();
    if !has_hosts && !ask && !has_services {
        let why = "is \"domains\", but no host is allowed and none is asked about";
        let name = "name hosts, such as `allow = [\"packages.example\"]`, set `ask = true`, or \
                    set `mode = \"loopback\"`";
        return Err(document.wrong("net.mode", why, name));
    }
    let mut deny = base.deny.clone();
    for said in written.deny.iter().flatten() {
        if deny.iter().all(|known| known.value != *said.get_ref()) {
            deny.push(with_origin(document, said));
        }
    }
    deny.sort_by(|a, b| a.value.cmp(&b.value));
    let lists = [(hosts::ALLOW, &written.allow), (hosts::FETCH, &written.fetch)];
    for (key, said) in
        lists.into_iter().flat_map(|(key, list)| list.iter().flatten().map(move |said| (key, said)))
    {
        if let Some(by) = deny.iter().find(|deny| deny.value.denies_all_of(said.get_ref())) {
            let why = format!("\"{}\" is denied by \"{}\" of net.deny", said.get_ref(), by.value);
            let start = said.span().start;
            return Err(document.wrong_at(start, key, why, "leave one of the two out"));
        }
    }
    rules::check_denied(document, written.rule.as_deref().unwrap_or_default(), &deny)?;
    let net = Net { allow, deny, fetch, ask, rules, ..net };
    let ports = net.direct_ports().len();
    if ports > MAX_DIRECT_PORTS {
        let why = format!("has, with 80, 443 and net.host.ports, {ports} different ports");
        let most = format!("name at most {}", MAX_DIRECT_PORTS - WEB_PORTS.len());
        return Err(document.wrong(hosts::ALLOW, why, most));
    }
    services::check_published(document, &net)?;
    Ok(net)
}

fn with_origin(document: &Document<'_>, said: &Spanned<HostEntry>) -> WithOrigin<HostEntry> {
    let at = Some(document.origin(said.span().start));
    WithOrigin { value: said.get_ref().clone(), at }
}
