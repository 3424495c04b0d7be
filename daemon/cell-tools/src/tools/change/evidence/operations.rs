//! Finds commands in the files of a git operation under way: a rebase, `git am`, a cherry-pick or a
//! revert. Who continues it outside of the sandbox runs them. Runs in the cell.

use super::{
    super::tree::entries,
    linked::joined,
    trees::{self, TreeView, Trees},
};
use palisade_plan::evidence::PlantedPath;
use palisade_repository::Configuration;
use rustix::fs::FileType;
use std::collections::BTreeSet;

/// The maximum size of a file of an operation. A longer one may have any command in it.
const MOST_BYTES: u64 = 1024 * 1024;

/// The maximum number of linked worktrees of a repository that are examined.
const MOST_WORKTREES: usize = 1000;

/// Merge strategies that git has itself. For another one git runs the program `git-merge-NAME`.
const STRATEGIES: [&[u8]; 6] = [b"ort", b"recursive", b"resolve", b"octopus", b"ours", b"subtree"];

/// Options that `git am` hands to `git apply`. Another one could write outside of the working tree
/// (`--unsafe-paths`).
const APPLY_OPTIONS: [&[u8]; 3] = [b"--ignore-space-change", b"--ignore-whitespace", b"--reject"];

/// Beginnings of options that `git am` hands to `git apply`.
const APPLY_OPTION_STARTS: [&[u8]; 6] =
    [b"--whitespace=", b"--directory=", b"--exclude=", b"--include=", b"-C", b"-p"];

/// The parts of a file that make git run a command.
type Commands = BTreeSet<Vec<u8>>;

/// A file of an operation.
struct OperationFile {
    directory: &'static [u8],
    name: &'static [u8],
    /// What obeys the file.
    reader: &'static str,
    /// Returns the commands in the file; `None` if it may have any.
    commands: fn(&[u8]) -> Option<Commands>,
}

const FILES: [OperationFile; 4] = [
    OperationFile {
        directory: b"rebase-merge",
        name: b"git-rebase-todo",
        reader: "git rebase --continue",
        commands: exec_lines,
    },
    OperationFile {
        directory: b"rebase-merge",
        name: b"strategy",
        reader: "git rebase --continue",
        commands: |text| Some(unknown_strategies([text.strip_suffix(b"\n").unwrap_or(text)])),
    },
    OperationFile {
        directory: b"rebase-apply",
        name: b"apply-opt",
        reader: "git am --continue",
        commands: unknown_apply_options,
    },
    OperationFile {
        directory: b"sequencer",
        name: b"opts",
        reader: "git cherry-pick --continue",
        commands: sequencer_strategies,
    },
];

/// Returns the files of operations under way that get a new command, in these directories of git
/// and their linked worktrees.
pub(super) fn new_commands(trees: &Trees, git_dirs: BTreeSet<Vec<u8>>) -> Vec<PlantedPath> {
    let worktrees = |git_dir: &Vec<u8>| {
        let all = joined(git_dir, b"worktrees");
        let names = trees::directory(trees.after(), &all)
            .and_then(|directory| entries(&directory, MOST_WORKTREES));
        names.unwrap_or_default().into_iter().map(move |name| joined(&all, &name))
    };
    let linked: Vec<_> = git_dirs.iter().flat_map(worktrees).collect();
    let all: BTreeSet<_> = git_dirs.into_iter().chain(linked).collect();
    let mut found = Vec::new();
    for git_dir in all {
        for file in &FILES {
            let known = file.read(trees.before(), &git_dir).unwrap_or_default();
            if file.read(trees.after(), &git_dir).is_none_or(|now| !now.is_subset(&known)) {
                let path = trees.path(&file.way(&git_dir));
                found.push(PlantedPath { path, reader: file.reader.to_owned() });
            }
        }
    }
    found
}

impl OperationFile {
    fn way(&self, git_dir: &[u8]) -> Vec<u8> {
        joined(&joined(git_dir, self.directory), self.name)
    }

    /// Returns the commands in the file of a directory of git; `None` if it may have any.
    fn read(&self, tree: TreeView<'_>, git_dir: &[u8]) -> Option<Commands> {
        let above = trees::seen(tree, &joined(git_dir, self.directory));
        if above.is_some_and(|above| above.kind() == FileType::Symlink) {
            return None;
        }
        let way = self.way(git_dir);
        if trees::seen(tree, &way).is_none() {
            return Some(Commands::new());
        }
        (self.commands)(&trees::read(tree, &way, MOST_BYTES)?)
    }
}

