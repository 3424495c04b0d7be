//! Rewrites a tool's JSON Schema so that every model's API and every validator accepts it. A schema may be
//! a stranger's: a provider of tools or another server wrote it.

use crate::model_text::shorten;
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, ptr};

/// The depths to which a schema is rewritten: the first at which it is small enough.
const DEPTHS: [usize; 3] = [12, 4, 2];

/// The maximum number of schemas that are read for one tool, with those that references repeat.
const MAX_PARTS: usize = 4096;

/// The maximum size of the names, descriptions and values of one tool's schema, in bytes.
const MAX_BYTES: usize = 128 << 10;

/// How often a definition may stand inside itself.
const MAX_REPEATED: usize = 2;

/// The maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 4000;

/// The maximum length of a value that stands in a description, in bytes.
const MAX_SHOWN: usize = 500;

/// The maximum length of an argument's name, in bytes.
const MAX_NAME: usize = 64;

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// The schema is too large at the depth that was tried.
#[derive(Debug)]
struct TooLarge;

/// A schema together with what it refers to and what must hold beside it. The first that has a keyword
/// counts.
type Layers<'a> = Vec<Layer<'a>>;

type Layer<'a> = &'a Map<String, Value>;

/// Returns a schema that allows all that the given one does, and uses only what every API accepts:
///
/// - an object has `properties`, if need be none, and an array has `items`;
/// - no references, no lists of types, no `null` as an alternative to leaving an argument out;
/// - the values of an enumeration are in `enum`, and what they mean is in the description;
/// - a default value and a pattern are in the description;
/// - a keyword stands only beside the type that it is for, with a value that it may have.
///
/// A schema that is too large, or too deep, is cut to what it says of its first levels. If that is too
/// large too, the result allows every object.
#[must_use]
pub fn plain_schema(schema: &Value) -> Value {
    for most in DEPTHS {
        let (parts, bytes) = (MAX_PARTS, MAX_BYTES);
        let mut rewriter = Rewriter { root: schema, most, parts, bytes, path: Vec::new() };
        if let Ok(top) = rewriter.top() {
            return top;
        }
    }
    json!({"type": "object", "properties": {}, "additionalProperties": true,
        "description": "Any arguments: the schema of this tool is too large to be shown."})
}

/// The state of one rewriting.
struct Rewriter<'a> {
    root: &'a Value,
    /// The maximum depth.
    most: usize,
    /// The number of parts and bytes that may still be read and written.
    parts: usize,
    bytes: usize,
    /// The schemas that the present one stands in.
    path: Layers<'a>,
}

impl<'a> Rewriter<'a> {
    fn top(&mut self) -> Result<Value, TooLarge> {
        let Value::Object(mut top) = self.plain(self.root, 0)? else { return Ok(json!({})) };
        if top.get("type") != Some(&json!("object")) {
            top.retain(|key, _| key == "anyOf");
            top.insert("type".to_owned(), json!("object"));
        }
        // It only says which tool this is.
        top.remove("description");
        top.remove("enum");
        let alternatives = top.remove("anyOf");
        let properties = top.entry("properties").or_insert_with(|| json!({}));
        // An API accepts no alternatives here: the arguments of each are offered.
        if let (Some(Value::Array(alternatives)), Value::Object(properties)) =
            (alternatives, properties)
        {
            for alternative in &alternatives {
                let more = alternative.get("properties").and_then(Value::as_object);
                let more = more.into_iter().flatten();
                for (name, schema) in more.filter(|(name, _)| is_name(name, 1)) {
                    let known = properties.entry(name).or_insert_with(|| schema.clone());
                    if known != schema {
                        *known = json!({});
                    }
                }
            }
            top.remove("additionalProperties");
        }
        Ok(Value::Object(top))
    }

    fn plain(&mut self, schema: &'a Value, depth: usize) -> Result<Value, TooLarge> {
        let layers = self.layers(schema)?;
        let above = self.path.len();
        let is_repeated = layers.iter().any(|layer| {
            self.path.iter().filter(|above| ptr::eq(**above, *layer)).count() >= MAX_REPEATED
        });
        let inside = (depth < self.most && !is_repeated).then_some(depth + 1);
        self.path.extend(&layers);
        let plain = self.rewritten(&layers, inside);
        self.path.truncate(above);
        plain
    }

