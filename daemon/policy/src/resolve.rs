//! Combines a profile file with the profiles that it extends. A file may always narrow them, and
//! widen them only if it says so and its owner may. A setting without effect is an error. Pure: no
//! I/O.

pub(crate) mod files;
mod laxer;
mod names;
mod network;
mod parts;
mod services;

use crate::{
    ProfileError,
    access::{Widening, WorkspaceAccess},
    document::Document,
    entries::LayerEntry,
    example::Example,
    handlers::Handlers,
    jobs::Jobs,
    limits::Limits,
    net::{Net, NetMode},
    settings::{EnvironmentSettings, FileSettings, LayerSettings, Settings, ToolSettings},
    source::WithOrigin,
    stack,
    transactions::Transactions,
    written::ProfileText,
};
use laxer::laxer;
use palisade_plan::Layer;
use palisade_protocol::{
    Ask, Guard,
    limits::{MAX_GRACE_MS, MAX_TIMEOUT_MS},
};

/// The version of the profile language that this build reads.
const VERSION: i64 = 1;

/// The largest value of `limits.jobs`.
const MAX_JOBS: u64 = 256;

/// The largest value of `limits.connections`. Each takes two of the egress room's descriptors.
const MAX_CONNECTIONS: u64 = 4096;

/// Returns the settings that a file results in, together with its parents.
pub(crate) fn resolve(
    document: &Document<'_>,
    mut written: ProfileText,
    parents: &[&Settings],
) -> Result<Settings, ProfileError> {
    head(document, &written)?;
    let widening = widening(document, &written)?;
    let base = match parents.split_first() {
        Some((first, rest)) => {
            rest.iter().fold((*first).clone(), |base, parent| stack::both(&base, parent))
        }
        None => bare(document, &written)?,
    };
    let ask = match written.ask {
        Some(ask) if ask < base.ask && widening == Widening::No => {
            return Err(laxer(
                document,
                "ask",
                "asks for approval less often than the extended profile",
            ));
        }
        Some(ask) => ask,
        None => base.ask,
    };
    let guard = match written.guard {
        Some(guard) if guard < base.guard && widening == Widening::No => {
            return Err(laxer(document, "guard", "guards less than the extended profile"));
        }
        Some(guard) => guard,
        None => base.guard,
    };
    let transactions = base
        .transactions
        .with(std::mem::take(&mut written.transactions), widening)
        .map_err(|(key, why)| laxer(document, key, &why))?;
    let jobs = base
        .jobs
        .with(std::mem::take(&mut written.jobs), widening)
        .map_err(|(key, why)| laxer(document, key, &why))?;
    if !jobs.routes.contains(&jobs.default) {
        let why = format!("is {:?}, which is not in jobs.routes", jobs.default.name());
        return Err(document.wrong("jobs.default", &why, "name one that is"));
    }
    let extends = written.parents().to_vec();
    let fs = files::files(document, &written.fs, &base.fs, widening)?;
    files::held(guard, &fs)?;
    let limits = limits(document, &written, &base.limits, widening)?;
    let tools = parts::tools(document, &written.tools, &base.tools, widening)?;
    let net = network::network(document, &written.net, &base.net, widening)?;
    let layers = parts::layers(document, &written.layers, &base.layers, widening)?;
    let needed = |entry: &LayerEntry| entry.0 == Layer::Network;
    if net.mode.value == NetMode::Ports && layers.required.iter().any(needed) {
        let why = "is \"ports\", which uses no network namespace, but layers.required has network";
        return Err(document.wrong("net.mode", why, "leave one of the two out"));
    }
    let mut settings = Settings {
        description: written.description.clone().unwrap_or_default(),
        extends,
        widening,
        ask,
        guard,
        fs,
        net,
        env: parts::environment(document, &written.env, &base.env, widening)?,
        limits,
        layers,
        tools,
        handlers: parts::handlers(document, &written, &base.handlers, widening)?,
        transactions,
        jobs,
        rules: base.rules,
        diagnostics: parts::diagnostics(document, written.diagnostics.as_ref(), base.diagnostics)?,
        who: base.who,
        tests: Vec::new(),
    };
    parts::rules(document, &written.rules, &mut settings)?;
    if let Some(who) = written.who {
        if who.uid.is_empty() && who.gid.is_empty() && who.unit.is_empty() {
            return Err(document.wrong(
                "who",
                "is empty, so nobody could use the profile",
                "name a uid, a gid or a unit, or leave it out",
            ));
        }
        settings.who.push(who);
    }
    for test in &written.tests {
        let at = document.origin(test.span().start);
        let example = Example::parse(test.get_ref(), at).map_err(|(why, suggestion)| {
            document.wrong_at(test.span().start, "tests", why, suggestion)
        })?;
        settings.tests.push(example);
    }
    Ok(settings)
}

