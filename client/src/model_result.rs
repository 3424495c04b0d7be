//! A result as a message to a model, in the forms that the APIs of models take.

use crate::model_text::{IMAGES, MediaFile, head_and_tail, message_limit, notes};
use palisade_protocol::CallResult;
use serde_json::{Value, json};

/// The media type of documents that models can read.
const PDF: &str = "application/pdf";

/// A result as a model reads it: the output, cut to its head and tail, then what went wrong and what
/// to do about it.
///
/// ```no_run
/// # async fn example(session: palisade_client::Session) -> Result<(), palisade_client::Error> {
/// use palisade_client::ModelResult;
/// # let (tool_use_id, mut messages) = ("toolu_1", Vec::new());
/// let result = session.bash("make test").await?;
/// let block = ModelResult::new(&result, 30_000).anthropic(tool_use_id);
/// messages.push(serde_json::json!({"role": "user", "content": [block]}));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelResult {
    /// The text.
    pub text: String,
    /// The number of characters of the output that the text leaves out.
    pub omitted: usize,
    /// The file that the call read, if it is not text.
    pub file: Option<MediaFile>,
    /// True if the call did not succeed.
    pub is_error: bool,
}

impl ModelResult {
    /// Renders a result in at most `most` characters, not counting a file.
    #[must_use]
    pub fn new(result: &CallResult, most: usize) -> Self {
        let footer = notes(result, message_limit(most)).join("\n");
        let file = MediaFile::of(result);
        let output = file.as_ref().map_or_else(|| result.output.clone(), |file| file.text(result));
        let room = most.saturating_sub(footer.chars().count() + 1);
        let cut = head_and_tail(&output, room, |_| "use a narrower command".to_owned());
        let mut text = cut.text;
        if !text.is_empty() && !text.ends_with('\n') && !footer.is_empty() {
            text.push('\n');
        }
        text.push_str(&footer);
        Self { text, omitted: cut.omitted, file, is_error: !result.success }
    }

    /// Returns a `tool_result` block of Anthropic's messages. Images and PDFs are included.
    #[must_use]
    pub fn anthropic(&self, tool_use_id: &str) -> Value {
        let mut content = vec![json!({"type": "text", "text": self.text})];
        if let Some((MediaFile { media_type, .. }, data)) = self.attached() {
            let source = json!({"type": "base64", "media_type": media_type, "data": data});
            if IMAGES.contains(&media_type.as_str()) {
                content.push(json!({"type": "image", "source": source}));
            } else if media_type == PDF {
                content.push(json!({"type": "document", "source": source}));
            }
        }
        json!({
            "type": "tool_result", "tool_use_id": tool_use_id, "content": content,
            "is_error": self.is_error,
        })
    }

    /// Returns a message with the role `tool` of OpenAI's chat completions, which take text only.
    #[must_use]
    pub fn openai_chat(&self, tool_call_id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": tool_call_id, "content": self.text})
    }

    /// Returns a `function_call_output` item of OpenAI's responses. Images are included.
    #[must_use]
    pub fn openai_response(&self, call_id: &str) -> Value {
        let mut output = vec![json!({"type": "input_text", "text": self.text})];
        if let Some((MediaFile { media_type, .. }, data)) = self.attached()
            && IMAGES.contains(&media_type.as_str())
        {
            let url = format!("data:{media_type};base64,{data}");
            output.push(json!({"type": "input_image", "image_url": url}));
        }
        json!({"type": "function_call_output", "call_id": call_id, "output": output})
    }

