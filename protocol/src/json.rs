//! JSON-RPC 2.0, one message per line: for everybody who does not link the client crate.
//! Pure over bytes. A line is read strictly: what two parsers could read differently is refused.

mod message;
mod request;

pub use message::{decode_message, encode_message};
pub use request::{METHODS, Rejected, decode_request, encode_request};
