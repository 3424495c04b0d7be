//! HTML as Markdown or as plain text, token by token. There is no tree and no recursion, so no page
//! can exhaust the stack, and one pass suffices. Pure: no I/O.

mod table;

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use std::mem::take;
use table::Table;
use url::Url;

/// Most nested lists and quotes that are shown as such.
const MAX_DEPTH: usize = 8;

/// Most bytes of the URL of a link.
const MAX_LINK: usize = 2048;

/// The marks that the text gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Markup {
    Markdown,
    #[default]
    None,
}

/// The text of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Converted {
    pub(crate) text: String,
    /// True if the end is missing.
    pub(crate) is_cut: bool,
}

/// Converts a page, whose links are relative to its URL, up to about `most` bytes of text.
pub(crate) fn convert(html: &str, page: &Url, markup: Markup, most: usize) -> Converted {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut writer = Writer { markup, page: Some(page), ..Writer::default() };
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => writer.start(&tag),
            Token::EndTag(tag) => writer.end(&tag.name),
            Token::String(text) => writer.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
        if writer.out.len() + writer.preformatted.as_ref().map_or(0, String::len) > most {
            return Converted { text: writer.finish(), is_cut: true };
        }
    }
    Converted { text: writer.finish(), is_cut: false }
}

/// A list, and the number of its next item if it has numbers.
#[derive(Debug, Clone, Copy)]
struct List(Option<u32>);

/// The text so far, and what is due before more of it.
#[derive(Debug, Default)]
struct Writer<'a> {
    out: String,
    markup: Markup,
    page: Option<&'a Url>,
    /// The line breaks that are due.
    breaks: u8,
    /// True if a space is due.
    space: bool,
    /// The mark of the next line: of a heading or an item.
    lead: String,
    is_item: bool,
    /// The element whose content is left out, and how many of the same name are open inside it.
    skipped: Option<(Vec<u8>, u32)>,
    lists: Vec<List>,
    /// Open lists that are too deep to be shown.
    deeper: u32,
    quotes: usize,
    strong: u32,
    emphasis: u32,
    code: u32,
    /// The URL of the open link.
    link: Option<String>,
    /// The marks that are due before the next word.
    opening: Vec<&'static str>,
    preformatted: Option<String>,
    table: Option<Table>,
}

