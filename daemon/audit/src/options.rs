//! Finds options of programs whose values are secrets: `curl -u user:VALUE`, `mysql -pVALUE`,
//! `sshpass -p VALUE`, `--password VALUE`. Works on text and on lists of words. Pure: no I/O.

use crate::names::{NAME, names_a_secret};
use std::{cell::LazyCell, collections::HashSet, sync::LazyLock};

/// The number of bytes before an option that are searched for its program.
const COMMAND: usize = 512;

/// The place of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValuePosition {
    /// In the same word, from this byte on.
    Joined(usize),
    /// In the next word.
    Next,
}

/// The part of a value that is the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// `user:VALUE`.
    AfterColon,
    /// `user%VALUE`.
    AfterPercent,
}

/// An option whose value is a secret.
struct Secret {
    programs: Programs,
    option: &'static str,
    form: Form,
    part: Part,
}

enum Programs {
    These(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

/// The form in which an option takes its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `-pVALUE`. Without a joined value the program prompts, and the next word is something else.
    Joined,
    /// `-p VALUE`.
    Separate,
    /// Either form.
    Both,
}

const MYSQL: Programs = Programs::These(&[
    "mysql",
    "mysqldump",
    "mysqladmin",
    "mysqlimport",
    "mysqlshow",
    "mysqlcheck",
    "mysqlsh",
    "mysqlbinlog",
    "mariadb",
    "mariadb-dump",
    "mariadb-admin",
    "mycli",
]);
/// Programs that sshpass starts.
const STARTED: &[&str] = &["ssh", "scp", "sftp", "rsync"];
const CURL: Programs = Programs::These(&["curl"]);
/// Programs other than those whose `-u` means a user and a group, or no user at all.
const OTHER_USERS: Programs = Programs::AllBut(&[
    "docker",
    "podman",
    "nerdctl",
    "kubectl",
    "sort",
    "git",
    "sudo",
    "journalctl",
    "chown",
    "mysql",
    "date",
]);

const fn secret(programs: Programs, option: &'static str, form: Form, part: Part) -> Secret {
    Secret { programs, option, form, part }
}

const SECRETS: &[Secret] = &[
    secret(CURL, "-u", Form::Both, Part::AfterColon),
    secret(OTHER_USERS, "-u", Form::Both, Part::AfterColon),
    secret(OTHER_USERS, "--user", Form::Both, Part::AfterColon),
    secret(CURL, "-U", Form::Both, Part::AfterColon),
    secret(CURL, "--proxy-user", Form::Both, Part::AfterColon),
    secret(Programs::These(&["http", "https", "xh"]), "-a", Form::Both, Part::AfterColon),
    secret(Programs::These(&["http", "https", "xh"]), "--auth", Form::Both, Part::AfterColon),
    secret(Programs::These(&["ab"]), "-A", Form::Both, Part::AfterColon),
    secret(Programs::These(&["smbclient", "rpcclient"]), "-U", Form::Both, Part::AfterPercent),
    secret(MYSQL, "-p", Form::Joined, Part::Whole),
    secret(Programs::These(&["7z", "7za", "7zz", "rar", "unrar"]), "-p", Form::Joined, Part::Whole),
    secret(Programs::These(&["sshpass"]), "-p", Form::Both, Part::Whole),
    secret(Programs::These(&["mongo", "mongosh", "mongodump"]), "-p", Form::Separate, Part::Whole),
    secret(Programs::These(&["login"]), "-p", Form::Separate, Part::Whole),
    secret(Programs::These(&["redis-cli"]), "-a", Form::Separate, Part::Whole),
    secret(Programs::These(&["ldapsearch", "ldapmodify"]), "-w", Form::Both, Part::Whole),
    secret(Programs::These(&["zip", "unzip"]), "-P", Form::Both, Part::Whole),
];

/// Finds the secret of an option, if it has one. `before` is the text before the word, on the same
/// line or in the same list.
pub(crate) fn secret_of(before: &str, word: &str) -> Option<(ValuePosition, Part)> {
    if let Some(name) = word.strip_prefix("--")
        && name.len() <= NAME
        && !name.contains('=')
        && names_a_secret(name)
    {
        return Some((ValuePosition::Next, Part::Whole));
    }
    let programs = LazyCell::new(|| known_programs(before));
    let known = SECRETS.iter().find_map(|secret| {
        let place = secret.place(word)?;
        secret.programs.apply_to(&programs).then_some((place, secret.part))
    });
    let is_clustered = || ends_cluster(word) && CURL.apply_to(&programs);
    known.or_else(|| is_clustered().then_some((ValuePosition::Next, Part::AfterColon)))
}

/// Returns the offset of the secret in a value. `None` if there is no secret.
pub(crate) fn secret_in(value: &str, part: Part) -> Option<usize> {
    let start = match part {
        Part::Whole => 0,
        Part::AfterColon => after(value, ':')?,
        Part::AfterPercent => after(value, '%')?,
    };
    let secret = value.get(start..).filter(|secret| !secret.is_empty())?;
    let number = secret.bytes().all(|byte| byte.is_ascii_digit());
    // Two numbers are a user and a group.
    if part == Part::AfterColon && number && value.bytes().all(|b| b.is_ascii_digit() || b == b':')
    {
        return None;
    }
    Some(start)
}

/// Returns the offset of what follows a user's name.
fn after(value: &str, separator: char) -> Option<usize> {
    let (user, _) = value.split_once(separator)?;
    let plain = |c: char| c.is_alphanumeric() || "._@-$\\".contains(c);
    (!user.is_empty() && user.chars().all(plain)).then_some(user.len() + separator.len_utf8())
}

impl Secret {
    fn place(&self, word: &str) -> Option<ValuePosition> {
        let rest = word.strip_prefix(self.option)?;
        let separate = self.form != Form::Joined;
        let joined = self.form != Form::Separate;
        match rest.strip_prefix('=') {
            _ if rest.is_empty() => separate.then_some(ValuePosition::Next),
            Some(_) => joined.then_some(ValuePosition::Joined(self.option.len() + 1)),
            None if self.option.starts_with("--") => None,
            None => joined.then_some(ValuePosition::Joined(self.option.len())),
        }
    }
}

impl Programs {
    const fn names(&self) -> &'static [&'static str] {
        match self {
            Self::These(names) | Self::AllBut(names) => names,
        }
    }

