//! A provider's tool, one call of it, and its output. Runs in the provider's process.

use crate::{Error, link::Link};
use palisade_protocol::{
    AuditOperation, Invocation, Invoke, InvokeOutput, InvokeProgress, JsonText, PermissionClass,
    Request, ToolMetadata, limits::MAX_CHUNK,
};
use serde::de::DeserializeOwned;
use std::{sync::Arc, time::Duration};

/// A tool to provide. Properties that are not set have the cautious default: not concurrent, not
/// read-only, destructive, needs approval. A profile trusts the properties only if it names the
/// tool in `trust_provided`.
#[derive(Debug, Clone)]
pub struct ProvidedTool {
    name: String,
    aliases: Vec<String>,
    description: String,
    schema: serde_json::Value,
    metadata: ToolMetadata,
    replaces: bool,
}

impl ProvidedTool {
    /// Creates a tool whose arguments are described by a JSON Schema.
    pub fn new(name: impl Into<String>, schema: serde_json::Value) -> Self {
        let name = name.into();
        Self {
            description: format!("Provided: {name}."),
            name,
            aliases: Vec::new(),
            schema,
            metadata: ToolMetadata::default(),
            replaces: false,
        }
    }

    /// Describes the tool for the model.
    #[must_use]
    pub fn description(self, text: impl Into<String>) -> Self {
        Self { description: text.into(), ..self }
    }

    /// Adds another name for the tool.
    #[must_use]
    pub fn alias(mut self, name: impl Into<String>) -> Self {
        self.aliases.push(name.into());
        self
    }

    /// Sets words by which `tool_search` finds the tool.
    #[must_use]
    pub fn search_hint(mut self, words: impl Into<String>) -> Self {
        self.metadata.search_hint = words.into();
        self
    }

    /// Declares that the tool changes nothing, may run in parallel with other calls, and needs no
    /// approval.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.metadata = ToolMetadata {
            concurrency_safe: true,
            read_only: true,
            destructive: false,
            permission_class: PermissionClass::Readonly,
            audit_operation: AuditOperation::Read,
            requires_checkpoint: false,
            ..self.metadata
        };
        self
    }

    /// Sets all properties that calls are judged by.
    #[must_use]
    pub fn metadata(self, metadata: ToolMetadata) -> Self {
        Self { metadata, ..self }
    }

    /// Replaces a tool that another connection of the same user provides.
    #[must_use]
    pub fn replacing(self) -> Self {
        Self { replaces: true, ..self }
    }

    pub(crate) fn to_wire(&self) -> Result<palisade_protocol::ProvidedTool, Error> {
        let aliases: Result<_, _> = self.aliases.iter().map(|alias| alias.parse()).collect();
        Ok(palisade_protocol::ProvidedTool {
            name: self.name.parse()?,
            aliases: aliases?,
            description: self.description.clone(),
            schema: JsonText::render(&self.schema).map_err(Error::Arguments)?,
            metadata: self.metadata.clone(),
            r#override: self.replaces,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The output of a call.
#[derive(Debug, Clone, Default)]
pub struct Output {
    pub(crate) text: String,
    pub(crate) data: Option<serde_json::Value>,
}

impl Output {
    /// Adds a structured result to the text. The session's profile limits its size.
    #[must_use]
    pub fn data(self, data: serde_json::Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

impl<T: Into<String>> From<T> for Output {
    fn from(text: T) -> Self {
        Self { text: text.into(), data: None }
    }
}

/// One call of a provided tool.
#[derive(Debug, Clone)]
pub struct Invoked {
    invoke: Arc<Invoke>,
    link: Arc<Link>,
}

impl Invoked {
    pub(crate) fn new(invoke: Invoke, link: Arc<Link>) -> Self {
        Self { invoke: Arc::new(invoke), link }
    }

    pub(crate) fn number(&self) -> Invocation {
        self.invoke.invocation
    }

    /// Returns the tool's own name.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.invoke.tool.as_str()
    }

    /// Returns an opaque session name: equal for calls of one session, different for different
    /// sessions. Nothing else about the session is disclosed.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.invoke.session
    }

    /// Returns the reason for the call in the agent's own words.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.invoke.reason.as_deref()
    }

    /// Returns the time that the call had left when it was sent to the provider.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.invoke.deadline_ms)
    }

    /// Deserializes the arguments, which are valid for the tool's schema.
    ///
    /// # Errors
    /// If they do not fit `T`; the text may be returned as the call's failure.
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_str(self.invoke.arguments.as_str()).map_err(|error| error.to_string())
    }

    /// Reports progress. An agent that streams the call sees it.
    ///
    /// # Errors
    /// If nobody waits for the call any more.
    pub async fn progress(
        &self,
        message: impl Into<String>,
        done: u64,
        total: Option<u64>,
    ) -> Result<(), String> {
        let (invocation, message) = (self.number(), message.into());
        self.tell(Request::InvokeProgress(InvokeProgress { invocation, message, done, total }))
            .await
    }

    /// Sends a part of the output before the result.
    ///
    /// # Errors
    /// If nobody waits for the call any more.
    pub async fn output(&self, text: &str) -> Result<(), String> {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(MAX_CHUNK));
            let (invocation, text) = (self.number(), piece.to_owned());
            self.tell(Request::InvokeOutput(InvokeOutput { invocation, text })).await?;
            rest = after;
        }
        Ok(())
    }

    async fn tell(&self, request: Request) -> Result<(), String> {
        self.link.ask(request).await.map(drop).map_err(|error| error.to_string())
    }
}

/// Builds the message with the final result of a call.
pub(crate) fn result(
    invocation: Invocation,
    ended: Result<Output, String>,
) -> palisade_protocol::InvokeResult {
    let (output, data, error) = match ended {
        Ok(output) => match output.data.as_ref().map(JsonText::render).transpose() {
            Ok(data) => (output.text, data, None),
            Err(error) => (output.text, None, Some(format!("its data is not JSON: {error}"))),
        },
        Err(error) => (String::new(), None, Some(error)),
    };
    palisade_protocol::InvokeResult { invocation, output, data, error }
}
