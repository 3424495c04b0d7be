//! The results of a server as the agent gets them: only the parts that are known, and bounded.

use super::message::RpcError;
use crate::served_call::Remainder;
use palisade_client::model_text::head_and_tail;
use serde_json::{Map, Value, json};

/// The maximum number of blocks in a result.
const MAX_BLOCKS: usize = 256;

/// The maximum size of everything in a result that is not text, in bytes of JSON.
const MAX_MEDIA: usize = 5 << 20;

/// The maximum size of an answer that is not the result of a tool, in bytes of JSON.
const MAX_ANSWER: usize = 1 << 20;

/// The least room for a text, in characters.
const LEAST: usize = 300;

/// The other requests that are passed on, and the parts of their answers that are.
const PASSED: [(&str, &[&str]); 5] = [
    ("resources/list", &["resources", "nextCursor"]),
    ("resources/templates/list", &["resourceTemplates", "nextCursor"]),
    ("resources/read", &["contents"]),
    ("prompts/list", &["prompts", "nextCursor"]),
    ("prompts/get", &["description", "messages"]),
];

/// Returns the parts of the answer to a request that are passed on; `None` if the request is not.
pub(super) fn passed_parts(method: &str) -> Option<&'static [&'static str]> {
    PASSED.iter().find(|(name, _)| *name == method).map(|(_, parts)| *parts)
}

/// Returns the known parts of an answer, if it is not too large.
pub(super) fn bound_answer(answer: Value, parts: &[&str]) -> Result<Value, RpcError> {
    let Value::Object(mut answer) = answer else {
        return Err(RpcError::of_server("the server's answer is not an object"));
    };
    answer.retain(|key, _| parts.contains(&key.as_str()));
    let answer = Value::Object(answer);
    let size = answer.to_string().len();
    if size > MAX_ANSWER {
        return Err(RpcError::of_server(format!(
            "the server's answer has {size} bytes, and {MAX_ANSWER} are passed on at most"
        )));
    }
    Ok(answer)
}

/// Returns the result of a tool with at most `most` characters of text, and keeps the whole text if
/// something of it was left out.
pub(super) fn bound_result(result: Value, most: usize, remainder: &Remainder) -> Value {
    let Value::Object(mut result) = result else {
        return failure("The server's answer is not the result of a tool.");
    };
    let mut is_error = result.get("isError") == Some(&json!(true));
    let mut blocks = match result.remove("content") {
        Some(Value::Array(blocks)) => blocks,
        Some(_) | None => Vec::new(),
    };
    let excess = blocks.split_off(blocks.len().min(MAX_BLOCKS));
    let mut room = ResultRoom::new(most, remainder);
    let mut content: Vec<Value> =
        blocks.into_iter().filter_map(|block| room.block(block)).collect();
    if !excess.is_empty() {
        let start = room.whole.len();
        excess.iter().filter_map(said_in).for_each(|said| room.append(said));
        let rest = room.rest(start);
        content.push(text(&format!("[... {} more blocks left out; {rest} ...]", excess.len())));
    }
    let mut bounded = Map::new();
    if let Some(structured) = result.remove("structuredContent") {
        let said = structured.to_string();
        let size = said.chars().count();
        if size <= most {
            bounded.insert("structuredContent".to_owned(), structured);
        } else {
            // A client may refuse a result without it, except if that is an error.
            is_error |= matches!(remainder, Remainder::Lost);
            let start = room.whole.len();
            room.append(&said);
            let rest = room.rest(start);
            content.push(text(&format!(
                "[... the structured content was left out: it has {size} characters, more than \
                 the {most} of --max-output; {rest} ...]"
            )));
        }
    }
    if room.is_cut {
        remainder.keep(&room.whole);
    }
    bounded.insert("content".to_owned(), Value::Array(content));
    bounded.insert("isError".to_owned(), json!(is_error));
    Value::Object(bounded)
}