    /// Returns `true` if the option belongs to these programs, given those in the command before it.
    fn apply_to(&self, programs: &[ProgramWord<'_>]) -> bool {
        let (names, among) = (self.names(), matches!(self, Self::These(_)));
        let last = programs.iter().rfind(|(name, _)| names.contains(name));
        let Some((_, rest)) = last else { return !among };
        // The programs that sshpass starts have options of their own.
        let nested = names == ["sshpass"]
            && rest
                .split_whitespace()
                .any(|word| STARTED.contains(&word) || word.starts_with("-p"));
        among && !nested
    }
}

/// A word that is the name of a program with options of its own, and the text after it.
type ProgramWord<'a> = (&'a str, &'a str);

/// The names of all programs with options of their own.
static PROGRAMS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let programs = SECRETS.iter().map(|secret| &secret.programs).chain([&CURL]);
    programs.flat_map(|programs| programs.names()).copied().collect()
});

/// Finds the programs with options of their own in the command before an option.
fn known_programs(before: &str) -> Vec<ProgramWord<'_>> {
    let lowest = before.ceil_char_boundary(before.len().saturating_sub(COMMAND));
    let command = &before[lowest..];
    let is_end = |byte: &u8| matches!(byte, b'\n' | b';' | b'|' | b'&');
    let command = &command[command.as_bytes().iter().rposition(is_end).map_or(0, |end| end + 1)..];
    let part_of_word =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+');
    let (mut begun, mut found) = (None, Vec::new());
    for (at, byte) in command.bytes().chain([b' ']).enumerate() {
        if part_of_word(byte) {
            begun.get_or_insert(at);
        } else if let Some(start) = begun.take()
            && PROGRAMS.contains(&command[start..at])
        {
            found.push((&command[start..at], &command[at..]));
        }
    }
    found
}

/// Returns `true` if a word is a cluster of options that ends with a user, as in `curl -sSu
/// user:VALUE`.
fn ends_cluster(word: &str) -> bool {
    let letters = word.strip_prefix('-').and_then(|word| word.strip_suffix(['u', 'U']));
    letters.is_some_and(|letters| {
        !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    })
}
