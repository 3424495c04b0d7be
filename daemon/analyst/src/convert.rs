//! Converts the parser's syntax tree to that of the analysis: commands, redirections, definitions.

use brush_parser::{SourceSpan, ast, ast::SourceLocation as _};
use palisade_policy::analysis::{
    Assign, Assignment, Body, Node, Piece, Redirect, Runs, Simple, Value, Word,
};
use palisade_protocol::Span;
use std::sync::Arc;

/// Converts the result of one parse to the syntax tree of the analysis.
pub(crate) struct Converter {
    pub(crate) depth: usize,
    /// The position of the word that this text comes from; `None` if the text is the whole input.
    base: Option<Span>,
    /// The byte offset of each character, if the text is not ASCII.
    bytes: Option<Vec<usize>>,
    length: usize,
}

impl Converter {
    pub(crate) fn new(text: &str, depth: usize, base: Option<Span>) -> Self {
        let bytes = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Self { depth, base, bytes, length: text.len() }
    }

    pub(crate) fn program(&self, program: &ast::Program) -> Body {
        let lists = program.complete_commands.iter();
        Arc::new(lists.flat_map(|list| self.list(list)).collect())
    }

    /// Returns a position in the whole text.
    pub(crate) fn span(&self, found: Option<&SourceSpan>) -> Span {
        if let Some(base) = self.base {
            return base;
        }
        let byte = |index: usize| {
            let at = match &self.bytes {
                Some(bytes) => bytes.get(index).copied().unwrap_or(self.length),
                None => index.min(self.length),
            };
            u32::try_from(at).unwrap_or(u32::MAX)
        };
        match found {
            Some(span) => Span { start: byte(span.start.index), end: byte(span.end.index) },
            None => Span { start: 0, end: u32::try_from(self.length).unwrap_or(u32::MAX) },
        }
    }

    pub(crate) fn body(&self, list: &ast::CompoundList) -> Body {
        Arc::new(self.list(list))
    }

    fn list(&self, list: &ast::CompoundList) -> Vec<Node> {
        let mut nodes = Vec::new();
        for ast::CompoundListItem(item, _) in &list.0 {
            nodes.extend(self.pipeline(&item.first));
            for more in &item.additional {
                let (ast::AndOr::And(pipeline) | ast::AndOr::Or(pipeline)) = more;
                nodes.push(perhaps(self.pipeline(pipeline)));
            }
        }
        nodes
    }

    fn pipeline(&self, pipeline: &ast::Pipeline) -> Vec<Node> {
        let mut stages: Vec<Vec<Node>> = pipeline.seq.iter().map(|one| self.command(one)).collect();
        if stages.len() == 1 {
            return stages.pop().unwrap_or_default();
        }
        let stages = stages.into_iter().map(|nodes| group(Runs::Apart, nodes, Vec::new()));
        vec![Node::Pipeline(stages.collect())]
    }

    fn command(&self, command: &ast::Command) -> Vec<Node> {
        match command {
            ast::Command::Simple(simple) => self.simple(simple),
            ast::Command::Compound(compound, redirects) => {
                let redirects = self.redirects(redirects.as_ref());
                self.compound(compound, redirects)
            }
            ast::Command::Function(function) => vec![self.function(function)],
            ast::Command::ExtendedTest(test, redirects) => {
                let mut words = Vec::new();
                let mut nodes = self.test(&test.expr, &mut words);
                nodes.push(Node::Words(words));
                vec![group(Runs::Here, nodes, self.redirects(redirects.as_ref()))]
            }
        }
    }

    fn function(&self, function: &ast::FunctionDefinition) -> Node {
        let ast::FunctionBody(compound, redirects) = &function.body;
        let body = self.compound(compound, self.redirects(redirects.as_ref()));
        let span = self.span(function.location().as_ref());
        Node::Function { name: function.fname.value.clone(), body: Arc::new(body), span }
    }

