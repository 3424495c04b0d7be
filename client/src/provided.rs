//! A tool of a provider's, one call of it, and what comes of that. Runs in the provider's process.

use crate::{Error, link::Link};
use palisade_protocol::{
    AuditOperation, Invocation, Invoke, InvokeOutput, InvokeProgress, JsonText, PermissionClass,
    Request, ToolMetadata, limits::MAX_CHUNK,
};
use serde::de::DeserializeOwned;
use std::{sync::Arc, time::Duration};

/// A tool to provide. What is not said of it is taken to be the careful answer: not concurrent, not
/// read-only, destructive, checkpointed. And what is said is believed only by a profile that names
/// the tool in `trust_provided`.
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
    /// A tool whose arguments are as a JSON Schema says.
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

    /// What it does, for the model.
    #[must_use]
    pub fn description(self, text: impl Into<String>) -> Self {
        Self { description: text.into(), ..self }
    }

    /// Another name for it.
    #[must_use]
    pub fn alias(mut self, name: impl Into<String>) -> Self {
        self.aliases.push(name.into());
        self
    }

    /// Words that find it.
    #[must_use]
    pub fn search_hint(mut self, words: impl Into<String>) -> Self {
        self.metadata.search_hint = words.into();
        self
    }

    /// Changes nothing, may run beside other calls, needs no checkpoint.
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

    /// Everything that it says of itself.
    #[must_use]
    pub fn metadata(self, metadata: ToolMetadata) -> Self {
        Self { metadata, ..self }
    }

    /// Takes the place of a tool that another connection of the same user provides.
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

/// What a call gave.
#[derive(Debug, Clone, Default)]
pub struct Output {
    pub(crate) text: String,
    pub(crate) data: Option<serde_json::Value>,
}

impl Output {
    /// A structured result beside the text, at most as large as the session's profile has it.
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

    /// The tool's own name.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.invoke.tool.as_str()
    }

    /// The same for calls of one session and another for each other; nothing else is told of it.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.invoke.session
    }

    /// Why, in the agent's own words.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.invoke.reason.as_deref()
    }

    /// How long there was for it when it was asked.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.invoke.deadline_ms)
    }

    /// The arguments, which fit the tool's schema.
    ///
    /// # Errors
    /// If they are not what `T` wants; the text may be given back as the call's failure.
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_str(self.invoke.arguments.as_str()).map_err(|error| error.to_string())
    }

    /// Says how far it is. An agent that streams the call sees it.
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

    /// Sends some of the output before the result.
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

/// What is said of a call in the end.
pub(crate) fn result(
    invocation: Invocation,
    ended: Result<Output, String>,
) -> palisade_protocol::InvokeResult {
    let (output, data, error) = match ended {
        Ok(output) => match output.data.as_ref().map(JsonText::render).transpose() {
            Ok(data) => (output.text, data, None),
            Err(error) => (output.text, None, Some(format!("its data is no JSON: {error}"))),
        },
        Err(error) => (String::new(), None, Some(error)),
    };
    palisade_protocol::InvokeResult { invocation, output, data, error }
}
