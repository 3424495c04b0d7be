//! Approval in the agent's own client, by elicitation: the client shows an approval request to the
//! person who uses it. The daemon decides which requests it may answer; a client may accept by itself.

use crate::explain::explain;
use palisade_client::{
    Answer, ApprovalRequest, OperatorEvent, Registration, Review, Session, model_text,
};
use rmcp::{
    RoleServer,
    model::{ElicitRequestParams, ElicitResult, ElicitationAction},
    service::{ElicitationMode, Peer},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

/// The maximum length of the text that the client shows, in characters.
const MAX_SHOWN: usize = 4000;

/// The maximum length of the client's name, in characters.
const MAX_NAME: usize = 64;

/// Returns `true` if a client can show a form to a person.
pub(crate) fn is_able(peer: &Peer<RoleServer>) -> bool {
    peer.supported_elicitation_modes().contains(&ElicitationMode::Form)
}

/// Shows the person who uses the client where a call can be approved, if the client shows addresses. Its
/// answer decides nothing.
pub(crate) async fn point(peer: &Peer<RoleServer>, tool: &str, url: &str) {
    if !peer.supported_elicitation_modes().contains(&ElicitationMode::Url) {
        return;
    }
    let message = format!("Palisade: {tool} is waiting for approval. It can be approved here.");
    let request = ElicitRequestParams::UrlElicitationParams {
        meta: None,
        message,
        url: url.to_owned(),
        elicitation_id: Uuid::new_v4().to_string(),
    };
    if let Err(error) = peer.create_elicitation(request).await {
        eprintln!("note: --approve-at: the client did not show the address: {error}");
    }
}

/// Registers a client as an approver of its session. The returned task answers until it is dropped.
pub(crate) async fn start(session: &Session, peer: &Peer<RoleServer>) -> JoinSet<()> {
    let mut task = JoinSet::new();
    let registration = Registration::new(client_name(peer)).reviews([Review::Input]);
    match session.register(registration).await {
        Ok(_) => drop(task.spawn(serve(session.clone(), peer.clone()))),
        Err(error) => eprintln!("note: --elicit has no effect: {}", explain(&error)),
    }
    task
}

/// Puts each approval request to the client, until the connection ends.
async fn serve(session: Session, peer: Peer<RoleServer>) {
    let mut asked = JoinSet::new();
    loop {
        tokio::select! {
            event = session.client().heard() => match event {
                Some(OperatorEvent::ApprovalRequest(request)) => {
                    asked.spawn(put(session.clone(), peer.clone(), request));
                }
                Some(_) => {}
                None => return,
            },
            Some(_) = asked.join_next() => {}
        }
    }
}

/// Puts one approval request to the client, and passes its answer on.
async fn put(session: Session, peer: Peer<RoleServer>, request: Box<ApprovalRequest>) {
    let Some(form) = form(&request) else { return };
    let given = match peer.create_elicitation(form).await {
        Ok(result) => session.answer(&request, answer(&result)).await,
        // Other approvers may still answer.
        Err(error) => {
            eprintln!("note: --elicit: the client did not answer: {error}");
            session.withdraw().await
        }
    };
    // A request that is over needs no answer any more.
    if let Err(error) = given {
        eprintln!("note: --elicit: {}", explain(&error));
    }
}

/// Reads the client's answer. Only a clear yes approves: a client that accepts a form without filling
/// it in does not.
fn answer(result: &ElicitResult) -> Answer {
    let is_yes = result.content.as_ref().and_then(|content| content.get("approve"));
    match (&result.action, is_yes) {
        (ElicitationAction::Accept, Some(Value::Bool(true))) => Answer::approve(),
        _ => Answer::deny("it was not approved in the agent's client"),
    }
}

/// Makes the form that a client shows.
fn form(request: &ApprovalRequest) -> Option<ElicitRequestParams> {
    let schema = json!({
        "type": "object",
        "properties": {"approve": {"type": "boolean", "title": "Approve",
            "description": "Approve exactly this call, once."}},
        "required": ["approve"],
    });
    let requested_schema = serde_json::from_value(schema).ok()?;
    let message = message(request);
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Describes an approval request to the person who uses the client.
fn message(request: &ApprovalRequest) -> String {
    let lines = request.view.lines.iter().map(|line| line.text.as_str());
    let diff = request.view.diff.iter().map(String::as_str);
    let text: Vec<&str> = lines.chain(diff).collect();
    let shown = model_text::shorten(&text.join("\n"), MAX_SHOWN);
    format!("Palisade: {} needs approval ({}).\n{shown}", request.tool, request.why)
}

/// Returns the name that the client gave itself, as far as the audit log can show it plainly.
fn client_name(peer: &Peer<RoleServer>) -> String {
    let name = peer.peer_info().map(|info| info.client_info.name.clone()).unwrap_or_default();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let name: String = name.chars().filter(is_plain).take(MAX_NAME).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_approves() {
        let result = |action, content: Value| {
            let mut result = ElicitResult::new(action);
            result.content = (!content.is_null()).then_some(content);
            answer(&result)
        };
        let accept = || ElicitationAction::Accept;
        assert_eq!(result(accept(), json!({"approve": true})), Answer::approve());
        for denied in [
            result(accept(), json!({"approve": false})),
            result(accept(), json!({"approve": "true"})),
            result(accept(), json!({})),
            result(accept(), Value::Null),
            result(ElicitationAction::Decline, json!({"approve": true})),
            result(ElicitationAction::Cancel, json!({"approve": true})),
        ] {
            assert_ne!(denied, Answer::approve());
        }
    }
}
