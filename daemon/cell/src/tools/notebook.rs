//! A notebook's cells as text: what they say and what they printed, bounded. Room: the cell.

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{fmt, marker::PhantomData};

/// The most bytes of text from one output.
const MOST_OUTPUT: usize = 8 * 1024;

/// The most bytes of one text of the file that are looked at.
const MOST_TEXT: usize = 1024 * 1024;

/// The most bytes of the whole text.
const MOST: usize = 8 * 1024 * 1024;

/// The most cells, and outputs of a cell.
const MOST_PARTS: usize = 10_000;

#[derive(Deserialize)]
struct Notebook {
    cells: Few<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    cell_type: Text,
    #[serde(default)]
    source: Text,
    #[serde(default)]
    outputs: Few<Output>,
}

/// What a cell printed, returned or failed with.
#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    output_type: Text,
    #[serde(default)]
    text: Text,
    #[serde(default)]
    data: Shown,
    #[serde(default)]
    ename: Text,
    #[serde(default)]
    evalue: Text,
}

/// Its first elements, and how many there are: a file can not have much made of little.
struct Few<T> {
    first: Vec<T>,
    all: usize,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: Vec::new(), all: 0 }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = Few<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Few<T>, A::Error> {
                let mut few = Few::default();
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

/// One text, or its lines; as much of it as is looked at.
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
struct Shown {
    plain: Text,
    others: Vec<String>,
}

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Types;
        impl<'de> Visitor<'de> for Types {
            type Value = Shown;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("contents by media type")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut types: A) -> Result<Shown, A::Error> {
                let mut shown = Shown::default();
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

/// The text of a notebook, and how many cells it has.
///
/// # Errors
/// What is wrong with it, if it is none.
pub(super) fn render(bytes: &[u8]) -> Result<(String, u64), String> {
    let notebook: Notebook = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let Few { first, all } = notebook.cells;
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

fn show_outputs(text: &mut String, outputs: &Few<Output>) {
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

/// Adds lines, and ends the last.
fn line(text: &mut String, more: &str) {
    if more.is_empty() {
        return;
    }
    text.push_str(more);
    if !more.ends_with('\n') {
        text.push('\n');
    }
}

/// A name from the file, of which nothing is known.
fn one_line(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_default).collect()
}
