//! The list of system calls as data: each with its group, its reason and its action. Pure: no I/O.

use crate::numbers::number;
use palisade_plan::{Compare, Condition, SyscallAction, SyscallRule};
use serde::Deserialize;
use std::{collections::BTreeSet, sync::LazyLock};

/// The reason why a text is not a valid list of system calls.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyscallError {
    /// The text is not TOML, or a key is unknown or missing.
    #[error("{0}")]
    Text(String),
    /// The list is empty, so nothing would be allowed.
    #[error("it is empty")]
    Empty,
    /// An entry has no reason.
    #[error("{0} has no reason: say why it is there")]
    NoReason(String),
    /// No system call has this name on this architecture.
    #[error("there is no system call {0:?}")]
    Unknown(String),
    /// Two entries have the same name.
    #[error("{0} is listed twice")]
    Duplicate(String),
    /// An entry for one network mode has no general entry that it replaces.
    #[error("{0} is there for a network and not for the others")]
    Stray(String),
    /// A clause or an action is invalid.
    #[error("{call}: {clause:?} {why}")]
    Clause {
        /// The system call.
        call: String,
        /// The clause as it is written.
        clause: String,
        /// The reason why it is invalid.
        why: &'static str,
    },
}

/// One system call of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyscallEntry {
    /// The name of the system call.
    pub name: String,
    /// The group that the system call belongs to.
    pub group: String,
    /// The reason why the system call is allowed or refused.
    pub why: String,
    /// Conditions on its arguments, as they are written; the first match decides.
    pub when: Vec<String>,
    /// The action if no condition matches: `allow`, or the name of an error.
    pub otherwise: String,
    /// The filter rule that follows from the entry.
    pub rule: SyscallRule,
}

