//! Every key of the configuration file. The loader refuses other keys, `--dump-config` shows each
//! of these, and the documentation has their rows. Pure: no I/O.

use super::{
    declare::{ConfigKey, Reloadability, parsed_as, section},
    document::Document,
    place::LocatedValue,
    upstream_proxy::UpstreamProxy,
    values::{
        AbsolutePath, AbsolutePaths, AllowedPorts, ByteCount, KeySource, LogFilter, Offered,
        Retention,
    },
};
use crate::{
    base::{
        roles::{Identity, Principal, SessionUids},
        services::AllowedServices,
    },
    front::scrape::Address,
    telemetry::{logs::LogExport, traces::Export},
};
use palisade_audit::Sync;
use palisade_policy::{KnownKeys, Size};
use std::{num::NonZeroU32, path::PathBuf};

section! {
    /// All values of the configuration file.
    "" pub(crate) struct Config, written as ConfigText {
        /// the path of the agent socket
        socket: PathBuf as AbsolutePath,
            "`/run/palisade/agent.sock` for root, else `$XDG_RUNTIME_DIR/palisade/agent.sock`", AtStart;
        /// the path of the operator socket, where approval requests are answered
        operator_socket: PathBuf as AbsolutePath,
            "`operator.sock` beside the agent socket", AtStart;
        /// the path of the provider socket, where tools are registered
        provider_socket: PathBuf as AbsolutePath,
            "`provider.sock` beside the agent socket", AtStart;
        /// a list of directories; each `NAME.toml` in them is a [profile](profiles.md)
        profiles: Vec<PathBuf> as AbsolutePaths,
            "`/etc/palisade/profiles` for root, else `$XDG_CONFIG_HOME/palisade/profiles`, if it exists", Live;
        /// a list of built-in profiles that the system daemon offers only if they are listed here:
        /// `["autonomous", "container"]`
        offered: Vec<Offered>, "none of root's, all of a user's own", Live;
        /// the directory of stored output, undo records and the audit log
        state: PathBuf as AbsolutePath,
            "`/var/lib/palisade` for root, else `$XDG_STATE_HOME/palisade`", AtStart;
        /// when [audit records](audit.md) are forced to disk: `"always"`, or within a time such as
        /// `"50ms"`
        audit_sync: Sync, "`\"50ms\"`", AtStart;
        /// the user that the daemon becomes if root starts it
        user: String, "`palisade`, else a uid that nobody has", AtStart;
        /// the socket of a launcher that is a separate service
        launcher_socket: PathBuf as AbsolutePath, "none: the daemon starts one", AtStart;
        /// the socket of a service that starts [egress rooms](network.md)
        egress_socket: PathBuf as AbsolutePath, "none: the daemon starts them", AtStart;
        /// the HTTP proxy of this network, `"HOST:PORT"`, through which egress rooms [connect to
        /// other hosts](network.md#a-proxy-between-this-host-and-the-internet); with TLS and a
        /// password too
        egress_proxy: UpstreamProxy, "none: they connect by themselves", AtStart;
        /// the directory with a file for each [credential](network.md#credentials) of a profile,
        /// for egress rooms that the daemon starts
        credentials: PathBuf as AbsolutePath,
            "`/etc/palisade/credentials` for root, else `$XDG_CONFIG_HOME/palisade/credentials`", AtStart;
        /// the ports to which sessions may connect in the host's network, for a launcher that the
        /// daemon starts: `"53,80,443"`, `"any"` or `"none"`; see [below](#the-network-of-sessions)
        allow_ports: AllowedPorts, "`\"none\"` of root's, `\"any\"` of a user's own", AtStart;
        /// the [services of this host](network.md#services-of-this-host) that sessions may use, if
        /// their profile names them: ports and paths of Unix sockets such as
        /// `"5432,/run/postgresql/.s.PGSQL.5432"`, `"any"` or `"none"`
        allow_host: AllowedServices, "`\"none\"` of root's, `\"any\"` of a user's own", Live;
        /// the ports that sessions may [publish](network.md#a-server-in-the-session) on this host's
        /// loopback, if their profile names them: `"3000,8000"`, `"any"` or `"none"`
        allow_publish: AllowedServices, "`\"none\"` of root's, `\"any\"` of a user's own", Live;
        /// the uid of sessions: `"peer"` is the uid of whoever opens the session, `"throwaway"` is
        /// [a separate one](#uids-of-sessions) for each session
        identity: Identity, "`\"peer\"`", Live;
        /// the range of those separate uids, such as `"600000-665535"`, for a launcher that the
        /// daemon starts as root. A launcher that is a separate service has `--session-uids`
        session_uids: SessionUids, "none", AtStart;
        /// `true`: [escapes](proof.md) are tried in a session of each profile at the start. A
        /// profile that a reload changed is tried before its first session. A profile that is not
        /// proved is not offered
        prove_at_start: bool, "`false`", AtStart;
        /// what to log, in the language of `RUST_LOG`
        log: LogFilter, "`\"info\"`", Live;
        /// how long running calls have to finish when the daemon stops
        drain_ms: u32, "`10000`", Live;
        /// `false`: no daemon but the service may be used on this host. `palisaded` then refuses to
        /// start for an ordinary user, or for a command that finds no service or may not use it.
        /// Read from `/etc/palisade/palisaded.toml`, which must be readable for everybody. A
        /// reminder, not a wall: a user may run other programs
        private_daemons: bool, "`true`", AtStart;
        /// `true`: the journal gets a line with [fields](#the-journal) for each call and each
        /// decision
        journal: bool, "`true` if standard error is the journal's, as in a service", AtStart;
        sections {
            roles: RoleSection as RoleText,
            quotas: QuotaSection as QuotaText,
            undo: UndoSection as UndoText,
            audit: AuditSection as AuditText,
            metrics: MetricsSection as MetricsText,
            traces: TracesSection as TracesText,
            logs: LogsSection as LogsText,
        }
    }
}

