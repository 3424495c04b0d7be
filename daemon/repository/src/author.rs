//! The name and e-mail address that a user gives git for commits. Pure: no I/O.

use crate::Configuration;

/// The longest name or address that is taken over, in bytes.
const LONGEST: usize = 256;

/// A user's name and e-mail address for commits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitAuthor {
    name: Option<String>,
    email: Option<String>,
}

impl CommitAuthor {
    /// Finds the author in a user's configuration files; later files win. `None` if a file says
    /// nothing about it, or includes other files: which of those count depends on the repository,
    /// and a commit in the wrong name is worse than none.
    #[must_use]
    pub fn find(files: &[Vec<u8>]) -> Option<Self> {
        let mut author = Self::default();
        for file in files {
            let configuration = Configuration::parse(file).ok()?;
            for (key, values) in configuration.keys() {
                let value = values.last().cloned().flatten();
                match (key.section.as_str(), &key.subsection, key.name.as_str()) {
                    ("include" | "includeif", ..) => return None,
                    ("user", None, "name") => author.name = value.and_then(plain),
                    ("user", None, "email") => author.email = value.and_then(plain),
                    _ => {}
                }
            }
        }
        (author != Self::default()).then_some(author)
    }

    /// Returns a configuration file that says this and nothing else.
    #[must_use]
    pub fn configuration(&self) -> String {
        let mut text = "[user]\n".to_owned();
        for (key, value) in [("name", &self.name), ("email", &self.email)] {
            if let Some(value) = value {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                text.push_str(&format!("\t{key} = \"{value}\"\n"));
            }
        }
        text
    }
}

/// Returns a value that is one short line of text.
fn plain(value: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(value).ok()?;
    let is_plain = !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control);
    is_plain.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[&str]) -> Option<String> {
        let files: Vec<_> = files.iter().map(|file| file.as_bytes().to_vec()).collect();
        CommitAuthor::find(&files).map(|author| author.configuration())
    }

    #[test]
    fn name_and_address_are_taken_and_nothing_else() {
        let text = "[user]\n\tname = Ann \"B\" Example ; a comment\n\temail = ann@example.org\n\
                    \tsigningkey = ABC\n[alias]\n\tx = !evil\n[core]\n\thooksPath = /tmp\n";
        let expected = "[user]\n\tname = \"Ann B Example\"\n\temail = \"ann@example.org\"\n";
        assert_eq!(found(&[text]).as_deref(), Some(expected));
        assert_eq!(found(&[]), None);
        assert_eq!(found(&["[core]\n\tautocrlf = input\n"]), None);
        assert_eq!(found(&["[user \"x\"]\n\tname = y\n"]), None);
    }

    #[test]
    fn a_later_file_and_a_later_value_win() {
        let files = ["[user]\nname = a\nemail = a@example.org\n", "[User]\nNAME = b\nname = c\n"];
        let expected = "[user]\n\tname = \"c\"\n\temail = \"a@example.org\"\n";
        assert_eq!(found(&files).as_deref(), Some(expected));
    }

    #[test]
    fn what_git_might_read_differently_gives_no_author() {
        for extra in [
            "[include]\npath = other\n",
            "[includeIf \"gitdir:~/work/\"]\npath = work\n",
            "[user]\nname = \"open\n",
            "\r\n",
        ] {
            let text = format!("[user]\nname = a\nemail = a@example.org\n{extra}");
            assert_eq!(found(&[&text]), None, "{extra:?}");
        }
    }

    #[test]
    fn a_value_can_not_become_configuration() {
        let text = "[user]\nname = \"a\\\"]\\\\ [core]\"\nemail = \"a\\nhooksPath = /tmp\"\n";
        let expected = "[user]\n\tname = \"a\\\"]\\\\ [core]\"\n";
        assert_eq!(found(&[text]).as_deref(), Some(expected));
        let again = found(&[expected]);
        assert_eq!(again.as_deref(), Some(expected), "it is read as it was written");
        let long = format!("[user]\nname = {}\n", "x".repeat(LONGEST + 1));
        assert_eq!(found(&[&long]), None);
    }
}
