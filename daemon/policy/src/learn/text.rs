//! Writes the file of a learned profile. Each line has its reason.

use super::{
    general::{is_versioned, named},
    need::{Need, Needs, Run},
};
use crate::{
    Profile, Scene,
    access::PathAccess,
    net::{
        Net, NetMode,
        entry::{HostEntry, Hosts, WEB_PORTS},
    },
};
use palisade_egress_protocol::host::{Host, Target};
use std::{collections::BTreeMap, fmt::Write as _, path::Path};

/// The factor between the measured memory or processes and the limit.
const HEADROOM: u64 = 4;

/// The smallest memory limit. A lower one is not sensible: another machine needs more.
const LEAST_MEMORY: u64 = 256 << 20;
const LEAST_PROCESSES: u64 = 256;
const LEAST_TIME_MS: u64 = 30_000;

/// The program that does the least.
const LEAST_PROGRAM: &str = "/usr/bin/true";

/// The number of programs that get a test.
const MOST_TESTS: usize = 8;

/// The number of names that a reason lists.
const MOST_NAMES: usize = 3;

/// Returns the text of the file.
pub(super) fn write(wide: &Profile, scene: &Scene, run: &Run, needs: &Needs) -> String {
    let command = line(&run.command);
    let mut text = format!("# Learned by `palisade profile learn` from a run of: {command}\n");
    text += "# It narrows the profile that it extends to what that run used.";
    if run.lost > 0 {
        let lost = run.lost;
        write_all(
            &mut text,
            format_args!("\n# {lost} accesses were not recorded: some may be missing."),
        );
    }
    text += "\n\nversion = 1\n";
    let description = quoted(&format!("What {command} needs, learned from a run of it."));
    let extends = quoted(wide.name());
    write_all(&mut text, format_args!("description = {description}\nextends = {extends}\n\n"));
    tests(&mut text, wide, scene, needs);
    files(&mut text, scene, needs);
    network(&mut text, wide, run, needs);
    limits(&mut text, wide, run);
    text += "\n[tools]\n# The run was a command.\nallow = [\"bash\"]\n";
    refused(&mut text, needs);
    text
}

/// Appends formatted text. Writing to a string can not fail.
fn write_all(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    match text.write_fmt(arguments) {
        Ok(()) | Err(_) => {}
    }
}

