//! The claims of a client about itself and its conversation, for the audit log: its name, and the ids in
//! the `_meta` of a request. Nothing depends on it, so what is too long is cut or left out.

use palisade_client::{
    Claim,
    limits::{MAX_CLAIM, MAX_CLAIMS, MAX_NAME},
};
use rmcp::model::Implementation;
use serde_json::{Map, Value};

/// The name of the claim that says which program the client is.
const CLIENT: &str = "client";

/// The beginning of the keys that belong to the protocol itself, and say nothing about the client.
const PROTOCOL: &str = "io.modelcontextprotocol/";

/// Collects the claims of a request.
pub(crate) fn collect(client: Option<&Implementation>, meta: &Map<String, Value>) -> Vec<Claim> {
    let client = client.map(|client| Claim {
        name: CLIENT.to_owned(),
        value: cut(&format!("{} {}", client.name, client.version)),
    });
    let facts = meta.iter().filter_map(|(name, value)| {
        let is_told = name != "progressToken" && !name.starts_with(PROTOCOL) && name != CLIENT;
        let value = match value {
            Value::String(text) => cut(text),
            Value::Number(number) => number.to_string(),
            Value::Bool(_) | Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        let is_named = (1..=MAX_NAME).contains(&name.len());
        (is_told && is_named).then(|| Claim { name: name.clone(), value })
    });
    client.into_iter().chain(facts).take(MAX_CLAIMS).collect()
}

/// Cuts a text to the longest value of a claim.
fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_CLAIM)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pairs(claims: &[Claim]) -> Vec<(&str, &str)> {
        claims.iter().map(|claim| (claim.name.as_str(), claim.value.as_str())).collect()
    }

    #[test]
    fn the_client_and_its_ids_are_told_and_nothing_else() {
        let meta = json!({
            "sessionId": "s-1", "turn": 3, "progressToken": "p", "client": "forged",
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "flag": true, "none": null, "list": ["x"], "object": {"a": "b"},
        });
        let client = Implementation::new("agent", "2.1");
        let claims = collect(Some(&client), meta.as_object().unwrap());
        assert_eq!(pairs(&claims), [("client", "agent 2.1"), ("sessionId", "s-1"), ("turn", "3")]);
        assert_eq!(collect(None, &Map::new()), []);
    }

    #[test]
    fn what_a_hostile_client_sends_is_bounded() {
        let client = Implementation::new("é".repeat(1 << 20), "1");
        let mut meta = Map::new();
        meta.insert("n".repeat(MAX_NAME + 1), json!("x"));
        meta.insert("long".to_owned(), json!("x".repeat(10 << 20)));
        for number in 0..10_000 {
            meta.insert(format!("id-{number}"), json!("\u{1b}[2J"));
        }
        let claims = collect(Some(&client), &meta);
        assert_eq!(claims.len(), MAX_CLAIMS);
        for claim in claims {
            assert!(claim.name.len() <= MAX_NAME && claim.value.len() <= MAX_CLAIM, "{claim:?}");
        }
    }
}
