//! A parsed and checked profile, which the broker queries. Pure: no I/O.

use crate::{
    Checker, Example, Facts, Handlers, JobRoute, Owner, ProfileError, Source,
    access::{PathAccess, WorkspaceAccess},
    entries::ToolEntry,
    limits::ENDLESS,
    net::NetMode,
    resolve::{
        VERSION,
        files::{held, is_guarded},
    },
    rules,
    settings::Settings,
    stack,
    syscalls::{SyscallError, SyscallList},
    transactions::Unreviewed,
};
use palisade_plan::{Layer, SyscallRule};
use palisade_protocol::{Ask, Guard, ToolName, ToolSpec};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::num::NonZeroU64;

/// A sandbox profile: everything that a session may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    name: String,
    pub(crate) file: String,
    pub(crate) owner: Owner,
    digest: String,
    pub(crate) settings: Settings,
    pub(crate) syscalls: Vec<SyscallRule>,
    /// The profile as written, if it is only observed; `settings` are then those of the enforced
    /// profile.
    observed: Option<Box<ObservedProfile>>,
}

/// A profile that is observed but not enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ObservedProfile {
    under: String,
    meant: Profile,
}

/// The user who opens a session, as reported by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User<'a> {
    /// The user's id.
    pub uid: u32,
    /// The user's group id.
    pub gid: u32,
    /// The systemd unit that the process belongs to; `None` if it is not known.
    pub unit: Option<&'a str>,
}

impl Profile {
    /// Makes a profile from its settings, and computes its system calls and its digest.
    pub(crate) fn new(source: &Source<'_>, settings: Settings) -> Result<Self, ProfileError> {
        let syscalls = calls(&settings)?.rules();
        let digest = digest(source.name, &settings, &syscalls)
            .map_err(|why| ProfileError::Digest(source.name.to_owned(), why))?;
        let (name, file) = (source.name.to_owned(), source.file.to_owned());
        let (owner, observed) = (source.owner, None);
        Ok(Self { name, file, owner, digest, settings, syscalls, observed })
    }

    /// Returns this profile with other settings, and the digest of those.
    pub(crate) fn with_settings(&self, settings: Settings) -> Result<Self, ProfileError> {
        let syscalls = calls(&settings)?.rules();
        let digest = digest(&self.name, &settings, &syscalls)
            .map_err(|why| ProfileError::Digest(self.name.clone(), why))?;
        Ok(Self { digest, settings, syscalls, ..self.clone() })
    }

    /// Returns this profile with calls that may take as long as its jobs, up to the longest timeout that
    /// there is. The digest changes with the limit.
    pub(crate) fn with_long_calls(&self) -> Result<Self, ProfileError> {
        let mut settings = self.settings.clone();
        settings.limits.lengthen_calls();
        self.with_settings(settings)
    }

    /// Returns the profile's system calls, each with its reason.
    ///
    /// # Errors
    /// If the built-in list is invalid; a test of this crate shows that it is valid.
    pub fn syscalls(&self) -> Result<SyscallList, SyscallError> {
        calls(&self.settings)
    }

    /// Returns this profile as observed under another one. What the other allows is allowed, except
    /// for what this one denies by name.
    pub(crate) fn observed(self, under: &Self) -> Result<Self, ProfileError> {
        let settings = stack::observed(&under.settings, &self.settings);
        // The enforced profile may have writable directories that need a laxer guard than this one
        // has.
        held(settings.modes.guard, &settings.fs)?;
        // And it may have tools that run programs, which this one has not.
        rules::check_bound(&settings)?;
        let whole = format!("{} under {} {}", self.name, under.digest, self.digest);
        let syscalls = calls(&settings)?.rules();
        let digest = digest(&whole, &settings, &syscalls)
            .map_err(|why| ProfileError::Digest(self.name.clone(), why))?;
        let observed = ObservedProfile { under: under.name.clone(), meant: self.clone() };
        Ok(Self { digest, settings, syscalls, observed: Some(Box::new(observed)), ..self })
    }

    /// Returns the name of the enforced profile, if this one is only observed.
    #[must_use]
    pub fn observed_under(&self) -> Option<&str> {
        self.observed.as_ref().map(|observed| observed.under.as_str())
    }

    /// Returns the profile as written, also if it is only observed.
    #[must_use]
    pub fn as_written(&self) -> &Self {
        self.observed.as_ref().map_or(self, |observed| &observed.meant)
    }

    /// Returns the file that the profile was read from.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the names of the profiles that this one extends.
    #[must_use]
    pub fn extends(&self) -> &[String] {
        &self.settings.extends
    }