/// Returns a text as one line, without control characters.
fn line(text: &str) -> String {
    palisade_text::on_one_line(text, 200).trim().to_owned()
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn tests(text: &mut String, wide: &Profile, scene: &Scene, needs: &Needs) {
    text.push_str("tests = [\n");
    for program in needs.programs.iter().take(MOST_TESTS) {
        let test = quoted(&format!("exec {}: allow", named(scene, program)));
        write_all(text, format_args!("    {test},\n"));
    }
    let written = if needs.workspace_written { "allow" } else { "deny" };
    write_all(text, format_args!("    \"write $WORKSPACE/x: {written}\",\n"));
    let net = &wide.settings.net;
    // With hosts by name, an address may be asked about.
    let ports = [443, 80, 22, 9].into_iter().filter(|_| net.mode.value != NetMode::Domains);
    let port = ports.into_iter().find(|port| net.port(*port).is_none());
    if let Some(port) = port {
        write_all(text, format_args!("    \"connect 1.1.1.1:{port}: deny\",\n"));
    }
    text.push_str("]\n\n");
}

fn files(text: &mut String, scene: &Scene, needs: &Needs) {
    text.push_str("[fs]\n");
    let (access, why) = match (needs.workspace_written, needs.workspace_read) {
        (true, _) => ("write", "The run wrote to it."),
        (false, true) => ("read", "The run only read it."),
        (false, false) => ("read", "The run did not use it; a profile can not grant less."),
    };
    write_all(text, format_args!("# {why}\nworkspace = \"{access}\"\nallow_delete = false\n"));
    for (key, reach, what) in [
        ("execute", PathAccess::Execute, "# Programs, and what is run or loaded with them.\n"),
        ("read", PathAccess::Read, "# Only read.\n"),
        ("unguarded", PathAccess::Write, "# Written, outside transactions.\n"),
    ] {
        let of = needs.paths.iter().filter(|(_, need)| need.reach == Some(reach));
        let mut lines: Vec<_> =
            of.map(|(path, need)| (named(scene, path), why_path(path, need))).collect();
        if lines.is_empty() && reach == PathAccess::Execute {
            let why = "no program of the system was run, but a profile must name one";
            lines.push((LEAST_PROGRAM.to_owned(), why.to_owned()));
        }
        list(text, key, what, &lines);
    }
    let lines: Vec<_> = needs
        .etc
        .iter()
        .map(|(name, need)| (name.clone(), why_path(Path::new(name), need)))
        .collect();
    list(text, "etc", "# Read in /etc.\n", &lines);
}

fn network(text: &mut String, wide: &Profile, run: &Run, needs: &Needs) {
    let ports: Vec<_> = needs.ports.iter().map(u16::to_string).collect();
    let (why, mode) = match (ports.as_slice(), needs.loopback.as_slice()) {
        // If accesses were not recorded, some may have used the network; so the setting stays as it
        // was.
        ([], []) if run.lost > 0 => return,
        (_, _) if needs.egress || !needs.hosts.is_empty() => {
            return hosts(text, &wide.settings.net, run, needs);
        }
        ([], []) => ("The run made no connection and served none.".to_owned(), "none"),
        ([], [first, ..]) => (format!("For {}.", line(first)), "loopback"),
        (_, _) => ("Ports that the run connected to.".to_owned(), "ports"),
    };
    write_all(text, format_args!("\n[net]\n# {why}\nmode = \"{mode}\"\n"));
    if !ports.is_empty() {
        write_all(text, format_args!("ports = [{}]\n", ports.join(", ")));
    }
}

/// Writes the hosts that the run connected to. Without one, or if accesses were not recorded, those of
/// the extended profile stay.
fn hosts(text: &mut String, wide: &Net, run: &Run, needs: &Needs) {
    let mut used = BTreeMap::new();
    let mut is_whole = run.lost == 0;
    for target in &needs.hosts {
        match narrowest(wide, target) {
            Some(entry) => drop(used.insert(entry, format!("The run connected to {target}."))),
            // A rule, an approval or a service of this host allowed it.
            None => is_whole = false,
        }
    }
    if used.is_empty() || run.lost > 0 {
        return;
    }
    // An allowed name may have led to one of these.
    let addresses = wide.allow.iter().map(|said| &said.value);
    let addresses = addresses.filter(|entry| matches!(entry.hosts, Hosts::Addresses(_)));
    for entry in addresses.cloned() {
        used.entry(entry).or_insert_with(|| "Allowed names may lead there.".to_owned());
    }
    text.push_str("\n[net]\nmode = \"domains\"\n");
    let lines: Vec<_> = used.into_iter().map(|(entry, why)| (entry.to_string(), why)).collect();
    list(text, "allow", "# Hosts that the run connected to.\n", &lines);
    if wide.ask && is_whole {
        text.push_str("# The run needed no approval of a host.\nask = false\n");
    }
}

/// Returns the entry for a host that is within those of a profile: by its address range as it is
/// written, or by its name, with the port if only that is allowed.
fn narrowest(wide: &Net, target: &Target) -> Option<HostEntry> {
    let Host::Name(name) = &target.host else {
        let mut entries = wide.allow.iter().map(|said| &said.value);
        return entries.find(|entry| entry.allows(target)).cloned();
    };
    let hosts = Hosts::Name(name.clone());
    let web = HostEntry { hosts: hosts.clone(), port: None };
    if WEB_PORTS.contains(&target.port) && wide.covers(&web) {
        return Some(web);
    }
    let entry = HostEntry { hosts, port: Some(target.port) };
    wide.covers(&entry).then_some(entry)
}

fn list(text: &mut String, key: &str, what: &str, lines: &[(String, String)]) {
    if lines.is_empty() {
        return write_all(text, format_args!("{key} = []\n"));
    }
    text.push_str(what);
    write_all(text, format_args!("{key} = [\n"));
    for (entry, why) in lines {
        write_all(text, format_args!("    {}, # {}\n", quoted(entry), line(why)));
    }
    text.push_str("]\n");
}

/// Returns the reason for an entry.
fn why_path(path: &Path, need: &Need) -> String {
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    let inside: Vec<&str> =
        need.used.iter().map(String::as_str).filter(|name| *name != own).collect();
    let mut why = match (inside.as_slice(), need.lookup_only, need.reach) {
        ([], true, _) => "it was looked for".to_owned(),
        ([], false, _) if need.link => "a link on the path to other entries".to_owned(),
        ([], false, Some(PathAccess::Execute)) => "it was run".to_owned(),
        ([], false, Some(PathAccess::Write)) => "it was written".to_owned(),
        ([], false, Some(PathAccess::Read) | None) => "it was read".to_owned(),
        ([one], ..) => format!("for {one}"),
        (names, ..) => {
            let shown = names.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
            format!("{} names in it were used, such as {shown}", names.len())
        }
    };
    if is_versioned(path) {
        why += "; the next version has another name";
    }
    why
}

fn limits(text: &mut String, wide: &Profile, run: &Run) {
    let most = &wide.settings.limits;
    let mib = run.memory_bytes.saturating_mul(HEADROOM).max(LEAST_MEMORY).div_ceil(64 << 20) * 64;
    let memory = (mib << 20).min(most.memory.bytes());
    let processes =
        run.processes.saturating_mul(HEADROOM).max(LEAST_PROCESSES).min(most.processes.get());
    let time = run.elapsed_ms.saturating_mul(10).max(LEAST_TIME_MS).min(most.timeout_ms.get());
    let used = run.memory_bytes.div_ceil(1 << 20);
    write_all(
        text,
        format_args!(
            "\n[limits]\n\
             # The largest process used {used} MiB; {HEADROOM} times that, and at least 256 MiB.\n\
             memory = {memory}\n\
             # {} ran at once; {HEADROOM} times that, with room for threads.\n\
             processes = {processes}\n\
             # The run took {} ms.\n\
             timeout_ms = {time}\n",
            run.processes, run.elapsed_ms
        ),
    );
}

fn refused(text: &mut String, needs: &Needs) {
    if needs.refused.is_empty() {
        return;
    }
    text.push_str(
        "\n# Denied to the run, by the wider profile too; the run went on without. To allow any\n\
         # of it, set `widen = true` in a file owned by root, or of yours if the daemon is your own:\n",
    );
    for wanted in &needs.refused {
        write_all(text, format_args!("#   {} {}\n", wanted.right.name(), line(&wanted.target)));
    }
}
