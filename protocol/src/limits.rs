//! The numbers of the wire. A peer may rely on each of them.

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

/// How many calls one connection may have in flight.
pub const MAX_CALLS_IN_FLIGHT: usize = 64;

/// The longest timeout that a call may ask for, whatever the profile says.
pub const MAX_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;

/// How deep JSON that travels as text (a call's arguments, a result's data) may nest.
pub const MAX_DEPTH: usize = 64;

/// The largest request id: what every JSON implementation can hold exactly.
pub const MAX_ID: u64 = (1 << 53) - 1;

/// How many entries a list in a request may have (`capabilities`, `names`).
pub const MAX_LIST: usize = 256;

/// The longest key of an object in JSON, in bytes.
pub const MAX_KEY: usize = 64 * 1024;

/// How many keys one JSON text may have in all its objects.
pub const MAX_KEYS: usize = 64 * 1024;

/// The longest path, in bytes; Linux has none longer, counting its closing NUL.
pub const MAX_PATH: usize = 4095;

/// The longest message or hint of an error, in bytes: an error may quote what it refuses.
pub const MAX_ERROR_TEXT: usize = 4 * 1024;

/// How many calls one batch may have.
pub const MAX_BATCH: usize = 32;

/// The longest grace time that a session may ask for, whatever the profile says.
pub const MAX_GRACE_MS: u64 = 60 * 60 * 1000;
