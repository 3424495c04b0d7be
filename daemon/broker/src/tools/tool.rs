//! A tool: its specification, and how its arguments are parsed. Runs in the broker. Pure: no I/O.

use super::schema;
use crate::{
    base::task::{ParsedArguments, Task},
    tools::provider::Provider,
};
use jsonschema::Validator;
use palisade_protocol::{Call, NameError, ToolName, ToolSpec, WireError};
use std::sync::Arc;

/// A tool, built in or provided by another process.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) spec: ToolSpec,
    pub(super) origin: ToolOrigin,
}

/// The origin of a tool.
#[derive(Debug)]
pub(super) enum ToolOrigin {
    BuiltIn(Parse),
    Provided(ToolProvider),
}

/// A function that parses a call's arguments.
pub(super) type Parse = fn(&ToolSpec, &Call) -> Result<ParsedArguments, WireError>;

/// The provider of a tool, and the validator for its arguments.
#[derive(Debug, Clone)]
pub(super) struct ToolProvider {
    pub(super) provider: Arc<Provider>,
    pub(super) validator: Arc<Validator>,
}

/// An error from registering a tool.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Its name is invalid.
    #[error("a built-in tool has a bad name")]
    Name(#[from] NameError),
    /// Its schema can not be rendered.
    #[error("a built-in tool has no schema")]
    Schema(#[from] serde_json::Error),
    /// Its name or an alias is taken.
    #[error("the name {name} is taken by the tool {by}")]
    Taken {
        /// The name that is taken.
        name: ToolName,
        /// The tool that has the name.
        by: ToolName,
    },
}

impl Tool {
    /// Parses a call's arguments.
    pub(crate) fn parse(&self, call: &Call) -> Result<ParsedArguments, WireError> {
        match &self.origin {
            ToolOrigin::BuiltIn(parse) => parse(&self.spec, call),
            ToolOrigin::Provided(provided) => {
                let arguments = schema::hold(&self.spec, &provided.validator, call)?;
                Ok(Task::Provided { provider: provided.provider.number, arguments }.into())
            }
        }
    }

    /// Returns the provider of the tool; `None` for a built-in.
    pub(crate) const fn provider(&self) -> Option<&Arc<Provider>> {
        match &self.origin {
            ToolOrigin::BuiltIn(_) => None,
            ToolOrigin::Provided(provided) => Some(&provided.provider),
        }
    }

    /// Returns the tool's name and aliases.
    pub(super) fn names(&self) -> impl Iterator<Item = &ToolName> {
        std::iter::once(&self.spec.name).chain(&self.spec.aliases)
    }
}
