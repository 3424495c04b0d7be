//! Formats a record as one line of the log, and parses it. Nothing in a record can start another
//! line or control a terminal. Pure: no I/O.

use crate::{hash::Hash, record::Record, time::Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::ser::{CompactFormatter, Formatter};
use std::io;

/// A record with its place in the chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The record's number in the chain, from 1.
    pub seq: u64,
    /// The time of the record.
    pub time: Timestamp,
    /// The hash of the line before, with its newline.
    pub prev: Hash,
    /// The record itself.
    #[serde(flatten)]
    pub record: Record,
}

impl Entry {
    /// Formats the line, with its newline.
    ///
    /// # Errors
    /// If the record can not be written as JSON.
    pub fn render(&self) -> Result<Vec<u8>, serde_json::Error> {
        render(self.seq, self.time, self.prev, &self.record)
    }

    /// Parses a line, with or without its newline.
    ///
    /// # Errors
    /// If the line is not a record.
    pub fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line.strip_suffix(b"\n").unwrap_or(line))
    }
}

/// The fields by which a record is part of its chain. A record of an unknown kind has them too.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Link {
    pub(crate) seq: u64,
    pub(crate) time: Timestamp,
    pub(crate) prev: Hash,
    pub(crate) kind: String,
    pub(crate) call_id: Option<String>,
}

impl Link {
    /// Parses a line; `None` if it is not a record of any kind.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// Formats the line of a record, with its newline.
pub(crate) fn render(
    seq: u64,
    time: Timestamp,
    prev: Hash,
    record: &Record,
) -> Result<Vec<u8>, serde_json::Error> {
    /// The fields of an [`Entry`], by reference.
    #[derive(Serialize)]
    struct Line<'a> {
        seq: u64,
        time: Timestamp,
        prev: Hash,
        #[serde(flatten)]
        record: &'a Record,
    }
    let mut line = Vec::with_capacity(1024);
    let mut serializer = serde_json::Serializer::with_formatter(&mut line, OneLine);
    Line { seq, time, prev, record }.serialize(&mut serializer)?;
    line.push(b'\n');
    Ok(line)
}

