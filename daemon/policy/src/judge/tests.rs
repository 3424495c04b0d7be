//! Tests of every ask mode with every kind of tool.

use super::*;
use crate::{Owner, ProfileError, ProfileSet, Source};
use palisade_protocol::{JsonText, PermissionClass, ToolMetadata};

fn tool(name: &str, change: impl FnOnce(&mut ToolMetadata)) -> ToolSpec {
    let mut metadata = ToolMetadata {
        concurrency_safe: false,
        read_only: false,
        destructive: false,
        permission_class: PermissionClass::Generic,
        audit_operation: AuditOperation::Invoke,
        requires_checkpoint: false,
        requires_reverse_thinking: false,
        search_hint: String::new(),
    };
    change(&mut metadata);
    ToolSpec {
        name: name.parse().unwrap(),
        aliases: vec![format!("{name}_alias").parse().unwrap()],
        description: String::new(),
        schema: JsonText::default(),
        metadata,
    }
}

fn profile(ask: &str, fs: &str, tools: &str) -> Profile {
    let text = format!(
        "version = 1\ndescription = \"test\"\nask = {ask:?}\n[fs]\nworkspace = \"write\"\n\
         execute = [\"/usr\"]\n{fs}\n[tools]\n{tools}\n"
    );
    Profile::parse("test", &text).unwrap()
}

#[derive(Debug, PartialEq, Eq)]
enum Is {
    Allow,
    Ask,
    Deny,
}

fn is(judgement: &Judgement) -> Is {
    match judgement {
        Judgement::Allow(_) => Is::Allow,
        Judgement::Ask(_) => Is::Ask,
        Judgement::Deny(_) => Is::Deny,
    }
}

/// Judges a call with no facts except its tool.
fn judge(profile: &Profile, ask: Ask, tool: &ToolSpec) -> Judgement {
    super::judge(profile, ask, tool, &Facts::default())
}

const MODES: [Ask; 4] = [Ask::Never, Ask::Destructive, Ask::Sensitive, Ask::Always];

#[test]
fn modes_and_tools() {
    let lax = profile("never", "allow_delete = true", "");
    let careful = ToolSpec { metadata: ToolMetadata::default(), ..tool("careful", |_| {}) };
    let read = tool("read", |m| m.read_only = true);
    let write = tool("write", |m| m.audit_operation = AuditOperation::Write);
    let destroy = tool("destroy", |m| m.destructive = true);
    let delete = tool("delete", |m| {
        m.destructive = true;
        m.audit_operation = AuditOperation::Delete;
    });
    let marked = tool("marked", |m| {
        m.read_only = true;
        m.requires_checkpoint = true;
    });
    // In the order of MODES.
    for (tool, expected) in [
        (&read, [Is::Allow, Is::Allow, Is::Allow, Is::Ask]),
        (&write, [Is::Allow, Is::Allow, Is::Ask, Is::Ask]),
        (&destroy, [Is::Allow, Is::Ask, Is::Ask, Is::Ask]),
        (&delete, [Is::Allow, Is::Ask, Is::Ask, Is::Ask]),
        (&marked, [Is::Allow, Is::Ask, Is::Ask, Is::Ask]),
        (&careful, [Is::Allow, Is::Ask, Is::Ask, Is::Ask]),
    ] {
        let found = MODES.map(|ask| is(&judge(&lax, ask, tool)));
        assert_eq!(found, expected, "{}", tool.name);
        // The profile's own mode applies even if a laxer one is passed.
        let found = ["never", "destructive", "sensitive", "always"]
            .map(|ask| is(&judge(&profile(ask, "allow_delete = true", ""), Ask::Never, tool)));
        assert_eq!(found, expected, "{}", tool.name);
    }
}

