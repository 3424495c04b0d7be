//! Converts the parser's words to those of the analysis: quoting, expansions, braces, globs.

use crate::{
    braces::expand,
    convert::Converter,
    parse::{options, parse_at},
};
use brush_parser::{
    SourceSpan, ast,
    word::{
        self, Parameter, ParameterExpr, SpecialParameter, TildeExpr, WordPiece, WordPieceWithSource,
    },
};
use palisade_policy::analysis::{Operation, Piece, Quoting, Word, unescape};
use palisade_protocol::Span;

impl Converter {
    /// Returns the words that a word becomes after brace expansion.
    pub(crate) fn words(&self, word: &ast::Word) -> Vec<Word> {
        self.words_at(word, self.span(word.loc.as_ref()))
    }

    pub(crate) fn words_at(&self, word: &ast::Word, span: Span) -> Vec<Word> {
        if !word.value.contains('{') {
            return vec![self.whole_at(word, span)];
        }
        let expanded = match word::parse_brace_expansions(&word.value, &options()) {
            Ok(Some(pieces)) => expand(&pieces),
            Ok(None) => Some(vec![word.value.clone()]),
            Err(_) => None,
        };
        match expanded {
            Some(texts) => texts.into_iter().map(|text| self.word_of(&text, span)).collect(),
            None => {
                let text = word.value.clone();
                vec![Word { pieces: vec![Piece::Unknown(text.clone())], text, span }]
            }
        }
    }

    /// Converts a word without brace expansion.
    pub(crate) fn whole(&self, word: &ast::Word) -> Word {
        self.whole_at(word, self.span(word.loc.as_ref()))
    }

    pub(crate) fn whole_at(&self, word: &ast::Word, span: Span) -> Word {
        self.word_of(&word.value, span)
    }

    fn word_of(&self, text: &str, span: Span) -> Word {
        Word { pieces: self.pieces_of(text, span), text: text.to_owned(), span }
    }

    /// Converts an arithmetic expression, for the expansions in it.
    pub(crate) fn arithmetic(
        &self,
        expression: &ast::UnexpandedArithmeticExpr,
        found: Option<&SourceSpan>,
    ) -> Word {
        let span = self.span(found);
        let text = expression.value.clone();
        Word { pieces: self.pieces_of(&text, span), text, span }
    }

    pub(crate) fn pieces_of(&self, text: &str, span: Span) -> Vec<Piece> {
        match word::parse(text, &options()) {
            Ok(pieces) => self.pieces(&pieces, Quoting::Bare, span),
            Err(_) => vec![Piece::Unknown(text.to_owned())],
        }
    }

    pub(crate) fn pieces_of_document(&self, text: &str, span: Span) -> Vec<Piece> {
        match word::parse_heredoc(text, &options()) {
            Ok(pieces) => self.pieces(&pieces, Quoting::Quoted, span),
            Err(_) => vec![Piece::Unknown(text.to_owned())],
        }
    }

