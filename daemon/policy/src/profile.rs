//! A profile: parsed, checked, and asked for its answers by the broker.

use crate::{
    Checker, Example, Facts, Handlers, JobRoute, Owner, ProfileError, Source,
    access::{Reach, WorkspaceAccess},
    entries::ToolEntry,
    limits::ENDLESS,
    net::NetMode,
    resolve::files::{held, is_guarded},
    rules,
    settings::Settings,
    stack,
    syscalls::{SyscallError, SyscallList},
};
use palisade_plan::{Layer, SyscallRule};
use palisade_protocol::{Ask, Guard, ToolName, ToolSpec};
use sha2::{Digest as _, Sha256};
use std::{fmt::Write as _, num::NonZeroU64};

/// What a session may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    name: String,
    pub(crate) file: String,
    pub(crate) owner: Owner,
    digest: String,
    pub(crate) settings: Settings,
    pub(crate) syscalls: Vec<SyscallRule>,
    /// What it says, if that is only observed; its settings are then what is enforced instead.
    observed: Option<Box<Observed>>,
}

/// A profile that is only observed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Observed {
    under: String,
    meant: Profile,
}

/// Who opens a session, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User<'a> {
    /// The user's id.
    pub uid: u32,
    /// The id of the user's group.
    pub gid: u32,
    /// The unit of systemd that the process is of; none if it is not known.
    pub unit: Option<&'a str>,
}

impl Profile {
    /// What its settings come to.
    pub(crate) fn new(source: &Source<'_>, settings: Settings) -> Result<Self, ProfileError> {
        let syscalls = calls(&settings)?.rules();
        let digest = digest(source.name, &settings, &syscalls)
            .map_err(|why| ProfileError::Digest(source.name.to_owned(), why))?;
        let (name, file) = (source.name.to_owned(), source.file.to_owned());
        let (owner, observed) = (source.owner, None);
        Ok(Self { name, file, owner, digest, settings, syscalls, observed })
    }

    /// Its system calls, each with its reason.
    ///
    /// # Errors
    /// If the list that was built in is broken; a test of this crate shows that it is not.
    pub fn syscalls(&self) -> Result<SyscallList, SyscallError> {
        calls(&self.settings)
    }

    /// Whether it names domains, which no layer holds.
    #[must_use]
    pub const fn names_domains(&self) -> bool {
        self.settings.net.domains.is_some()
    }

    /// The same, observed under another: what that allows is allowed, but for what this one denies
    /// by name.
    pub(crate) fn observed(self, under: &Self) -> Result<Self, ProfileError> {
        let settings = stack::observed(&under.settings, &self.settings);
        // What is enforced may be writable under a laxer guard than this one has.
        held(settings.guard, &settings.fs)?;
        let whole = format!("{} under {} {}", self.name, under.digest, self.digest);
        let syscalls = calls(&settings)?.rules();
        let digest = digest(&whole, &settings, &syscalls)
            .map_err(|why| ProfileError::Digest(self.name.clone(), why))?;
        let observed = Observed { under: under.name.clone(), meant: self.clone() };
        Ok(Self { digest, settings, syscalls, observed: Some(Box::new(observed)), ..self })
    }

    /// The profile that holds instead, if this one is only observed.
    #[must_use]
    pub fn observed_under(&self) -> Option<&str> {
        self.observed.as_ref().map(|observed| observed.under.as_str())
    }

    /// What it says: itself, unless it is only observed.
    #[must_use]
    pub fn meant(&self) -> &Self {
        self.observed.as_ref().map_or(self, |observed| &observed.meant)
    }

    /// The file that it was read from.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The profiles that it extends.
    #[must_use]
    pub fn extends(&self) -> &[String] {
        &self.settings.extends
    }

    /// Its own tests, which held when it was loaded.
    #[must_use]
    pub fn tests(&self) -> &[Example] {
        &self.settings.tests
    }

    /// Whether somebody may use it. Of each `[who]`, a user, a group or a unit must be named.
    #[must_use]
    pub fn admits(&self, user: User<'_>) -> bool {
        let lets_in = |who: &crate::who::Who| {
            let unit = who.unit.iter().any(|unit| Some(unit.0.as_str()) == user.unit);
            who.uid.contains(&user.uid) || who.gid.contains(&user.gid) || unit
        };
        self.settings.who.iter().all(lets_in)
    }

    /// The same confinement without a word of who may do what in it: nothing is asked, ruled or
    /// reviewed, and every tool is there. For the daemon's own proof of what confines, and for
    /// nobody's calls.
    #[must_use]
    pub fn for_proof(&self) -> Self {
        let mut profile = self.clone();
        let settings = &mut profile.settings;
        settings.ask = Ask::Never;
        settings.rules.clear();
        settings.tools.allow = None;
        settings.tools.deny.clear();
        settings.tools.reverse_thinking.clear();
        settings.handlers.review_output.clear();
        profile
    }