section! {
    /// The section `[roles]`.
    "roles." pub(crate) struct RoleSection, written as RoleText {
        /// connect to the agent socket
        connect: Vec<Principal>, "whoever the socket lets in", Live;
        /// register approvers, see open approval requests and answer them, on the operator socket
        handle: Vec<Principal>, "the same", Live;
        /// observe sessions, and list all sessions, calls, jobs and connections (`palisade
        /// sessions`, `top`), on the operator socket
        observe: Vec<Principal>, "the same", Live;
        /// list and revoke remembered approvals, end calls and sessions (`palisade kill`), delete
        /// stored output and undo records (`palisade forget`), on the operator socket
        administer: Vec<Principal>, "the same", Live;
        /// connect to the provider socket, and register tools
        provide: Vec<Principal>, "the same", Live;
        /// open a session whose results say what its programs used, as `palisade profile learn`
        /// does
        record: Vec<Principal>, "the daemon's user and root", Live;
        /// (forced, not permitted) their sessions have [uids of their own](#uids-of-sessions),
        /// although `identity` is `"peer"`
        throwaway: Vec<Principal>, "nobody", Live;
    }
}

section! {
    /// The section `[quotas]`.
    "quotas." pub(crate) struct QuotaSection, written as QuotaText {
        /// sessions; a profile may allow fewer
        sessions: u32 as NonZeroU32, "`64`", Live;
        /// calls that wait or run
        calls: u32 as NonZeroU32, "no bound but a session's", Live;
        /// running jobs; applies to sessions opened from then on
        jobs: u32 as NonZeroU32, "no bound but a session's", Live;
        /// bytes of output stored to page through; a number, or a size such as `"500 MiB"`
        spool_bytes: u64 as ByteCount, "`1073741824`", Live;
        /// bytes of undo records, including what `delete_file` removed; a number or a size
        undo_bytes: u64 as ByteCount, "`1073741824`", Live;
        /// what the records of a user's calls add to the audit log in a day; a size such as `"500
        /// MiB"`. A day's worth may come at once
        audit_per_day: Size, "`\"1 GiB\"`", Live;
        /// requests of agents. A second's worth may come at once
        requests_per_second: u32 as NonZeroU32, "no bound", Live;
    }
}

section! {
    /// The section `[undo]`.
    "undo." pub(crate) struct UndoSection, written as UndoText {
        /// how long undo records are kept: from `"1m"` to `"3650d"`, in `m`, `h` or `d`
        keep: Retention, "`\"7d\"`", Live;
    }
}