#[test]
fn a_denied_tool_is_denied_in_every_mode() {
    let bash = tool("bash", |m| m.read_only = true);
    for tools in ["deny = [\"bash\"]", "deny = [\"bash_alias\"]", "allow = [\"other\"]"] {
        let profile = profile("never", "", tools);
        for ask in MODES {
            let Judgement::Deny(refusal) = judge(&profile, ask, &bash) else {
                panic!("{tools} {ask:?}");
            };
            assert_eq!(refusal.error.code, ErrorCode::Denied);
            assert_eq!(refusal.error.message, "profile \"test\" does not allow the tool bash");
            assert_eq!(
                refusal.denials,
                [Denial {
                    layer: "policy".to_owned(),
                    rule: "tools".to_owned(),
                    target: "bash".to_owned(),
                    remedy: "allow bash under [tools] of profile \"test\"".to_owned(),
                    at: "test.toml".to_owned(),
                    opens: "every session of the profile could use bash".to_owned(),
                }]
            );
            assert_eq!(refusal.checkpoint, None);
        }
    }
    for tools in ["", "allow = [\"bash\"]", "allow = [\"bash_alias\"]", "deny = [\"other\"]"] {
        assert_eq!(is(&judge(&profile("never", "", tools), Ask::Never, &bash)), Is::Allow);
    }
    // Through an alias, which the loader can not distinguish from another tool.
    let both = profile("never", "", "allow = [\"bash\"]\ndeny = [\"bash_alias\"]");
    assert_eq!(is(&judge(&both, Ask::Never, &bash)), Is::Deny);
}

#[test]
fn deleting_needs_the_profiles_leave() {
    let delete = tool("delete_file", |m| m.audit_operation = AuditOperation::Delete);
    for ask in MODES {
        let Judgement::Deny(refusal) = judge(&profile("never", "", ""), ask, &delete) else {
            panic!("{ask:?}");
        };
        assert_eq!(refusal.denials[0].rule, "fs.allow_delete");
        assert_eq!(refusal.denials[0].target, "delete_file");
    }
    let with = profile("never", "allow_delete = true", "");
    assert_eq!(is(&judge(&with, Ask::Never, &delete)), Is::Allow);
}

#[test]
fn without_a_handler_a_request_is_a_refusal() {
    let destroy = tool("destroy", |m| m.destructive = true);
    let Judgement::Ask(request) =
        judge(&profile("destructive", "", ""), Ask::Destructive, &destroy)
    else {
        panic!("not asked");
    };
    assert_eq!(request.tool().as_str(), "destroy");
    let kinds: Vec<_> = request.findings().iter().map(|f| f.kind.clone()).collect();
    assert_eq!(kinds, ["destructive_tool", "mutating_tool"]);
    let refusal = request.denied_without_handler();
    assert_eq!(refusal.error.code, ErrorCode::Denied);
    assert_eq!(
        refusal.error.message,
        "destroy needs approval (destroy may destroy existing data), and no approver is connected"
    );
    assert!(refusal.error.hint.starts_with("no approver is connected; "));
    assert_eq!(refusal.denials[0].layer, "policy");
    assert_eq!(refusal.denials[0].rule, "ask = \"destructive\"");
    assert_eq!(refusal.findings.len(), 2);
    let checkpoint = refusal.checkpoint.unwrap();
    assert!(checkpoint.is_unanswered(), "{checkpoint:?}");
}

#[test]
fn a_grant_names_its_tool() {
    let read = tool("read_file", |m| m.read_only = true);
    let set = ProfileSet::new([]).unwrap();
    let Judgement::Allow(grant) = judge(set.get("workspace").unwrap(), Ask::Destructive, &read)
    else {
        panic!("not allowed");
    };
    assert_eq!(grant.tool().as_str(), "read_file");
    assert_eq!(grant.findings(), []);
}

#[test]
fn a_session_is_only_ever_stricter() {
    let names = ["never", "destructive", "sensitive", "always"];
    for (level, name) in names.iter().enumerate() {
        let profile = profile(name, "", "");
        assert_eq!(stricter_ask(&profile, None), Ok(MODES[level]));
        for (wanted_level, wanted) in MODES.into_iter().enumerate() {
            let expected = if wanted_level >= level {
                Ok(wanted)
            } else {
                Err(AskError { wanted, profile: MODES[level] })
            };
            assert_eq!(stricter_ask(&profile, Some(wanted)), expected);
        }
    }
    let error = AskError { wanted: Ask::Never, profile: Ask::Always };
    assert_eq!(
        error.to_string(),
        "ask = \"never\" is laxer than the profile's \"always\"; a session can only be stricter"
    );
}