impl Writer<'_> {
    fn start(&mut self, tag: &StartTag<()>) {
        let name: &[u8] = &tag.name;
        if let Some((skipped, depth)) = &mut self.skipped {
            if skipped == name {
                *depth += 1;
            }
            return;
        }
        if is_left_out(name) && (name != b"svg" || !tag.self_closing) {
            self.skipped = Some((name.to_vec(), 0));
            return;
        }
        if let Some(text) = &mut self.preformatted {
            if name == b"br" {
                text.push('\n');
            }
            return;
        }
        match name {
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.block(2);
                let level = usize::from(name.get(1).map_or(1, |digit| digit - b'0'));
                self.lead = self.marked(&format!("{} ", "#".repeat(level)));
            }
            b"br" => self.block(1),
            b"hr" => {
                self.block(2);
                self.write("---");
                self.block(2);
            }
            b"ul" | b"ol" => self.open_list(List((name == b"ol").then_some(1))),
            b"li" => self.item(),
            b"blockquote" => {
                self.block(2);
                self.quotes += 1;
            }
            b"pre" => {
                self.block(2);
                self.preformatted = Some(String::new());
            }
            b"strong" | b"b" => {
                self.strong += 1;
                self.mark(self.strong == 1, "**");
            }
            b"em" | b"i" => {
                self.emphasis += 1;
                self.mark(self.emphasis == 1, "*");
            }
            b"code" => {
                self.code += 1;
                self.mark(self.code == 1, "`");
            }
            b"a" => self.open_link(tag),
            b"img" => self.image(tag),
            b"table" | b"tr" | b"td" | b"th" => self.open_table(name),
            _ if is_block(name) => self.block(2),
            _ => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        if let Some((skipped, depth)) = &mut self.skipped {
            match (skipped == name, *depth) {
                (true, 0) => self.skipped = None,
                (true, _) => *depth -= 1,
                (false, _) => {}
            }
            return;
        }
        if self.preformatted.is_some() {
            if name == b"pre" {
                self.close_preformatted();
            }
            return;
        }
        match name {
            b"ul" | b"ol" if self.deeper > 0 => self.deeper -= 1,
            b"ul" | b"ol" => {
                self.lists.pop();
                self.block(if self.lists.is_empty() { 2 } else { 1 });
            }
            b"blockquote" => {
                self.block(2);
                self.quotes = self.quotes.saturating_sub(1);
            }
            b"strong" | b"b" => {
                self.unmark(self.strong == 1, "**");
                self.strong = self.strong.saturating_sub(1);
            }
            b"em" | b"i" => {
                self.unmark(self.emphasis == 1, "*");
                self.emphasis = self.emphasis.saturating_sub(1);
            }
            b"code" => {
                self.unmark(self.code == 1, "`");
                self.code = self.code.saturating_sub(1);
            }
            b"a" => self.close_link(),
            b"table" | b"tr" | b"td" | b"th" => self.close_table(name),
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.lead.clear();
                self.block(2);
            }
            b"li" => self.block(1),
            _ if is_block(name) => self.block(2),
            _ => {}
        }
    }

    /// Adds text, in which all white space is one space.
    fn text(&mut self, text: &str) {
        if self.skipped.is_some() {
            return;
        }
        if let Some(preformatted) = &mut self.preformatted {
            preformatted.push_str(text);
            return;
        }
        self.space |= text.starts_with(char::is_whitespace);
        for word in text.split_whitespace() {
            self.write(word);
            self.space = true;
        }
        self.space = text.ends_with(char::is_whitespace) || (self.space && text.is_empty());
    }

    /// Adds a word or a mark after what is due before it.
    fn write(&mut self, word: &str) {
        if self.breaks > 0 || self.out.is_empty() {
            if !self.out.is_empty() {
                self.out.extend(std::iter::repeat_n('\n', usize::from(self.breaks)));
            }
            self.begin_line();
        } else if self.space {
            self.out.push(' ');
        }
        (self.breaks, self.space) = (0, false);
        self.out.extend(self.opening.drain(..));
        self.out.push_str(word);
    }

    fn begin_line(&mut self) {
        let depth = self.lists.len().saturating_sub(usize::from(self.is_item));
        self.out.push_str(&"> ".repeat(self.quotes.min(MAX_DEPTH)));
        self.out.push_str(&"  ".repeat(depth));
        self.out.push_str(&take(&mut self.lead));
        self.is_item = false;
    }

    /// Notes that what follows stands apart. In a cell of a table it can not.
    fn block(&mut self, breaks: u8) {
        match &self.table {
            Some(table) if table.is_in_cell => self.space = true,
            Some(_) | None => self.breaks = self.breaks.max(breaks),
        }
    }

    fn marked(&self, mark: &str) -> String {
        match self.markup {
            Markup::Markdown => mark.to_owned(),
            Markup::None => String::new(),
        }
    }

    fn mark(&mut self, is_first: bool, mark: &'static str) {
        if is_first && self.markup == Markup::Markdown {
            self.opening.push(mark);
        }
    }

    fn unmark(&mut self, is_last: bool, mark: &'static str) {
        if is_last && self.markup == Markup::Markdown {
            self.close_mark(mark, mark);
        }
    }

    /// Writes the end of what a mark began, unless nothing was written since.
    fn close_mark(&mut self, opening: &str, closing: &str) {
        match self.opening.iter().rposition(|mark| *mark == opening) {
            Some(unused) => drop(self.opening.remove(unused)),
            None => self.out.push_str(closing),
        }
    }

    fn open_list(&mut self, list: List) {
        self.block(if self.lists.is_empty() { 2 } else { 1 });
        if self.lists.len() < MAX_DEPTH { self.lists.push(list) } else { self.deeper += 1 }
    }

    fn item(&mut self) {
        self.block(1);
        self.is_item = !self.lists.is_empty();
        self.lead = match self.lists.last_mut() {
            Some(List(Some(number))) => {
                let lead = format!("{number}. ");
                *number = number.saturating_add(1);
                lead
            }
            Some(List(None)) | None => "- ".to_owned(),
        };
    }

    fn open_link(&mut self, tag: &StartTag<()>) {
        self.close_link();
        let url = attribute(tag, b"href").and_then(|href| self.absolute(&href));
        if let (Some(url), Markup::Markdown) = (url, self.markup) {
            self.opening.push("[");
            self.link = Some(url);
        }
    }

    fn close_link(&mut self) {
        if let Some(url) = self.link.take() {
            self.close_mark("[", &format!("]({url})"));
        }
    }

    /// Adds an image as a link to it, which no program loads by itself.
    fn image(&mut self, tag: &StartTag<()>) {
        let text = attribute(tag, b"alt").unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            return;
        }
        let url = attribute(tag, b"src").and_then(|src| self.absolute(&src));
        match (url, self.markup) {
            (Some(url), Markup::Markdown) if self.link.is_none() => {
                self.write(&format!("[image: {text}]({url})"));
            }
            _ => self.write(&format!("[image: {text}]")),
        }
    }

    /// Returns the whole URL of a link, if it leads to another page.
    fn absolute(&self, link: &str) -> Option<String> {
        let link = link.trim();
        if link.starts_with('#') || link.len() > MAX_LINK {
            return None;
        }
        let url = self.page?.join(link).ok()?;
        let is_shown = matches!(url.scheme(), "http" | "https" | "mailto");
        let text = url.as_str().replace('(', "%28").replace(')', "%29");
        (is_shown && text.len() <= MAX_LINK).then_some(text)
    }

    fn close_preformatted(&mut self) {
        let Some(text) = self.preformatted.take() else { return };
        let text = text.trim_matches('\n');
        if text.is_empty() {
            return;
        }
        let fence = match self.markup {
            Markup::Markdown => Some("`".repeat(longest_run(text).max(2) + 1)),
            Markup::None => None,
        };
        let fence = fence.as_deref();
        for line in fence.into_iter().chain(text.lines()).chain(fence) {
            self.write(line.trim_end());
            self.breaks = 1;
        }
        self.block(2);
    }

    fn open_table(&mut self, name: &[u8]) {
        match (name, self.table.as_ref().map_or(0, |table| table.inner)) {
            (b"table", 0) if self.table.is_none() => {
                self.block(2);
                self.table = Some(Table::default());
            }
            (b"table", _) => self.nest_table(),
            (b"tr", 0) => self.open_row(),
            (_, 0) => self.open_cell(),
            // A table in a cell is its text.
            _ => self.space = true,
        }
    }

    fn finish(mut self) -> String {
        self.close_preformatted();
        self.close_link();
        self.close_table(b"table");
        self.out
    }
}

fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    tag.attributes.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

/// Returns `true` if an element has content that is no text of the page.
fn is_left_out(name: &[u8]) -> bool {
    matches!(
        name,
        b"script" | b"style" | b"noscript" | b"template" | b"iframe" | b"object" | b"svg"
    )
}

/// Returns `true` if an element stands apart from what is before and after it.
fn is_block(name: &[u8]) -> bool {
    const BLOCKS: [&[u8]; 26] = [
        b"address",
        b"article",
        b"aside",
        b"body",
        b"caption",
        b"dd",
        b"details",
        b"dialog",
        b"div",
        b"dl",
        b"dt",
        b"fieldset",
        b"figcaption",
        b"figure",
        b"footer",
        b"form",
        b"header",
        b"main",
        b"nav",
        b"option",
        b"p",
        b"section",
        b"summary",
        b"tbody",
        b"thead",
        b"title",
    ];
    BLOCKS.contains(&name)
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