    fn compound(&self, compound: &ast::CompoundCommand, redirects: Vec<Redirect>) -> Vec<Node> {
        let node = match compound {
            ast::CompoundCommand::Arithmetic(one) => {
                let word = self.arithmetic(&one.expr, Some(&one.loc));
                group(Runs::Here, vec![Node::Arithmetic(word)], redirects)
            }
            ast::CompoundCommand::ArithmeticForClause(one) => {
                let parts = [&one.initializer, &one.condition, &one.updater];
                let parts = parts.into_iter().flatten();
                let mut nodes: Vec<Node> = parts
                    .map(|part| Node::Arithmetic(self.arithmetic(part, Some(&one.loc))))
                    .collect();
                nodes.extend(self.list(&one.body.list));
                group(Runs::Perhaps, nodes, redirects)
            }
            ast::CompoundCommand::BraceGroup(one) => {
                group(Runs::Here, self.list(&one.list), redirects)
            }
            ast::CompoundCommand::Subshell(one) => {
                group(Runs::Apart, self.list(&one.list), redirects)
            }
            ast::CompoundCommand::ForClause(one) => Node::For {
                variable: one.variable_name.clone(),
                values: one
                    .values
                    .as_ref()
                    .map(|words| words.iter().flat_map(|word| self.words(word)).collect()),
                body: self.body(&one.body.list),
                redirects,
            },
            ast::CompoundCommand::CaseClause(one) => self.case(one, redirects),
            ast::CompoundCommand::IfClause(one) => self.branches(one, redirects),
            ast::CompoundCommand::WhileClause(one) | ast::CompoundCommand::UntilClause(one) => {
                let mut nodes = self.list(&one.0);
                nodes.extend(self.list(&one.1.list));
                group(Runs::Perhaps, nodes, redirects)
            }
            ast::CompoundCommand::Coprocess(one) => {
                group(Runs::Apart, self.command(&one.body), redirects)
            }
        };
        vec![node]
    }

    fn case(&self, case: &ast::CaseClauseCommand, redirects: Vec<Redirect>) -> Node {
        let mut nodes = vec![Node::Words(vec![self.whole(&case.value)])];
        for arm in &case.cases {
            nodes.push(Node::Words(arm.patterns.iter().map(|word| self.whole(word)).collect()));
            nodes.extend(arm.cmd.as_ref().map(|list| perhaps(self.list(list))));
        }
        group(Runs::Here, nodes, redirects)
    }

    fn branches(&self, clause: &ast::IfClauseCommand, redirects: Vec<Redirect>) -> Node {
        let mut nodes = self.list(&clause.condition);
        nodes.push(perhaps(self.list(&clause.then)));
        for other in clause.elses.iter().flatten() {
            let condition = other.condition.as_ref().map(|list| self.list(list));
            let mut branch = condition.unwrap_or_default();
            branch.extend(self.list(&other.body));
            nodes.push(perhaps(branch));
        }
        group(Runs::Here, nodes, redirects)
    }