    /// Rewrites a schema. What stands inside is at the given depth, and left out at none.
    fn rewritten(
        &mut self,
        layers: &[Layer<'a>],
        inside: Option<usize>,
    ) -> Result<Value, TooLarge> {
        let mut plain = Map::new();
        let mut description = one_line(layers);
        let mut values = self.values(layers)?;
        let types = types(layers);
        let mut alternatives = Vec::new();
        if let Some(several) = alternatives_of(layers) {
            if let Some(constants) = self.constants(&several, &mut description)? {
                values = Some(constants);
            } else if let Some(depth) = inside {
                for alternative in several {
                    alternatives.push(self.plain(alternative, depth)?);
                }
            }
        }
        let kind = match &types[..] {
            [only] => Some(*only),
            [] if get(layers, "properties").is_some() => Some("object"),
            [] if get(layers, "items").is_some() => Some("array"),
            [] => {
                let is_text = values.as_ref().is_some_and(|all| all.iter().all(Value::is_string));
                is_text.then_some("string")
            }
            several => {
                if alternatives.is_empty() {
                    alternatives.extend(several.iter().map(|kind| json!({"type": kind})));
                }
                None
            }
        };
        if let Some(kind) = kind {
            plain.insert("type".to_owned(), json!(kind));
            bounds(kind, layers, &mut plain);
            match kind {
                "object" => self.object(layers, inside, &mut plain)?,
                "array" => self.array(layers, inside, &mut plain)?,
                _ => {}
            }
            // One of another type would never be met.
            if alternatives.iter().any(|one| one.get("type") != plain.get("type")) {
                alternatives.clear();
            }
        }
        if !alternatives.is_empty() {
            plain.insert("anyOf".to_owned(), Value::Array(alternatives));
        }
        if let Some(values) = values {
            plain.insert("enum".to_owned(), Value::Array(values));
        }
        description.push_str(&notes(layers));
        let description = shorten(description.trim(), MAX_DESCRIPTION);
        if !description.is_empty() {
            self.spend(&description)?;
            plain.insert("description".to_owned(), Value::String(description));
        }
        Ok(Value::Object(plain))
    }

    /// Collects what holds for the same value: the schema, what it refers to, all of `allOf`, and an
    /// only alternative. No schema is in it twice, so that one that refers to itself ends.
    fn layers(&mut self, schema: &'a Value) -> Result<Layers<'a>, TooLarge> {
        let mut layers: Layers<'a> = Vec::new();
        let mut waiting: Vec<&'a Value> = vec![schema];
        while let Some(next) = waiting.pop() {
            self.parts = self.parts.checked_sub(1).ok_or(TooLarge)?;
            let Some(object) = next.as_object() else { continue };
            if layers.iter().any(|layer| ptr::eq(*layer, object)) {
                continue;
            }
            layers.push(object);
            let several = alternatives(object);
            self.parts = self.parts.checked_sub(several.len()).ok_or(TooLarge)?;
            if let [only] = several[..] {
                waiting.push(only);
            }
            if let Some(Value::Array(all)) = object.get("allOf") {
                // More than this is over the budget anyway.
                waiting.extend(all.iter().take(self.parts + 1).rev());
            }
            if let Some(Value::String(reference)) = object.get("$ref")
                && let Some(pointer) = reference.strip_prefix('#')
            {
                self.spend(reference)?;
                waiting.extend(self.root.pointer(pointer));
            }
        }
        Ok(layers)
    }

    /// Returns the values that a schema allows, if it lists them.
    fn values(&mut self, layers: &[Layer<'a>]) -> Result<Option<Vec<Value>>, TooLarge> {
        if let Some(value) = get(layers, "const") {
            self.spend(&value.to_string())?;
            return Ok(Some(vec![value.clone()]));
        }
        let Some(Value::Array(listed)) = get(layers, "enum") else { return Ok(None) };
        let (mut values, mut known) = (Vec::new(), BTreeSet::new());
        for value in listed {
            let text = value.to_string();
            self.spend(&text)?;
            if !value.is_null() && known.insert(text) {
                values.push(value.clone());
            }
        }
        Ok((!values.is_empty()).then_some(values))
    }

    /// Returns the values of alternatives that are constants, and describes them; `None` if they are
    /// not.
    fn constants(
        &mut self,
        alternatives: &[&'a Value],
        description: &mut String,
    ) -> Result<Option<Vec<Value>>, TooLarge> {
        let mut constants = Vec::new();
        for alternative in alternatives {
            let layers = self.layers(alternative)?;
            let Some(value) = get(&layers, "const") else { return Ok(None) };
            self.spend(&value.to_string())?;
            constants.push(value.clone());
            let meaning = one_line(&layers);
            if !meaning.is_empty() {
                self.spend(&meaning)?;
                description.push_str(&format!(" {}: {meaning}", shown(value)));
            }
        }
        Ok(Some(constants))
    }

    fn object(
        &mut self,
        layers: &[Layer<'a>],
        inside: Option<usize>,
        plain: &mut Map<String, Value>,
    ) -> Result<(), TooLarge> {
        let mut properties = Map::new();
        let mut more = get(layers, "additionalProperties");
        let all = layers.iter().filter_map(|layer| layer.get("properties")?.as_object());
        for (name, schema) in all.flatten() {
            self.spend(name)?;
            match inside {
                Some(depth) if is_name(name, depth) => {
                    if !properties.contains_key(name) {
                        properties.insert(name.clone(), self.plain(schema, depth)?);
                    }
                }
                // What is not told may be given all the same.
                _ => more = None,
            }
        }
        let mut required: Vec<&str> = Vec::new();
        let all = layers.iter().filter_map(|layer| layer.get("required")?.as_array()).flatten();
        for name in all.map(|name| name.as_str().unwrap_or_default()) {
            self.spend(name)?;
            if properties.contains_key(name) && !required.contains(&name) {
                required.push(name);
            }
        }
        if !required.is_empty() {
            plain.insert("required".to_owned(), json!(required));
        }
        match (more, inside) {
            (Some(schema @ Value::Object(_)), Some(depth)) => {
                let more = self.plain(schema, depth)?;
                plain.insert("additionalProperties".to_owned(), more);
            }
            (Some(more @ Value::Bool(_)), _) => {
                plain.insert("additionalProperties".to_owned(), more.clone());
            }
            _ => {}
        }
        plain.insert("properties".to_owned(), Value::Object(properties));
        Ok(())
    }

    fn array(
        &mut self,
        layers: &[Layer<'a>],
        inside: Option<usize>,
        plain: &mut Map<String, Value>,
    ) -> Result<(), TooLarge> {
        // A schema for each place can not be said everywhere, so nothing is said of any.
        let items = get(layers, "items").filter(|items| items.is_object());
        let items = items.filter(|_| get(layers, "prefixItems").is_none());
        let items = match items.zip(inside) {
            Some((items, depth)) => self.plain(items, depth)?,
            None => json!({}),
        };
        plain.insert("items".to_owned(), items);
        Ok(())
    }

    fn spend(&mut self, text: &str) -> Result<(), TooLarge> {
        // An empty one costs time too.
        self.bytes = self.bytes.checked_sub(text.len() + 1).ok_or(TooLarge)?;
        Ok(())
    }
}

/// Returns the value of a keyword.
fn get<'a>(layers: &[Layer<'a>], key: &str) -> Option<&'a Value> {
    layers.iter().find_map(|layer| layer.get(key))
}

/// Returns the types that a schema allows, without `null` where there is another.
fn types<'a>(layers: &[Layer<'a>]) -> Vec<&'a str> {
    let is_type = |kind: &&str| TYPES.contains(kind);
    match get(layers, "type") {
        Some(Value::String(only)) => Some(only.as_str()).filter(is_type).into_iter().collect(),
        Some(Value::Array(several)) => {
            let mut types: Vec<&str> = Vec::new();
            for kind in several.iter().take(TYPES.len()).filter_map(Value::as_str).filter(is_type) {
                if kind != "null" && !types.contains(&kind) {
                    types.push(kind);
                }
            }
            types
        }
        _ => Vec::new(),
    }
}