section! {
    /// The section `[audit]`.
    "audit." pub(crate) struct AuditSection, written as AuditText {
        /// files whose last record is older are archived: from `"1m"` to `"3650d"`, in `m`, `h` or
        /// `d`
        keep: Retention, "no bound", AtStart;
        /// the oldest complete files are archived until the log is at most this large: a size such
        /// as `"2 GiB"`
        keep_size: Size, "no bound", AtStart;
        /// archives whose last record is older are deleted: from `"1m"` to `"3650d"`
        keep_archives: Retention, "never", AtStart;
        /// the oldest archives are deleted until all together are at most this large
        keep_archives_size: Size, "no bound", AtStart;
        /// the ed25519 key that [signs](#signing-the-audit-log) heads and archives:
        /// `"credential:NAME"`, or the absolute path of a PEM file
        key: KeySource, "none", AtStart;
    }
}

section! {
    /// The section `[metrics]`.
    "metrics." pub(crate) struct MetricsSection, written as MetricsText {
        /// where scrapes are answered: `"unix:/PATH"`, open to the same users as the operator
        /// socket, or a loopback address such as `"127.0.0.1:9464"`. Not in the service, whose
        /// sockets systemd opens: it refuses the key and names [the unit](#monitoring) to enable
        listen: Address, "nowhere", AtStart;
    }
}

section! {
    /// The section `[traces]`.
    "traces." pub(crate) struct TracesSection, written as TracesText {
        /// where [traces](#traces-of-calls) go: `"file:/PATH"`, `"unix:/PATH"`, or a collector on a
        /// loopback address such as `"http://127.0.0.1:4318/v1/traces"`
        export: Export, "nowhere", AtStart;
    }
}

section! {
    /// The section `[logs]`.
    "logs." pub(crate) struct LogsSection, written as LogsText {
        /// where [records of the audit log](#sending-the-audit-log-elsewhere) go as they are
        /// written: `"file:/PATH"`, `"unix:/PATH"`, or a collector on a loopback address such as
        /// `"http://127.0.0.1:4318/v1/logs"`
        export: LogExport, "nowhere", AtStart;
    }
}

/// The keys of each section, in the order of `--dump-config`.
const SECTIONS: [&[ConfigKey]; 8] = [
    Config::KEYS,
    RoleSection::KEYS,
    QuotaSection::KEYS,
    UndoSection::KEYS,
    AuditSection::KEYS,
    MetricsSection::KEYS,
    TracesSection::KEYS,
    LogsSection::KEYS,
];

/// Returns all keys, in the order of `--dump-config`.
pub(crate) fn keys() -> impl Iterator<Item = &'static ConfigKey> {
    SECTIONS.into_iter().flatten()
}

/// Returns the keys that a configuration file may have.
pub(super) fn known() -> KnownKeys {
    KnownKeys { paths: keys().map(|key| key.path).collect(), lists: &[], once_or_lists: &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../../docs/operations.md");

    /// Returns the section of a row of a table of keys, if a line is one.
    fn section_of(line: &str) -> Option<&'static [ConfigKey]> {
        let (path, _) = line.strip_prefix("| `")?.split_once("` | ")?;
        let is_row = line.ends_with("| reload |") || line.ends_with("| start |");
        let section = |path: &str| path.rsplit_once('.').map_or("", |(name, _)| name).to_owned();
        let wanted = section(path);
        SECTIONS.into_iter().find(|keys| is_row && section(keys[0].path) == wanted)
    }

    /// `BLESS=1` writes the rows again; read them before you commit them.
    #[test]
    fn the_page_has_the_row_of_each_key() {
        let (mut page, mut written) = (String::new(), 0);
        let mut last = None;
        for line in PAGE.lines() {
            match section_of(line) {
                None => page.extend([line, "\n"]),
                Some(keys) if last == Some(keys[0].path) => {}
                Some(keys) => {
                    last = Some(keys[0].path);
                    written += keys.len();
                    page.extend(keys.iter().map(|key| key.row() + "\n"));
                }
            }
        }
        if std::env::var_os("BLESS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
            std::fs::write(path, &page).unwrap();
        }
        let differs = PAGE.lines().zip(page.lines()).find(|(has, wants)| has != wants);
        assert_eq!(differs, None, "BLESS=1 writes the declared rows");
        assert_eq!((PAGE.len(), written), (page.len(), keys().count()));
    }

    #[test]
    fn no_key_is_there_twice() {
        let paths: std::collections::BTreeSet<_> = keys().map(|key| key.path).collect();
        assert_eq!(paths.len(), keys().count());
    }
}
