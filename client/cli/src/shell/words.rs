//! The words that a program gives a shell: options, a line or a script, and its operands.

use crate::failure::Failure;

/// The single-letter options that bash gets, switched on by `-` and off by `+`.
const PASSED: &str = "abefhntuvxBCEPT";

/// The words of a shell, as they were understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShellWords {
    pub(super) input: ShellInput,
    /// True if the shell is asked to be interactive.
    pub(super) is_interactive: bool,
}

/// The input that a shell is asked to run. `flags` are options for bash.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ShellInput {
    /// A line, with the operands `$0`, `$1` and so on.
    Line { flags: Vec<String>, line: String, operands: Vec<String> },
    /// A script, with the operands `$1` and so on.
    Script { flags: Vec<String>, path: String, operands: Vec<String> },
    /// Standard input, with the operands `$1` and so on.
    Stdin { flags: Vec<String>, operands: Vec<String> },
}

/// Reads the words as a shell would. A single operand that is not a file is a line: programs that
/// put a prefix before a shell line give it so.
pub(super) fn parse(
    words: &[String],
    is_file: impl Fn(&str) -> bool,
) -> Result<ShellWords, Failure> {
    let mut words = words.iter();
    let (mut flags, mut source, mut is_interactive) = (Vec::new(), Source::Operand, false);
    let first = loop {
        let Some(word) = words.next() else { break None };
        match word.as_str() {
            "--" | "-" => break words.next(),
            "--login" | "--norc" | "--noprofile" | "--posix" => {}
            long if long.starts_with("--") => return Err(unknown(long)),
            cluster => match cluster.split_at_checked(1) {
                Some((sign @ ("-" | "+"), letters)) if !letters.is_empty() => {
                    is_interactive |= sign == "-" && letters.contains('i');
                    source = source.max(options(sign, letters, &mut words, &mut flags)?);
                }
                Some(_) | None => break Some(word),
            },
        }
    };
    let operands: Vec<String> = words.cloned().collect();
    let input = match (first, source) {
        (Some(line), Source::Line) => ShellInput::Line { flags, line: line.clone(), operands },
        (None, Source::Line) => return Err(Failure::new("-c needs a line", "write -c 'LINE'")),
        (first, Source::Stdin) => {
            let operands = first.into_iter().cloned().chain(operands).collect();
            ShellInput::Stdin { flags, operands }
        }
        (None, Source::Operand) => ShellInput::Stdin { flags, operands },
        (Some(line), Source::Operand) if operands.is_empty() && !is_file(line) => {
            ShellInput::Line { flags, line: line.clone(), operands }
        }
        (Some(path), Source::Operand) => ShellInput::Script { flags, path: path.clone(), operands },
    };
    Ok(ShellWords { input, is_interactive })
}

/// The source of the commands, by the options; a later variant wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// The first operand, or standard input if there is none.
    Operand,
    /// Standard input, by `-s`.
    Stdin,
    /// The first operand as a line, by `-c`.
    Line,
}

/// Reads one word of single-letter options, which `-` switches on and `+` off; returns the source
/// of the commands that they name.
fn options<'a>(
    sign: &str,
    letters: &str,
    words: &mut impl Iterator<Item = &'a String>,
    flags: &mut Vec<String>,
) -> Result<Source, Failure> {
    let mut source = Source::Operand;
    for letter in letters.chars() {
        let option = format!("{sign}{letter}");
        match letter {
            'c' if sign == "-" => source = source.max(Source::Line),
            's' if sign == "-" => source = source.max(Source::Stdin),
            // A session has no start-up files of a login.
            'l' | 'i' => {}
            letter if PASSED.contains(letter) => flags.push(option),
            'o' | 'O' => {
                let missing = || unknown(&format!("{option} without a name"));
                let name = words.next().ok_or_else(missing)?;
                flags.extend([option, name.clone()]);
            }
            _ => return Err(unknown(&option)),
        }
    }
    Ok(source)
}