/// Returns the alternatives of a schema other than `null`.
fn alternatives(object: &Map<String, Value>) -> Vec<&Value> {
    let listed = ["oneOf", "anyOf"].iter().find_map(|key| object.get(*key)?.as_array());
    let null = json!("null");
    let is_value = |one: &&Value| one.get("type") != Some(&null);
    // More than this is over the budget anyway.
    listed.into_iter().flatten().filter(is_value).take(MAX_PARTS + 1).collect()
}

/// Returns the first alternatives that are more than one.
fn alternatives_of<'a>(layers: &[Layer<'a>]) -> Option<Vec<&'a Value>> {
    layers.iter().map(|layer| alternatives(layer)).find(|several| several.len() > 1)
}

/// Copies the bounds of a type.
fn bounds(kind: &str, layers: &[Layer<'_>], plain: &mut Map<String, Value>) {
    let (counts, numbers): (&[&str], &[&str]) = match kind {
        "string" => (&["minLength", "maxLength"], &[]),
        "array" => (&["minItems", "maxItems"], &[]),
        "object" => (&["minProperties", "maxProperties"], &[]),
        "integer" | "number" => {
            (&[], &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
        }
        _ => (&[], &[]),
    };
    let is_number = |key: &str, value: &Value| {
        value.as_f64().is_some_and(|number| key != "multipleOf" || number > 0.0)
    };
    let counts = counts.iter().map(|key| (*key, get(layers, key).filter(|value| value.is_u64())));
    let numbers =
        numbers.iter().map(|key| (*key, get(layers, key).filter(|value| is_number(key, value))));
    for (key, value) in counts.chain(numbers) {
        if let Some(value) = value {
            plain.insert(key.to_owned(), value.clone());
        }
    }
    if let (Some(unique @ Value::Bool(_)), "array") = (get(layers, "uniqueItems"), kind) {
        plain.insert("uniqueItems".to_owned(), unique.clone());
    }
}

/// Returns `true` if models' APIs accept an argument's name: they do not accept every one of a tool's own.
fn is_name(name: &str, depth: usize) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let is_accepted = |c: char| if depth == 1 { is_plain(c) } else { !c.is_control() };
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_accepted)
}

