//! A profile: parsed, checked, and asked for its answers by the broker.

use crate::{
    Checker, Handlers, checkers,
    entries::ToolEntry,
    rules,
    settings::Settings,
    syscalls::{SyscallError, SyscallList},
};
use palisade_plan::SyscallRule;
use palisade_protocol::{Ask, ToolName, ToolSpec, limits::MAX_TIMEOUT_MS};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// The most jobs of one session at once that a profile can allow.
const MAX_JOBS: u64 = 256;

/// What a session may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    name: String,
    digest: String,
    pub(crate) settings: Settings,
    pub(crate) syscalls: Vec<SyscallRule>,
}

/// Why a text is not a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// A name that can not stand in a request.
    #[error("{name:?} can not be a profile's name: {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A key is unknown, missing, or its value makes no sense.
    #[error("profile {profile:?}, line {line}, {key}: {why}")]
    Invalid {
        /// Which profile.
        profile: String,
        /// The line, from 1.
        line: usize,
        /// The key with its section, as `limits.memory`; empty if it can not be told.
        key: String,
        /// What is wrong and what it takes.
        why: String,
    },
    /// A second profile of one name.
    #[error("profile {0:?} is there already; give yours another name")]
    Duplicate(String),
    /// The built-in list of system calls is broken.
    #[error("the list of system calls: {0}")]
    Syscalls(#[from] SyscallError),
    /// The profile has no canonical form to digest.
    #[error("profile {0:?} can not be digested: {1}")]
    Digest(String, String),
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// With line and key, if anything in it is unknown, contradictory or out of bounds.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProfileError> {
        name.parse::<ToolName>()
            .map_err(|e| e.to_string().replace("tool name", "profile name"))
            .map_err(|why| ProfileError::Name { name: name.to_owned(), why })?;
        let settings: Settings = toml::from_str(text).map_err(|e| {
            let (line, key) = locate(text, e.span().map_or(0, |span| span.start));
            invalid(name, line, key, e.message())
        })?;
        check(name, text, &settings)?;
        let syscalls = SyscallList::builtin()?.rules();
        let digest = digest(name, &settings, &syscalls)
            .map_err(|why| ProfileError::Digest(name.to_owned(), why))?;
        Ok(Self { name: name.to_owned(), digest, settings, syscalls })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// SHA-256, in hexadecimal, of everything it says, defaults and system calls included;
    /// comments and order do not matter.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What it is for.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.settings.description
    }

    /// When a checkpoint is asked.
    #[must_use]
    pub const fn ask(&self) -> Ask {
        self.settings.ask
    }

    /// Whether a tool that deletes may run.
    #[must_use]
    pub const fn allow_delete(&self) -> bool {
        self.settings.fs.allow_delete
    }

    /// Whether a tool may run, by its name or any alias.
    #[must_use]
    pub fn allows_tool(&self, tool: &ToolSpec) -> bool {
        let tools = &self.settings.tools;
        let is = |name: &ToolName| tool.name == *name || tool.aliases.contains(name);
        let listed = tools.allow.as_ref().is_none_or(|list| list.iter().any(|entry| is(&entry.0)));
        listed && !tools.deny.iter().any(|entry| is(&entry.0))
    }

    /// What it says of checkpoint handlers.
    #[must_use]
    pub const fn handlers(&self) -> &Handlers {
        &self.settings.handlers
    }

    /// Whether a rule of it is about paths.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !self.settings.rules.is_empty()
    }

    /// Whether a rule is about paths.
    #[must_use]
    pub fn has_path_rules(&self) -> bool {
        self.settings.rules.iter().any(|rule| !rule.paths.is_empty())
    }

    /// Whether the rules keep a path from what a tool that looks at many shows: they deny it, or
    /// would have somebody asked, who can not be asked for each. `named` is what the call names:
    /// about that it was asked.
    #[must_use]
    pub fn withholds(&self, tool: &ToolSpec, named: &[u8], path: &[u8], workspace: &[u8]) -> bool {
        rules::withhold(&self.settings.rules, tool, named, path, workspace)
    }

    /// Whether a tool's output is reviewed before the agent sees it.
    #[must_use]
    pub fn reviews_output(&self, tool: &ToolSpec) -> bool {
        names(&self.settings.handlers.review_output, tool)
    }

    /// Whether a tool needs its reverse thinking with each call.
    #[must_use]
    pub fn wants_reverse_thinking(&self, tool: &ToolSpec) -> bool {
        tool.metadata.requires_reverse_thinking
            || names(&self.settings.tools.reverse_thinking, tool)
    }

    /// Whether a provided tool is what it says of itself.
    #[must_use]
    pub fn trusts_provided(&self, tool: &ToolSpec) -> bool {
        // By its own name: an alias is the provider's choice, and so no reason to trust it.
        self.settings.tools.trust_provided.iter().any(|entry| entry.0 == tool.name)
    }

    /// What `diagnostics` runs.
    #[must_use]
    pub fn checkers(&self) -> &[Checker] {
        &self.settings.diagnostics
    }

    /// How long a call takes at most if it does not say.
    #[must_use]
    pub const fn timeout_ms(&self) -> u64 {
        self.settings.limits.timeout_ms.get()
    }

    /// How long a call may ask for at most.
    #[must_use]
    pub const fn max_timeout_ms(&self) -> u64 {
        self.settings.limits.max_timeout_ms.get()
    }

    /// How many bytes of output a result carries.
    #[must_use]
    pub const fn output_bytes(&self) -> u64 {
        self.settings.limits.output.bytes()
    }

    /// How large a file the file tools read or write.
    #[must_use]
    pub const fn file_bytes(&self) -> u64 {
        self.settings.limits.file.bytes()
    }

    /// How much of a call's output is kept for paging.
    #[must_use]
    pub const fn spool_bytes(&self) -> u64 {
        self.settings.limits.spool.bytes()
    }

    /// What is kept of what the changes of a session replaced.
    #[must_use]
    pub const fn undo_bytes(&self) -> u64 {
        self.settings.limits.undo.bytes()
    }

    /// How long a call has between being asked to end and being killed.
    #[must_use]
    pub const fn kill_grace_ms(&self) -> u64 {
        self.settings.limits.kill_grace_ms.get()
    }

    /// How many sessions one user has at most at once.
    #[must_use]
    pub const fn max_sessions(&self) -> u64 {
        self.settings.limits.sessions.get()
    }

    /// How many jobs of one session run at most at once.
    #[must_use]
    pub const fn max_jobs(&self) -> u64 {
        self.settings.limits.jobs.get()
    }

    /// How long a job may run, whatever it asks for.
    #[must_use]
    pub fn max_job_ms(&self) -> Option<u64> {
        self.settings.limits.job_ms.map(std::num::NonZeroU64::get)
    }

    /// Variables that the broker hands on from its own environment, where they are set: look each
    /// up and give it to [`Profile::environment`] with the caller's own.
    pub fn passed_variables(&self) -> impl Iterator<Item = &str> {
        self.settings.env.pass.iter().map(|entry| entry.0.as_str())
    }
}