/// Compact JSON that is safe to display. It also escapes characters that JSON allows unescaped, but
/// that control a terminal or reverse text.
struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Nearly all text is plain ASCII, which is recognised many bytes at a time.
        let is_plain = |piece: &[u8]| {
            piece.iter().fold(true, |plain, byte| plain & (b' '..=b'~').contains(byte))
        };
        if fragment.as_bytes().chunks(64).all(is_plain) {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(palisade_text::is_hidden) {
            CompactFormatter.write_string_fragment(writer, &rest[..at])?;
            let mut left = rest[at..].chars();
            if let Some(c) = left.next() {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
            rest = left.as_str();
        }
        CompactFormatter.write_string_fragment(writer, rest)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        clean::*,
        decision::*,
        effects::{CommittedEffect, Effects},
        files::Head,
        hash::Digest,
        record::*,
    };
    use proptest::{collection::vec, option, prelude::*};

    fn entry(record: Record) -> Entry {
        Entry { seq: 7, time: Timestamp::from_millis(0), prev: Hash::ZERO, record }
    }

    #[test]
    fn a_line_is_as_documented() {
        let record = Record::SessionClose(SessionClose { session: "s".into(), calls: 3 });
        let line = String::from_utf8(entry(record).render().unwrap()).unwrap();
        let zeros = "0".repeat(64);
        assert_eq!(
            line,
            format!(
                "{{\"seq\":7,\"time\":\"1970-01-01T00:00:00.000Z\",\"prev\":\"{zeros}\",\"kind\":\"session_close\",\"session\":\"s\",\"calls\":3}}\n"
            )
        );
    }

    #[test]
    fn text_can_not_begin_another_line_or_steer_a_terminal() {
        let hostile = "a\n{\"seq\":8}\r\x1b[2J\u{9b}31m\u{202e}\u{2028}\u{e0041}\0\"\\";
        let session = hostile.to_owned();
        let made = entry(Record::SessionClose(SessionClose { session, calls: 0 }));
        let line = made.render().unwrap();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let text = std::str::from_utf8(&line).unwrap().trim_end_matches('\n');
        assert!(!text.contains(palisade_text::is_hidden), "{text}");
        assert!(text.contains("\\udb40\\udc41"), "{text}");
        assert_eq!(Entry::parse(&line).unwrap(), made);
    }

    pub(crate) fn call_of(id: &str) -> Record {
        Record::Call(Call {
            call_id: id.into(),
            session: "s".into(),
            uid: 0,
            pid: None,
            tool: "bash".into(),
            digest: Hash::ZERO,
            arguments: CleanJson::default(),
            altered: None,
            cwd: CleanText::default(),
            reason: None,
            dry_run: false,
            judgement: Judgement::Allow,
            findings: Vec::new(),
            thinking: None,
            claims: Vec::new(),
        })
    }

    pub(crate) fn result_of(id: &str) -> Record {
        Record::Result(CallResult {
            call_id: id.into(),
            session: "s".into(),
            success: true,
            error: None,
            message: None,
            exit_code: None,
            signal: None,
            output: None,
            output_bytes: 0,
            output_digest: Hash::ZERO,
            data_digest: None,
            attachment: None,
            omitted_bytes: 0,
            duration_us: 0,
            denials: Vec::new(),
            observed: Vec::new(),
        })
    }

    fn text() -> impl Strategy<Value = CleanText> {
        any::<String>().prop_map(|text| CleanText::new(&text))
    }

    fn hash() -> impl Strategy<Value = Hash> {
        any::<u64>().prop_map(|n| Hash::of(&n.to_le_bytes()))
    }

    fn head() -> impl Strategy<Value = Head> {
        (any::<u64>(), hash()).prop_map(|(seq, hash)| Head { seq, hash })
    }

    fn json() -> impl Strategy<Value = CleanJson> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                vec((any::<String>(), inner), 0..4)
                    .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
            ]
        })
        .prop_map(|value| CleanJson::new(&value.to_string()))
    }

    fn by() -> impl Strategy<Value = DecisionMaker> {
        prop_oneof![
            text().prop_map(DecisionMaker::Person),
            text().prop_map(DecisionMaker::Program),
            text().prop_map(DecisionMaker::Rule),
            text().prop_map(DecisionMaker::Remembered),
            Just(DecisionMaker::Default),
        ]
    }

    fn call() -> impl Strategy<Value = Record> {
        let judgement = prop_oneof![
            Just(Judgement::Allow),
            Just(Judgement::Ask),
            Just(Judgement::Deny),
            Just(Judgement::Unjudged),
        ];
        let findings = vec((any::<String>(), text()), 0..3);
        let first = (any::<String>(), any::<u32>(), option::of(any::<u32>()), hash(), json());
        (first, text(), option::of(text()), any::<bool>(), judgement, findings).prop_map(
            |((id, uid, pid, digest, arguments), cwd, reason, dry_run, judgement, findings)| {
                let finding = |(kind, why)| Finding { kind, why };
                Record::Call(Call {
                    call_id: id.clone(),
                    session: id.clone(),
                    uid,
                    pid,
                    tool: id,
                    digest,
                    arguments,
                    altered: None,
                    cwd,
                    reason,
                    dry_run,
                    judgement,
                    findings: findings.into_iter().map(finding).collect(),
                    thinking: None,
                    claims: Vec::new(),
                })
            },
        )
    }

    fn result() -> impl Strategy<Value = Record> {
        let first = (any::<String>(), any::<bool>(), option::of(any::<String>()));
        let status = (option::of(any::<i32>()), option::of(any::<i32>()));
        let output = (option::of(text()), hash(), option::of(hash()), option::of(text()));
        (first, status, output, any::<u64>()).prop_map(
            |((id, success, error), (exit_code, signal), (output, digest, data, message), n)| {
                Record::Result(CallResult {
                    call_id: id.clone(),
                    session: id,
                    success,
                    error,
                    message,
                    exit_code,
                    signal,
                    output,
                    output_bytes: n,
                    output_digest: digest,
                    data_digest: data,
                    attachment: data.map(|sha256| Digest { bytes: n, sha256 }),
                    omitted_bytes: n,
                    duration_us: n,
                    denials: Vec::new(),
                    observed: Vec::new(),
                })
            },
        )
    }

    pub(crate) fn record() -> impl Strategy<Value = Record> {
        let request = (any::<String>(), hash(), vec(text(), 0..3)).prop_map(|(id, digest, to)| {
            Record::ApprovalRequest(RequestRecord {
                request: id.clone(),
                call_id: id.clone(),
                session: id,
                review: Review::Effects,
                digest,
                shown: RequestContent {
                    why: to.first().cloned().unwrap_or_default(),
                    lines: CleanText::default(),
                    diff: to.last().cloned(),
                    targets: to.clone(),
                    output: Some(Digest { bytes: 1, sha256: digest }),
                },
                key: Some(RequestKey {
                    uid: 7,
                    profile: "workspace".to_owned(),
                    tool: "bash".to_owned(),
                    exact: digest,
                    commands: Some(vec![to.clone()]),
                    paths: None,
                    losses: None,
                    programs: Some(to.clone()),
                }),
                handlers: to,
                deadline_ms: 5,
            })
        });
        let answer = (option::of(any::<String>()), by(), text(), option::of(hash())).prop_map(
            |(request, by, reason, digest)| {
                Record::Answer(Answer {
                    request,
                    call_id: "c".into(),
                    session: "s".into(),
                    review: Review::Input,
                    decision: Decision::ApproveModified,
                    approvals: vec![by.clone(), DecisionMaker::Default],
                    by,
                    remember: digest.map(|_| reason.clone()),
                    reason,
                    digest,
                })
            },
        );
        let fault = prop_oneof![Just(HeadFault::Missing), head().prop_map(HeadFault::Named)];
        let torn = any::<String>().prop_map(|n| TornEnd { file: n.clone(), kept_in: n, bytes: 1 });
        let repair =
            (option::of(torn), option::of(fault), head()).prop_map(|(torn, head, found)| {
                Record::Repair(Repair { torn, head, found, unfinished: vec!["c".into()] })
            });
        let start = any::<String>().prop_map(|build| {
            Record::Start(Start { build, pid: 1, uid: 2, sync: "always".into() })
        });
        let opened =
            (any::<String>(), option::of(any::<u32>()), text()).prop_map(|(id, pid, workspace)| {
                let (profile, ask) = (id.clone(), id.clone());
                Record::SessionOpen(SessionOpen {
                    session: id,
                    uid: 0,
                    pid,
                    profile,
                    ask,
                    workspace,
                    runs_as: pid,
                })
            });
        let grant = (any::<String>(), text(), option::of(any::<u64>())).prop_map(
            |(id, covers, expires_in_ms)| {
                Record::Grant(Grant {
                    grant: id.clone(),
                    act: GrantAct::Revoked,
                    by: covers.clone(),
                    covers,
                    expires_in_ms,
                    session: expires_in_ms.map(|_| id),
                    call_id: None,
                })
            },
        );
        let effects = (any::<String>(), text(), option::of(hash()), any::<u64>()).prop_map(
            |(id, path, sha256, size)| {
                let effect = CommittedEffect {
                    path,
                    effect: "moved".to_owned(),
                    from: sha256.map(|_| CleanText::default()),
                    size,
                    sha256,
                    ..CommittedEffect::default()
                };
                let all = vec![effect; 3].into_iter();
                Record::Effects(Effects::new((id.clone(), id), Hash::ZERO, all).unwrap())
            },
        );
        prop_oneof![call(), result(), request, answer, repair, start, opened, grant, effects]
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(record in record(), seq: u64, prev in hash(), ms in 0i64..4_000_000_000_000) {
            let entry = Entry { seq, time: Timestamp::from_millis(ms), prev, record };
            let line = entry.render().unwrap();
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            prop_assert_eq!(Entry::parse(&line).unwrap(), entry);
        }

        #[test]
        fn no_bytes_make_reading_fail_otherwise_than_by_an_error(bytes: Vec<u8>) {
            drop(Entry::parse(&bytes));
        }
    }
}
