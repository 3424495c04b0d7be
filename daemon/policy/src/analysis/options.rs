//! Separates a program's arguments into options and operands, with the help of the tables.

use super::{
    field::{Field, fits},
    schema::Style,
};

/// An option as it was given.
#[derive(Debug, Clone)]
pub(crate) struct GivenOption {
    /// The name, with its dashes.
    pub(crate) name: String,
    pub(crate) value: Option<Field>,
}

/// Arguments, separated into options and operands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments {
    pub(crate) options: Vec<GivenOption>,
    pub(crate) operands: Vec<Field>,
    /// The index of each operand among the arguments.
    pub(crate) positions: Vec<usize>,
    /// The index of `--`.
    pub(crate) dashes: Option<usize>,
}

impl Arguments {
    /// Separates `fields`, which do not include the program's name. `takes` lists the options that
    /// have a value.
    pub(crate) fn read(fields: &[Field], takes: &[String], style: Style) -> Self {
        let mut read = Self::default();
        let mut at = 0;
        while let Some(field) = fields.get(at) {
            let prefix = field.prefix();
            let bundle = style == Style::Bundle && at == 0 && !prefix.starts_with('-');
            if read.dashes.is_some() || !(bundle || prefix.len() > 1 && prefix.starts_with('-')) {
                read.operands.push(field.clone());
                read.positions.push(at);
                at += 1;
                if style == Style::Posix {
                    let rest = fields.iter().enumerate().skip(at);
                    read.positions.extend(rest.clone().map(|(index, _)| index));
                    read.operands.extend(rest.map(|(_, field)| field.clone()));
                    break;
                }
                continue;
            }
            if field.text().as_deref() == Some("--") {
                read.dashes = Some(at);
                at += 1;
                continue;
            }
            let next = fields.get(at + 1);
            let used = if style == Style::Words {
                let values = read.long(field, &prefix, next, takes);
                // In this style a value is always a value, even if it begins with a dash.
                let has_value = read.options.last().is_some_and(|given| given.value.is_some());
                values.max(1 + usize::from(has_value && !prefix.contains('=')))
            } else if prefix.starts_with("--") {
                read.long(field, &prefix, next, takes)
            } else {
                let skip = usize::from(!bundle);
                read.cluster(field, &prefix, skip, next, takes)
            };
            at += used;
        }
        read
    }

    /// Reads a long option, and returns the number of fields that it used.
    fn long(
        &mut self,
        field: &Field,
        prefix: &str,
        next: Option<&Field>,
        takes: &[String],
    ) -> usize {
        if let Some((name, _)) = prefix.split_once('=') {
            let value = Some(field.behind(name.len() + 1));
            self.options.push(GivenOption { name: name.to_owned(), value });
            return 1;
        }
        let takes_value = takes.iter().any(|known| is_option(prefix, known));
        let value = if takes_value { next.cloned() } else { None };
        let used = 1 + usize::from(value.as_ref().is_some_and(|value| !is_option_like(value)));
        self.options.push(GivenOption { name: prefix.to_owned(), value });
        used
    }

    fn cluster(
        &mut self,
        field: &Field,
        prefix: &str,
        skip: usize,
        next: Option<&Field>,
        takes: &[String],
    ) -> usize {
        for (at, letter) in prefix.char_indices().skip(skip) {
            let name = format!("-{letter}");
            if !takes.contains(&name) {
                self.options.push(GivenOption { name, value: None });
                continue;
            }
            let behind = field.behind(at + letter.len_utf8());
            let glued = skip == 1 && !behind.shown().is_empty();
            let value = if glued { Some(behind) } else { next.cloned() };
            let apart = !glued && value.as_ref().is_some_and(|value| !is_option_like(value));
            let used = 1 + usize::from(apart);
            self.options.push(GivenOption { name, value });
            return used;
        }
        1
    }

    /// Returns the first option that matches one of the patterns.
    pub(crate) fn find(&self, patterns: &[String]) -> Option<&GivenOption> {
        self.options.iter().find(|given| patterns.iter().any(|pattern| given.is(pattern)))
    }