/// A list of system calls. A call that is not in the list fails with `ENOSYS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyscallList {
    entries: Vec<SyscallEntry>,
    /// Entries that replace others for sessions in the host's network.
    on_ports: Vec<SyscallEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListText {
    #[serde(default)]
    group: Vec<GroupText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupText {
    name: String,
    /// The network mode that the group is for; its entries replace the general ones.
    network: Option<NetworkText>,
    calls: Vec<CallText>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NetworkText {
    Ports,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallText {
    name: String,
    #[serde(default)]
    why: String,
    /// Clauses such as `arg1 & 0o6000 != 0 and arg0 == 1 -> EPERM`; the first match decides.
    #[serde(default)]
    when: Vec<String>,
    /// The action if no clause matches.
    otherwise: Option<String>,
}

static BUILTIN: LazyLock<Result<SyscallList, SyscallError>> =
    LazyLock::new(|| SyscallList::parse(include_str!("../../profiles/syscalls.toml")));

impl SyscallList {
    /// Returns the built-in list, which every profile uses.
    ///
    /// # Errors
    /// If the built-in list is invalid; a test of this crate shows that it is valid.
    pub fn builtin() -> Result<&'static Self, SyscallError> {
        BUILTIN.as_ref().map_err(Clone::clone)
    }

    /// Parses a list.
    ///
    /// # Errors
    /// If the list is empty, or an entry is a duplicate, names no system call, has an invalid
    /// clause or has no reason.
    pub fn parse(text: &str) -> Result<Self, SyscallError> {
        let list: ListText = toml::from_str(text).map_err(|e| SyscallError::Text(e.to_string()))?;
        let (mut entries, mut on_ports) = (Vec::new(), Vec::new());
        let (mut seen, mut seen_on_ports) = (BTreeSet::new(), BTreeSet::new());
        for group in list.group {
            let (entries, seen) = match group.network {
                None => (&mut entries, &mut seen),
                Some(NetworkText::Ports) => (&mut on_ports, &mut seen_on_ports),
            };
            for call in group.calls {
                if call.why.trim().is_empty() {
                    return Err(SyscallError::NoReason(call.name));
                }
                let rule = rule(&call)?;
                if !seen.insert(rule.number) {
                    return Err(SyscallError::Duplicate(call.name));
                }
                let CallText { name, why, when, otherwise } = call;
                let otherwise = otherwise.unwrap_or_else(|| "allow".to_owned());
                let group = group.name.clone();
                entries.push(SyscallEntry { name, group, why, when, otherwise, rule });
            }
        }
        if entries.is_empty() {
            return Err(SyscallError::Empty);
        }
        match on_ports.iter().find(|entry| !seen.contains(&entry.rule.number)) {
            Some(stray) => Err(SyscallError::Stray(stray.name.clone())),
            None => Ok(Self { entries, on_ports }),
        }
    }

    /// Returns the list for sessions in the host's network.
    #[must_use]
    pub fn on_ports(&self) -> Self {
        let instead = |entry: &SyscallEntry| {
            let found = self.on_ports.iter().find(|other| other.rule.number == entry.rule.number);
            found.unwrap_or(entry).clone()
        };
        Self { entries: self.entries.iter().map(instead).collect(), on_ports: Vec::new() }
    }

    /// Returns the entries in the order of the text.
    #[must_use]
    pub fn entries(&self) -> &[SyscallEntry] {
        &self.entries
    }

    /// Returns the filter rules for a plan, sorted by number.
    #[must_use]
    pub fn rules(&self) -> Vec<SyscallRule> {
        let mut rules: Vec<_> = self.entries.iter().map(|entry| entry.rule.clone()).collect();
        rules.sort_by_key(|rule| rule.number);
        rules
    }
}

fn rule(call: &CallText) -> Result<SyscallRule, SyscallError> {
    let number = number(&call.name).ok_or_else(|| SyscallError::Unknown(call.name.clone()))?;
    let wrong = |clause: &str, why| SyscallError::Clause {
        call: call.name.clone(),
        clause: clause.to_owned(),
        why,
    };
    let parsed = |text: &String| clause(text).map_err(|why| wrong(text, why));
    let clauses = call.when.iter().map(parsed).collect::<Result<_, _>>()?;
    let otherwise = match &call.otherwise {
        Some(text) => action(text).map_err(|why| wrong(text, why))?,
        None => SyscallAction::Allow,
    };
    Ok(SyscallRule { number, clauses, otherwise })
}

fn clause(text: &str) -> Result<(Vec<Condition>, SyscallAction), &'static str> {
    let (conditions, result) = text.split_once("->").ok_or("has no `->`")?;
    let conditions = conditions.split(" and ").map(condition).collect::<Result<_, _>>()?;
    Ok((conditions, action(result.trim())?))
}

/// Parses a condition: `arg2 & 0x20000000 != 0`, or with `wide` in front for all 64 bits.
fn condition(text: &str) -> Result<Condition, &'static str> {
    let text = text.trim();
    let (wide, text) = text.strip_prefix("wide ").map_or((false, text), |rest| (true, rest));
    let (compare, left, right) = if let Some((left, right)) = text.split_once("==") {
        (Compare::Equal, left, right)
    } else if let Some((left, right)) = text.split_once("!=") {
        (Compare::NotEqual, left, right)
    } else {
        return Err("has a condition without `==` or `!=`");
    };
    let all = if wide { u64::MAX } else { u64::from(u32::MAX) };
    let (argument, mask) = match left.split_once('&') {
        Some((argument, mask)) => (argument, integer(mask)?),
        None => (left, all),
    };
    let argument = match argument.trim().strip_prefix("arg").and_then(|n| n.parse().ok()) {
        Some(argument @ 0..=5) => argument,
        Some(6..) | None => return Err("compares what is not arg0 to arg5"),
    };
    let value = integer(right)?;
    if mask & !all != 0 || value & !mask != 0 {
        return Err("can never hold: the value has bits that are masked away");
    }
    Ok(Condition { argument, wide, mask, compare, value })
}

fn integer(text: &str) -> Result<u64, &'static str> {
    let text = text.trim();
    let (radix, digits) = match text.get(..2) {
        Some("0x") => (16, &text[2..]),
        Some("0o") => (8, &text[2..]),
        Some(_) | None => (10, text),
    };
    u64::from_str_radix(digits, radix).map_err(|_| "has an invalid number")
}

fn action(text: &str) -> Result<SyscallAction, &'static str> {
    match text {
        "allow" => Ok(SyscallAction::Allow),
        "EPERM" => Ok(SyscallAction::Errno(1)),
        "ENOSYS" => Ok(SyscallAction::Errno(38)),
        _ => Err("does not answer with allow, EPERM or ENOSYS"),
    }
}

#[cfg(test)]
mod tests;