/// The room that is left in a result.
struct ResultRoom<'a> {
    text: usize,
    media: usize,
    remainder: &'a Remainder,
    /// The whole text so far, of which the result may have a part.
    whole: String,
    /// True if some of the text was left out.
    is_cut: bool,
    /// True if all text that follows is left out, which has been said.
    is_full: bool,
}

impl<'a> ResultRoom<'a> {
    fn new(text: usize, remainder: &'a Remainder) -> Self {
        let (whole, is_cut, is_full) = (String::new(), false, false);
        Self { text, media: MAX_MEDIA, remainder, whole, is_cut, is_full }
    }

    /// Returns a block as the result has it; `None` if it is left out without a word.
    fn block(&mut self, block: Value) -> Option<Value> {
        if let Some(said) = said_in(&block) {
            return self.said(said);
        }
        let Value::Object(block) = block else { return Some(text("[a block that is no object]")) };
        let size = Value::Object(block.clone()).to_string().len();
        if size > self.media {
            return Some(text(&format!(
                "[a block of {size} bytes left out: ask the tool for less]"
            )));
        }
        self.media -= size;
        Some(Value::Object(block))
    }

    fn said(&mut self, said: &str) -> Option<Value> {
        let start = self.whole.len();
        self.append(said);
        if self.is_full {
            return None;
        }
        if self.text < LEAST && said.chars().count() > self.text {
            self.is_full = true;
            let rest = self.rest(start);
            return Some(text(&format!("[... the rest of the text was left out; {rest} ...]")));
        }
        let cut = head_and_tail(said, self.text, |first| self.rest(start + first)).text;
        self.text = self.text.saturating_sub(cut.chars().count());
        Some(text(&cut))
    }

    /// Appends a text to the whole, on lines of its own.
    fn append(&mut self, said: &str) {
        self.whole.push_str(said);
        if !said.ends_with('\n') {
            self.whole.push('\n');
        }
    }

    /// Says how to get what is left out of the text, from this byte on.
    fn rest(&mut self, offset: usize) -> String {
        self.is_cut = true;
        self.remainder.describe(offset)
    }
}

/// Returns the text of a block that is text.
fn said_in(block: &Value) -> Option<&str> {
    let is_text = block.get("type") == Some(&json!("text"));
    is_text.then(|| block.get("text").and_then(Value::as_str).unwrap_or_default())
}

/// Returns a block of text.
pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns the result of a call that failed.
pub(super) fn failure(message: &str) -> Value {
    json!({"content": [text(message)], "isError": true})
}

