//! Limits of the wire protocol. A peer may rely on each of them. Pure: no I/O.

/// The protocol version this crate speaks; both sides must name the same one in `Hello`.
pub const VERSION: u16 = 1;

/// The largest frame or JSON line, without its length prefix or newline.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;

/// The largest piece of a stream (`Input`, `Output`) in one message.
pub const MAX_CHUNK: usize = 256 * 1024;

/// The longest `reason` an agent may give with a call, in bytes.
pub const MAX_REASON: usize = 8 * 1024;

/// The longest name (tool, profile, client), in bytes.
pub const MAX_NAME: usize = 128;

/// The maximum number of calls in flight on one connection.
pub const MAX_CALLS_IN_FLIGHT: usize = 64;

/// The longest timeout that a call may ask for, whatever the profile says.
pub const MAX_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;

/// The maximum depth of JSON that travels as text (a call's arguments, a result's data).
pub const MAX_DEPTH: usize = 64;

/// The largest request id: the largest integer that every JSON implementation represents exactly.
pub const MAX_ID: u64 = (1 << 53) - 1;

/// The maximum number of entries in a list of a request (`capabilities`, `names`).
pub const MAX_LIST: usize = 256;

/// The longest key of a JSON object, in bytes.
pub const MAX_KEY: usize = 64 * 1024;

/// The maximum number of keys in one JSON text, counted over all its objects.
pub const MAX_KEYS: usize = 64 * 1024;

/// The longest path, in bytes. Linux's `PATH_MAX` is 4096, which includes the terminating NUL.
pub const MAX_PATH: usize = 4095;

/// The longest message or hint of an error, in bytes. It is limited because an error may quote the
/// text that it refuses.
pub const MAX_ERROR_TEXT: usize = 4 * 1024;

/// The maximum number of undo records in one reply.
pub const MAX_UNDO_RECORDS: usize = 1000;

/// The longest name in `allow_domains`, in bytes: a host name with `*.` and a port.
pub const MAX_DOMAIN: usize = 264;

/// The maximum number of claims of a call.
pub const MAX_CLAIMS: usize = 16;

/// The longest value of a claim, in bytes.
pub const MAX_CLAIM: usize = 256;

/// The maximum number of calls in one batch.
pub const MAX_BATCH: usize = 32;

/// The longest time a session may ask to outlive its connection, whatever the profile says.
pub const MAX_GRACE_MS: u64 = 60 * 60 * 1000;
