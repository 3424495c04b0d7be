//! The survival of a session whose connection ended. Runs in the broker.

use palisade_protocol::Open;
use std::{io, mem::MaybeUninit, time::Duration};
use tokio::sync::Notify;

/// A session's permission to outlive its connection, with the token to resume it.
#[derive(Debug)]
pub(crate) struct Survival {
    pub(crate) token: String,
    pub(crate) grace: Duration,
    /// The parameters the session was opened with, which whoever resumes it is told.
    pub(crate) terms: Open,
    /// Tells the session's connection to hand the session over.
    pub(crate) taken: Notify,
}

impl Survival {
    pub(crate) fn new(grace: Duration, terms: Open) -> io::Result<Self> {
        let mut random = [MaybeUninit::uninit(); 32];
        let (random, _) =
            rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
        let token = palisade_text::hex(random);
        if token.len() != 64 {
            return Err(io::Error::other("the kernel returned too few random bytes"));
        }
        Ok(Self { token, grace, terms, taken: Notify::new() })
    }

    /// Returns `true` if `token` is the session's token. Compares in constant time.
    pub(crate) fn matches_token(&self, token: &str) -> bool {
        let differs = self.token.bytes().zip(token.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        token.len() == self.token.len() && differs == 0
    }
}
