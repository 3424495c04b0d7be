//! The frames do not depend on bincode alone: wincode, with a mirror of the types, reads all of
//! them and writes the same bytes. So replacing bincode would be a change of one file.

#![allow(clippy::unwrap_used, clippy::panic)]

mod arbitrary;

use palisade_protocol::codec;
use proptest::prelude::*;
use wincode::{
    SchemaRead, SchemaWrite,
    config::{Configuration, deserialize_exact, serialize},
};

macro_rules! wire {
    ($($item:item)*) => {
        $(#[derive(SchemaRead, SchemaWrite)] $item)*
    };
}

wire! {
    struct Envelope { id: u64, request: Request }
    enum Request {
        Hello(Hello), Open(Open), Call(Call), Input(Input), Cancel(u64), Close, Ping,
        Output(OutputQuery), Tools(Vec<String>), Status, Register(Register), Answer(Box<Answer>),
        Withdraw, Pending, Grants, Revoke(String), Subscribe(Option<String>), Abort(String),
        Provide(Vec<ProvidedTool>), Unprovide(Vec<String>),
        InvokeProgress(u64, String, u64, Option<u64>), InvokeOutput(u64, String),
        InvokeResult(Box<InvokeResult>), Resume(Resume), Batch(Vec<Call>), Jobs, Overview,
        Kill(String), Forget(Forget), UndoRecords(UndoQuery), Connections, ScopeHistory(ScopeQuery),
        Records(Option<String>),
    }
    struct UndoQuery { workspace: Option<Vec<u8>>, session: Option<String>, prefix: Option<String> }
    struct UndoRecords { records: Vec<UndoRecord>, more: u64 }
    struct UndoRecord {
        call_id: String, session: String, tool: String, workspace: Vec<u8>, age_ms: u64, bytes: u64,
        loss: bool, undone: bool,
    }
    struct Forget { uid: Option<u32>, spools: bool, undo: bool, older_than_ms: u64 }
    struct ProvidedTool {
        name: String, aliases: Vec<String>, description: String, schema: String,
        metadata: ToolMetadata, replaces: bool,
    }
    struct InvokeResult {
        invocation: u64, output: String, data: Option<String>, error: Option<String>,
    }
    struct Resume { session: String, token: String, calls: Option<Vec<u64>> }
    struct Register {
        name: String, reviews: Vec<Review>, tools: Vec<String>, priority: i32,
        deadline_ms: Option<u64>, heartbeat_ms: Option<u64>, session: Option<String>,
    }
    enum Review { Input, Output, Effects }
    struct Answer { request: String, digest: String, decision: Decision, remember: Option<Remember> }
    enum Decision {
        Approve, ApproveModified(String), Deny([String; 2]), Pass, Replace(Replace), Withhold(String),
        ApprovePart(Part),
    }
    struct Replace { output: String, data: Option<String> }
    struct Part { without_deletions: bool, without: Vec<Vec<u8>> }
    struct Remember { scope: Scope, until: Until }
    enum Scope { ExactCall, CommandPrefix(Vec<String>), Path(Vec<u8>), Losses(LossScope) }
    struct LossScope { path: Vec<u8>, kinds: Vec<String>, programs: Vec<String> }
    struct ScopeQuery { request: String, scopes: Vec<Scope> }
    struct ScopeHistory { period_ms: u64, requests: u64, scopes: Vec<[u64; 2]> }
    struct CallRecords { call_id: String, lines: Vec<String>, is_cut: bool }
    enum Until { Session, Ms(u64) }
    struct Thinking {
        assumptions: Vec<String>, failure_scenarios: Vec<String>, verdict: String, reason: String,
    }
    struct Hello { version: u16, client: String, capabilities: Vec<String> }
    struct Open {
        workspace: Vec<u8>, profile: Option<String>, ask: Option<Ask>, grace_ms: Option<u64>,
        guard: Option<Guard>, record: bool, allow_domains: Vec<String>,
    }
    enum Guard { Off, Text, Auto, Transaction }
    enum Ask { Never, Destructive, Sensitive, Always }
    struct Call {
        tool: String, arguments: String, reason: Option<String>,
        timeout_ms: Option<u64>, dry_run: bool, stream: bool, progress: bool, attach: bool,
        reverse_thinking: Option<Thinking>, idempotency_key: Option<String>, receipt: bool,
        claims: Vec<[String; 2]>,
    }
    struct Input { call: u64, data: Vec<u8>, end: bool }
    struct OutputQuery { call_id: String, offset: u64, limit: Option<u64> }

    enum ServerMessage {
        Reply { id: Option<u64>, reply: Box<Reply> },
        Event(Event),
    }
    enum Reply {
        Welcome(Hello), Opened(Box<Opened>), Result(Box<CallResult>), Done, Pong, Output(OutputPage),
        Tools(Vec<ToolSpec>), Status(Box<Status>), Error(WireError), Registered(String),
        Answered(Option<String>, u64), Pending(Vec<ApprovalRequest>), Grants(Vec<Grant>),
        Provided(Vec<String>),
        Resumed(Box<Resumed>), Batch(Vec<CallResult>), Jobs(Vec<JobInfo>),
        Overview(Box<Overview>), Forgotten([u64; 3]), UndoRecords(UndoRecords),
        Connections(Vec<ConnectionInfo>), ScopeHistory(ScopeHistory), Records(CallRecords),
    }
    struct ConnectionInfo {
        session: String, call_ids: Vec<String>, host: String, port: u16, asked: String, rule: String,
        address: Option<String>, time_ms: u64,
    }
    struct Overview {
        server: String, launcher: bool, memory_bytes: u64, requests: u64, lost_records: u64,
        sessions: Vec<SessionOverview>, calls: Vec<CallOverview>, kept: Vec<KeptOverview>,
    }
    struct KeptOverview { uid: u32, bytes: [u64; 4] }
    struct SessionOverview {
        session: String, uid: u32, pid: Option<u32>, profile: String, workspace: Vec<u8>, time_ms: u64,
        calls: u64, in_flight: u32, jobs: u32, memory_bytes: Option<u64>, runs_as: u32,
    }
    struct CallOverview {
        call_id: String, session: String, tool: String, stage: CallStage, time_ms: u64,
        summary: String,
    }
    enum CallStage { Judge, Checkpoint, Queue, Execute, Effects, Reply }
    struct Resumed {
        session: String, workspace: Vec<u8>, receipt: Receipt, receipt_digest: String, grace_ms: u64,
        terms: Open, running: Vec<u64>, finished: Vec<u64>, limits: [u64; 7],
    }
    struct JobInfo {
        session: String, job: u64, call_id: String, command: String, running: bool,
        exit_code: Option<i32>, signal: Option<i32>, output_bytes: u64, time_ms: u64,
    }
    struct Grant {
        id: String, session: Option<String>, uid: u32, profile: String, tool: String, scope: Scope,
        summary: String, by: String, expires_in_ms: Option<u64>, used: u64,
    }
    struct ApprovalRequest {
        request: String, digest: String, review: Review, asker: Asker, call_id: String,
        tool: String, arguments: String, cwd: Vec<u8>, reason: Option<String>,
        reverse_thinking: Option<Thinking>, findings: Vec<Finding>, why: String, view: View,
        output: Option<String>, scopes: Vec<String>, prefix: Vec<String>, remember_ms: u64,
        quorum: u64, approved_by: Vec<String>, expires_in_ms: u64,
    }
    struct Asker {
        uid: u32, pid: u32, unit: Option<String>, session: String, profile: String,
        workspace: Vec<u8>,
    }
    struct View {
        lines: Vec<(String, Vec<u32>)>, targets: Vec<Target>, diff: Option<String>, diff_cut: bool,
        changes: Vec<FileChange>,
    }
    struct FileChange {
        path: Vec<u8>, effect: String, from: Option<Vec<u8>>, entries: u64, size_before: u64, size: u64,
        lost: bool,
    }
    struct Target { path: Vec<u8>, there: Option<String>, size: u64, lost: bool }
    enum Event {
        Output { call: u64, stream: Stream, data: Vec<u8> },
        Progress { call: u64, message: String, done: u64, total: Option<u64> },
        ApprovalRequest(Box<ApprovalRequest>), ApprovalClosed(ApprovalClosed), ToolApproval(Approval),
        CallStarted(CallStarted), CallEnded(CallEnded), Denied(Denied),
        Invoke(Box<Invoke>), InvokeCancelled(u64),
        CallOutput { names: [String; 2], stream: Stream, data: Vec<u8> },
        Lost { events: u64, bytes: u64 }, ApprovalGiven(ApprovalGiven),
    }
    struct Invoke {
        invocation: u64, session: String, tool: String, arguments: String,
        reason: Option<String>, deadline_ms: u64,
    }
    struct ApprovalGiven { request: String, by: String, missing: u64 }
    struct ApprovalClosed { request: String, outcome: ApprovalOutcome, by: String }
    struct Approval {
        names: [String; 3], arguments: String, review: Review, decision: ApprovalOutcome,
        texts: [String; 3],
    }
    enum ApprovalOutcome { Approved, Modified, Denied, Passed, Replaced, Withheld }
    struct CallStarted { names: [String; 3], arguments: String, reason: Option<String> }
    struct CallEnded {
        names: [String; 3], success: bool, exit_code: Option<i32>, error: Option<WireError>,
        output: String, execution_time_ms: u64,
    }
    struct Denied { names: [String; 3], error: WireError }
    enum Stream { Stdout, Stderr, Content }
    struct Opened {
        session: String, workspace: Vec<u8>, receipt: Receipt, receipt_digest: String,
        token: Option<String>, grace_ms: u64, limits: [u64; 7],
    }
    struct OutputPage { call_id: String, offset: u64, data: Vec<u8>, spooled: u64, total: u64 }
    struct ToolSpec {
        name: String, aliases: Vec<String>, description: String, schema: String,
        metadata: ToolMetadata,
    }
    struct ToolMetadata {
        concurrency_safe: bool, read_only: bool, destructive: bool, class: Class,
        operation: Operation, requires_checkpoint: bool, requires_reverse_thinking: bool,
        search_hint: String,
    }
    enum Class { Bash, File, Webfetch, Readonly, Generic }
    enum Operation { Read, Write, Edit, Delete, Execute, Invoke }
    struct Status {
        texts: [String; 7], layers: Vec<LayerStatus>, profiles: Vec<String>,
        sessions: Vec<SessionStatus>, kept: KeptOverview, records: (bool, String, String),
    }
    struct LayerStatus { layer: String, available: bool, detail: String, advice: String }
    struct SessionStatus {
        session: String, workspace: Vec<u8>, profile: String, calls: u64, in_flight: u32,
    }
    struct WireError {
        code: ErrorCode, message: String, hint: String, retry_after_ms: Option<u64>,
        errno: Option<i32>,
    }
    enum ErrorCode {
        C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17, C18,
        C19, C20, C21, C22, C23, C24, C25, C26, C27, C28, C29, C30, C31, C32, C33, C34, C35, C36,
        C37, C38, C39, C40, C41,
    }
    struct CallResult {
        call_id: String, tool: String, success: bool, output: String, truncated: bool,
        lossy: bool, execution_time_ms: u64, error: Option<WireError>, stdout: String,
        stderr: String, exit_code: Option<i32>, signal: Option<i32>, timed_out: bool,
        cancelled: bool, oom: bool, pipe_held: bool, omitted_bytes: u64,
        spool: Option<String>, data: Option<String>, undo: Option<String>,
        findings: Vec<Finding>, denials: Vec<[String; 6]>,
        checkpoint: Option<(ApprovalOutcome, [String; 2])>, route: Option<Route>, receipt_digest: String,
        receipt: Option<Box<Receipt>>,
    }
    struct Finding {
        kind: String, why: String, severity: Severity, program: String, arguments: Vec<String>,
        span: Option<[u32; 2]>, targets: Vec<String>,
    }
    enum Severity { Notice, Warning, Danger }
    enum Route { Reading, Transaction, Direct }
    struct Receipt {
        profile: String, profile_digest: String, landlock: Option<Landlock>,
        seccomp: Option<(String, u32, u32)>, namespaces: Vec<String>, uid: u32, gid: u32,
        groups: Vec<u32>, capabilities: String, no_new_privs: bool, securebits: u32,
        limits: Vec<(String, u64, String)>, degraded: Vec<(String, String)>, guard: Guard,
        unrecorded: Vec<(String, String)>, network: (String, Vec<u16>), for_uid: Option<u32>,
        observed: Option<(String, Vec<[String; 6]>)>, unguarded: Vec<Vec<u8>>,
    }
    struct Landlock { abi: u32, rights: Vec<String>, scopes: Vec<String>, rules: u32 }
}

proptest! {
    #[test]
    fn requests_have_the_same_bytes(envelope in arbitrary::envelope()) {
        let config = Configuration::default().with_varint_encoding();
        let bytes = codec::encode(&envelope).unwrap();
        let read: Envelope = deserialize_exact(&bytes, config).unwrap();
        prop_assert_eq!(serialize(&read, config).unwrap(), bytes);
    }

    #[test]
    fn messages_have_the_same_bytes(message in arbitrary::message()) {
        let config = Configuration::default().with_varint_encoding();
        let bytes = codec::encode(&message).unwrap();
        let read: ServerMessage = deserialize_exact(&bytes, config).unwrap();
        prop_assert_eq!(serialize(&read, config).unwrap(), bytes);
    }
}
