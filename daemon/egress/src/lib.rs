//! The egress room: carries the network connections of sessions that the broker allows. It accepts
//! on listeners inside a session's network namespace, reads where a program wants to go, asks the
//! broker, and only then looks up the name and connects.
//!
//! - `room`: the main loop; `link`: the channel to the broker; `session`: one session.
//! - `proxy`, `socks`, `direct`, `names`: the ways in which programs ask; `http`, `http2`,
//!   `origin`, `switch` and `tunnel`: what they send; `inspect` and `authority`: hosts whose requests are judged;
//!   `credential` and `echo`: what is filled in there.
//! - `fetch`, `page_url`, `page_content`, `markdown`: the pages that the room gets for `web_fetch`.
//! - `name`, `address`, `hello`, `request_line`, `query`: text and bytes of programs and networks, read once.
//! - `dial`, `upstream`, `relay`: the way out; `limits`: the bounds; `confine`: the room's own confinement.

mod address;
mod authority;
mod confine;
mod credential;
mod dial;
mod direct;
mod echo;
mod fetch;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod hello;
mod http;
mod http2;
mod inspect;
mod limits;
mod link;
mod markdown;
#[cfg(test)]
mod mutation_tests;
mod name;
mod names;
mod origin;
mod page_content;
mod page_url;
mod proxy;
mod publish;
mod query;
mod relay;
mod request_line;
mod room;
mod session;
mod socks;
mod switch;
mod synthetic;
#[cfg(test)]
mod testing;
mod tunnel;
mod upstream;

pub use confine::ConfineError;
pub use dial::{HostResolver, Lookup, Resolver};
pub use limits::Limits;
pub use room::{RoomError, run, serve};
