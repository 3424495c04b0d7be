//! JSON-RPC 2.0, one message per line, for clients that do not link the client crate. Lines are
//! parsed strictly: text that two parsers could read differently is refused. Pure: no I/O.

mod message;
mod request;

pub use crate::{
    reply::KINDS,
    request::{REQUESTS, RequestRow},
};
pub(crate) use message::reply_line;
pub use message::{decode_message, encode_message};
pub(crate) use request::request_line;
pub use request::{Rejected, decode_request, encode_request};