/// Adds a line to a result.
pub(super) fn add_note(result: &mut Value, note: &str) {
    if let Some(content) = result.get_mut("content").and_then(Value::as_array_mut) {
        content.push(text(note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::Pages;
    use std::sync::Arc;

    #[test]
    fn a_small_result_is_passed_on_without_what_is_unknown() {
        let image = json!({"type": "image", "data": "eA==", "mimeType": "image/png"});
        let sent = json!({"content": [text("hello"), image], "structuredContent": {"a": 1},
            "isError": false, "_meta": {"x": 1}, "resultType": "input_required",
            "inputRequests": {"a": {"method": "elicitation/create"}}});
        let expected = json!({"content": [text("hello"), image], "structuredContent": {"a": 1},
            "isError": false});
        assert_eq!(bound_result(sent, 1000, &Remainder::Lost), expected);
        assert_eq!(bound_result(json!(7), 1000, &Remainder::Lost)["isError"], true);
        let nothing = bound_result(json!({}), 1000, &Remainder::Lost);
        assert_eq!(nothing, json!({"content": [], "isError": false}));
    }

    #[test]
    fn the_text_of_all_blocks_together_is_bounded() {
        let sent = json!({"content": vec![text(&"line\n".repeat(1000)); 300]});
        let result = bound_result(sent, 2000, &Remainder::Lost);
        let blocks = result["content"].as_array().unwrap();
        assert_eq!(blocks.len(), 3, "{result}");
        let first = blocks[0]["text"].as_str().unwrap();
        assert!(first.starts_with("line\n") && first.ends_with("line\n"), "{first}");
        assert!(first.contains("characters left out; ask the tool for less"), "{first}");
        assert!(first.chars().count() <= 2000, "{}", first.chars().count());
        let rest = "[... the rest of the text was left out; ask the tool for less ...]";
        assert_eq!(blocks[1], text(rest));
        assert_eq!(blocks[2], text("[... 44 more blocks left out; ask the tool for less ...]"));
    }

    #[test]
    fn what_is_left_out_is_kept_under_the_id_of_the_call() {
        let pages = Arc::new(Pages::default());
        let remainder =
            |call: &str| Remainder::Kept { call: call.to_owned(), pages: Arc::clone(&pages) };
        let whole = |call: &str| pages.read(call, 0, usize::MAX).unwrap().text;
        let line = "line\n".repeat(1000);
        let structured = json!({"a": "x".repeat(3000)});
        let sent = json!({"content": [text("first"), text(&line), text(&line)],
            "structuredContent": structured});
        let result = bound_result(sent, 2000, &remainder("c1"));
        let said = result["content"].to_string();
        assert_eq!(result["isError"], false, "{result}");
        assert_eq!(whole("c1"), format!("first\n{line}{line}{structured}\n"));
        // Each of the three parts that are left out has its place.
        let offsets: Vec<usize> = said
            .split("call_id \\\"c1\\\" and offset ")
            .skip(1)
            .map(|rest| rest.split_once(' ').unwrap().0.parse().unwrap())
            .collect();
        let head = result["content"][1]["text"].as_str().unwrap().find("\n[...").unwrap();
        assert_eq!(offsets, ["first\n".len() + head, 6 + line.len(), 6 + 2 * line.len()], "{said}");

        let many = vec![text("a"); MAX_BLOCKS + 2];
        let result = bound_result(json!({"content": many}), 2000, &remainder("c2"));
        let rest = result["content"][MAX_BLOCKS]["text"].as_str().unwrap();
        assert!(rest.contains("2 more blocks left out") && rest.contains("offset 512 "), "{rest}");
        assert_eq!(pages.read("c2", 512, 100).unwrap().text, "a\na\n");
        // Nothing is kept of a result that is whole.
        bound_result(json!({"content": [text("a")]}), 2000, &remainder("c3"));
        assert_eq!(pages.read("c3", 0, 1), None);
    }

    #[test]
    fn large_media_and_structured_content_are_left_out_and_said_to_be() {
        let blob = json!({"type": "image", "data": "x".repeat(MAX_MEDIA), "mimeType": "image/png"});
        let result = bound_result(json!({"content": [blob]}), 2000, &Remainder::Lost);
        assert!(result["content"][0]["text"].as_str().unwrap().contains("left out"), "{result}");
        let sent = json!({"content": [text("a")], "structuredContent": {"a": "x".repeat(3000)}});
        let result = bound_result(sent, 2000, &Remainder::Lost);
        assert_eq!(
            (&result["isError"], &result["structuredContent"]),
            (&json!(true), &Value::Null)
        );
        assert_eq!(result["content"][0]["text"], "a");
    }

    #[test]
    fn other_answers_have_their_known_parts_only() {
        let parts = passed_parts("resources/read").unwrap();
        let answer = bound_answer(json!({"contents": [], "_meta": {}, "x": 1}), parts);
        assert_eq!(answer, Ok(json!({"contents": []})));
        assert!(bound_answer(json!({"contents": "x".repeat(MAX_ANSWER)}), parts).is_err());
        assert!(bound_answer(json!([]), parts).is_err());
        assert_eq!(passed_parts("sampling/createMessage"), None);
    }
}
