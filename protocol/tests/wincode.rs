//! The frames are not bincode's alone: wincode, from a mirror of the types, reads every one of
//! them and writes the same bytes. Leaving bincode is then a change of one file.

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
        Output(OutputQuery), Tools(Vec<String>), Status,
    }
    struct Hello { version: u16, client: String, capabilities: Vec<String> }
    struct Open { workspace: Vec<u8>, profile: Option<String>, ask: Option<Ask> }
    enum Ask { Never, Destructive, Sensitive, Always }
    struct Call {
        tool: String, arguments: String, reason: Option<String>,
        timeout_ms: Option<u64>, dry_run: bool, stream: bool, attach: bool,
    }
    struct Input { call: u64, data: Vec<u8>, end: bool }
    struct OutputQuery { call_id: String, offset: u64, limit: Option<u64> }

    enum ServerMessage {
        Reply { id: Option<u64>, reply: Box<Reply> },
        Event(Event),
    }
    enum Reply {
        Welcome(Hello), Opened(Box<Opened>), Result(Box<CallResult>), Done, Pong, Output(OutputPage),
        Tools(Vec<ToolSpec>), Status(Box<Status>), Error(WireError),
    }
    enum Event {
        Output { call: u64, stream: Stream, data: Vec<u8> },
        Progress { call: u64, message: String, done: u64, total: Option<u64> },
    }
    enum Stream { Stdout, Stderr, Content }
    struct Opened { session: String, workspace: Vec<u8>, receipt: Receipt }
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
        texts: [String; 6], layers: Vec<LayerStatus>, profiles: Vec<String>,
        sessions: Vec<SessionStatus>,
    }
    struct LayerStatus { layer: String, available: bool, detail: String, advice: String }
    struct SessionStatus {
        session: String, workspace: Vec<u8>, profile: String, calls: u64, in_flight: u32,
    }
    struct WireError { code: ErrorCode, message: String, hint: String }
    enum ErrorCode {
        C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17, C18,
        C19, C20, C21, C22, C23, C24, C25, C26, C27, C28,
    }
    struct CallResult {
        call_id: String, tool: String, success: bool, output: String, truncated: bool,
        lossy: bool, execution_time_ms: u64, error: Option<WireError>, stdout: String,
        stderr: String, exit_code: Option<i32>, signal: Option<i32>, timed_out: bool,
        cancelled: bool, oom: bool, pipe_held: bool, omitted_bytes: u64,
        spool: Option<String>, data: Option<String>, undo: Option<String>,
        findings: Vec<Finding>, denials: Vec<[String; 4]>,
        checkpoint: Option<[String; 3]>, receipt: Receipt,
    }
    struct Finding {
        kind: String, why: String, severity: Severity, program: String, arguments: Vec<String>,
        span: Option<[u32; 2]>, targets: Vec<String>,
    }
    enum Severity { Notice, Warning, Danger }
    struct Receipt {
        profile: String, profile_digest: String, landlock: Option<Landlock>,
        seccomp: Option<(String, u32, u32)>, namespaces: Vec<String>, uid: u32, gid: u32,
        groups: Vec<u32>, capabilities: String, no_new_privs: bool, securebits: u32,
        limits: Vec<(String, u64, String)>, degraded: Vec<(String, String)>,
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
