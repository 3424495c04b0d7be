//! A profile file as it is written, key by key, before it is combined with the profiles that it
//! extends. Pure: no I/O.

use crate::{
    access::WorkspaceAccess,
    checkers::Checker,
    entries::{EtcEntry, LayerEntry, PathEntry, ToolEntry, VariableEntry, WritableEntry},
    handlers::Rememberable,
    jobs::JobsText,
    limits::LimitsText,
    names::NameLists,
    net::NetText,
    rules::Rule,
    transactions::TransactionsText,
    who::Conditions,
};
use palisade_protocol::{Ask, Guard};
use serde::Deserialize;
use std::{collections::BTreeMap, num::NonZeroU64};
use toml::Spanned;

/// A list in which each entry has its source position.
pub(crate) type List<T> = Vec<Spanned<T>>;

/// A whole profile file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileText {
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
    pub(crate) who: Option<Conditions>,
}

/// One profile name, or several.
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

impl ProfileText {
    /// Returns the profiles that the file extends.
    pub(crate) fn parents(&self) -> &[String] {
        self.extends.as_ref().map_or(&[], |extends| extends.get_ref().names())
    }

    /// Returns the profile under which this one is observed, if any.
    pub(crate) fn under(&self) -> Option<&String> {
        self.observe.as_ref().map(Spanned::get_ref)
    }
}

/// The profile section `[fs]`.
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
    pub(crate) hide: Option<NameLists>,
    pub(crate) protect: Option<NameLists>,
}

/// The profile section `[env]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Environment {
    pub(crate) path: Option<Vec<PathEntry>>,
    pub(crate) set: BTreeMap<VariableEntry, Spanned<String>>,
    pub(crate) pass: Option<List<VariableEntry>>,
    pub(crate) deny: List<VariableEntry>,
}

/// The profile section `[layers]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Layers {
    pub(crate) required: List<LayerEntry>,
    pub(crate) optional: Option<List<LayerEntry>>,
}

/// The profile section `[tools]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tools {
    pub(crate) allow: Option<List<ToolEntry>>,
    pub(crate) deny: List<ToolEntry>,
    pub(crate) reverse_thinking: Vec<ToolEntry>,
    pub(crate) trust_provided: Option<List<ToolEntry>>,
}

/// The profile section `[remember]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Remember {
    pub(crate) scopes: Option<List<Rememberable>>,
    pub(crate) ms: Option<u64>,
}

/// The profile section `[handlers]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HandlersText {
    pub(crate) deadline_ms: Option<NonZeroU64>,
    pub(crate) grace_ms: Option<u64>,
    pub(crate) quorum: Option<NonZeroU64>,
    pub(crate) max_pending: Option<NonZeroU64>,
    pub(crate) review_output: Vec<ToolEntry>,
    pub(crate) agent_client: Option<bool>,
}
