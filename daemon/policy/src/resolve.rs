//! Combines a profile file with the profiles that it extends. A file may always narrow them, and
//! widen them only if it says so and its owner may. A setting without effect is an error. Pure: no
//! I/O.

pub(crate) mod files;
pub(crate) mod laxer;
mod names;
mod network;
mod parts;
mod services;

use crate::{
    ProfileError,
    access::{Widening, WorkspaceAccess},
    document::Document,
    entries::LayerEntry,
    environment::settings::EnvironmentSettings,
    example::Example,
    handlers::Handlers,
    jobs::Jobs,
    keys::Section as _,
    layers::LayerSettings,
    limits::Limits,
    modes::ModeSettings,
    net::{Net, NetMode},
    rules::check_bound,
    settings::{FileSettings, Settings},
    source::WithOrigin,
    stack,
    tools::ToolSettings,
    transactions::Transactions,
    written::ProfileText,
};
use palisade_plan::Layer;

/// The version of the profile language that this build reads.
pub(crate) const VERSION: i64 = 1;

/// Returns the settings that a file results in, together with its parents.
pub(crate) fn resolve(
    document: &Document<'_>,
    written: ProfileText,
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
    let modes = base.modes.over(&written.modes(), document, widening)?;
    let extends = written.parents().to_vec();
    let fs = files::files(document, &written.fs, &base.fs, widening)?;
    files::held(modes.guard, &fs)?;
    let net = network::network(document, &written.net, &base.net, widening)?;
    let layers = base.layers.resolve(&written.layers, document, widening)?;
    let needed = |entry: &LayerEntry| entry.0 == Layer::Network;
    if net.mode.value == NetMode::Ports && layers.required.iter().any(needed) {
        let why = "is \"ports\", which uses no network namespace, but layers.required has network";
        return Err(document.wrong("net.mode", why, "leave one of the two out"));
    }
    let mut settings = Settings {
        description: written.description.clone().unwrap_or_default(),
        extends,
        widening,
        modes,
        fs,
        net,
        env: base.env.resolve(&written.env, document, widening)?,
        limits: base.limits.resolve(&written.limits, document, widening)?,
        layers,
        tools: base.tools.resolve(&written.tools, document, widening)?,
        handlers: base.handlers.resolve(
            (&written.handlers, &written.remember),
            document,
            widening,
        )?,
        transactions: base.transactions.over(&written.transactions, document, widening)?,
        jobs: base.jobs.resolve(&written.jobs, document, widening)?,
        rules: base.rules,
        diagnostics: parts::diagnostics(document, written.diagnostics.as_ref(), base.diagnostics)?,
        who: base.who,
        tests: Vec::new(),
    };
    parts::rules(document, &written.rules, &mut settings)?;
    check_bound(&settings)?;
    for who in written.who.into_iter().flat_map(|conditions| conditions.0) {
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
        modes: ModeSettings::default(),
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
