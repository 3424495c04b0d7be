//! Proves that a shell text only reads. Every command in it must be in the table of reading
//! commands, with options that the table allows. Nothing in it may become another command or an
//! option. Whatever is not proven counts as not reading only.

use super::{
    finding::Nature,
    form::{Body, Node, Operation, Parse, Piece, Quoting, Redirect, RedirectKind, Value, Word},
    schema::{Reading, ReadingInner, Script, Style},
    tables::Tables,
};

/// The largest nesting depth of commands.
const MOST_DEPTH: usize = 16;

/// Paths to which writing loses nothing.
const SINKS: [&str; 3] = ["/dev/null", "/dev/stdout", "/dev/stderr"];

/// The directories of the system's programs.
const SYSTEM: [&str; 4] = ["/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"];

/// Determines whether a text is proven to read only. The proof assumes that the search path leads
/// to the system's programs, so a text that mentions `PATH` is not proven.
pub(super) fn nature(text: &str, body: &Body, parser: &dyn Parse, tables: &Tables) -> Nature {
    let proof = Proof { parser, tables, depth: 0 };
    if !text.contains("PATH") && proof.body(body) { Nature::Reads } else { Nature::Acts }
}

/// A proof in progress.
struct Proof<'a> {
    parser: &'a dyn Parse,
    tables: &'a Tables,
    depth: usize,
}

impl Proof<'_> {
    fn deeper(&self) -> Self {
        Self { depth: self.depth + 1, ..*self }
    }

    fn body(&self, nodes: &[Node]) -> bool {
        let inner = self.deeper();
        inner.depth <= MOST_DEPTH && nodes.iter().all(|node| inner.node(node))
    }

    fn node(&self, node: &Node) -> bool {
        match node {
            Node::Simple(simple) => {
                let assigned = simple.assignments.iter().all(|one| {
                    let held = match &one.value {
                        Value::Scalar(word) => self.word(word),
                        Value::Array(words) => words.iter().all(|word| self.word(word)),
                    };
                    held && is_harmless(&one.name)
                });
                assigned
                    && self.redirects(&simple.redirects)
                    && simple.words.iter().all(|word| self.word(word))
                    && (simple.words.is_empty()
                        || self.command(&simple.words, ExtraArguments::None))
            }
            Node::Pipeline(stages) => self.body(stages),
            Node::Group { body, redirects, .. } => self.redirects(redirects) && self.body(body),
            Node::For { variable, values, body, redirects } => {
                is_harmless(variable)
                    && values.iter().flatten().all(|word| self.word(word))
                    && self.redirects(redirects)
                    && self.body(body)
            }
            // Conditions and arithmetic evaluate the values of variables, which can run commands.
            Node::Function { .. } | Node::Words(_) | Node::Arithmetic(_) => false,
        }
    }

    fn redirects(&self, redirects: &[Redirect]) -> bool {
        redirects.iter().all(|redirect| match redirect.kind {
            RedirectKind::Read | RedirectKind::Text => self.word(&redirect.word),
            RedirectKind::Truncate | RedirectKind::Append => {
                known(&redirect.word).is_some_and(|path| SINKS.contains(&path.as_str()))
            }
            RedirectKind::Duplicate => known(&redirect.word).is_some(),
            RedirectKind::ReadWrite => false,
        })
    }

    /// Returns `true` if the expansion of a word runs only commands that read.
    fn word(&self, word: &Word) -> bool {
        word.pieces.iter().all(|piece| match piece {
            Piece::Text(..) | Piece::Glob(_) | Piece::Tilde(_) => true,
            Piece::Parameter { operation, .. } => {
                matches!(operation, Operation::Plain | Operation::All)
            }
            Piece::Command(body, _) | Piece::Process(body) => {
                body.as_ref().is_some_and(|body| self.body(body))
            }
            Piece::Arithmetic(..) | Piece::Unknown(_) => false,
        })
    }

    fn command(&self, words: &[Word], more: ExtraArguments) -> bool {
        let Some((first, arguments)) = words.split_first() else { return false };
        let Some(name) = known(first) else { return false };
        let base = SYSTEM.iter().find_map(|directory| name.strip_prefix(directory));
        let Some(entry) = self.tables.reading(base.unwrap_or(&name)) else { return false };
        let Some(options) = &entry.options else { return true };
        // The added arguments could be any option.
        more == ExtraArguments::None && self.listed(entry, options, arguments)
    }

    /// Returns `true` if the table allows all arguments of a command: its options, its script and the
    /// command that it runs.
    fn listed(&self, entry: &Reading, options: &[String], arguments: &[Word]) -> bool {
        let has = |name: &str| options.iter().any(|option| option == name);
        let takes = |name: &str| entry.takes.iter().any(|option| option == name);
        let mut scripts = Vec::new();
        let mut at = 0;
        let mut operands: Vec<&Word> = Vec::new();
        let posix = entry.style == Style::Posix || entry.inner.is_some();
        while let Some(word) = arguments.get(at) {
            at += 1;
            if posix && !operands.is_empty() {
                operands.push(word);
                continue;
            }
            let Some(text) = known(word).filter(|text| text.len() > 1 && text.starts_with('-'))
            else {
                if !is_operand(word) {
                    return false;
                }
                operands.push(word);
                continue;
            };
            let Some(valued) = option(&text, entry.style, &has, &takes) else { return false };
            if valued == ValuePosition::Next {
                let value = arguments.get(at);
                if text.ends_with('e') || text == "--expression" {
                    scripts.extend(value);
                }
                if !value.is_some_and(is_operand) {
                    return false;
                }
                at += 1;
            } else if valued == ValuePosition::Glued && entry.script.is_some() && text.contains('e')
            {
                return false;
            }
        }
        if let Some(script) = entry.script {
            if scripts.is_empty() {
                scripts.extend(operands.first());
            }
            let harmless =
                |word: &&Word| known(word).is_some_and(|text| is_harmless_script(script, &text));
            return !scripts.is_empty() && scripts.iter().all(harmless);
        }
        entry.at_most.is_none_or(|most| operands.len() <= most) && self.inner(entry, &operands)
    }

    /// Returns `true` if the command that another one runs only reads.
    fn inner(&self, entry: &Reading, operands: &[&Word]) -> bool {
        let behind = |skip: usize, more: ExtraArguments| {
            let words: Vec<Word> = operands.iter().skip(skip).map(|word| (*word).clone()).collect();
            self.deeper().command(&words, more)
        };
        match entry.inner {
            None => true,
            _ if self.depth > MOST_DEPTH => false,
            Some(ReadingInner::BehindOptions) => behind(0, ExtraArguments::None),
            Some(ReadingInner::BehindOne) => behind(1, ExtraArguments::None),
            Some(ReadingInner::WithMore) => behind(0, ExtraArguments::Unknown),
            Some(ReadingInner::Shell) => match operands {
                [line] => known(line)
                    .and_then(|text| self.parser.parse(&text).ok())
                    .is_some_and(|body| self.body(&body)),
                _ => false,
            },
        }
    }
}