/// Returns the lines of a rebase's list that run a command.
fn exec_lines(text: &[u8]) -> Option<Commands> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
    let is_command = |line: &&[u8]| {
        let name = line.split(u8::is_ascii_whitespace).next();
        name == Some(b"exec") || name == Some(b"x")
    };
    Some(lines.filter(is_command).map(<[u8]>::to_vec).collect())
}

/// Returns the strategies for which git would run another program.
fn unknown_strategies<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Commands {
    let names = names.into_iter().filter(|name| !STRATEGIES.contains(name));
    names.map(<[u8]>::to_vec).collect()
}

/// Returns the strategies in the options of a cherry-pick or a revert for which git would run
/// another program.
fn sequencer_strategies(text: &[u8]) -> Option<Commands> {
    let options = Configuration::parse(text).ok()?;
    let named = options.keys().filter(|(key, _)| key.name == "strategy");
    Some(unknown_strategies(
        named.flat_map(|(_, values)| values.iter().flatten()).map(Vec::as_slice),
    ))
}

/// Returns the options for `git apply` that `git am` does not have; `None` if the text is not a
/// list of plain words in single quotes.
fn unknown_apply_options(text: &[u8]) -> Option<Commands> {
    let mut found = Commands::new();
    for (number, part) in text.split(|byte| *byte == b'\'').enumerate() {
        let is_quoted = number % 2 == 1;
        if !is_quoted {
            part.trim_ascii().is_empty().then_some(())?;
        } else if !APPLY_OPTIONS.contains(&part)
            && !APPLY_OPTION_STARTS.iter().any(|start| part.starts_with(start))
        {
            found.insert(part.to_vec());
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(commands: Option<Commands>) -> Option<Vec<String>> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        commands.map(|commands| commands.into_iter().map(text).collect())
    }

    #[test]
    fn lines_that_run_a_command_are_found() {
        for (list, expected) in [
            (
                "pick 1234 exec\nmerge -C 12 x\nbreak\n# exec a\nlabel x\nupdate-ref refs/x\n",
                vec![],
            ),
            ("exec make\n", vec!["exec make"]),
            (" \tx\tmake\r\npick 1", vec!["x\tmake\r"]),
            ("x", vec!["x"]),
            ("execute\nxx make\n", vec![]),
        ] {
            assert_eq!(text(exec_lines(list.as_bytes())).unwrap(), expected, "{list:?}");
        }
    }

    #[test]
    fn strategies_that_git_does_not_have_are_found() {
        for (options, expected) in [
            ("[options]\n\tsignoff = true\n\tstrategy = ort\n", Some(vec![])),
            ("[options]\n\tstrategy-option = theirs\n", Some(vec![])),
            ("[options]\n\tstrategy = x/run\n", Some(vec!["x/run"])),
            ("[OPTIONS]\n\tStrategy = \"evil\"\n\tstrategy = ours\n", Some(vec!["evil"])),
            ("[options]\n\tstrategy = \n", Some(vec![""])),
            ("[options\n", None),
        ] {
            let expected = expected.map(|found| found.into_iter().map(str::to_owned).collect());
            assert_eq!(text(sequencer_strategies(options.as_bytes())), expected, "{options:?}");
        }
    }

    #[test]
    fn options_that_git_am_does_not_hand_on_are_found() {
        for (options, expected) in [
            ("\n", Some(vec![])),
            (" '--whitespace=fix' '-C3' '-p0' '--reject' '--directory=a b'\n", Some(vec![])),
            ("'--apply' '--unsafe-paths'\n", Some(vec!["--apply", "--unsafe-paths"])),
            ("'--build-fake-ancestor=x'", Some(vec!["--build-fake-ancestor=x"])),
            ("--unsafe-paths", None),
            // A quote in a word.
            ("'--exclude=a'\\''b'", None),
            ("'-C3'\\'''--apply'", None),
        ] {
            let expected = expected.map(|found| found.into_iter().map(str::to_owned).collect());
            assert_eq!(text(unknown_apply_options(options.as_bytes())), expected, "{options:?}");
        }
    }
}