fn head(document: &Document<'_>, written: &ProfileText) -> Result<(), ProfileError> {
    match &written.version {
        None => {
            let line = format!("write `version = {VERSION}` as the first line");
            return Err(document.wrong("version", "is missing", line));
        }
        Some(version) if *version.get_ref() != VERSION => {
            let why = format!("{} is not a version that this build reads", version.get_ref());
            return Err(document.wrong("version", why, format!("it reads {VERSION}")));
        }
        Some(_) => {}
    }
    let says = written.description.as_ref().map(|text| !text.trim().is_empty());
    let sentence = "give a sentence on what the profile is for";
    match says {
        Some(true) => Ok(()),
        Some(false) => Err(document.wrong("description", "is empty", sentence)),
        None => Err(document.wrong("description", "is missing", sentence)),
    }
}

fn widening(document: &Document<'_>, written: &ProfileText) -> Result<Widening, ProfileError> {
    let extends = written.extends.as_ref().map(|_| written.parents().len());
    let widens = written.widen.as_ref().is_some_and(|widen| *widen.get_ref());
    match (extends, widens) {
        (Some(0), _) => {
            Err(document.wrong("extends", "is empty", "name a profile, or leave it out"))
        }
        (None, true) => Err(document.wrong(
            "widen",
            "is true, but there is nothing to widen",
            "name a profile in `extends`, or leave it out",
        )),
        // A profile that extends none defines everything itself.
        (None, false) => Ok(Widening::Yes),
        (Some(_), true) if !document.source().owner.may_widen() => Err(document.wrong(
            "widen",
            "needs a file that only root can write, and this file is not",
            "`chown root` and `chmod go-w` the file and its directory, or only narrow",
        )),
        (Some(_), true) => Ok(Widening::Yes),
        (Some(_), false) => Ok(Widening::No),
    }
}

/// Returns the start settings of a profile that extends none: the defaults only.
fn bare(document: &Document<'_>, written: &ProfileText) -> Result<Settings, ProfileError> {
    let instead = "set it, or extend a profile that does";
    let missing = |key| document.wrong(key, "is missing", instead);
    let Some(workspace) = &written.fs.workspace else { return Err(missing("fs.workspace")) };
    if written.fs.execute.is_none() {
        return Err(missing("fs.execute"));
    }
    let at = Some(document.origin(workspace.span().start));
    let value: WorkspaceAccess = *workspace.get_ref();
    Ok(Settings {
        description: String::new(),
        extends: Vec::new(),
        widening: Widening::Yes,
        ask: Ask::Destructive,
        guard: Guard::Auto,
        fs: FileSettings {
            workspace: WithOrigin { value, at },
            allow_delete: false,
            entries: Vec::new(),
            hide: Vec::new(),
            protect: Vec::new(),
        },
        net: Net::default(),
        env: EnvironmentSettings::default(),
        limits: Limits::default(),
        layers: LayerSettings::default(),
        tools: ToolSettings::default(),
        handlers: Handlers::default(),
        transactions: Transactions::default(),
        jobs: Jobs::default(),
        rules: Vec::new(),
        diagnostics: Vec::new(),
        who: Vec::new(),
        tests: Vec::new(),
    })
}

fn limits(
    document: &Document<'_>,
    written: &ProfileText,
    base: &Limits,
    widening: Widening,
) -> Result<Limits, ProfileError> {
    let text = &written.limits;
    let mut limits = base.with(text, widening).map_err(|(key, most)| {
        laxer(document, key, &format!("exceeds the {most} of the extended profile"))
    })?;
    if limits.max_timeout_ms.get() > MAX_TIMEOUT_MS {
        let why = format!("exceeds the limit of {MAX_TIMEOUT_MS}");
        return Err(document.wrong("limits.max_timeout_ms", why, "lower it"));
    }
    if limits.jobs.get() > MAX_JOBS {
        let why = format!("{} exceeds the limit of {MAX_JOBS}", limits.jobs);
        return Err(document.wrong("limits.jobs", why, "lower it"));
    }
    if limits.connections.get() > MAX_CONNECTIONS {
        let why = format!("{} exceeds the limit of {MAX_CONNECTIONS}", limits.connections);
        return Err(document.wrong("limits.connections", why, "lower it"));
    }
    if limits.grace_ms > MAX_GRACE_MS {
        let why = format!("exceeds the limit of {MAX_GRACE_MS}");
        return Err(document.wrong("limits.grace_ms", why, "lower it"));
    }
    if limits.timeout_ms > limits.max_timeout_ms {
        if text.timeout_ms.is_some() {
            let most = limits.max_timeout_ms;
            let why = format!("{} exceeds max_timeout_ms = {most}", limits.timeout_ms);
            return Err(document.wrong("limits.timeout_ms", why, "raise one or lower the other"));
        }
        limits.timeout_ms = limits.max_timeout_ms;
    }
    Ok(limits)
}