    fn pieces(&self, found: &[WordPieceWithSource], quoting: Quoting, span: Span) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for one in found {
            match &one.piece {
                WordPiece::Text(text) if quoting == Quoting::Quoted => {
                    pieces.push(Piece::Text(text.clone(), quoting));
                }
                WordPiece::Text(text) => bare(text, &mut pieces),
                WordPiece::SingleQuotedText(text) => {
                    pieces.push(Piece::Text(text.clone(), Quoting::Quoted));
                }
                WordPiece::AnsiCQuotedText(text) => {
                    pieces.push(Piece::Text(unescape(text), Quoting::Quoted));
                }
                WordPiece::DoubleQuotedSequence(inner)
                | WordPiece::GettextDoubleQuotedSequence(inner) => {
                    // Empty quotes are an empty argument.
                    pieces.push(Piece::Text(String::new(), Quoting::Quoted));
                    pieces.extend(self.pieces(inner, Quoting::Quoted, span));
                }
                WordPiece::TildeExpansion(tilde) => pieces.push(self::tilde(tilde)),
                WordPiece::ParameterExpansion(expansion) => {
                    pieces.push(self.parameter(expansion, quoting, span));
                }
                WordPiece::CommandSubstitution(text)
                | WordPiece::BackquotedCommandSubstitution(text) => {
                    let body = parse_at(text, self.depth + 1, Some(span)).ok();
                    pieces.push(Piece::Command(body, quoting));
                }
                WordPiece::EscapeSequence(text) => {
                    let plain = text.strip_prefix('\\').unwrap_or(text);
                    if plain != "\n" {
                        pieces.push(Piece::Text(plain.to_owned(), Quoting::Quoted));
                    }
                }
                WordPiece::ArithmeticExpression(expression) => {
                    let inner = self.pieces_of(&expression.value, span);
                    pieces.push(Piece::Arithmetic(inner, expression.value.clone()));
                }
            }
        }
        pieces
    }

    fn parameter(&self, expansion: &ParameterExpr, quoting: Quoting, span: Span) -> Piece {
        let inner = |texts: &[Option<&String>]| -> Vec<Piece> {
            texts.iter().flatten().flat_map(|text| self.pieces_of(text, span)).collect()
        };
        let (parameter, operation) = match expansion {
            ParameterExpr::Parameter { parameter, indirect: false } => {
                (parameter, Operation::Plain)
            }
            ParameterExpr::UseDefaultValues {
                parameter, indirect: false, default_value, ..
            }
            | ParameterExpr::AssignDefaultValues {
                parameter,
                indirect: false,
                default_value,
                ..
            } => (parameter, Operation::Default(inner(&[default_value.as_ref()]))),
            ParameterExpr::UseAlternativeValue { parameter, alternative_value, .. } => {
                (parameter, Operation::Alternative(inner(&[alternative_value.as_ref()])))
            }
            ParameterExpr::Parameter { parameter, .. }
            | ParameterExpr::ParameterLength { parameter, .. }
            | ParameterExpr::Transform { parameter, .. } => {
                (parameter, Operation::Other(Vec::new()))
            }
            ParameterExpr::UseDefaultValues { parameter, default_value: text, .. }
            | ParameterExpr::AssignDefaultValues { parameter, default_value: text, .. }
            | ParameterExpr::IndicateErrorIfNullOrUnset {
                parameter, error_message: text, ..
            }
            | ParameterExpr::RemoveSmallestSuffixPattern { parameter, pattern: text, .. }
            | ParameterExpr::RemoveLargestSuffixPattern { parameter, pattern: text, .. }
            | ParameterExpr::RemoveSmallestPrefixPattern { parameter, pattern: text, .. }
            | ParameterExpr::RemoveLargestPrefixPattern { parameter, pattern: text, .. }
            | ParameterExpr::UppercaseFirstChar { parameter, pattern: text, .. }
            | ParameterExpr::UppercasePattern { parameter, pattern: text, .. }
            | ParameterExpr::LowercaseFirstChar { parameter, pattern: text, .. }
            | ParameterExpr::LowercasePattern { parameter, pattern: text, .. } => {
                (parameter, Operation::Other(inner(&[text.as_ref()])))
            }
            ParameterExpr::Substring { parameter, offset, length, .. } => {
                let length = length.as_ref().map(|length| &length.value);
                (parameter, Operation::Other(inner(&[Some(&offset.value), length])))
            }
            ParameterExpr::ReplaceSubstring { parameter, pattern, replacement, .. } => {
                (parameter, Operation::Other(inner(&[Some(pattern), replacement.as_ref()])))
            }
            ParameterExpr::VariableNames { prefix, .. } => {
                return Piece::Unknown(format!("${{!{prefix}*}}"));
            }
            ParameterExpr::MemberKeys { variable_name, .. } => {
                return Piece::Unknown(format!("${{!{variable_name}[@]}}"));
            }
        };
        self.named(parameter, operation, quoting, span)
    }

    fn named(
        &self,
        parameter: &Parameter,
        operation: Operation,
        quoting: Quoting,
        span: Span,
    ) -> Piece {
        let (name, operation) = match parameter {
            Parameter::Positional(number) => (number.to_string(), operation),
            Parameter::Named(name) => (name.clone(), operation),
            Parameter::NamedWithIndex { name, index } => {
                let inner = self.pieces_of(index, span);
                let inner = vec![Piece::Arithmetic(inner, index.clone())];
                (name.clone(), Operation::Other(inner))
            }
            Parameter::NamedWithAllIndices { name, .. } => match operation {
                Operation::Plain => (name.clone(), Operation::All),
                other @ (Operation::All
                | Operation::Default(_)
                | Operation::Alternative(_)
                | Operation::Other(_)) => (name.clone(), other),
            },
            Parameter::Special(special) => match special {
                SpecialParameter::AllPositionalParameters { .. } => ("@".to_owned(), operation),
                SpecialParameter::PositionalParameterCount
                | SpecialParameter::LastExitStatus
                | SpecialParameter::CurrentOptionFlags
                | SpecialParameter::ProcessId
                | SpecialParameter::LastBackgroundProcessId
                | SpecialParameter::ShellName => return Piece::Unknown(format!("${special}")),
            },
        };
        Piece::Parameter { name, operation, quoting }
    }
}

fn tilde(tilde: &TildeExpr) -> Piece {
    match tilde {
        TildeExpr::Home => Piece::Tilde("~".to_owned()),
        TildeExpr::UserHome(user) => Piece::Tilde(format!("~{user}")),
        TildeExpr::WorkingDir => Piece::Text(".".to_owned(), Quoting::Quoted),
        TildeExpr::OldWorkingDir
        | TildeExpr::NthDirFromTopOfDirStack { .. }
        | TildeExpr::NthDirFromBottomOfDirStack { .. } => Piece::Unknown("~-".to_owned()),
    }
}

/// Splits unquoted text into literal text and patterns.
fn bare(text: &str, pieces: &mut Vec<Piece>) {
    let is_class = text.find('[').is_some_and(|at| text.get(at..).is_some_and(|t| t.contains(']')));
    let is_extended = text.contains("(") && text.contains(")");
    if is_extended {
        return pieces.push(Piece::Glob(text.to_owned()));
    }
    let special = |c: char| c == '*' || c == '?' || c == '[' && is_class;
    let mut rest = text;
    while let Some(at) = rest.find(special) {
        let (plain, behind) = rest.split_at(at);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain.to_owned(), Quoting::Bare));
        }
        let end = behind.find(|c| !special(c)).unwrap_or(behind.len());
        let (pattern, more) = behind.split_at(end);
        pieces.push(Piece::Glob(pattern.to_owned()));
        rest = more;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned(), Quoting::Bare));
    }
}
