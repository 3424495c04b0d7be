//! The requests of tool providers. Runs in the broker.

use super::Connection;
use crate::tools::provider::{Provider, ProviderMessage};
use palisade_protocol::{ErrorCode, Invocation, Provide, Provided, Reply, Unprovide, WireError};
use std::sync::Arc;

impl Connection {
    /// Registers tools, all of them or none.
    pub(super) fn provide(&mut self, provide: Provide) -> Result<Reply, WireError> {
        let (number, uid, outbox) = (self.number, self.peer.uid, &self.outbox);
        let provider = self
            .provider
            .get_or_insert_with(|| Arc::new(Provider::new(number, uid, outbox.clone())));
        let names = self.server.calls.registry.provide(provider, provide.tools)?;
        tracing::info!(uid = self.peer.uid, ?names, "a provider registered tools");
        Ok(Reply::Provided(Provided { names }))
    }

    pub(super) fn unprovide(&self, unprovide: &Unprovide) -> Result<Reply, WireError> {
        self.server.calls.registry.unprovide(self.number, &unprovide.names).map(|()| Reply::Done)
    }

    /// Passes on what the provider sends about an invocation.
    pub(super) fn forward_to_provider(
        &self,
        number: Invocation,
        heard: ProviderMessage,
    ) -> Result<Reply, WireError> {
        match &self.provider {
            Some(provider) => provider.receive(number, heard).map(|()| Reply::Done),
            None => {
                let message = "this connection provides no tools";
                Err(WireError::new(ErrorCode::OutOfOrder, message, "provide tools first"))
            }
        }
    }

    /// Removes all tools that the connection has registered.
    pub(super) fn leave(&mut self) {
        if let Some(provider) = self.provider.take() {
            self.server.calls.registry.withdraw(self.number);
            provider.leave();
        }
    }
}
