//! The requests that a client may send.

use crate::{
    Abort, Answer, Bytes, CallId, Forget, InvokeOutput, InvokeProgress, InvokeResult, JsonText,
    Kill, Provide, RawPath, RecordQuery, Register, ReverseThinking, Revoke, ScopeQuery, SessionId,
    Subscribe, ToolName, UndoQuery, Unprovide, check, object, table::requests,
};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The client's own number for a request. Its reply and events carry the same number.
pub type RequestId = u64;

/// A request and its number.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Envelope {
    /// The request's number, chosen by the client. It must not be reused while the first request
    /// runs.
    pub id: RequestId,
    /// The request.
    pub request: Request,
}

requests! {
    /// Every request that a client may send.
    pub enum Request {
        /// Greets the daemon. Must be the first request on every connection.
        Hello(Hello) = "hello", Everybody, Greeting, check::check_hello;
        /// Creates the connection's session.
        Open(Open) = "open", Agents, Opening, check::check_open;
        /// Calls a tool in the session.
        Call(Call) = "call", Agents, Calling, check::check_call;
        /// Sends a piece of a call's attachment (bash: stdin; write_file: content). Has no reply.
        Input(Input) = "input", Agents, DuringCall, check::check_input;
        /// Ends a call early.
        Cancel(Cancel) = "cancel", Agents, DuringCall;
        /// Ends the session. The reply comes when all its processes are gone.
        Close = "close", Agents, Closing;
        /// Asks for an immediate `Pong`.
        Ping = "ping", Everybody, Any;
        /// Reads a page of the stored output of an earlier call.
        Output(OutputQuery) = "output", Agents, Any, check::check_output;
        /// Lists the tools and their schemas.
        Tools(ToolsQuery) = "tools", Everybody, Any, check::check_tools;
        /// Asks for the daemon's identity and what it can enforce.
        Status = "status", Everybody, Any;
        /// Registers this connection as an approver, or changes its registration.
        Register(Register) = "register", Approvers, Any,
            check::operator::check_register;
        /// Answers an approval request.
        Answer(Box<Answer>) = "answer", Approvers, Any,
            check::operator::check_answer;
        /// Removes this connection as an approver.
        Withdraw = "withdraw", Approvers, Any;
        /// Lists the approval requests that wait for an answer.
        Pending = "pending", Operators(Right::Handle), Any;
        /// Lists the remembered approvals.
        Grants = "grants", Operators(Right::Administer), Any;
        /// Deletes a remembered approval.
        Revoke(Revoke) = "revoke", Operators(Right::Administer), Any;
        /// Subscribes to events about calls and decisions.
        Subscribe(Subscribe) = "subscribe", Observers, Any;
        /// Ends a session.
        Abort(Abort) = "abort", Operators(Right::Administer), Any;
        /// Registers tools.
        Provide(Provide) = "provide", Providers, Any, check::provider::check_provide;
        /// Removes registered tools.
        Unprovide(Unprovide) = "unprovide", Providers, Any, check::provider::check_unprovide;
        /// Reports the progress of an invocation.
        InvokeProgress(InvokeProgress) = "invoke_progress", Providers, Any,
            check::provider::check_progress;
        /// Sends a piece of an invocation's output.
        InvokeOutput(InvokeOutput) = "invoke_output", Providers, Any, check::provider::check_output;
        /// Sends the result of an invocation.
        InvokeResult(Box<InvokeResult>) = "invoke_result", Providers, Any;
        /// Takes over a session whose connection is gone, instead of `Open`.
        Resume(Resume) = "resume", Agents, Opening, check::check_resume;
        /// Makes several calls at once. One reply has all results, in order.
        Batch(Batch) = "batch", Agents, Calling, check::check_batch;
        /// Lists the jobs of this peer's sessions.
        Jobs = "jobs", Observers, Any;
        /// Lists the running sessions and calls.
        Overview = "overview", Operators(Right::Observe), Any;
        /// Ends a call.
        Kill(Kill) = "kill", Operators(Right::Administer), Any;
        /// Deletes what is stored for calls (output, undo records).
        Forget(Forget) = "forget", Operators(Right::Administer), Any, check::operator::check_forget;
        /// Lists the undo records of this peer's calls.
        UndoRecords(UndoQuery) = "undo_records", Agents, Any;
        /// Lists the open network connections of this peer's sessions.
        Connections = "connections", Observers, Any;
        /// Counts the earlier approval requests that scopes would have covered.
        ScopeHistory(ScopeQuery) = "scope_history", Operators(Right::Handle), Any,
            check::operator::check_scope_query;
        /// Reads the audit records of a call.
        Records(RecordQuery) = "records", Observers, Any;
    }
}