    /// All of it as TOML, defaults and what it extends included.
    ///
    /// # Errors
    /// If it has no canonical form; no profile that was loaded lacks one.
    pub fn canonical(&self) -> Result<String, ProfileError> {
        let text = toml::to_string_pretty(&self.meant().settings)
            .map_err(|error| ProfileError::Digest(self.name.clone(), error.to_string()))?;
        Ok(match self.observed_under() {
            Some(under) => format!("observe = {under:?}\n{text}"),
            None => text,
        })
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

    /// How `bash` is held.
    #[must_use]
    pub const fn guard(&self) -> Guard {
        self.settings.guard
    }

    /// Where a job runs: as its call says, or else as the profile does.
    ///
    /// # Errors
    /// Where it may not run.
    pub fn job_route(&self, asked: Option<JobRoute>) -> Result<JobRoute, JobRoute> {
        let jobs = &self.settings.jobs;
        let route = asked.unwrap_or(jobs.default);
        if jobs.routes.contains(&route) { Ok(route) } else { Err(route) }
    }

    /// Where its jobs may run.
    #[must_use]
    pub fn job_routes(&self) -> &[JobRoute] {
        &self.settings.jobs.routes
    }

    /// Whether a session can change its workspace.
    #[must_use]
    pub fn writes_workspace(&self) -> bool {
        self.settings.fs.workspace.value == WorkspaceAccess::Write
    }

    /// Whether a session can change directories of the host that no transaction holds back. One
    /// inside of the workspace is mounted there, and so is not held either.
    #[must_use]
    pub fn writes_beyond(&self) -> bool {
        self.settings.fs.entries.iter().any(|entry| entry.reach == Reach::Write)
    }

    /// The first directory of `fs.write`: only a session without a guard can have it.
    pub(crate) fn unheld_directory(&self) -> Option<String> {
        let mut entries = self.settings.fs.entries.iter();
        entries.find(|entry| is_guarded(entry)).map(|entry| entry.path.shown())
    }

    /// Whether a session reaches anything by network but a loopback of its own.
    #[must_use]
    pub fn reaches_network(&self) -> bool {
        match self.settings.net.mode.value {
            NetMode::None | NetMode::Loopback => false,
            NetMode::Ports => true,
        }
    }

    /// Whether something in the workspace is hidden from programs.
    #[must_use]
    pub const fn hides(&self) -> bool {
        !self.settings.fs.hide.is_empty()
    }

    /// Whether something in the workspace is hidden from programs or protected from them.
    #[must_use]
    pub const fn veils(&self) -> bool {
        self.hides() || !self.settings.fs.protect.is_empty()
    }

    /// The layers that hide and protect, as far as there is something to.
    pub fn veiling(&self) -> impl Iterator<Item = Layer> {
        let files = &self.settings.fs;
        let hide = (!files.hide.is_empty()).then_some(Layer::Hide);
        hide.into_iter().chain((!files.protect.is_empty()).then_some(Layer::Protect))
    }

    /// Whether the layers that hide and protect may be missing.
    #[must_use]
    pub fn veils_at_will(&self) -> bool {
        let optional = |layer| self.settings.layers.optional.iter().any(|entry| entry.0 == layer);
        self.veiling().all(optional)
    }

    /// Whether a tool that deletes may run.
    #[must_use]
    pub const fn allow_delete(&self) -> bool {
        self.settings.fs.allow_delete
    }

    /// Whether a tool of this name may run, for who does not have the tool itself.
    #[must_use]
    pub fn allows_name(&self, name: &str) -> bool {
        let tools = &self.settings.tools;
        let is = |entry: &ToolEntry| entry.0.as_str() == name;
        tools.allow.as_ref().is_none_or(|list| list.iter().any(is)) && !tools.deny.iter().any(is)
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
        self.settings.rules.iter().any(|rule| !rule.value.paths.is_empty())
    }

    /// Whether the rules keep a path from what a tool that looks at many shows: they deny it, or
    /// would have somebody asked, who can not be asked for each. `named` is what the call names:
    /// about that it was asked. Of the facts, only where workspace and home are matters.
    #[must_use]
    pub fn withholds(&self, tool: &ToolSpec, named: &[u8], path: &[u8], facts: &Facts) -> bool {
        rules::withhold(&self.settings.rules, tool, named, path, facts)
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

    /// How much a command may change in its transaction, where that is kept in memory.
    #[must_use]
    pub const fn transaction_bytes(&self) -> u64 {
        self.settings.limits.transaction.bytes()
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
        Some(self.settings.limits.job_ms).filter(|ms| *ms != ENDLESS).map(NonZeroU64::get)
    }

    /// How many calls of one session run side by side, of those that may.
    #[must_use]
    pub const fn parallel_calls(&self) -> u64 {
        self.settings.limits.parallel.get()
    }

    /// How long a session may outlive its connection, if its client wants that.
    #[must_use]
    pub const fn grace_ms(&self) -> u64 {
        self.settings.limits.grace_ms
    }

    /// Variables that the broker hands on from its own environment, where they are set: look each
    /// up and give it to [`Profile::environment`] with the caller's own.
    pub fn passed_variables(&self) -> impl Iterator<Item = &str> {
        self.settings.env.pass.iter().map(|entry| entry.0.as_str())
    }
}

/// In the host's network there are fewer.
fn calls(settings: &Settings) -> Result<SyscallList, SyscallError> {
    let list = SyscallList::builtin()?;
    Ok(match settings.net.mode.value {
        NetMode::None | NetMode::Loopback => list.clone(),
        NetMode::Ports => list.on_ports(),
    })
}

/// Whether a list names a tool, by its name or an alias.
fn names(list: &[ToolEntry], tool: &ToolSpec) -> bool {
    list.iter().any(|entry| tool.name == entry.0 || tool.aliases.contains(&entry.0))
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