/// Returns the default value and the pattern, as they stand in a description.
fn notes(layers: &[Layer<'_>]) -> String {
    let mut text = String::new();
    if let Some(value) = get(layers, "default").filter(|value| !value.is_null())
        && let Some(value) = short(value)
    {
        text.push_str(&format!(" Default: {value}."));
    }
    if let Some(pattern @ Value::String(_)) = get(layers, "pattern")
        && let Some(pattern) = short(pattern)
    {
        text.push_str(&format!(" Pattern: {pattern}."));
    }
    text
}

/// Returns the description that was given, in one line.
fn one_line(layers: &[Layer<'_>]) -> String {
    let said = get(layers, "description").and_then(Value::as_str).unwrap_or_default();
    // A character has at most four bytes.
    let said = said.get(..said.floor_char_boundary(4 * MAX_DESCRIPTION)).unwrap_or_default();
    let words: Vec<&str> = said.split_whitespace().collect();
    let line = words.join(" ").replace(char::is_control, "\u{fffd}");
    shorten(&line, MAX_DESCRIPTION)
}

/// Returns a value as it stands in a description; `None` if it is long.
fn short(value: &Value) -> Option<String> {
    is_short(value, &mut { MAX_SHOWN }).then(|| shown(value))
}

/// Returns `true` if a value has no more parts and characters than are left, and no control characters.
fn is_short(value: &Value, left: &mut usize) -> bool {
    let (size, is_plain) = match value {
        Value::String(text) => (text.len(), !text.contains(char::is_control)),
        Value::Object(fields) => (fields.keys().map(String::len).sum(), true),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => (0, true),
    };
    let Some(rest) = left.checked_sub(size + 1) else { return false };
    *left = rest;
    is_plain
        && match value {
            Value::Array(list) => list.iter().all(|value| is_short(value, left)),
            Value::Object(fields) => fields.values().all(|value| is_short(value, left)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
}

fn shown(value: &Value) -> String {
    match value.as_str() {
        Some(text) => format!("`{text}`"),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests;