    /// Returns the file with its content, unless it is too large.
    fn attached(&self) -> Option<(&MediaFile, &str)> {
        let file = self.file.as_ref()?;
        Some((file, file.content.as_deref()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::{Denial, ErrorCode, Receipt, WireError};

    fn result(change: Value) -> CallResult {
        let mut text = json!({
            "call_id": "c1", "tool": "bash", "success": true, "output": "hello\n",
            "truncated": false, "lossy": false, "execution_time_ms": 1, "error": null,
            "stdout": "hello\n", "stderr": "", "exit_code": 0, "signal": null,
            "timed_out": false, "cancelled": false, "oom": false, "pipe_held": false,
            "omitted_bytes": 0, "spool": null, "data": null, "undo": null, "findings": [],
            "denials": [], "checkpoint": null, "route": null,
            "receipt": serde_json::to_value(Receipt::default()).unwrap(),
        });
        let (Some(all), Value::Object(change)) = (text.as_object_mut(), change) else {
            panic!("not objects");
        };
        all.extend(change);
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_command_is_its_output_and_its_status() {
        let read = ModelResult::new(&result(json!({})), 1000);
        assert_eq!(read.text, "hello\n[exit 0]");
        let expected = json!({"role": "tool", "tool_call_id": "a", "content": "hello\n[exit 0]"});
        assert_eq!(read.openai_chat("a"), expected);
        let expected = json!({
            "type": "tool_result", "tool_use_id": "a", "is_error": false,
            "content": [{"type": "text", "text": "hello\n[exit 0]"}],
        });
        assert_eq!(read.anthropic("a"), expected);
    }

    #[test]
    fn a_result_without_output_says_so() {
        for (tool, data, text) in [
            ("grep", json!({"matches": []}), "[no match]"),
            ("glob", json!({"files": []}), "[no match]"),
            ("list_files", json!({"entries": []}), "[no entries]"),
            ("read_file", json!({"size": 0}), "[the file is empty]"),
            ("read_file", json!({"size": 9}), "[no lines in this range]"),
            ("of_a_provider", Value::Null, "[no output]"),
        ] {
            let empty = json!({"tool": tool, "output": "", "exit_code": null, "data": data});
            assert_eq!(ModelResult::new(&result(empty), 1000).text, text, "{tool}");
        }
        let empty = ModelResult::new(&result(json!({"output": ""})), 1000);
        assert_eq!(empty.text, "[exit 0]");
    }

    #[test]
    fn a_denial_says_why_and_what_to_do() {
        let mut denied = result(json!({"success": false, "output": "", "exit_code": null}));
        denied.error = Some(WireError::new(ErrorCode::Denied, "it deleted a.txt", "ask alice"));
        denied.denials = vec![Denial {
            layer: "landlock".to_owned(),
            rule: "write: x".to_owned(),
            target: "/usr/x".to_owned(),
            remedy: "add /usr/x to fs.write".to_owned(),
            at: String::new(),
            opens: String::new(),
        }];
        let read = ModelResult::new(&denied, 1000);
        let expected = "Denied: it deleted a.txt\nWhat to do: ask alice\nRefused by landlock: \
                        /usr/x (write: x). To allow it: add /usr/x to fs.write";
        assert_eq!(read.text, expected);
        assert_eq!(read.anthropic("a")["is_error"], true);
    }

    #[test]
    fn a_long_output_keeps_its_ends_and_its_status() {
        let long: String = (0..5000).map(|n| format!("line {n}\n")).collect();
        let read = ModelResult::new(&result(json!({"output": long, "exit_code": 3})), 2000);
        assert!(read.text.chars().count() <= 2000, "{}", read.text.len());
        assert!(read.text.starts_with("line 0\n") && read.text.ends_with("line 4999\n[exit 3]"));
        assert!(read.omitted > 10_000);
    }

    #[test]
    fn an_image_is_attached_where_the_api_takes_one() {
        let file = |kind: &str| {
            let data = json!({"content": "AAAA", "media_type": kind, "bytes": 3, "path": "/w/a"});
            let read = json!({"tool": "read_file", "output": "", "exit_code": null, "data": data});
            ModelResult::new(&result(read), 1000)
        };
        let image = file("image/png");
        assert_eq!(image.text, "[image/png, 3 bytes]");
        let source = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
        let block = json!({"type": "image", "source": source});
        assert_eq!(image.anthropic("a")["content"][1], block);
        let part = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"});
        assert_eq!(image.openai_response("a")["output"][1], part);
        assert_eq!(image.openai_chat("a")["content"], "[image/png, 3 bytes]");

        assert_eq!(file(PDF).anthropic("a")["content"][1]["type"], "document");
        let url = "https://docs.example/a.png";
        let data =
            json!({"content": "AAAA", "media_type": "image/png", "bytes": 3, "final_url": url});
        let fetched =
            json!({"tool": "web_fetch", "output": "[mark]", "exit_code": null, "data": data});
        let fetched = ModelResult::new(&result(fetched), 1000);
        assert_eq!(fetched.text, "[mark]", "the marks of the network stay");
        assert_eq!(fetched.anthropic("a")["content"][1], block);
        assert_eq!(file("application/zip").anthropic("a")["content"][1], Value::Null);
    }
}