#[test]
fn a_guard_is_refused_over_a_directory_that_no_transaction_holds() {
    let parsed = |guard: &str, key: &str| {
        let text = format!(
            "version = 1\ndescription = \"x\"\nguard = {guard:?}\n[fs]\nworkspace = \"write\"\n\
             execute = [\"!/usr\"]\n{key} = [\"/srv/shared\"]\n"
        );
        Profile::parse("mine", &text)
    };
    let guards = [Guard::Off, Guard::Text, Guard::Auto, Guard::Transaction];
    let (open, named) = (parsed("off", "write").unwrap(), parsed("off", "unguarded").unwrap());
    for wanted in guards {
        let unheld = GuardError::Unheld { wanted, directory: "/srv/shared".to_owned() };
        let expected = if wanted == Guard::Off { Ok(wanted) } else { Err(unheld) };
        assert_eq!(stricter_guard(&open, Some(wanted)), expected);
        assert_eq!(stricter_guard(&named, Some(wanted)), Ok(wanted));
        // A profile that combines the two itself is not loaded.
        let loaded = parsed(guard_name(wanted), "write").map(drop).map_err(|e| e.to_string());
        let why = format!(
            "mine.toml:7:10: fs.write: \"/srv/shared\" is writable outside of transactions, and \
             guard is {:?}; move it to fs.unguarded, or set guard = \"off\"",
            guard_name(wanted)
        );
        assert_eq!(loaded, if wanted == Guard::Off { Ok(()) } else { Err(why) });
        assert!(parsed(guard_name(wanted), "unguarded").is_ok());
    }
    assert_eq!(stricter_guard(&open, None), Ok(Guard::Off));
    let laxer = GuardError::Laxer { wanted: Guard::Off, profile: Guard::Auto };
    let auto = parsed("auto", "unguarded").unwrap();
    assert_eq!(stricter_guard(&auto, Some(Guard::Off)), Err(laxer));
}

#[test]
fn what_is_extended_is_held_to_the_guard_of_what_extends_it() {
    let base = "version = 1\ndescription = \"x\"\nguard = \"off\"\n[fs]\nworkspace = \"write\"\n\
                execute = [\"!/usr\"]\nwrite = [\"/srv/shared\"]\n";
    let loaded = |more: &str| {
        let text = format!("version = 1\ndescription = \"x\"\n{more}");
        let of = |name, file, text| Source { name, file, text, owner: Owner::Other };
        let set = ProfileSet::new([of("open", "open.toml", base), of("mine", "mine.toml", &text)])?;
        Ok(set.get("mine").unwrap().canonical().unwrap())
    };
    let why = |loaded: Result<String, ProfileError>| loaded.unwrap_err().to_string();
    let inherited = why(loaded("extends = \"open\"\nguard = \"auto\"\n"));
    assert!(inherited.starts_with("open.toml:7:10: fs.write: \"/srv/shared\""), "{inherited}");
    // The base of an observed profile may be enforced with a stricter guard than it was written
    // for.
    let observed = "observe = \"open\"\n[fs]\nworkspace = \"read\"\nexecute = [\"!/usr\"]\n";
    assert_eq!(why(loaded(observed)), inherited);
    // Listing the directory in `fs.unguarded` allows no more than before, so no `widen` is needed.
    let moved =
        "extends = \"open\"\nguard = \"auto\"\n[fs]\nwrite = []\nunguarded = [\"/srv/shared\"]\n";
    let text = loaded(moved).unwrap();
    assert!(text.contains("write = []\nunguarded = [\"/srv/shared\"]\n"), "{text}");
}
