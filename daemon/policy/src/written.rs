//! What a profile's file says, key by key, before it is put together with what it extends.

use crate::{
    access::WorkspaceAccess,
    checkers::Checker,
    entries::{EtcEntry, LayerEntry, PathEntry, ToolEntry, VariableEntry, WritableEntry},
    handlers::Rememberable,
    jobs::JobsText,
    limits::LimitsText,
    names::NameEntry,
    net::NetText,
    rules::Rule,
    transactions::TransactionsText,
    who::Who,
};
use palisade_protocol::{Ask, Guard};
use serde::Deserialize;
use std::{collections::BTreeMap, num::NonZeroU64};
use toml::Spanned;

/// A list with the place of each of its entries.
pub(crate) type List<T> = Vec<Spanned<T>>;

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    pub(crate) version: Option<Spanned<i64>>,
    pub(crate) description: Option<String>,
    pub(crate) extends: Option<Spanned<Extends>>,
    pub(crate) widen: Option<Spanned<bool>>,
    pub(crate) observe: Option<Spanned<String>>,
    pub(crate) ask: Option<Ask>,
    pub(crate) guard: Option<Guard>,
    #[serde(default)]
    pub(crate) tests: List<String>,
    #[serde(default)]
    pub(crate) fs: Files,
    #[serde(default)]
    pub(crate) net: NetText,
    #[serde(default)]
    pub(crate) env: Environment,
    #[serde(default)]
    pub(crate) limits: LimitsText,
    #[serde(default)]
    pub(crate) layers: Layers,
    #[serde(default)]
    pub(crate) tools: Tools,
    #[serde(default)]
    pub(crate) rules: List<Rule>,
    #[serde(default)]
    pub(crate) transactions: TransactionsText,
    #[serde(default)]
    pub(crate) jobs: JobsText,
    pub(crate) diagnostics: Option<List<Checker>>,
    #[serde(default)]
    pub(crate) remember: Remember,
    #[serde(default)]
    pub(crate) handlers: HandlersText,
    pub(crate) who: Option<Who>,
}

/// One profile's name, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "takes a profile's name, or a list of them")]
pub(crate) enum Extends {
    One(String),
    Several(Vec<String>),
}

impl Extends {
    fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

impl Written {
    /// The profiles that it extends.
    pub(crate) fn parents(&self) -> &[String] {
        self.extends.as_ref().map_or(&[], |extends| extends.get_ref().names())
    }

    /// The profile under which it is observed, if it is.
    pub(crate) fn under(&self) -> Option<&String> {
        self.observe.as_ref().map(Spanned::get_ref)
    }
}

/// `[fs]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Files {
    pub(crate) workspace: Option<Spanned<WorkspaceAccess>>,
    pub(crate) allow_delete: Option<bool>,
    pub(crate) execute: Option<List<PathEntry>>,
    pub(crate) read: Option<List<PathEntry>>,
    pub(crate) write: Option<List<WritableEntry>>,
    pub(crate) unguarded: Option<List<WritableEntry>>,
    pub(crate) etc: Option<List<EtcEntry>>,
    pub(crate) hide: Option<List<NameEntry>>,
    pub(crate) protect: Option<List<NameEntry>>,
}

/// `[env]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Environment {
    pub(crate) path: Option<Vec<PathEntry>>,
    pub(crate) set: BTreeMap<VariableEntry, Spanned<String>>,
    pub(crate) pass: Option<List<VariableEntry>>,
    pub(crate) deny: List<VariableEntry>,
}

/// `[layers]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Layers {
    pub(crate) required: List<LayerEntry>,
    pub(crate) optional: Option<List<LayerEntry>>,
}

/// `[tools]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tools {
    pub(crate) allow: Option<List<ToolEntry>>,
    pub(crate) deny: List<ToolEntry>,
    pub(crate) reverse_thinking: Vec<ToolEntry>,
    pub(crate) trust_provided: Option<List<ToolEntry>>,
}

/// `[remember]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Remember {
    pub(crate) scopes: Option<List<Rememberable>>,
    pub(crate) ms: Option<u64>,
}

/// `[handlers]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HandlersText {
    pub(crate) deadline_ms: Option<NonZeroU64>,
    pub(crate) grace_ms: Option<u64>,
    pub(crate) quorum: Option<NonZeroU64>,
    pub(crate) max_pending: Option<NonZeroU64>,
    pub(crate) review_output: Vec<ToolEntry>,
}