/// Whether a list names a tool, by its name or an alias.
fn names(list: &[ToolEntry], tool: &ToolSpec) -> bool {
    list.iter().any(|entry| tool.name == entry.0 || tool.aliases.contains(&entry.0))
}

fn invalid(profile: &str, line: usize, key: String, why: impl Into<String>) -> ProfileError {
    ProfileError::Invalid { profile: profile.to_owned(), line, key, why: why.into() }
}

/// Line, and key with its section, of the byte at `offset`.
fn locate(text: &str, offset: usize) -> (usize, String) {
    let offset = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    let line = text.get(..offset.unwrap_or(0)).map_or(1, |before| before.matches('\n').count() + 1);
    let mut section = "";
    let mut key = "";
    for line in text.lines().take(line).map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next())
            && !line.contains(['"', ','])
        {
            (section, key) = (name, "");
        } else if let Some((name, _)) = line.split_once('=')
            && name.trim().chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        {
            key = name.trim();
        }
    }
    let dot = if section.is_empty() || key.is_empty() { "" } else { "." };
    (line, format!("{section}{dot}{key}"))
}

/// What no single key can be blamed for.
fn check(name: &str, text: &str, settings: &Settings) -> Result<(), ProfileError> {
    use crate::settings::WorkspaceAccess;
    let limits = &settings.limits;
    let at = |key: &str, why: String| {
        let last = key.rsplit('.').next().unwrap_or(key);
        let line = text.lines().position(|line| {
            line.trim_start().strip_prefix(last).is_some_and(|r| r.trim_start().starts_with('='))
        });
        Err(invalid(name, line.map_or(1, |index| index + 1), key.to_owned(), why))
    };
    if settings.description.trim().is_empty() {
        return at("description", "says nothing; give a sentence on what it is for".to_owned());
    }
    if settings.fs.execute.is_empty() {
        return at("fs.execute", "is empty, so no program could run".to_owned());
    }
    if settings.fs.allow_delete && settings.fs.workspace == WorkspaceAccess::Read {
        return at("fs.allow_delete", "is true in a workspace that is only read".to_owned());
    }
    if limits.max_timeout_ms.get() > MAX_TIMEOUT_MS {
        return at("limits.max_timeout_ms", format!("is over the limit of {MAX_TIMEOUT_MS}"));
    }
    if limits.timeout_ms > limits.max_timeout_ms {
        return at(
            "limits.timeout_ms",
            format!("{} is over max_timeout_ms = {}", limits.timeout_ms, limits.max_timeout_ms),
        );
    }
    if limits.jobs.get() > MAX_JOBS {
        return at("limits.jobs", format!("{} is over the limit of {MAX_JOBS}", limits.jobs));
    }
    if settings.tools.allow.as_ref().is_some_and(Vec::is_empty) {
        return at("tools.allow", "is empty; leave it out to allow every tool".to_owned());
    }
    for (number, rule) in settings.rules.iter().enumerate() {
        if let Err(why) = rule.check() {
            let line = text.lines().enumerate().filter(|(_, line)| line.trim() == "[[rules]]");
            let line = line.map(|(index, _)| index + 1).nth(number).unwrap_or(1);
            return Err(invalid(name, line, format!("rules, number {}", number + 1), why));
        }
    }
    if let Err((number, why)) = checkers::check(&settings.diagnostics) {
        let line = text.lines().enumerate().filter(|(_, line)| line.trim() == "[[diagnostics]]");
        let line = line.map(|(index, _)| index + 1).nth(number).unwrap_or(1);
        return Err(invalid(name, line, format!("diagnostics, number {}", number + 1), why));
    }
    if let Some((variable, _)) = settings.env.set.iter().find(|(_, v)| v.contains('\0')) {
        return at("env.set", format!("the value of {} has a NUL in it", variable.0));
    }
    Ok(())
}

fn digest(name: &str, settings: &Settings, rules: &[SyscallRule]) -> Result<String, String> {
    let canonical = toml::to_string(settings).map_err(|e| e.to_string())?;
    let rules = palisade_plan::codec::encode(&rules.to_vec()).map_err(|e| e.to_string())?;
    let mut hash = Sha256::new();
    for part in [name.as_bytes(), canonical.as_bytes(), &rules] {
        // Lengths in between: no two profiles share their bytes by moving a border.
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(part);
    }
    let mut hex = String::new();
    for byte in hash.finalize() {
        write!(hex, "{byte:02x}").map_err(|e| e.to_string())?;
    }
    Ok(hex)
}

#[cfg(test)]
mod tests;
