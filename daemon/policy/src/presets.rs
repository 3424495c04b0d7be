//! Presets: the hosts that common tools fetch packages from, as the host's own settings of these tools
//! name them, or the tools' defaults. Written as a profile that people can read and change. Pure: no
//! I/O.

use crate::net::entry::HostEntry;
use palisade_text::on_one_line;
use std::{collections::BTreeMap, fmt::Write as _, net::IpAddr};

/// A preset: the hosts of one kind of tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// The name, as it is given on the command line.
    pub name: &'static str,
    /// The settings files of the tool. `~` is the home; a directory ends in `/`.
    pub files: &'static [&'static str],
    /// The variables with settings of the tool.
    pub variables: &'static [&'static str],
    format: SettingsFormat,
    /// The public hosts that the tool uses without settings.
    defaults: &'static [&'static str],
}

/// The format of a tool's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettingsFormat {
    Pip,
    Npm,
    Cargo,
    Go,
    Apt,
}

/// All presets. The public hosts of the tools are named here and nowhere else.
pub const PRESETS: [Preset; 5] = [
    Preset {
        name: "python",
        files: &["/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf"],
        variables: &["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"],
        format: SettingsFormat::Pip,
        defaults: &["pypi.org", "files.pythonhosted.org"],
    },
    Preset {
        name: "node",
        files: &["/etc/npmrc", "~/.npmrc"],
        variables: &["npm_config_registry", "NPM_CONFIG_REGISTRY"],
        format: SettingsFormat::Npm,
        defaults: &["registry.npmjs.org"],
    },
    Preset {
        name: "rust",
        files: &["~/.cargo/config", "~/.cargo/config.toml"],
        variables: &[],
        format: SettingsFormat::Cargo,
        defaults: &["index.crates.io", "static.crates.io"],
    },
    Preset {
        name: "go",
        files: &["~/.config/go/env"],
        variables: &["GOPROXY"],
        format: SettingsFormat::Go,
        defaults: &["proxy.golang.org", "sum.golang.org"],
    },
    Preset {
        name: "debian",
        files: &["/etc/apt/sources.list", "/etc/apt/sources.list.d/"],
        variables: &[],
        format: SettingsFormat::Apt,
        defaults: &["deb.debian.org", "security.debian.org"],
    },
];

/// The settings of a tool as they were found: where, and their text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresetSettings {
    /// The path of the file, or the name of the variable with a `$`.
    pub origin: String,
    /// The text of the file, or the value of the variable.
    pub text: String,
}

/// A host of a preset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PresetHost {
    /// The entry for `net.allow`; or, if it can not be one, the URL.
    pub entry: String,
    /// The origin: a file, a variable, or the tool's default.
    pub origin: String,
    /// The reason that the host can not be an entry of `net.allow`.
    pub refused: Option<String>,
}

/// URLs in a tool's settings, and whether they replace the tool's default hosts.
#[derive(Debug, Default)]
struct FoundUrls {
    urls: Vec<String>,
    replaces: bool,
}

impl Preset {
    /// Returns the hosts of the preset, by the settings that were found.
    #[must_use]
    pub fn hosts(&self, settings: &[PresetSettings]) -> Vec<PresetHost> {
        let mut hosts: BTreeMap<String, PresetHost> = BTreeMap::new();
        let mut replaced = false;
        for PresetSettings { origin, text } in settings {
            let found = match (self.format, origin.starts_with('$')) {
                (SettingsFormat::Go, _) => go(text),
                (_, true) => FoundUrls {
                    urls: words(text),
                    // A variable with more hosts than the default one.
                    replaces: !origin.contains("EXTRA"),
                },
                (SettingsFormat::Pip, false) => pip(text),
                (SettingsFormat::Npm, false) => npm(text),
                (SettingsFormat::Cargo, false) => cargo(text),
                (SettingsFormat::Apt, false) => apt(text),
            };
            replaced |= found.replaces && !found.urls.is_empty();
            for url in found.urls {
                let host = host_of(&url, origin);
                hosts.entry(host.entry.clone()).or_insert(host);
            }
        }
        if !replaced {
            for name in self.defaults {
                let entry = (*name).to_owned();
                let origin = "the tool's default".to_owned();
                let host = PresetHost { entry: entry.clone(), origin, refused: None };
                hosts.entry(entry).or_insert(host);
            }
        }
        hosts.into_values().collect()
    }
}

