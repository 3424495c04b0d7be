//! Converts the parser's redirections to those of the analysis.

use crate::convert::Converter;
use brush_parser::ast;
use palisade_policy::analysis::{Piece, Quoting, Redirect, RedirectKind, Word};

impl Converter {
    pub(crate) fn redirects(&self, redirects: Option<&ast::RedirectList>) -> Vec<Redirect> {
        redirects.iter().flat_map(|list| &list.0).filter_map(|one| self.redirect(one)).collect()
    }

    pub(crate) fn redirect(&self, redirect: &ast::IoRedirect) -> Option<Redirect> {
        use ast::IoFileRedirectKind as Kind;
        Some(match redirect {
            ast::IoRedirect::OutputAndError(word, append) => Redirect {
                kind: if *append { RedirectKind::Append } else { RedirectKind::Truncate },
                word: self.whole(word),
            },
            ast::IoRedirect::HereString(_, word) => {
                Redirect { kind: RedirectKind::Text, word: self.whole(word) }
            }
            ast::IoRedirect::HereDocument(_, document) => {
                Redirect { kind: RedirectKind::Text, word: self.document(document) }
            }
            ast::IoRedirect::File(_, kind, target) => {
                let word = match target {
                    ast::IoFileRedirectTarget::Fd(_) => return None,
                    ast::IoFileRedirectTarget::Filename(word)
                    | ast::IoFileRedirectTarget::Duplicate(word) => self.whole(word),
                    ast::IoFileRedirectTarget::ProcessSubstitution(_, shell) => self.process(shell),
                };
                let numbers = word.text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
                let kind = match kind {
                    Kind::Read => RedirectKind::Read,
                    Kind::Write | Kind::Clobber => RedirectKind::Truncate,
                    Kind::Append => RedirectKind::Append,
                    Kind::ReadAndWrite => RedirectKind::ReadWrite,
                    Kind::DuplicateInput => RedirectKind::Duplicate,
                    Kind::DuplicateOutput if numbers => RedirectKind::Duplicate,
                    Kind::DuplicateOutput => RedirectKind::Truncate,
                };
                Redirect { kind, word }
            }
        })
    }

    pub(crate) fn process(&self, shell: &ast::SubshellCommand) -> Word {
        let pieces = vec![Piece::Process(Some(self.body(&shell.list)))];
        Word { pieces, text: String::new(), span: self.span(Some(&shell.loc)) }
    }

    fn document(&self, document: &ast::IoHereDocument) -> Word {
        let span = self.span(document.doc.loc.as_ref());
        let text = document.doc.value.clone();
        let pieces = if document.requires_expansion {
            self.pieces_of_document(&text, span)
        } else {
            vec![Piece::Text(text.clone(), Quoting::Quoted)]
        };
        Word { pieces, text, span }
    }
}