fn unknown(option: &str) -> Failure {
    Failure::new(
        format!("the shell has no option {option}"),
        "palisade shell --help lists the options that it takes",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<ShellInput, Failure> {
        Ok(understood(words)?.input)
    }

    fn understood(words: &[&str]) -> Result<ShellWords, Failure> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&words, |path| path == "script.sh")
    }

    fn line(flags: &[&str], line: &str, operands: &[&str]) -> ShellInput {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        ShellInput::Line { flags: owned(flags), line: line.to_owned(), operands: owned(operands) }
    }

    #[test]
    fn a_line_is_found_behind_any_options() {
        for words in [
            &["-c", "a b"][..],
            &["-lc", "a b"],
            &["-l", "-c", "a b"],
            &["--login", "-i", "-c", "a b"],
            &["-c", "--", "a b"],
            &["a b"],
            &["--", "a b"],
        ] {
            assert_eq!(read(words).unwrap(), line(&[], "a b", &[]), "{words:?}");
        }
        assert_eq!(read(&["-ec", "x", "name", "1"]).unwrap(), line(&["-e"], "x", &["name", "1"]));
        assert_eq!(
            read(&["-eo", "pipefail", "-c", "x"]).unwrap(),
            line(&["-e", "-o", "pipefail"], "x", &[])
        );
    }

    #[test]
    fn a_file_is_a_script_and_nothing_is_standard_input() {
        let script = |operands: &[&str]| ShellInput::Script {
            flags: Vec::new(),
            path: "script.sh".to_owned(),
            operands: operands.iter().map(|word| (*word).to_owned()).collect(),
        };
        assert_eq!(read(&["script.sh"]).unwrap(), script(&[]));
        assert_eq!(read(&["script.sh", "-x"]).unwrap(), script(&["-x"]));
        let stdin = |operands: &[&str]| ShellInput::Stdin {
            flags: Vec::new(),
            operands: operands.iter().map(|word| (*word).to_owned()).collect(),
        };
        assert_eq!(read(&[]).unwrap(), stdin(&[]));
        assert_eq!(read(&["-s"]).unwrap(), stdin(&[]));
        assert_eq!(read(&["-s", "a", "b"]).unwrap(), stdin(&["a", "b"]));
        assert_eq!(read(&["-s", "--", "script.sh"]).unwrap(), stdin(&["script.sh"]));
        assert_eq!(read(&["-sc", "a b"]).unwrap(), line(&[], "a b", &[]), "as bash has it");
    }

    #[test]
    fn an_interactive_shell_is_asked_for_by_its_option() {
        for (words, expected) in [
            (&["-i"][..], true),
            (&["-il"], true),
            (&["-ic", "x"], true),
            (&["-c", "-i", "x"], true),
            (&[], false),
            (&["-lc", "x", "-i"], false),
            (&["x -i"], false),
        ] {
            let understood = understood(words).map(|words| words.is_interactive);
            assert_eq!(understood.unwrap(), expected, "{words:?}");
        }
    }

    #[test]
    fn options_of_bash_are_switched_on_and_off() {
        assert_eq!(
            read(&["-aEv", "+e", "-O", "globstar", "-c", "x"]).unwrap(),
            line(&["-a", "-E", "-v", "+e", "-O", "globstar"], "x", &[])
        );
        assert_eq!(
            read(&["+ex", "+o", "pipefail", "+O", "extglob", "x y"]).unwrap(),
            line(&["+e", "+x", "+o", "pipefail", "+O", "extglob"], "x y", &[])
        );
        assert_eq!(read(&["+"]).unwrap(), line(&[], "+", &[]), "it names no option");
    }

    #[test]
    fn what_is_not_understood_runs_nothing() {
        for words in [
            &["-c"][..],
            &["-k", "x"],
            &["+k", "x"],
            &["+c", "x"],
            &["--rcfile", "f"],
            &["-o"],
            &["-O"],
            &["+O"],
        ] {
            assert_eq!(read(words).unwrap_err().status, 125, "{words:?}");
        }
    }
}