/// Returns a profile that extends another one by the hosts of presets, each with its origin.
#[must_use]
pub fn preset_profile(extends: &str, presets: &[(&str, Vec<PresetHost>)]) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let names = presets.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "# Written by `palisade profile preset`. Change it as you like.\n\n\
         version = 1\ndescription = {}\nextends = {}\n\
         # The profile that this one extends allows no host.\nwiden = true\n\n\
         [net]\nmode = \"domains\"\nallow = [\n",
        quoted(&format!("{extends}, and the package registries of {names}.")),
        quoted(extends),
    );
    let mut known: Vec<&str> = Vec::new();
    for (name, hosts) in presets {
        for host in hosts.iter().filter(|host| !known.contains(&host.entry.as_str())) {
            let origin = on_one_line(&host.origin, 200);
            let written = match &host.refused {
                None => writeln!(text, "    {}, # {name}: {origin}", quoted(&host.entry)),
                Some(why) => {
                    let entry = on_one_line(&host.entry, 200);
                    writeln!(text, "    # left out, {why}: {entry} # {name}: {origin}")
                }
            };
            // Writing to a string can not fail.
            written.unwrap_or_default();
        }
        known.extend(hosts.iter().map(|host| host.entry.as_str()));
    }
    text + "]\n"
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the entry of a URL's host. Names and passwords in the URL are left out.
fn host_of(url: &str, origin: &str) -> PresetHost {
    let origin = origin.to_owned();
    let (entry, refused) = match entry_of(url) {
        Ok(entry) => (entry, None),
        // The rest of the URL may have a password.
        Err(why) => (without_user(url), Some(why)),
    };
    PresetHost { entry, origin, refused }
}

fn without_user(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, rest)) => rest.to_owned(),
        None => url.to_owned(),
    }
}

fn entry_of(url: &str) -> Result<String, String> {
    let url = url.strip_prefix("sparse+").unwrap_or(url);
    let url = url.strip_prefix("registry+").unwrap_or(url);
    let (scheme, rest) = url.split_once("://").ok_or("it is not a URL")?;
    let usual = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return Err("only http and https are served by name".to_owned()),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let lower = authority.to_ascii_lowercase();
    let text = lower.strip_suffix(&format!(":{usual}")).unwrap_or(&lower);
    let host = text.split(':').next().unwrap_or_default();
    let is_own = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if is_own {
        return Err("it is this host; see net.host.ports".to_owned());
    }
    let entry = HostEntry::try_from(text.to_owned())?;
    match entry.too_wide() {
        Some(why) => Err(why),
        None => Ok(entry.to_string()),
    }
}

/// Reads `key = value` lines, with continued lines that begin with blanks.
fn assignments(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with(['#', ';', '[']) {
            continue;
        }
        match (line.starts_with([' ', '\t']), found.last_mut(), bare.split_once('=')) {
            (true, Some((_, value)), _) => {
                value.push(' ');
                value.push_str(bare);
            }
            (_, _, Some((key, value))) => {
                found.push((key.trim().to_owned(), value.trim().trim_matches('"').to_owned()));
            }
            (_, _, None) => {}
        }
    }
    found
}

fn pip(text: &str) -> FoundUrls {
    let mut found = FoundUrls::default();
    for (key, value) in assignments(text) {
        match key.replace('_', "-").as_str() {
            "index-url" => {
                found.urls.extend(words(&value));
                found.replaces = true;
            }
            "extra-index-url" => found.urls.extend(words(&value)),
            _ => {}
        }
    }
    found
}

fn npm(text: &str) -> FoundUrls {
    let mut found = FoundUrls::default();
    for (key, value) in assignments(text) {
        if key == "registry" {
            found.replaces = true;
        }
        if key == "registry" || key.starts_with('@') && key.ends_with(":registry") {
            found.urls.push(value);
        }
    }
    found
}

fn cargo(text: &str) -> FoundUrls {
    let Ok(table) = text.parse::<toml::Table>() else { return FoundUrls::default() };
    let of = |section: &str| -> Vec<(String, toml::Table)> {
        let section = table.get(section).and_then(toml::Value::as_table).cloned();
        let each = section.unwrap_or_default().into_iter();
        each.filter_map(|(name, value)| Some((name, value.as_table()?.clone()))).collect()
    };
    let url = |table: &toml::Table, key: &str| {
        table.get(key).and_then(toml::Value::as_str).map(str::to_owned)
    };
    let mut found = FoundUrls::default();
    for (name, source) in of("source") {
        found.urls.extend(url(&source, "registry"));
        found.replaces |= name == "crates-io" && source.contains_key("replace-with");
    }
    found.urls.extend(of("registries").iter().filter_map(|(_, one)| url(one, "index")));
    found
}

/// Reads `GOPROXY`, from a file of assignments or as the value itself.
fn go(text: &str) -> FoundUrls {
    let assigned = assignments(text).into_iter().find(|(key, _)| key == "GOPROXY");
    let list = match assigned {
        Some((_, list)) => list,
        None if text.contains('=') || text.lines().count() > 1 => return FoundUrls::default(),
        None => text.to_owned(),
    };
    let urls: Vec<String> = list
        .split([',', '|'])
        .map(str::trim)
        .filter(|one| !matches!(*one, "" | "direct" | "off"))
        .map(str::to_owned)
        .collect();
    FoundUrls { urls, replaces: true }
}

/// Reads both forms of apt's sources.
fn apt(text: &str) -> FoundUrls {
    let mut urls = Vec::new();
    for line in text.lines().map(str::trim) {
        let listed = match line.split_once(char::is_whitespace) {
            Some(("deb" | "deb-src", rest)) => rest,
            Some((key, rest)) if key.eq_ignore_ascii_case("URIs:") => rest,
            Some(_) | None => continue,
        };
        urls.extend(words(listed).into_iter().filter(|word| word.contains("://")));
    }
    FoundUrls { urls, replaces: true }
}

#[cfg(test)]
mod tests;
