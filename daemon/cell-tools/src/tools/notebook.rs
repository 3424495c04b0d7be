//! Renders a notebook's cells as text: their source and their output, bounded in size. Runs in the
//! cell.

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{fmt, marker::PhantomData};

/// The maximum number of bytes of text from one output.
const MOST_OUTPUT: usize = 8 * 1024;

/// The maximum number of bytes of one text of the file that are read.
const MOST_TEXT: usize = 1024 * 1024;

/// The maximum size of the rendered text in bytes.
const MOST: usize = 8 * 1024 * 1024;

/// The maximum number of cells, and of outputs of a cell.
const MOST_PARTS: usize = 10_000;

#[derive(Deserialize)]
struct Notebook {
    cells: TruncatedList<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    cell_type: Text,
    #[serde(default)]
    source: Text,
    #[serde(default)]
    outputs: TruncatedList<Output>,
}

/// Something that a cell printed, returned or failed with.
#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    output_type: Text,
    #[serde(default)]
    text: Text,
    #[serde(default)]
    data: MediaOutput,
    #[serde(default)]
    ename: Text,
    #[serde(default)]
    evalue: Text,
}

/// The first elements of a list, and the number of all. It bounds memory: a small file can not
/// expand to a large structure.
struct TruncatedList<T> {
    first: Vec<T>,
    all: usize,
}

impl<T> Default for TruncatedList<T> {
    fn default() -> Self {
        Self { first: Vec::new(), all: 0 }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TruncatedList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = TruncatedList<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<TruncatedList<T>, A::Error> {
                let mut few = TruncatedList::default();
                while few.first.len() < MOST_PARTS
                    && let Some(element) = list.next_element()?
                {
                    few.first.push(element);
                }
                few.all = few.first.len();
                while list.next_element::<IgnoredAny>()?.is_some() {
                    few.all += 1;
                }
                Ok(few)
            }
        }
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

/// A text, given as one string or as its lines, cut at `MOST_TEXT`.
#[derive(Default)]
struct Text(String);

impl Text {
    fn add(&mut self, more: &str) {
        let room = MOST_TEXT - self.0.len().min(MOST_TEXT);
        self.0.push_str(&more[..more.floor_char_boundary(room)]);
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lines;
        impl<'de> Visitor<'de> for Lines {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of lines")
            }
            fn visit_str<E>(self, whole: &str) -> Result<Text, E> {
                let mut text = Text::default();
                text.add(whole);
                Ok(text)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut lines: A) -> Result<Text, A::Error> {
                let mut text = Text::default();
                while let Some(line) = lines.next_element::<String>()? {
                    text.add(&line);
                }
                Ok(text)
            }
        }
        deserializer.deserialize_any(Lines)
    }
}

/// An output in several media types, of which the plain text is shown.
#[derive(Default)]
struct MediaOutput {
    plain: Text,
    others: Vec<String>,
}

impl<'de> Deserialize<'de> for MediaOutput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Types;
        impl<'de> Visitor<'de> for Types {
            type Value = MediaOutput;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("contents by media type")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut types: A) -> Result<MediaOutput, A::Error> {
                let mut shown = MediaOutput::default();
                while let Some(name) = types.next_key::<String>()? {
                    if name == "text/plain" {
                        shown.plain = types.next_value()?;
                        continue;
                    }
                    types.next_value::<IgnoredAny>()?;
                    if shown.others.len() < 10 {
                        shown.others.push(one_line(&name));
                    }
                }
                Ok(shown)
            }
        }
        deserializer.deserialize_map(Types)
    }
}

/// Returns the text of a notebook, and its number of cells.
///
/// # Errors
/// The reason why it is not a notebook.
pub(super) fn render(bytes: &[u8]) -> Result<(String, u64), String> {
    let notebook: Notebook = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let TruncatedList { first, all } = notebook.cells;
    let mut shown = 0;
    for cell in &first {
        if text.len() >= MOST {
            break;
        }
        line(&mut text, &format!("[cell {shown}: {}]", one_line(&cell.cell_type.0)));
        line(&mut text, &cell.source.0);
        show_outputs(&mut text, &cell.outputs);
        shown += 1;
    }
    if shown < all {
        line(&mut text, &format!("[{} more cells left out]", all - shown));
    }
    Ok((text, all as u64))
}

fn show_outputs(text: &mut String, outputs: &TruncatedList<Output>) {
    let mut shown = 0;
    for output in &outputs.first {
        if text.len() >= MOST {
            break;
        }
        line(text, &format!("[output: {}]", one_line(&output.output_type.0)));
        if !output.ename.0.is_empty() || !output.evalue.0.is_empty() {
            bounded(text, &format!("{}: {}", output.ename.0, output.evalue.0));
        }
        bounded(text, &output.text.0);
        bounded(text, &output.data.plain.0);
        if !output.data.others.is_empty() {
            line(text, &format!("[also as {}]", output.data.others.join(", ")));
        }
        shown += 1;
    }
    if shown < outputs.all {
        line(text, &format!("[{} more outputs left out]", outputs.all - shown));
    }
}

fn bounded(text: &mut String, more: &str) {
    let end = more.floor_char_boundary(MOST_OUTPUT);
    line(text, &more[..end]);
    if end < more.len() {
        line(text, &format!("[{} more bytes left out]", more.len() - end));
    }
}

/// Appends text, and ends its last line.
fn line(text: &mut String, more: &str) {
    if more.is_empty() {
        return;
    }
    text.push_str(more);
    if !more.ends_with('\n') {
        text.push('\n');
    }
}

/// Escapes and shortens a name from the file, which may contain anything.
fn one_line(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_default).collect()
}