/// A row of the table of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRow {
    /// The method in JSON.
    pub method: &'static str,
    /// The peers that may send the request.
    pub senders: Senders,
}

/// The peers that may send a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Senders {
    /// Every peer.
    Everybody,
    /// Agents.
    Agents,
    /// Agents, and operators with [`Right::Observe`].
    Observers,
    /// Operators with [`Right::Handle`], and agents whose profile lets their client answer.
    Approvers,
    /// Operators that the daemon's configuration gives this right.
    Operators(Right),
    /// Providers of tools.
    Providers,
}

impl Senders {
    /// Returns the peers as PROTOCOL.md names them.
    #[must_use]
    pub const fn documented(self) -> &'static str {
        match self {
            Self::Everybody => "everybody",
            Self::Agents => "agents",
            Self::Observers => "agents; operators (`observe`)",
            Self::Approvers => "operators (`handle`); clients of agents",
            Self::Operators(Right::Handle) => "operators (`handle`)",
            Self::Operators(Right::Observe) => "operators (`observe`)",
            Self::Operators(Right::Administer) => "operators (`administer`)",
            Self::Providers => "providers",
        }
    }
}

/// A right that the daemon's configuration gives to operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Answers approval requests.
    Handle,
    /// Observes sessions.
    Observe,
    /// Administers remembered approvals and sessions.
    Administer,
}

/// The part of a connection that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The first request.
    Greeting,
    /// Gives the connection its session.
    Opening,
    /// Makes calls in the session.
    Calling,
    /// Belongs to a call of the session that is under way.
    DuringCall,
    /// Ends the session.
    Closing,
    /// Every part after the greeting.
    Any,
}

/// The greeting: the client's version and capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The client's protocol version, [`crate::limits::VERSION`].
    pub version: u16,
    /// The client's name, for logs.
    #[serde(default)]
    pub client: String,
    /// Optional features that the client supports; unknown ones are ignored.
    #[serde(default, deserialize_with = "object::list")]
    pub capabilities: Vec<String>,
}

/// Creates a session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// The workspace's absolute path. It has the same path inside the session.
    pub workspace: RawPath,
    /// The profile's name; `None` selects the default profile.
    #[serde(default)]
    pub profile: Option<String>,
    /// Further options.
    #[serde(default, deserialize_with = "object::only")]
    pub options: OpenOptions,
}

/// Options of a session. Each can only make the session stricter than its profile, but for
/// `allow_domains` in a daemon that the client started for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenOptions {
    /// The calls that need approval. Refused if laxer than the profile's setting.
    pub ask: Option<Ask>,
    /// The time for which the session may outlive its connection, so that it can be resumed.
    /// Limited by the profile; absent means not at all.
    pub grace_ms: Option<u64>,
    /// The guard of `bash`. Refused if laxer than the profile's setting.
    pub guard: Option<Guard>,
    /// True if results list what programs used, in `data.recorded`. Only for peers that the
    /// daemon's configuration allows to record.
    pub record: bool,
    /// Hosts that the session may connect to, written as in `net.allow` of a profile. A daemon that
    /// the client started for itself adds them to the profile. Any other daemon refuses those that
    /// the profile does not allow already.
    #[serde(deserialize_with = "object::list")]
    pub allow_domains: Vec<String>,
}