    /// Returns the profile's own tests, which passed when it was loaded.
    #[must_use]
    pub fn tests(&self) -> &[Example] {
        &self.settings.tests
    }

    /// Returns `true` if a user may use the profile. Every `[who]` section has to name the user,
    /// group or unit.
    #[must_use]
    pub fn admits(&self, user: User<'_>) -> bool {
        let lets_in = |who: &crate::who::Who| {
            let unit = who.unit.iter().any(|unit| Some(unit.0.as_str()) == user.unit);
            who.uid.contains(&user.uid) || who.gid.contains(&user.gid) || unit
        };
        self.settings.who.iter().all(lets_in)
    }

    /// Returns the same confinement without the rest of the policy: no approval, no rules, no
    /// review, and every tool allowed. It is only for the daemon's own proof of confinement, never
    /// for calls.
    #[must_use]
    pub fn for_proof(&self) -> Self {
        let mut profile = self.clone();
        let settings = &mut profile.settings;
        settings.modes.ask = Ask::Never;
        settings.rules.clear();
        settings.tools.allow = None;
        settings.tools.deny.clear();
        settings.tools.reverse_thinking.clear();
        settings.handlers.waiting.review_output.clear();
        profile
    }

    /// Returns the whole profile as a profile file, with defaults and inherited values. A profile
    /// that is loaded from it has the same digest.
    ///
    /// # Errors
    /// If the profile can not be serialized; every loaded profile can.
    pub fn canonical(&self) -> Result<String, ProfileError> {
        #[derive(Serialize)]
        struct ProfileFile<'a> {
            version: i64,
            #[serde(skip_serializing_if = "Option::is_none")]
            observe: Option<&'a str>,
            #[serde(flatten)]
            settings: &'a Settings,
            tests: Vec<String>,
        }
        let tests = self.tests().iter().map(ToString::to_string).collect();
        let settings = &self.as_written().settings.effective();
        let file =
            ProfileFile { version: VERSION, observe: self.observed_under(), settings, tests };
        toml::to_string_pretty(&file)
            .map_err(|error| ProfileError::Digest(self.name.clone(), error.to_string()))
    }

    /// Returns the profile's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the SHA-256, in hexadecimal, of everything the profile says, with defaults and
    /// system calls. Comments and order do not matter.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the profile's description.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.settings.description
    }

    /// Returns the ask mode: which calls need approval.
    #[must_use]
    pub const fn ask(&self) -> Ask {
        self.settings.modes.ask
    }

    /// Returns the guard: how commands of `bash` are checked.
    #[must_use]
    pub const fn guard(&self) -> Guard {
        self.settings.modes.guard
    }

    /// Returns the route of a job: the one that its call requests, or else the profile's default.
    ///
    /// # Errors
    /// The route, if the profile does not allow it.
    pub fn job_route(&self, asked: Option<JobRoute>) -> Result<JobRoute, JobRoute> {
        let jobs = &self.settings.jobs;
        let route = asked.unwrap_or(jobs.default);
        if jobs.routes.contains(&route) { Ok(route) } else { Err(route) }
    }

    /// Returns the routes that jobs may take.
    #[must_use]
    pub fn job_routes(&self) -> &[JobRoute] {
        &self.settings.jobs.routes
    }

    /// Returns `true` if a session can change its workspace.
    #[must_use]
    pub fn writes_workspace(&self) -> bool {
        self.settings.fs.workspace.value == WorkspaceAccess::Write
    }

    /// Returns `true` if a session can change directories of the host outside every transaction. A
    /// directory inside the workspace counts: it is a mount of its own, which no transaction covers
    /// either.
    #[must_use]
    pub fn writes_beyond(&self) -> bool {
        self.settings.fs.entries.iter().any(|entry| entry.reach == PathAccess::Write)
    }

    /// Returns the first directory of `fs.write`, which is allowed only for a session without a
    /// guard.
    pub(crate) fn unheld_directory(&self) -> Option<String> {
        let mut entries = self.settings.fs.entries.iter();
        entries.find(|entry| is_guarded(entry)).map(|entry| entry.path.shown())
    }

    /// Returns `true` if a session reaches any network except its private loopback.
    #[must_use]
    pub fn reaches_network(&self) -> bool {
        match self.settings.net.mode.value {
            NetMode::None | NetMode::Loopback => false,
            NetMode::Domains | NetMode::Ports => true,
        }
    }

    /// Returns `true` if its sessions are in the network of the host, with their abstract sockets.
    #[must_use]
    pub fn is_in_hosts_network(&self) -> bool {
        match self.settings.net.mode.value {
            NetMode::None | NetMode::Loopback | NetMode::Domains => false,
            NetMode::Ports => true,
        }
    }

    /// Returns `true` if the profile hides names in the workspace.
    #[must_use]
    pub const fn hides(&self) -> bool {
        !self.settings.fs.hide.is_empty()
    }

    /// Returns `true` if the profile hides or protects names in the workspace.
    #[must_use]
    pub const fn restricts_names(&self) -> bool {
        self.hides() || !self.settings.fs.protect.is_empty()
    }

    /// Returns those of the layers `hide` and `protect` that the profile uses.
    pub fn name_layers(&self) -> impl Iterator<Item = Layer> {
        let files = &self.settings.fs;
        let hide = (!files.hide.is_empty()).then_some(Layer::Hide);
        hide.into_iter().chain((!files.protect.is_empty()).then_some(Layer::Protect))
    }

    /// Returns `true` if the layers `hide` and `protect` are optional, as far as the profile uses
    /// them.
    #[must_use]
    pub fn name_layers_are_optional(&self) -> bool {
        let optional = |layer| self.settings.layers.optional.iter().any(|entry| entry.0 == layer);
        self.name_layers().all(optional)
    }

    /// Returns `true` if losses that nobody reviews are denied when undo could not restore them.
    #[must_use]
    pub fn denies_unreviewed(&self) -> bool {
        self.settings.transactions.unreviewed == Unreviewed::Undoable
    }

    /// Returns the patterns of directories of noise, at any depth of the workspace.
    #[must_use]
    pub fn noise_directories(&self) -> Vec<String> {
        self.settings.transactions.noise_directories()
    }

    /// Returns `true` if a tool that deletes may run.
    #[must_use]
    pub const fn allow_delete(&self) -> bool {
        self.settings.fs.allow_delete
    }

    /// Returns `true` if a tool of this name may run, for callers that do not have the tool's
    /// specification.
    #[must_use]
    pub fn allows_name(&self, name: &str) -> bool {
        let tools = &self.settings.tools;
        let is = |entry: &ToolEntry| entry.0.as_str() == name;
        tools.allow.as_ref().is_none_or(|list| list.iter().any(is)) && !tools.deny.iter().any(is)
    }

    /// Returns `true` if a tool may run, under its name or any alias.
    #[must_use]
    pub fn allows_tool(&self, tool: &ToolSpec) -> bool {
        let tools = &self.settings.tools;
        let is = |name: &ToolName| tool.name == *name || tool.aliases.contains(name);
        let listed = tools.allow.as_ref().is_none_or(|list| list.iter().any(|entry| is(&entry.0)));
        listed && !tools.deny.iter().any(|entry| is(&entry.0))
    }

    /// Returns the settings for approvers.
    #[must_use]
    pub const fn handlers(&self) -> &Handlers {
        &self.settings.handlers
    }

    /// Returns `true` if the profile has any rule.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !self.settings.rules.is_empty()
    }

    /// Returns `true` if any rule of the profile names paths.
    #[must_use]
    pub fn has_path_rules(&self) -> bool {
        self.settings.rules.iter().any(|rule| !rule.value.paths.is_empty())
    }

    /// Returns `true` if a rule keeps a path out of the result of a tool that looks at many paths.
    /// A rule does so if it denies it, or if it would need an approval, which can not be
    /// requested for each path. `named` is the path that the call names, which was judged already.
    /// Of `facts`, only workspace and home are used.
    #[must_use]
    pub fn withholds(&self, tool: &ToolSpec, named: &[u8], path: &[u8], facts: &Facts) -> bool {
        rules::withhold(&self.settings.rules, tool, named, path, facts)
    }

    /// Returns `true` if an approver reviews a tool's output before the agent sees it.
    #[must_use]
    pub fn reviews_output(&self, tool: &ToolSpec) -> bool {
        names(&self.settings.handlers.waiting.review_output, tool)
    }

    /// Returns `true` if each call of a tool must include its reverse thinking.
    #[must_use]
    pub fn wants_reverse_thinking(&self, tool: &ToolSpec) -> bool {
        tool.metadata.requires_reverse_thinking
            || names(&self.settings.tools.reverse_thinking, tool)
    }

    /// Returns `true` if the metadata that a provided tool declares for itself is trusted.
    #[must_use]
    pub fn trusts_provided(&self, tool: &ToolSpec) -> bool {
        // The tool's own name only: the provider chooses its aliases, so they are no reason to
        // trust it.
        self.settings.tools.trust_provided.iter().any(|entry| entry.0 == tool.name)
    }

    /// Returns the checkers that `diagnostics` runs.
    #[must_use]
    pub fn checkers(&self) -> &[Checker] {
        &self.settings.diagnostics
    }

    /// Returns the timeout of a call that does not set one.
    #[must_use]
    pub const fn timeout_ms(&self) -> u64 {
        self.settings.limits.timeout_ms.get()
    }

    /// Returns the longest timeout that a call may request.
    #[must_use]
    pub const fn max_timeout_ms(&self) -> u64 {
        self.settings.limits.max_timeout_ms.get()
    }

    /// Returns the number of output bytes that a result carries.
    #[must_use]
    pub const fn output_bytes(&self) -> u64 {
        self.settings.limits.output.bytes()
    }

    /// Returns the largest size of a file that the file tools read or write.
    #[must_use]
    pub const fn file_bytes(&self) -> u64 {
        self.settings.limits.file.bytes()
    }

    /// Returns the largest size of all files together that a program may leave in its transaction:
    /// what the transaction holds, and the holes of one file of the largest size.
    #[must_use]
    pub const fn program_files_bytes(&self) -> u64 {
        let limits = &self.settings.limits;
        limits.transaction.bytes().saturating_add(limits.file_size.bytes())
    }

    /// Returns how many bytes of a call's output are stored for later reading.
    #[must_use]
    pub const fn spool_bytes(&self) -> u64 {
        self.settings.limits.spool.bytes()
    }

    /// Returns how many bytes of undo data a session may keep.
    #[must_use]
    pub const fn undo_bytes(&self) -> u64 {
        self.settings.limits.undo.bytes()
    }

    /// Returns how much a command may change in its transaction, if that is kept in memory.
    #[must_use]
    pub const fn transaction_bytes(&self) -> u64 {
        self.settings.limits.transaction.bytes()
    }

    /// Returns the time between the request to end a call and killing it.
    #[must_use]
    pub const fn kill_grace_ms(&self) -> u64 {
        self.settings.limits.kill_grace_ms.get()
    }

    /// Returns the number of concurrent sessions of one user.
    #[must_use]
    pub const fn max_sessions(&self) -> u64 {
        self.settings.limits.sessions.get()
    }

    /// Returns the number of concurrent jobs of one session.
    #[must_use]
    pub const fn max_jobs(&self) -> u64 {
        self.settings.limits.jobs.get()
    }

    /// Returns the longest time that any job may run; `None` if there is no limit.
    #[must_use]
    pub fn max_job_ms(&self) -> Option<u64> {
        Some(self.settings.limits.job_ms).filter(|ms| *ms != ENDLESS).map(NonZeroU64::get)
    }

    /// Returns how many of a session's calls that may run concurrently do so.
    #[must_use]
    pub const fn parallel_calls(&self) -> u64 {
        self.settings.limits.parallel.get()
    }

    /// Returns how long a session may outlive its connection, if its client requests that.
    #[must_use]
    pub const fn grace_ms(&self) -> u64 {
        self.settings.limits.grace_ms
    }

    /// Returns the variables that the broker passes on from its own environment, if they are set.
    /// Look up each one and give it to [`Profile::environment`] with the caller's own.
    pub fn passed_variables(&self) -> impl Iterator<Item = &str> {
        self.settings.env.pass.iter().map(|entry| entry.0.as_str())
    }
}

/// Returns the allowed system calls; in the host's network there are fewer.
fn calls(settings: &Settings) -> Result<SyscallList, SyscallError> {
    let list = SyscallList::builtin()?;
    Ok(match settings.net.mode.value {
        NetMode::None | NetMode::Loopback | NetMode::Domains => list.clone(),
        NetMode::Ports => list.on_ports(),
    })
}

/// Returns `true` if a list contains a tool, under its name or an alias.
fn names(list: &[ToolEntry], tool: &ToolSpec) -> bool {
    list.iter().any(|entry| tool.name == entry.0 || tool.aliases.contains(&entry.0))
}

fn digest(name: &str, settings: &Settings, rules: &[SyscallRule]) -> Result<String, String> {
    let canonical = toml::to_string(&settings.effective()).map_err(|e| e.to_string())?;
    let rules = palisade_plan::codec::encode(&rules.to_vec()).map_err(|e| e.to_string())?;
    let mut hash = Sha256::new();
    for part in [name.as_bytes(), canonical.as_bytes(), &rules] {
        // The lengths separate the parts: two profiles can not have the same bytes by moving a
        // boundary.
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(part);
    }
    Ok(palisade_text::hex(&hash.finalize()))
}

#[cfg(test)]
mod tests;
