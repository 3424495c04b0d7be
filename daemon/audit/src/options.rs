//! Options of programs whose values are secrets: `curl -u user:VALUE`, `mysql -pVALUE`,
//! `sshpass -p VALUE`, `--password VALUE`. For text and for words apart. Pure.

use crate::names::{NAME, names_a_secret};

/// How far back the program of an option is looked for.
const COMMAND: usize = 512;

/// Where the value of an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the same word, from this byte on.
    Joined(usize),
    /// In the next word.
    Next,
}

/// Which part of a value is the secret.
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

/// How an option has its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `-pVALUE`: without one there it asks, and the next word is something else.
    Joined,
    /// `-p VALUE`.
    Separate,
    /// Either.
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
/// What sshpass starts.
const STARTED: &[&str] = &["ssh", "scp", "sftp", "rsync"];
const CURL: Programs = Programs::These(&["curl"]);
/// `-u` is a user and a group there, or no user at all.
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

/// Where the secret of an option is, if it has one. `before` is what stands before the word, on the
/// same line or in the same list.
pub(crate) fn secret_of(before: &str, word: &str) -> Option<(Place, Part)> {
    if let Some(name) = word.strip_prefix("--")
        && name.len() <= NAME
        && !name.contains('=')
        && names_a_secret(name)
    {
        return Some((Place::Next, Part::Whole));
    }
    let known = SECRETS.iter().find_map(|secret| {
        let place = secret.place(word)?;
        secret.programs.have(before).then_some((place, secret.part))
    });
    known.or_else(|| cluster(before, word))
}

/// The secret in a value; where in it. None if it is none, or only names where one is.
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

/// Where what follows a user's name begins.
fn after(value: &str, separator: char) -> Option<usize> {
    let (user, _) = value.split_once(separator)?;
    let plain = |c: char| c.is_alphanumeric() || "._@-$\\".contains(c);
    (!user.is_empty() && user.chars().all(plain)).then_some(user.len() + separator.len_utf8())
}

impl Secret {
    fn place(&self, word: &str) -> Option<Place> {
        let rest = word.strip_prefix(self.option)?;
        let separate = self.form != Form::Joined;
        let joined = self.form != Form::Separate;
        match rest.strip_prefix('=') {
            _ if rest.is_empty() => separate.then_some(Place::Next),
            Some(_) => joined.then_some(Place::Joined(self.option.len() + 1)),
            None if self.option.starts_with("--") => None,
            None => joined.then_some(Place::Joined(self.option.len())),
        }
    }
}

impl Programs {
    /// Whether the command that ends here is one of these.
    fn have(&self, before: &str) -> bool {
        let (names, among) = match self {
            Self::These(names) => (*names, true),
            Self::AllBut(names) => (*names, false),
        };
        let Some(rest) = after_program(before, names) else { return !among };
        // What sshpass starts has options of its own.
        let nested = names == ["sshpass"]
            && rest
                .split_whitespace()
                .any(|word| STARTED.contains(&word) || word.starts_with("-p"));
        among && !nested
    }
}

/// What stands between the last of these programs in a command and its end; none if there is none.
fn after_program<'a>(before: &'a str, names: &[&str]) -> Option<&'a str> {
    let lowest = before.ceil_char_boundary(before.len().saturating_sub(COMMAND));
    let command = &before[lowest..];
    let command = &command[command.rfind(['\n', ';', '|', '&']).map_or(0, |end| end + 1)..];
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    let (mut begun, mut found) = (None, None);
    for (at, c) in command.char_indices().chain([(command.len(), ' ')]) {
        if part_of_word(c) {
            begun.get_or_insert(at);
        } else if let Some(start) = begun.take()
            && names.contains(&&command[start..at])
        {
            found = Some(at);
        }
    }
    found.map(|end| &command[end..])
}

/// `curl -sSu user:VALUE`.
fn cluster(before: &str, word: &str) -> Option<(Place, Part)> {
    let letters = word.strip_prefix('-')?.strip_suffix(['u', 'U'])?;
    let all = !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_alphabetic());
    (all && CURL.have(before)).then_some((Place::Next, Part::AfterColon))
}
