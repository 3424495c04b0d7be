//! Several keys at once, each from what was typed, written or is usual. Broker.

use super::{
    doors::{Door, OperatorDoor, Telling},
    error::SettingsError,
    started::StartedBy,
};
use crate::{
    config::{self, Config, Written},
    effective::{Effective, Origin},
    journal,
    options::Options,
    quotas::{Bound, Past, Quotas},
    roles::Roles,
    traces::Export,
};
use std::path::PathBuf;

/// Who may do what.
pub(super) fn roles(written: config::Roles, effective: &mut Effective) -> Roles {
    let mut named = |key, written| effective.choose(key, None, written, (None, Origin::Default));
    Roles {
        connect: named("roles.connect", written.connect),
        handle: named("roles.handle", written.handle),
        observe: named("roles.observe", written.observe),
        administer: named("roles.administer", written.administer),
        provide: named("roles.provide", written.provide),
        record: named("roles.record", written.record),
        throwaway: named("roles.throwaway", written.throwaway),
    }
}

/// What one user may have.
pub(super) fn quotas(written: config::Quotas, door: &Door, effective: &mut Effective) -> Quotas {
    let usual = Quotas::default();
    // What happens past a bound that nobody has set.
    let unwritten = match door {
        Door::Embedded => Past::OldestGo,
        Door::Socket(_) => Past::Refused,
    };
    let sessions = u32::try_from(usual.sessions).ok();
    let mut count =
        |key, written, usual| effective.choose(key, None, written, (usual, Origin::Default));
    let sessions = count("quotas.sessions", written.sessions, sessions);
    let calls = count("quotas.calls", written.calls, None);
    let jobs = count("quotas.jobs", written.jobs, None);
    let requests_per_second =
        count("quotas.requests_per_second", written.requests_per_second, None);
    let mut bound = |key, written: Option<Written<u64>>, usual: Bound| {
        let past = if written.is_some() { Past::Refused } else { unwritten };
        let default = (Some(usual.bytes), Origin::Default);
        let bytes = effective.choose(key, None, written, default).unwrap_or(usual.bytes);
        Bound { bytes, past }
    };
    let spools = bound("quotas.spool_bytes", written.spool_bytes, usual.spools);
    let undo = bound("quotas.undo_bytes", written.undo_bytes, usual.undo);
    let per_day = (Some(usual.audit_per_day), Origin::Default);
    let audit_per_day =
        effective.choose("quotas.audit_per_day", None, written.audit_per_day, per_day);
    Quotas {
        sessions: sessions.map_or(usual.sessions, |sessions| sessions as usize),
        calls,
        jobs,
        spools,
        undo,
        audit_per_day: audit_per_day.unwrap_or(usual.audit_per_day),
        requests_per_second,
    }
}

/// What is told of calls besides the audit log.
pub(super) fn telling(
    journal: Option<Written<bool>>,
    traces: Option<Written<Export>>,
    effective: &mut Effective,
) -> Telling {
    let usual = (Some(journal::is_ours()), Origin::Environment("JOURNAL_STREAM"));
    Telling {
        journal: effective.choose("journal", None, journal, usual) == Some(true),
        traces: effective.choose("traces.export", None, traces, (None, Origin::Default)),
    }
}

/// Where clients, operators and providers come in.
pub(super) fn doors(
    options: &Options,
    file: &Config,
    by: StartedBy,
    effective: &mut Effective,
) -> Result<(Door, OperatorDoor, Option<PathBuf>), SettingsError> {
    if options.embedded {
        let operators =
            if options.operator_stdout { OperatorDoor::Stdout } else { OperatorDoor::None };
        return Ok((Door::Embedded, operators, None));
    }
    let agents =
        effective.choose("socket", options.socket.clone(), file.socket.clone(), by.socket());
    let agents = agents.ok_or(SettingsError::NoRuntimeDirectory)?;
    let mut beside =
        |key, name: &str, typed: &Option<PathBuf>, written: &Option<Written<PathBuf>>| {
            let usual = agents.with_file_name(name);
            let default = (Some(usual.clone()), Origin::Default);
            effective.choose(key, typed.clone(), written.clone(), default).unwrap_or(usual)
        };
    let operators =
        beside("operator_socket", "operator.sock", &options.operator_socket, &file.operator_socket);
    let providers =
        beside("provider_socket", "provider.sock", &options.provider_socket, &file.provider_socket);
    Ok((Door::Socket(agents), OperatorDoor::Socket(operators), Some(providers)))
}
