//! Finds what a profile that is only observed would have denied, had it been enforced. It uses the
//! same explanations as every other answer, and leaves out what is really denied. Pure: no I/O.

use crate::{Act, Decision, Profile, Scene, TargetOwner, explain, on_host};
use palisade_protocol::{AuditOperation, Denial, ToolSpec};

/// Returns the denial that an observed profile would have made of an allowed access. Returns `None`
/// if the profile is enforced, would have allowed the access, or if the enforced profile denies it
/// too.
#[must_use]
pub fn would_refuse(profile: &Profile, scene: &Scene, act: Act, target: &str) -> Option<Denial> {
    profile.observed_under()?;
    let would = explain(profile.as_written(), scene, act, target).ok()?;
    let holds = explain(profile, scene, act, target).ok()?;
    let moved = holds.place == TargetOwner::Host && would.place == TargetOwner::Session;
    match (holds.decision, would.decision) {
        (Decision::Deny, _) | (Decision::Ask, Decision::Ask | Decision::Allow) => None,
        (Decision::Allow | Decision::Ask, Decision::Deny) | (Decision::Allow, Decision::Ask) => {
            would.denial()
        }
        // The access would be allowed, but in a private directory of the session instead of the
        // host's.
        (Decision::Allow, Decision::Allow) if moved => {
            on_host(profile.as_written(), scene, would).denial()
        }
        (Decision::Allow, Decision::Allow) => None,
    }
}

/// Returns the denial that an observed profile would have made of an allowed tool.
#[must_use]
pub fn would_refuse_tool(profile: &Profile, tool: &ToolSpec) -> Option<Denial> {
    profile.observed_under()?;
    let meant = profile.as_written();
    let deletes = tool.metadata.audit_operation == AuditOperation::Delete;
    let (rule, remedy) = if !meant.allows_tool(tool) && profile.allows_tool(tool) {
        ("tools.allow", format!("add {:?} to tools.allow", tool.name.as_str()))
    } else if deletes && !meant.allow_delete() && profile.allow_delete() {
        ("fs.allow_delete", "set fs.allow_delete to true".to_owned())
    } else {
        return None;
    };
    Some(Denial {
        layer: "policy".to_owned(),
        rule: rule.to_owned(),
        target: tool.name.to_string(),
        remedy: format!("in {}, {remedy}", meant.file()),
        at: String::new(),
        opens: format!("{} could be called", tool.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Owner, ProfileSet, Source};

    const CANDIDATE: &str = r#"
version = 1
description = "What we would like to enforce."
extends = "strict"
observe = "workspace"

[fs]
workspace = "read"
hide = ["of-ours"]

[tools]
deny = ["undo"]

[[rules]]
verdict = "deny"
why = "a person pushes"
command = ["git", "push"]
"#;

    fn set(text: &str) -> Result<ProfileSet, crate::ProfileError> {
        let owner = Owner::Other;
        ProfileSet::new([Source { name: "tried", file: "tried.toml", text, owner }])
    }

    fn scene() -> Scene {
        let user = "tester".to_owned();
        Scene { workspace: "/w".into(), home: Some("/home/t".into()), user, uid: 1, gid: 1 }
    }

    #[test]
    fn what_it_would_refuse_is_told_and_what_it_denies_by_name_holds() {
        let set = set(CANDIDATE).unwrap();
        let tried = set.get("tried").unwrap();
        assert_eq!(tried.observed_under(), Some("workspace"));
        // The workspace access of the base applies, and not that of the observed profile.
        assert!(tried.writes_workspace() && !tried.as_written().writes_workspace());
        let would = would_refuse(tried, &scene(), Act::Write, "/w/file").unwrap();
        assert_eq!((would.layer.as_str(), would.target.as_str()), ("mount", "/w/file"));
        assert_eq!(would_refuse(tried, &scene(), Act::Read, "/w/file"), None);
        let text = CANDIDATE.replace("[fs]", "[fs]\nread = []").replace("strict", "wide");
        let wide = "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"write\"\n\
                    execute = [\"/usr\"]\nunguarded = [\"/tmp/shared\"]\n";
        let text = text.replace("observe = \"workspace\"", "observe = \"wide\"");
        let text = text.replace("[fs]\n", "[fs]\nunguarded = []\n");
        let of = |name, file, text| Source { name, file, text, owner: Owner::Other };
        let two = [of("wide", "wide.toml", wide), of("tried", "tried.toml", &text)];
        let two = ProfileSet::new(two).unwrap();
        let moved = would_refuse(two.get("tried").unwrap(), &scene(), Act::Write, "/tmp/shared/x");
        let moved = moved.unwrap();
        assert_eq!(moved.layer, "mount");
        assert!(moved.rule.starts_with("write: it would go to a private file"), "{}", moved.rule);
        assert!(moved.remedy.contains("add \"/tmp/shared/x\" to fs.unguarded"), "{}", moved.remedy);
        // The base denies this access itself, so there is no would-be denial.
        assert_eq!(would_refuse(tried, &scene(), Act::Write, "/srv/x"), None);
        // Names that the observed profile hides are really hidden.
        let hidden = explain(tried, &scene(), Act::Read, "/w/of-ours").unwrap();
        assert_eq!(hidden.decision, Decision::Deny);
        assert_eq!(would_refuse(tried, &scene(), Act::Read, "/w/of-ours"), None);
        assert!(!tried.allows_name("undo") && tried.has_rules());
        assert_eq!(would_refuse(set.get("strict").unwrap(), &scene(), Act::Write, "/w/x"), None);
        let printed = tried.canonical().unwrap();
        assert!(printed.starts_with("version = 1\nobserve = \"workspace\"\n"), "{printed}");
        assert_ne!(tried.digest(), tried.as_written().digest());
    }

    #[test]
    fn a_base_is_another_profile_that_is_enforced() {
        let wrong = |base: &str| {
            let text = CANDIDATE.replace("\"workspace\"\n\n[fs]", &format!("{base:?}\n\n[fs]"));
            set(&text).unwrap_err().to_string()
        };
        assert!(wrong("none-such").contains("there is no profile \"none-such\""));
        assert!(wrong("tried").contains("a profile is observed under another"));
    }
}
