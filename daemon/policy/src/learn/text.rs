//! The file of a learned profile: each line with the reason why it is there.

use super::{
    general::{is_versioned, named},
    need::{Need, Needs, Run},
};
use crate::{Profile, Scene, access::Reach};
use std::{fmt::Write as _, path::Path};

/// Memory and processes: what was used, so many times.
const HEADROOM: u64 = 4;

/// Less than this is no sensible limit: another machine needs more.
const LEAST_MEMORY: u64 = 256 << 20;
const LEAST_PROCESSES: u64 = 256;
const LEAST_TIME_MS: u64 = 30_000;

/// The program that does least.
const LEAST_PROGRAM: &str = "/usr/bin/true";

/// How many programs have a test of their own.
const MOST_TESTS: usize = 8;

/// How many names a reason gives.
const MOST_NAMES: usize = 3;

/// The file.
pub(super) fn write(wide: &Profile, scene: &Scene, run: &Run, needs: &Needs) -> String {
    let command = line(&run.command);
    let mut text = format!("# Learned by `palisade profile learn` from a run of: {command}\n");
    text += "# It narrows the profile that it extends to what that run used.";
    if run.lost > 0 {
        let lost = run.lost;
        write_all(&mut text, format_args!("\n# {lost} accesses were not kept: it may lack some."));
    }
    text += "\n\nversion = 1\n";
    let description = quoted(&format!("What {command} needs, learned from a run of it."));
    let extends = quoted(wide.name());
    write_all(&mut text, format_args!("description = {description}\nextends = {extends}\n\n"));
    tests(&mut text, wide, scene, needs);
    files(&mut text, scene, needs);
    network(&mut text, run, needs);
    limits(&mut text, wide, run);
    text += "\n[tools]\n# It was a command.\nallow = [\"bash\"]\n";
    refused(&mut text, needs);
    text
}

/// Text that can not be written to is no text.
fn write_all(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    match text.write_fmt(arguments) {
        Ok(()) | Err(_) => {}
    }
}

/// A text on one line, without what a terminal would take for its own.
fn line(text: &str) -> String {
    let clean: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    clean.trim().to_owned()
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
    let port = [443, 80, 22, 9].into_iter().find(|port| net.port(*port).is_none());
    if let Some(port) = port {
        write_all(text, format_args!("    \"connect 1.1.1.1:{port}: deny\",\n"));
    }
    text.push_str("]\n\n");
}

fn files(text: &mut String, scene: &Scene, needs: &Needs) {
    text.push_str("[fs]\n");
    let (access, why) = match (needs.workspace_written, needs.workspace_read) {
        (true, _) => ("write", "Something of it was written."),
        (false, true) => ("read", "It was read, and nothing of it written."),
        (false, false) => ("read", "Nothing of it was used; less than this there is not."),
    };
    write_all(text, format_args!("# {why}\nworkspace = \"{access}\"\nallow_delete = false\n"));
    for (key, reach, what) in [
        ("execute", Reach::Execute, "# Programs, and what is run or loaded with them.\n"),
        ("read", Reach::Read, "# What was only read.\n"),
        ("unguarded", Reach::Write, "# What was written: no transaction holds that back.\n"),
    ] {
        let of = needs.paths.iter().filter(|(_, need)| need.reach == Some(reach));
        let mut lines: Vec<_> =
            of.map(|(path, need)| (named(scene, path), why_path(path, need))).collect();
        if lines.is_empty() && reach == Reach::Execute {
            let why = "nothing of the system's was run; a profile names a program";
            lines.push((LEAST_PROGRAM.to_owned(), why.to_owned()));
        }
        list(text, key, what, &lines);
    }
    let lines: Vec<_> = needs
        .etc
        .iter()
        .map(|(name, need)| (name.clone(), why_path(Path::new(name), need)))
        .collect();
    list(text, "etc", "# What was read of /etc.\n", &lines);
}

fn network(text: &mut String, run: &Run, needs: &Needs) {
    let ports: Vec<_> = needs.ports.iter().map(u16::to_string).collect();
    let (why, mode) = match (ports.as_slice(), needs.loopback.as_slice()) {
        // What was not kept may have been the network's: then it stays as it was.
        ([], []) if run.lost > 0 => return,
        ([], []) => ("Nothing was connected to or served.".to_owned(), "none"),
        ([], [first, ..]) => (format!("For {}.", line(first)), "loopback"),
        (_, _) => ("What it connected to.".to_owned(), "ports"),
    };
    write_all(text, format_args!("\n[net]\n# {why}\nmode = \"{mode}\"\n"));
    if !ports.is_empty() {
        write_all(text, format_args!("ports = [{}]\n", ports.join(", ")));
    }
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

/// Why an entry is there.
fn why_path(path: &Path, need: &Need) -> String {
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    let inside: Vec<&str> =
        need.used.iter().map(String::as_str).filter(|name| *name != own).collect();
    let mut why = match (inside.as_slice(), need.looked, need.reach) {
        ([], true, _) => "it was looked for".to_owned(),
        ([], false, _) if need.link => "a link on the way to others".to_owned(),
        ([], false, Some(Reach::Execute)) => "it was run".to_owned(),
        ([], false, Some(Reach::Write)) => "it was written".to_owned(),
        ([], false, Some(Reach::Read) | None) => "it was read".to_owned(),
        ([one], ..) => format!("for {one}"),
        (names, ..) => {
            let shown = names.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
            format!("{} names of it were used, such as {shown}", names.len())
        }
    };
    if is_versioned(path) {
        why += "; of this version, the next has another name";
    }
    why
}

fn limits(text: &mut String, wide: &Profile, run: &Run) {
    let of = |name: &str| {
        let each = wide.settings.limits.each();
        each.into_iter().find(|(limit, ..)| *limit == name).map_or(u64::MAX, |(_, _, most)| most)
    };
    let mib = run.memory_bytes.saturating_mul(HEADROOM).max(LEAST_MEMORY).div_ceil(64 << 20) * 64;
    let memory = (mib << 20).min(of("memory"));
    let processes =
        run.processes.saturating_mul(HEADROOM).max(LEAST_PROCESSES).min(of("processes"));
    let time = run.elapsed_ms.saturating_mul(10).max(LEAST_TIME_MS).min(of("timeout_ms"));
    let used = run.memory_bytes.div_ceil(1 << 20);
    write_all(
        text,
        format_args!(
            "\n[limits]\n\
             # The largest process had {used} MiB; {HEADROOM} times that, and not less than 256 MiB.\n\
             memory = {memory}\n\
             # {} at once were seen; {HEADROOM} times that, and room for threads.\n\
             processes = {processes}\n\
             # It took {} ms.\n\
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
        "\n# What it was after and was not given, by the wider profile either. The run went as it did\n\
         # without; to allow any of it takes a file of root's with `widen = true`:\n",
    );
    for wanted in &needs.refused {
        write_all(text, format_args!("#   {} {}\n", wanted.right.name(), line(&wanted.target)));
    }
}
