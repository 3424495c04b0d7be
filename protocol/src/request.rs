//! What a client may ask.

use crate::{
    Abort, Answer, Bytes, CallId, Forget, InvokeOutput, InvokeProgress, InvokeResult, JsonText,
    Kill, Provide, RawPath, Register, ReverseThinking, Revoke, SessionId, Subscribe, ToolName,
    Unprovide, object,
};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The client's own number for a request; its reply and events carry it.
pub type RequestId = u64;

/// A request and its number.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Envelope {
    /// Chosen by the client; not used twice while the first is under way.
    pub id: RequestId,
    /// What is asked.
    pub request: Request,
}

/// Everything a client may ask. In JSON the variant's snake-case name is the method.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// First on every connection.
    Hello(Hello),
    /// Makes the connection's session.
    Open(Open),
    /// Calls a tool in the session.
    Call(Call),
    /// A piece of a call's attachment (bash: stdin; write_file: content). Has no reply.
    Input(Input),
    /// Ends a call early.
    Cancel(Cancel),
    /// Ends the session; the reply comes when nothing of it is left.
    Close,
    /// Answers at once.
    Ping,
    /// Pages through the spool of an earlier call.
    Output(OutputQuery),
    /// The tools and their schemas.
    Tools(ToolsQuery),
    /// What the daemon is and what it can enforce.
    Status,
    /// Operators: attaches this connection as a handler, or changes how it is attached.
    Register(Register),
    /// Operators: answers a question.
    Answer(Box<Answer>),
    /// Operators: detaches the handler.
    Withdraw,
    /// Operators: the questions that wait for an answer.
    Pending,
    /// Operators: what is answered from memory.
    Grants,
    /// Operators: takes back what was to be remembered.
    Revoke(Revoke),
    /// Wants to hear of calls and decisions as they happen.
    Subscribe(Subscribe),
    /// Operators: ends a session.
    Abort(Abort),
    /// Providers: registers tools.
    Provide(Provide),
    /// Providers: takes tools back.
    Unprovide(Unprovide),
    /// Providers: how far an invocation is.
    InvokeProgress(InvokeProgress),
    /// Providers: a piece of an invocation's output.
    InvokeOutput(InvokeOutput),
    /// Providers: the result of an invocation.
    InvokeResult(Box<InvokeResult>),
    /// Takes over a session whose connection is gone, instead of `Open`.
    Resume(Resume),
    /// Several calls at once; one reply with all results, in order.
    Batch(Batch),
    /// The jobs of this peer's sessions.
    Jobs,
    /// Operators: what goes on now.
    Overview,
    /// Operators: ends a call.
    Kill(Kill),
    /// Operators: lets go of what is kept of calls.
    Forget(Forget),
}

/// Version and capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`crate::limits::VERSION`].
    pub version: u16,
    /// Who is speaking, for logs.
    #[serde(default)]
    pub client: String,
    /// Optional behaviours that the client knows; unknown ones are ignored.
    #[serde(default, deserialize_with = "object::list")]
    pub capabilities: Vec<String>,
}

/// Makes a session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// An absolute path; it appears in the session at this same path.
    pub workspace: RawPath,
    /// Which profile; none means the default one.
    #[serde(default)]
    pub profile: Option<String>,
    /// Everything else.
    #[serde(default, deserialize_with = "object::only")]
    pub options: OpenOptions,
}

/// Options of a session; each can only make it stricter than its profile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenOptions {
    /// When to ask; refused where it is laxer than the profile's.
    pub ask: Option<Ask>,
    /// How long the session is to outlive its connection, to be resumed; bounded by the profile.
    /// Not at all if absent.
    pub grace_ms: Option<u64>,
    /// How `bash` is held; refused where it is laxer than the profile's.
    pub guard: Option<Guard>,
    /// Whether results tell what programs used, in `data.recorded`. For those whom the daemon's
    /// configuration lets record.
    pub record: bool,
}

/// How what a `bash` call does is held to the checkpoint, from lax to strict.
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
    /// Not at all.
    Off,
    /// By its text: what the text does not tell is asked about before it runs.
    Text,
    /// By its effects, where its text does not prove that it reads or tell that it destroys.
    #[default]
    Auto,
    /// By its effects, always.
    Transaction,
}

/// When a checkpoint is asked, from lax to strict.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Never: autonomous. Deny rules still hold.
    Never,
    /// Before what destroys.
    Destructive,
    /// Before every tool that is not read-only.
    Sensitive,
    /// Before every call.
    Always,
}

/// Calls a tool.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Name or alias.
    pub tool: ToolName,
    /// The tool's arguments, a JSON object.
    #[serde(default)]
    pub arguments: JsonText,
    /// Why, in the agent's own words; shown to approvers as such.
    #[serde(default)]
    pub reason: Option<String>,
    /// Everything else.
    #[serde(default, deserialize_with = "object::only")]
    pub options: CallOptions,
}

/// Options of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallOptions {
    /// How long it may take; the profile's default if absent, its maximum at most.
    pub timeout_ms: Option<u64>,
    /// Judge and report only; nothing runs.
    pub dry_run: bool,
    /// Send output as it comes, as events. Without it only the result carries output.
    pub stream: bool,
    /// An attachment follows as `Input` messages, up to one with `end`.
    pub attach: bool,
    /// For tools that ask for it: what was thought through before the call.
    pub reverse_thinking: Option<ReverseThinking>,
    /// A second call with this key, in the same session, does nothing and has the first one's
    /// result.
    pub idempotency_key: Option<String>,
}

/// Takes over a session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// From `Opened`.
    pub session: SessionId,
    /// From `Opened`.
    pub token: String,
    /// The ids of the calls whose replies are still wanted; all that are kept if absent.
    #[serde(default, deserialize_with = "object::optional_list")]
    pub calls: Option<Vec<RequestId>>,
}

/// Several calls. They run as if sent one after another, and can neither stream nor attach.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// At most [`crate::limits::MAX_BATCH`].
    #[serde(deserialize_with = "object::list")]
    pub calls: Vec<Call>,
}

/// A piece of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The `id` of the `Call` it belongs to.
    pub call: RequestId,
    /// At most [`crate::limits::MAX_CHUNK`] bytes.
    #[serde(default)]
    pub data: Bytes,
    /// This was the last piece.
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

/// Pages through a spool.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputQuery {
    /// From the result.
    pub call_id: CallId,
    /// Where to start, in bytes.
    #[serde(default)]
    pub offset: u64,
    /// How much at most; [`crate::limits::MAX_CHUNK`] if absent.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// Which tools to describe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsQuery {
    /// Names or aliases; none means all.
    #[serde(deserialize_with = "object::list")]
    pub names: Vec<ToolName>,
}
