//! The accesses of a recording session's programs, for the result. Runs in the broker. Pure: no
//! I/O.

use palisade_plan::record::{Recorded, RecordedUse};
use palisade_protocol::JsonText;
use serde_json::{Map, Value, json};

/// Adds `recorded` to a result's `data`.
pub(crate) fn with_recorded(data: Option<JsonText>, recorded: &Recorded) -> Option<JsonText> {
    let object =
        data.as_ref().map(|data| serde_json::from_str::<Map<String, Value>>(data.as_str()));
    // Data that is not an object is the tool's own and matters more.
    let Ok(object) = object.transpose() else { return data };
    let mut object = object.unwrap_or_default();
    object.insert("recorded".to_owned(), all(recorded));
    JsonText::parse(Value::Object(object).to_string()).ok().or(data)
}

fn all(recorded: &Recorded) -> Value {
    let mut lost = recorded.lost;
    let mut accesses = Vec::with_capacity(recorded.noted.len());
    for note in &recorded.noted {
        match one(note) {
            Some(access) => accesses.push(access),
            None => lost += 1,
        }
    }
    let used = &recorded.used;
    json!({
        "accesses": accesses,
        "lost": lost,
        "used": {
            "memory_bytes": used.memory_bytes,
            "processes": used.processes,
            "cpu_ms": used.cpu_ms,
        },
    })
}

/// Returns one access as JSON; `None` if its path is not UTF-8.
fn one(note: &RecordedUse) -> Option<Value> {
    let path = std::str::from_utf8(&note.path.0).ok()?;
    Some(json!({"right": note.right.name(), "path": path, "kind": note.kind.name()}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::{
        Path,
        record::{Right, TargetKind},
    };

    #[test]
    fn what_was_used_stands_beside_what_the_tool_says() {
        let note = |path: &[u8]| RecordedUse {
            right: Right::Read,
            path: Path(path.to_vec()),
            kind: TargetKind::File,
        };
        let noted = vec![note(b"/a"), note(b"/\xff")];
        let recorded = Recorded { noted, lost: 2, ..Recorded::default() };
        let expected = r#"{"recorded":{"accesses":[{"kind":"file","path":"/a","right":"read"}],"lost":3,"used":{"cpu_ms":0,"memory_bytes":0,"processes":0}}}"#;
        assert_eq!(with_recorded(None, &recorded).unwrap().as_str(), expected);
        let own = JsonText::parse(r#"{"transaction":1}"#.to_owned()).unwrap();
        let both = with_recorded(Some(own), &recorded).unwrap();
        assert!(both.as_str().ends_with(r#","transaction":1}"#), "{}", both.as_str());
    }
}