/// The arguments that a command gets besides those in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExtraArguments {
    None,
    Unknown,
}

/// The place of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValuePosition {
    None,
    Glued,
    Next,
}

/// Classifies an argument that begins with a dash; `None` if the option is not listed.
fn option(
    text: &str,
    style: Style,
    has: &dyn Fn(&str) -> bool,
    takes: &dyn Fn(&str) -> bool,
) -> Option<ValuePosition> {
    if style == Style::Words || text.starts_with("--") {
        let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
        return has(name).then(|| match value {
            None if takes(name) => ValuePosition::Next,
            Some(_) if takes(name) => ValuePosition::Glued,
            None | Some(_) => ValuePosition::None,
        });
    }
    for (at, letter) in text.char_indices().skip(1) {
        let name = format!("-{letter}");
        if !has(&name) {
            return None;
        }
        if takes(&name) {
            let last = at + letter.len_utf8() == text.len();
            return Some(if last { ValuePosition::Next } else { ValuePosition::Glued });
        }
    }
    Some(ValuePosition::None)
}

/// Returns the text of a word, if all of it is known.
fn known(word: &Word) -> Option<String> {
    word.pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text, _) => Some(text.as_str()),
            Piece::Glob(_)
            | Piece::Tilde(_)
            | Piece::Parameter { .. }
            | Piece::Command(..)
            | Piece::Process(_)
            | Piece::Arithmetic(..)
            | Piece::Unknown(_) => None,
        })
        .collect()
}

/// Returns `true` if a word expands to operands only: it does not begin with a dash, and nothing in
/// it is split.
fn is_operand(word: &Word) -> bool {
    if let Some(text) = known(word) {
        return text.len() <= 1 || !text.starts_with('-');
    }
    let begins = word.pieces.iter().find_map(|piece| match piece {
        Piece::Text(text, _) if text.is_empty() => None,
        Piece::Text(text, _) => Some(!text.starts_with('-')),
        Piece::Tilde(_) | Piece::Process(_) => Some(true),
        Piece::Glob(_)
        | Piece::Parameter { .. }
        | Piece::Command(..)
        | Piece::Arithmetic(..)
        | Piece::Unknown(_) => Some(false),
    });
    let whole = word.pieces.iter().all(|piece| match piece {
        Piece::Parameter { quoting, operation, .. } => {
            *quoting == Quoting::Quoted && *operation == Operation::Plain
        }
        Piece::Command(_, quoting) => *quoting == Quoting::Quoted,
        Piece::Text(..) | Piece::Glob(_) | Piece::Tilde(_) | Piece::Process(_) => true,
        Piece::Arithmetic(..) | Piece::Unknown(_) => false,
    });
    begins == Some(true) && whole
}

/// Returns `true` if a variable has no meaning for the shell or for the programs that it starts.
fn is_harmless(name: &str) -> bool {
    name.contains(|letter: char| letter.is_ascii_lowercase())
        || name.starts_with("LC_")
        || ["LANG", "NO_COLOR", "TZ"].contains(&name)
}

fn is_harmless_script(script: Script, text: &str) -> bool {
    match script {
        Script::Sed => super::sed::reads_only(text),
        Script::Awk => {
            const ACTS: [&str; 5] = [">", "|", "@", "system", "getline"];
            !ACTS.iter().any(|word| text.contains(word))
        }
    }
}
