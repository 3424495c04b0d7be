//! Reads frames only by the layout that PROTOCOL.md prints, as a client in another language would.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

type Row = (&'static str, Option<&'static str>);

#[derive(Debug)]
enum Shape {
    Struct(Vec<Row>),
    Enum(Vec<Row>),
}

#[derive(Debug)]
pub(crate) struct Layout(BTreeMap<&'static str, Shape>);

impl Layout {
    pub(crate) fn parse(text: &'static str, codes: Vec<&'static str>) -> Self {
        let codes = codes.into_iter().map(|code| (code, None)).collect();
        let mut shapes = BTreeMap::from([("ErrorCode", Shape::Enum(codes))]);
        let mut current = "";
        for line in text.lines().filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if !line.starts_with(' ') {
                current = words[1];
                let shape = match words[0] {
                    "struct" => Shape::Struct(Vec::new()),
                    "enum" => Shape::Enum(Vec::new()),
                    other => panic!("{other}"),
                };
                assert!(shapes.insert(current, shape).is_none(), "{current} is there twice");
                continue;
            }
            match shapes.get_mut(current).unwrap() {
                Shape::Struct(rows) => rows.push((words[0], Some(words[1]))),
                Shape::Enum(rows) => {
                    assert_eq!(words[0].parse(), Ok(rows.len()), "{current}: {line}");
                    rows.push((words[1], words.get(2).copied()));
                }
            }
        }
        Self(shapes)
    }

    pub(crate) fn variants(&self, name: &str) -> usize {
        match &self.0[name] {
            Shape::Struct(_) => panic!("{name} is no enum"),
            Shape::Enum(rows) => rows.len(),
        }
    }

    /// Reads the whole of a frame's body, as a value of the named type.
    pub(crate) fn read(&self, name: &str, body: &[u8]) -> Value {
        let mut rest = body;
        let value = self.value(name, &mut rest);
        assert!(rest.is_empty(), "{} bytes are left", rest.len());
        value
    }

    fn value(&self, kind: &str, rest: &mut &[u8]) -> Value {
        if let Some(inner) = kind.strip_prefix('?') {
            return match take(rest, 1)[0] {
                0 => Value::Null,
                1 => self.value(inner, rest),
                other => panic!("option {other}"),
            };
        }
        if let Some(inner) = kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) {
            return (0..number(rest)).map(|_| self.value(inner, rest)).collect();
        }
        match kind {
            "u16" | "u32" | "u64" => json!(number(rest)),
            "i32" => {
                let zigzag = number(rest).cast_signed();
                json!((zigzag >> 1) ^ -(zigzag & 1))
            }
            "bool" => json!([false, true][usize::from(take(rest, 1)[0])]),
            "text" | "name" => json!(text(rest)),
            "json" => serde_json::from_str(&text(rest)).unwrap(),
            "bytes" => json!(STANDARD.encode(blob(rest))),
            "path" => match String::from_utf8(blob(rest).to_vec()) {
                Ok(text) => json!(text),
                Err(e) => json!({"base64": STANDARD.encode(e.as_bytes())}),
            },
            name => self.shape(name, rest),
        }
    }

    fn shape(&self, name: &str, rest: &mut &[u8]) -> Value {
        match self.0.get(name).unwrap_or_else(|| panic!("the page does not say what {name} is")) {
            Shape::Struct(rows) => {
                let mut fields = Map::new();
                for (field, kind) in rows {
                    fields.insert((*field).to_owned(), self.value(kind.unwrap(), rest));
                }
                Value::Object(fields)
            }
            Shape::Enum(rows) => match rows[usize::try_from(number(rest)).unwrap()] {
                (variant, Some(kind)) => json!({variant: self.value(kind, rest)}),
                (variant, None) => json!(variant),
            },
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    rest.split_off(..count).unwrap()
}

fn number(rest: &mut &[u8]) -> u64 {
    let width = match take(rest, 1)[0] {
        small @ 0..=250 => return u64::from(small),
        251 => 2,
        252 => 4,
        253 => 8,
        other => panic!("number {other}"),
    };
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(take(rest, width));
    u64::from_le_bytes(bytes)
}

fn blob<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = number(rest);
    take(rest, usize::try_from(length).unwrap())
}

fn text(rest: &mut &[u8]) -> String {
    String::from_utf8(blob(rest).to_vec()).unwrap()
}
