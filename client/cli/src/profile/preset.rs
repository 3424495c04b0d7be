//! `palisade profile preset`: writes a profile with the hosts that common tools fetch packages from, as
//! this host's settings of the tools name them.

use crate::{failure::Failure, paint::harmless, print};
use clap::Args;
use palisade_policy::{PRESETS, Preset, PresetSettings, preset_profile};
use std::{
    env, fs,
    io::Read as _,
    path::{Path, PathBuf},
};

/// Most bytes of a settings file that are read.
const MOST_BYTES: u64 = 1 << 20;

/// Most files of a directory that are read.
const MOST_FILES: usize = 256;

/// Write a profile with the hosts that package managers fetch from
#[derive(Debug, Args)]
#[command(after_help = "\
The names come from this host's own settings of pip, npm, cargo, go and apt: files of the system,
of your home, and variables. Where there are none, they are the tool's public hosts. Each line of
the profile says where its name comes from. The profile extends another one; change it as you like.
It is not kept up to date: write it again when the settings have changed.

Without a name, the presets are listed, with their hosts on this machine.

Examples:
  palisade profile preset
  palisade profile preset python node -o ~/.config/palisade/profiles/web.toml
  palisade profile preset rust --from build -o builds.toml
  palisade run --profile web -- pip download a-package")]
pub(super) struct WritePreset {
    /// The profile to extend
    #[arg(long, value_name = "PROFILE", default_value = palisade_policy::DEFAULT)]
    from: String,
    /// The file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The presets: python, node, rust, go, debian
    #[arg(value_name = "PRESET")]
    names: Vec<String>,
}

impl WritePreset {
    pub(super) fn perform(self) -> Result<u8, Failure> {
        if self.names.is_empty() {
            return list().map(|()| 0);
        }
        let mut presets = Vec::new();
        for name in &self.names {
            let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) else {
                let known: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
                let hint = format!("the presets are {}", known.join(", "));
                return Err(Failure::new(format!("there is no preset {name:?}"), &hint));
            };
            presets.push((preset.name, preset.hosts(&settings(preset)?)));
        }
        let text = preset_profile(&self.from, &presets);
        match &self.output {
            None => print::bytes(text.as_bytes())?,
            Some(path) => {
                fs::write(path, text).map_err(|error| {
                    let told = format!("can not write {}: {error}", path.display());
                    Failure::new(told, "name a file in a directory that can be written to")
                })?;
                let shown = harmless(&path.display().to_string());
                print::note(&format!("written: {shown}; `palisade profile check {shown}`"));
            }
        }
        Ok(0)
    }
}

/// Lists the presets with their hosts.
fn list() -> Result<(), Failure> {
    let mut text = String::new();
    for preset in &PRESETS {
        for host in preset.hosts(&settings(preset)?) {
            let why = host.refused.map(|why| format!(" (left out: {why})")).unwrap_or_default();
            let (entry, origin) = (harmless(&host.entry), harmless(&host.origin));
            text += &format!("{:8} {entry}, {origin}{}\n", preset.name, harmless(&why));
        }
    }
    print::bytes(text.as_bytes())
}

/// Reads the settings of a preset's tool on this host.
fn settings(preset: &Preset) -> Result<Vec<PresetSettings>, Failure> {
    let mut found = Vec::new();
    for file in preset.files {
        let path = match file.strip_prefix("~/") {
            None => PathBuf::from(file),
            Some(rest) => match env::var_os("HOME") {
                Some(home) => Path::new(&home).join(rest),
                None => continue,
            },
        };
        let paths = if file.ends_with('/') { sources_in(&path)? } else { vec![path] };
        for path in paths {
            if let Some(text) = read(&path)? {
                found.push(PresetSettings { origin: path.display().to_string(), text });
            }
        }
    }
    for name in preset.variables {
        if let Ok(text) = env::var(name) {
            found.push(PresetSettings { origin: format!("${name}"), text });
        }
    }
    Ok(found)
}

/// Returns apt's files in a directory, in order.
fn sources_in(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unread(directory, &error.to_string())),
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let is_source =
        |path: &PathBuf| path.extension().is_some_and(|kind| kind == "list" || kind == "sources");
    let mut paths: Vec<_> = paths.filter(is_source).collect();
    if paths.len() > MOST_FILES {
        return Err(unread(directory, &format!("it has more than {MOST_FILES} files")));
    }
    paths.sort();
    Ok(paths)
}

/// Reads a settings file; `None` if there is none.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unread(path, &error.to_string())),
    };
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unread(path, &error.to_string()))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(unread(path, &format!("it has more than {MOST_BYTES} bytes")));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| unread(path, "it is not text"))
}

fn unread(path: &Path, why: &str) -> Failure {
    let told = format!("can not read {}: {why}", path.display());
    Failure::new(told, "make it readable, or write the hosts into a profile by hand")
}