    fn test(&self, test: &ast::ExtendedTestExpr, words: &mut Vec<Word>) -> Vec<Node> {
        use ast::BinaryPredicate as Is;
        match test {
            ast::ExtendedTestExpr::And(one, other) | ast::ExtendedTestExpr::Or(one, other) => {
                let mut nodes = self.test(one, words);
                nodes.extend(self.test(other, words));
                nodes
            }
            ast::ExtendedTestExpr::Not(inner) | ast::ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner, words)
            }
            ast::ExtendedTestExpr::UnaryTest(is, word) => {
                let evaluates = matches!(is, ast::UnaryPredicate::ShellVariableIsSetAndAssigned);
                self.tested(word, evaluates, words)
            }
            ast::ExtendedTestExpr::BinaryTest(is, one, other) => {
                let evaluates = matches!(
                    is,
                    Is::ArithmeticEqualTo
                        | Is::ArithmeticNotEqualTo
                        | Is::ArithmeticLessThan
                        | Is::ArithmeticLessThanOrEqualTo
                        | Is::ArithmeticGreaterThan
                        | Is::ArithmeticGreaterThanOrEqualTo
                );
                let mut nodes = self.tested(one, evaluates, words);
                nodes.extend(self.tested(other, evaluates, words));
                nodes
            }
        }
    }

    fn tested(&self, word: &ast::Word, evaluates: bool, words: &mut Vec<Word>) -> Vec<Node> {
        let word = self.whole(word);
        if evaluates {
            return vec![Node::Arithmetic(word)];
        }
        words.push(word);
        Vec::new()
    }

    fn simple(&self, simple: &ast::SimpleCommand) -> Vec<Node> {
        let span = self.span(simple.location().as_ref());
        let mut made =
            Simple { assignments: Vec::new(), words: Vec::new(), redirects: Vec::new(), span };
        let mut arrays = Vec::new();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            self.item(item, &mut made, &mut arrays, Side::Before);
        }
        made.words.extend(simple.word_or_name.iter().flat_map(|word| self.words(word)));
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut made, &mut arrays, Side::Behind);
        }
        let mut nodes = Vec::new();
        if !arrays.is_empty() {
            let (words, redirects) = (Vec::new(), Vec::new());
            nodes.push(Node::Simple(Simple { assignments: arrays, words, redirects, span }));
        }
        nodes.push(Node::Simple(made));
        nodes
    }

    fn item(
        &self,
        item: &ast::CommandPrefixOrSuffixItem,
        made: &mut Simple,
        arrays: &mut Vec<Assignment>,
        side: Side,
    ) {
        use ast::CommandPrefixOrSuffixItem as Item;
        match item {
            Item::IoRedirect(redirect) => made.redirects.extend(self.redirect(redirect)),
            Item::Word(word) => made.words.extend(self.words(word)),
            Item::ProcessSubstitution(_, shell) => made.words.push(self.process(shell)),
            Item::AssignmentWord(assignment, word) => match (side, &assignment.value) {
                (Side::Before, _) => made.assignments.push(self.assignment(assignment, word)),
                (Side::Behind, ast::AssignmentValue::Array(_)) => {
                    arrays.push(self.assignment(assignment, word));
                }
                (Side::Behind, ast::AssignmentValue::Scalar(_)) => {
                    made.words.push(self.whole(word));
                }
            },
        }
    }

    fn assignment(&self, assignment: &ast::Assignment, word: &ast::Word) -> Assignment {
        let (name, element) = match &assignment.name {
            ast::AssignmentName::VariableName(name) => (name.clone(), None),
            ast::AssignmentName::ArrayElementName(name, index) => (name.clone(), Some(index)),
        };
        let mode = match (element, assignment.append) {
            (Some(_), _) => Assign::Element,
            (None, true) => Assign::Append,
            (None, false) => Assign::Replace,
        };
        let span = self.span(word.loc.as_ref());
        let mut value = match &assignment.value {
            ast::AssignmentValue::Scalar(value) => Value::Scalar(self.whole_at(value, span)),
            ast::AssignmentValue::Array(values) => Value::Array(
                values.iter().flat_map(|(_, value)| self.words_at(value, span)).collect(),
            ),
        };
        // The subscript is evaluated too.
        if let (Some(index), Value::Scalar(word)) = (element, &mut value) {
            word.pieces.push(Piece::Arithmetic(self.pieces_of(index, span), index.clone()));
        }
        Assignment { name, value, mode, span }
    }
}

/// The position of an item relative to the command word.
#[derive(Debug, Clone, Copy)]
enum Side {
    Before,
    Behind,
}

fn group(runs: Runs, nodes: Vec<Node>, redirects: Vec<Redirect>) -> Node {
    Node::Group { runs, body: Arc::new(nodes), redirects }
}

fn perhaps(nodes: Vec<Node>) -> Node {
    group(Runs::Perhaps, nodes, Vec::new())
}
