//! Files that are not text: images as image blocks, PDFs and others as resources.

use palisade_client::CallResult;
use rmcp::model::{ContentBlock, ResourceContents};
use serde_json::Value;

/// The images that models can see.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The maximum length of an attached file, in characters of base64: the APIs of models take 5 MiB.
const MAX_ATTACHED: usize = 5 << 20;

/// A file as a model gets it.
#[derive(Debug)]
pub(super) struct Media {
    pub(super) block: ContentBlock,
    pub(super) caption: String,
}

/// Returns the file that a result of `read_file` has, if it is not text.
pub(super) fn of(result: &CallResult) -> Option<Media> {
    if result.tool.as_str() != "read_file" || !result.success {
        return None;
    }
    let data: Value = serde_json::from_str(result.data.as_ref()?.as_str()).ok()?;
    let text = |name: &str| data.get(name).and_then(Value::as_str);
    let (content, kind) = (text("content")?, text("media_type")?);
    let bytes = data.get("bytes").and_then(Value::as_u64).unwrap_or_default();
    if content.len() > MAX_ATTACHED {
        let caption = format!("[{kind}, {bytes} bytes: too large to be shown]");
        let block = ContentBlock::text("Use bash to look at parts of it, or to make it smaller.");
        return Some(Media { block, caption });
    }
    let caption = format!("[{kind}, {bytes} bytes]");
    let block = if IMAGES.contains(&kind) {
        ContentBlock::image(content, kind)
    } else {
        let uri = format!("file://{}", text("path").unwrap_or_default());
        ContentBlock::resource(ResourceContents::blob(content, uri).with_mime_type(kind))
    };
    Some(Media { block, caption })
}
