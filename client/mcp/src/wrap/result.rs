//! The results of a server as the agent gets them: only the parts that are known, and bounded.

use super::message::RpcError;
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

/// Returns the result of a tool with at most `most` characters of text.
pub(super) fn bound_result(result: Value, most: usize) -> Value {
    let Value::Object(mut result) = result else {
        return failure("The server's answer is not the result of a tool.");
    };
    let mut is_error = result.get("isError") == Some(&json!(true));
    let blocks = match result.remove("content") {
        Some(Value::Array(blocks)) => blocks,
        Some(_) | None => Vec::new(),
    };
    let left_out = blocks.len().saturating_sub(MAX_BLOCKS);
    let mut room = Room { text: most, media: MAX_MEDIA };
    let mut content: Vec<Value> =
        blocks.into_iter().take(MAX_BLOCKS).map(|block| room.block(block)).collect();
    if left_out > 0 {
        content.push(text(&format!("[... {left_out} more blocks left out ...]")));
    }
    let mut bounded = Map::new();
    match result.remove("structuredContent") {
        Some(structured) if structured.to_string().chars().count() <= most => {
            bounded.insert("structuredContent".to_owned(), structured);
        }
        Some(structured) => {
            // A client may refuse a result without it, except if that is an error.
            is_error = true;
            let size = structured.to_string().chars().count();
            content.push(text(&format!(
                "[the structured content has {size} characters, more than the {most} of \
                 --max-output, and was left out: ask the tool for less]"
            )));
        }
        None => {}
    }
    bounded.insert("content".to_owned(), Value::Array(content));
    bounded.insert("isError".to_owned(), json!(is_error));
    Value::Object(bounded)
}

/// The room that is left in a result.
struct Room {
    text: usize,
    media: usize,
}

impl Room {
    fn block(&mut self, block: Value) -> Value {
        let Value::Object(block) = block else { return text("[a block that is no object]") };
        if block.get("type") == Some(&json!("text")) {
            let said = block.get("text").and_then(Value::as_str).unwrap_or_default();
            if self.text < LEAST && said.chars().count() > self.text {
                return text("[... a block of text left out: ask the tool for less ...]");
            }
            let rest = |_| "ask the tool for less".to_owned();
            let cut = head_and_tail(said, self.text, rest).text;
            self.text = self.text.saturating_sub(cut.chars().count());
            return text(&cut);
        }
        let size = Value::Object(block.clone()).to_string().len();
        if size > self.media {
            return text(&format!("[a block of {size} bytes left out: ask the tool for less]"));
        }
        self.media -= size;
        Value::Object(block)
    }
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

    #[test]
    fn a_small_result_is_passed_on_without_what_is_unknown() {
        let image = json!({"type": "image", "data": "eA==", "mimeType": "image/png"});
        let sent = json!({"content": [text("hello"), image], "structuredContent": {"a": 1},
            "isError": false, "_meta": {"x": 1}, "resultType": "input_required",
            "inputRequests": {"a": {"method": "elicitation/create"}}});
        let expected = json!({"content": [text("hello"), image], "structuredContent": {"a": 1},
            "isError": false});
        assert_eq!(bound_result(sent, 1000), expected);
        assert_eq!(bound_result(json!(7), 1000)["isError"], true);
        assert_eq!(bound_result(json!({}), 1000), json!({"content": [], "isError": false}));
    }

    #[test]
    fn the_text_of_all_blocks_together_is_bounded() {
        let sent = json!({"content": vec![text(&"line\n".repeat(1000)); 300]});
        let result = bound_result(sent, 2000);
        let blocks = result["content"].as_array().unwrap();
        assert_eq!(blocks.len(), MAX_BLOCKS + 1);
        let first = blocks[0]["text"].as_str().unwrap();
        assert!(first.starts_with("line\n") && first.ends_with("line\n"), "{first}");
        assert!(first.contains("characters left out; ask the tool for less"), "{first}");
        assert!(first.chars().count() <= 2000, "{}", first.chars().count());
        assert!(blocks[1]["text"].as_str().unwrap().contains("left out"), "{}", blocks[1]);
    }

    #[test]
    fn large_media_and_structured_content_are_left_out_and_said_to_be() {
        let blob = json!({"type": "image", "data": "x".repeat(MAX_MEDIA), "mimeType": "image/png"});
        let result = bound_result(json!({"content": [blob]}), 2000);
        assert!(result["content"][0]["text"].as_str().unwrap().contains("left out"), "{result}");
        let sent = json!({"content": [text("a")], "structuredContent": {"a": "x".repeat(3000)}});
        let result = bound_result(sent, 2000);
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