/// The check of a `bash` call's effects for approval, from lax to strict.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Encode,
    Decode,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// The effects are not checked.
    Off,
    /// The text of the command is analysed. If it does not show what the command does, approval is
    /// required before it runs.
    Text,
    /// The real effects are checked after the command ran in a transaction. Exceptions are commands
    /// whose text shows that they only read, or that they are destructive.
    #[default]
    Auto,
    /// The real effects are always checked.
    Transaction,
}

/// The calls that need approval, from lax to strict.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// No call: the agent is autonomous. Deny rules still apply.
    Never,
    /// Destructive calls.
    Destructive,
    /// Calls of every tool that is not read-only.
    Sensitive,
    /// Every call.
    Always,
}

/// Calls a tool.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool's name or an alias.
    pub tool: ToolName,
    /// The tool's arguments, a JSON object.
    #[serde(default)]
    pub arguments: JsonText,
    /// The reason for the call in the agent's own words; approvers see it marked as such.
    #[serde(default)]
    pub reason: Option<String>,
    /// Further options.
    #[serde(default, deserialize_with = "object::only")]
    pub options: CallOptions,
}

/// Options of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallOptions {
    /// The timeout. If absent the profile's default applies; the profile's maximum is never
    /// exceeded.
    pub timeout_ms: Option<u64>,
    /// True to only judge and report, without running anything.
    pub dry_run: bool,
    /// True to send output as events while it arrives. Otherwise only the result has output.
    pub stream: bool,
    /// True to send progress as events, and that the call waits for approval. Calls that stream get
    /// their progress anyway.
    pub progress: bool,
    /// True if an attachment follows as `Input` messages, up to one with `end`.
    pub attach: bool,
    /// The agent's considerations before the call, for tools that require reverse thinking.
    pub reverse_thinking: Option<ReverseThinking>,
    /// A key that makes the call safe to repeat. A second call with this key in the same session
    /// does nothing and returns the first call's result.
    pub idempotency_key: Option<String>,
    /// True to get the whole receipt in the result, even if it is the one that `Opened` has.
    pub receipt: bool,
    /// What the client says about itself and its conversation. It is recorded in the audit log as
    /// claimed, and decides nothing. At most [`crate::limits::MAX_CLAIMS`].
    #[serde(deserialize_with = "object::list")]
    pub claims: Vec<Claim>,
}

/// A fact that only a client's word stands for, such as its name or the id of its conversation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The name of the fact.
    pub name: String,
    /// The client's word for it.
    pub value: String,
}

/// Takes over a session whose connection is gone.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// The session's id, from `Opened`.
    pub session: SessionId,
    /// The session's token, from `Opened`.
    pub token: String,
    /// The ids of the calls whose replies are still wanted; if absent, all stored replies are sent.
    #[serde(default, deserialize_with = "object::optional_list")]
    pub calls: Option<Vec<RequestId>>,
}

/// Several calls. They run as if sent one after another, and can neither stream, report progress nor
/// have attachments.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The calls, at most [`crate::limits::MAX_BATCH`].
    #[serde(deserialize_with = "object::list")]
    pub calls: Vec<Call>,
}

/// A piece of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The `id` of the `Call` that it belongs to.
    pub call: RequestId,
    /// The bytes, at most [`crate::limits::MAX_CHUNK`].
    #[serde(default)]
    pub data: Bytes,
    /// True if this is the last piece.
    #[serde(default)]
    pub end: bool,
}

/// Ends a call early.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// The `id` of the `Call`.
    pub call: RequestId,
}

/// Reads a page of a call's stored output.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputQuery {
    /// The call's id, from the result.
    pub call_id: CallId,
    /// The offset to start at, in bytes.
    #[serde(default)]
    pub offset: u64,
    /// The maximum number of bytes; [`crate::limits::MAX_CHUNK`] if absent.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// Selects the tools to describe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsQuery {
    /// Names or aliases; an empty list selects all tools.
    #[serde(deserialize_with = "object::list")]
    pub names: Vec<ToolName>,
}
