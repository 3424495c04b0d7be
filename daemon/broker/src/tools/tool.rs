//! A tool: what is said of it, and how its arguments are read. Broker, pure.

use super::schema;
use crate::{
    provider::Provider,
    task::{Parsed, Task},
};
use jsonschema::Validator;
use palisade_protocol::{Call, NameError, ToolName, ToolSpec, WireError};
use std::sync::Arc;

/// A tool.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) spec: ToolSpec,
    pub(super) origin: Origin,
}

/// Whose a tool is.
#[derive(Debug)]
pub(super) enum Origin {
    BuiltIn(Parse),
    Provided(Provided),
}

/// Reads a call's arguments.
pub(super) type Parse = fn(&ToolSpec, &Call) -> Result<Parsed, WireError>;

/// Whose a provided tool is, and what its arguments are held against.
#[derive(Debug, Clone)]
pub(super) struct Provided {
    pub(super) provider: Arc<Provider>,
    pub(super) validator: Arc<Validator>,
}

/// Why a tool can not be had.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Its name.
    #[error("a built-in tool has a bad name")]
    Name(#[from] NameError),
    /// Its schema.
    #[error("a built-in tool has no schema")]
    Schema(#[from] serde_json::Error),
    /// The name means another.
    #[error("the name {name} is taken by the tool {by}")]
    Taken {
        /// Which.
        name: ToolName,
        /// By whom.
        by: ToolName,
    },
}

impl Tool {
    /// Reads a call's arguments.
    pub(crate) fn parse(&self, call: &Call) -> Result<Parsed, WireError> {
        match &self.origin {
            Origin::BuiltIn(parse) => parse(&self.spec, call),
            Origin::Provided(provided) => {
                schema::hold(&self.spec, &provided.validator, call)?;
                let provider = provided.provider.number;
                Ok(Task::Provided { provider, arguments: call.arguments.clone() }.into())
            }
        }
    }

    /// Who provides it; none for a built-in.
    pub(crate) const fn provider(&self) -> Option<&Arc<Provider>> {
        match &self.origin {
            Origin::BuiltIn(_) => None,
            Origin::Provided(provided) => Some(&provided.provider),
        }
    }

    /// Its name and aliases.
    pub(super) fn names(&self) -> impl Iterator<Item = &ToolName> {
        std::iter::once(&self.spec.name).chain(&self.spec.aliases)
    }
}
