//! `palisade grants`: lists and deletes remembered approvals.

use crate::{
    approve::card,
    failure::Failure,
    operator::{self, OperatorOptions},
    paint::{self, Paint, Style},
    print,
    visible::visible,
};
use clap::{Args, Subcommand};
use palisade_client::{Grant, GrantId};
use std::time::Duration;

/// List or revoke remembered approvals
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade grants list
  palisade grants list --json | jq '.grants[] | {id, summary, used}'
  palisade grants revoke g-1")]
pub(crate) struct GrantsCommand {
    #[command(subcommand)]
    act: GrantsAction,
}

/// The actions on remembered approvals.
#[derive(Debug, Subcommand)]
enum GrantsAction {
    /// List the remembered approvals
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        operator: OperatorOptions,
    },
    /// Revoke a remembered approval: such calls need approval again
    Revoke {
        /// The id of the remembered approval
        id: String,
        #[command(flatten)]
        operator: OperatorOptions,
    },
}

impl GrantsCommand {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        match self.act {
            GrantsAction::List { json, operator } => {
                let grants = operator::connect(&operator).await?.grants().await?;
                if json {
                    print::json(&palisade_protocol::Grants { grants })?;
                } else if grants.is_empty() {
                    print::line("no remembered approvals")?;
                } else {
                    let paint = paint::stdout();
                    let lines = grants.iter().map(|grant| line(grant, paint));
                    print::line(&lines.collect::<Vec<_>>().join("\n"))?;
                }
            }
            GrantsAction::Revoke { id, operator } => {
                let id: GrantId = id.parse().map_err(|error| {
                    let told = format!("not the id of a remembered approval: {error}");
                    Failure::new(told, "palisade grants list shows the ids")
                })?;
                operator::connect(&operator).await?.revoke(&id).await?;
                print::line(&format!("revoked {id}"))?;
            }
        }
        Ok(0)
    }
}

fn line(grant: &Grant, paint: Paint) -> String {
    let whom = match &grant.session {
        Some(session) => format!("session {session}"),
        None => format!("every session of uid {}", grant.uid),
    };
    let until = match grant.expires_in_ms {
        Some(left) => format!("{} left", card::clock(Duration::from_millis(left))),
        None => "until the session ends".to_owned(),
    };
    let id = paint.apply(Style::Strong, grant.id.as_str());
    let (summary, profile) = (visible(&grant.summary), visible(&grant.profile));
    let (by, used) = (visible(&grant.by), grant.used);
    format!(
        "{id}  {summary}\n    for {whom}, profile {profile}; {until}; by {by}; used {used} times"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_says_what_for_whom_and_until_when() {
        let text = r#"{"id":"g-1","session":"s-1","uid":1000,"profile":"default","tool":"bash",
            "scope":{"command_prefix":{"words":["rm","-r"]}},"summary":"bash: rm -r \u001b[m",
            "by":"person:ann","expires_in_ms":null,"used":2}"#;
        let mut grant: Grant = serde_json::from_str(text).unwrap();
        let expected = "g-1  bash: rm -r ␛[m\n    for session s-1, profile default; until the \
                        session ends; by person:ann; used 2 times";
        assert_eq!(line(&grant, Paint::Plain), expected);
        grant.session = None;
        grant.expires_in_ms = Some(90_000);
        assert!(
            line(&grant, Paint::Plain)
                .contains("every session of uid 1000, profile default; 1m30s left;")
        );
    }
}
