//! What a provider may ask, one by one. Broker.

use super::Connection;
use crate::provider::{Heard, Provider};
use palisade_protocol::{ErrorCode, Invocation, Provide, Provided, Reply, Unprovide, WireError};
use std::sync::Arc;

impl Connection {
    /// Registers tools, all of them or none.
    pub(super) fn provide(&mut self, provide: Provide) -> Result<Reply, WireError> {
        let (number, uid, outbox) = (self.number, self.peer.uid, &self.outbox);
        let provider = self
            .provider
            .get_or_insert_with(|| Arc::new(Provider::new(number, uid, outbox.clone())));
        let names = self.server.registry.provide(provider, provide.tools)?;
        tracing::info!(uid = self.peer.uid, ?names, "tools are provided");
        Ok(Reply::Provided(Provided { names }))
    }

    pub(super) fn unprovide(&self, unprovide: &Unprovide) -> Result<Reply, WireError> {
        self.server.registry.unprovide(self.number, &unprovide.names).map(|()| Reply::Done)
    }

    /// Hands on what the provider says of an invocation.
    pub(super) fn told(&self, number: Invocation, heard: Heard) -> Result<Reply, WireError> {
        match &self.provider {
            Some(provider) => provider.hear(number, heard).map(|()| Reply::Done),
            None => {
                let message = "this connection provides no tools";
                Err(WireError::new(ErrorCode::OutOfOrder, message, "provide some first"))
            }
        }
    }

    /// Takes everything back that the connection provided.
    pub(super) fn leave(&mut self) {
        if let Some(provider) = self.provider.take() {
            self.server.registry.withdraw(self.number);
            provider.leave();
        }
    }
}