    /// Returns the values of an option, in order.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Field> {
        self.options.iter().filter(move |given| given.is(name)).filter_map(|g| g.value.as_ref())
    }
}

impl GivenOption {
    /// Returns `true` if the option matches a pattern: a name, optionally followed by a pattern for
    /// its value.
    pub(crate) fn is(&self, pattern: &str) -> bool {
        match pattern.split_once(' ') {
            None => is_option(&self.name, pattern),
            Some((name, value)) => {
                // The values after `!` do not match.
                let (value, not) = value.split_once('!').unwrap_or((value, "\0"));
                let fitting = |given: &Field| {
                    let shown = given.shown();
                    fits(value, &shown) && !fits(not, &shown)
                };
                is_option(&self.name, name) && self.value.as_ref().is_some_and(fitting)
            }
        }
    }
}

/// Returns `true` if a value looks like an option. The tables do not know the options of every
/// subcommand, so such a value counts as both.
fn is_option_like(value: &Field) -> bool {
    let prefix = value.prefix();
    prefix.len() > 1 && prefix.starts_with('-')
}

/// Returns `true` if `given` names `option`. Long options may be abbreviated. Programs that use
/// whole words accept them with one dash or two.
fn is_option(given: &str, option: &str) -> bool {
    if given == option {
        return true;
    }
    if given.starts_with("--") && option.starts_with("--") {
        return given.len() > 4 && option.starts_with(given);
    }
    let word = option.trim_start_matches('-');
    word.len() > 1 && !option.starts_with("--") && given.strip_prefix("--") == Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::Span;

    fn read(words: &[&str], takes: &[&str], style: Style) -> (Vec<String>, Vec<String>) {
        let span = Span { start: 0, end: 0 };
        let fields: Vec<_> = words.iter().map(|word| Field::known(*word, span)).collect();
        let takes: Vec<_> = takes.iter().map(|&word| word.to_owned()).collect();
        let read = Arguments::read(&fields, &takes, style);
        let show = |given: &GivenOption| match &given.value {
            Some(value) => format!("{}={}", given.name, value.shown()),
            None => given.name.clone(),
        };
        (read.options.iter().map(show).collect(), read.operands.iter().map(Field::shown).collect())
    }

    fn both(options: &[&str], operands: &[&str]) -> (Vec<String>, Vec<String>) {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        (owned(options), owned(operands))
    }

    #[test]
    fn options_are_told_from_operands() {
        let gnu = |words: &[&str]| read(words, &["-o", "--output"], Style::Gnu);
        assert_eq!(gnu(&["-rf", "d"]), both(&["-r", "-f"], &["d"]));
        assert_eq!(gnu(&["g", "-of"]), both(&["-o=f"], &["g"]));
        assert_eq!(gnu(&["-uo", "f", "g"]), both(&["-u", "-o=f"], &["g"]));
        assert_eq!(gnu(&["--outp=f", "--output", "g"]), both(&["--outp=f", "--output=g"], &[]));
        assert_eq!(gnu(&["--", "-f"]), both(&[], &["-f"]));
        assert_eq!(gnu(&["-", "x"]), both(&[], &["-", "x"]));
        let posix = |words: &[&str]| read(words, &["-n"], Style::Posix);
        assert_eq!(posix(&["-n", "10", "rm", "-rf"]), both(&["-n=10"], &["rm", "-rf"]));
        let find = |words: &[&str]| read(words, &["-name"], Style::Words);
        assert_eq!(find(&[".", "-name", "-delete"]), both(&["-name=-delete"], &["."]));
        let tar = |words: &[&str]| read(words, &["-f", "-C"], Style::Bundle);
        assert_eq!(tar(&["xzf", "a", "b"]), both(&["-x", "-z", "-f=a"], &["b"]));
    }

    #[test]
    fn long_options_may_be_cut_short() {
        assert!(is_option("--in-plac", "--in-place") && is_option("--force", "--force"));
        assert!(!is_option("--force-with-lease", "--force") && !is_option("--i", "--in-place"));
        assert!(is_option("--delete", "-delete") && !is_option("--f", "-f"));
    }
}
