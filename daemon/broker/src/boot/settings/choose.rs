//! Chooses groups of settings, each value from the command line, the configuration file or the
//! default. Runs in the broker.

use super::{
    endpoints::{ClientEndpoint, OperatorEndpoint, ReportTargets},
    error::SettingsError,
    started::StartedBy,
};
use crate::{
    base::{
        quotas::{ByteQuota, OverQuotaAction, Quotas, UndoBounds},
        roles::Roles,
    },
    boot::{
        config::{self, Config, KeySource, LocatedValue, Retention},
        effective::{EffectiveConfig, ValueOrigin},
        options::Options,
    },
    telemetry::{journal, logs::LogExport, traces::Export},
};
use palisade_audit::RetentionPolicy;
use palisade_policy::Size;
use std::path::PathBuf;

/// Returns the principals of each role.
pub(super) fn roles(written: config::RoleSection, effective: &mut EffectiveConfig) -> Roles {
    let mut named =
        |key, written| effective.choose(key, None, written, (None, ValueOrigin::Default));
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

/// Returns the quotas of each user.
pub(super) fn quotas(
    written: config::QuotaSection,
    keep: Option<LocatedValue<Retention>>,
    clients: &ClientEndpoint,
    effective: &mut EffectiveConfig,
) -> Quotas {
    let usual = Quotas::default();
    // What happens past a quota that is not configured.
    let unwritten = match clients {
        ClientEndpoint::Embedded => OverQuotaAction::OldestGo,
        ClientEndpoint::Socket(_) => OverQuotaAction::Refused,
    };
    let sessions = u32::try_from(usual.sessions).ok();
    let mut count =
        |key, written, usual| effective.choose(key, None, written, (usual, ValueOrigin::Default));
    let sessions = count("quotas.sessions", written.sessions, sessions);
    let calls = count("quotas.calls", written.calls, None);
    let jobs = count("quotas.jobs", written.jobs, None);
    let requests_per_second =
        count("quotas.requests_per_second", written.requests_per_second, None);
    let past = if written.spool_bytes.is_some() { OverQuotaAction::Refused } else { unwritten };
    let mut bytes = |key, written, usual: u64| {
        effective.choose(key, None, written, (Some(usual), ValueOrigin::Default)).unwrap_or(usual)
    };
    let spools = bytes("quotas.spool_bytes", written.spool_bytes, usual.spools.bytes);
    let undo = bytes("quotas.undo_bytes", written.undo_bytes, usual.undo.bytes);
    let keep =
        effective.choose("undo.keep", None, keep, (Some(Retention::days(7)), ValueOrigin::Default));
    let keep = keep.map_or(usual.undo.keep, |keep| keep.time());
    let per_day = (Some(usual.audit_per_day), ValueOrigin::Default);
    let audit_per_day =
        effective.choose("quotas.audit_per_day", None, written.audit_per_day, per_day);
    Quotas {
        sessions: sessions.map_or(usual.sessions, |sessions| sessions as usize),
        calls,
        jobs,
        spools: ByteQuota { bytes: spools, past },
        undo: UndoBounds { bytes: undo, keep },
        audit_per_day: audit_per_day.unwrap_or(usual.audit_per_day),
        requests_per_second,
    }
}

/// Returns how long records of the audit log are kept, and where the key is that signs them.
pub(super) fn audit(
    written: config::AuditSection,
    effective: &mut EffectiveConfig,
) -> (RetentionPolicy, Option<KeySource>) {
    let mut time =
        |key, written| effective.choose(key, None, written, (None, ValueOrigin::Default));
    let keep = time("audit.keep", written.keep);
    let keep_archives = time("audit.keep_archives", written.keep_archives);
    let mut size =
        |key, written| effective.choose(key, None, written, (None, ValueOrigin::Default));
    let keep_size = size("audit.keep_size", written.keep_size);
    let keep_archives_size = size("audit.keep_archives_size", written.keep_archives_size);
    let policy = RetentionPolicy {
        keep: keep.map(|keep| keep.time()),
        keep_size: keep_size.map(Size::bytes),
        keep_archives: keep_archives.map(|keep| keep.time()),
        keep_archives_size: keep_archives_size.map(Size::bytes),
    };
    let none = (None, ValueOrigin::Default);
    (policy, effective.choose("audit.key", None, written.key, none))
}

/// Returns where calls are reported besides the audit log.
pub(super) fn report_targets(
    journal: Option<LocatedValue<bool>>,
    traces: Option<LocatedValue<Export>>,
    logs: Option<LocatedValue<LogExport>>,
    effective: &mut EffectiveConfig,
) -> ReportTargets {
    let usual = (Some(journal::is_ours()), ValueOrigin::Environment("JOURNAL_STREAM"));
    ReportTargets {
        journal: effective.choose("journal", None, journal, usual) == Some(true),
        traces: effective.choose("traces.export", None, traces, (None, ValueOrigin::Default)),
        logs: effective.choose("logs.export", None, logs, (None, ValueOrigin::Default)),
    }
}

/// Returns how clients, operators and providers connect.
pub(super) fn endpoints(
    options: &Options,
    file: &Config,
    by: StartedBy,
    effective: &mut EffectiveConfig,
) -> Result<(ClientEndpoint, OperatorEndpoint, Option<PathBuf>), SettingsError> {
    if options.embedded {
        let operators =
            if options.operator_stdout { OperatorEndpoint::Stdout } else { OperatorEndpoint::None };
        return Ok((ClientEndpoint::Embedded, operators, None));
    }
    let agents =
        effective.choose("socket", options.socket.clone(), file.socket.clone(), by.socket());
    let agents = agents.ok_or(SettingsError::NoRuntimeDirectory)?;
    let mut beside =
        |key, name: &str, typed: &Option<PathBuf>, written: &Option<LocatedValue<PathBuf>>| {
            let usual = agents.with_file_name(name);
            let default = (Some(usual.clone()), ValueOrigin::Default);
            effective.choose(key, typed.clone(), written.clone(), default).unwrap_or(usual)
        };
    let operators =
        beside("operator_socket", "operator.sock", &options.operator_socket, &file.operator_socket);
    let providers =
        beside("provider_socket", "provider.sock", &options.provider_socket, &file.provider_socket);
    Ok((ClientEndpoint::Socket(agents), OperatorEndpoint::Socket(operators), Some(providers)))
}
