//! Tests of remembered approvals: for whom, for how long, and in which scope.

use super::*;
use palisade_policy::{Commands, Profile};
use palisade_protocol::{CommandPrefix, Finding, PathScope, RawPath, Severity};

fn limits(handlers: &str) -> Profile {
    let text = format!(
        "version = 1\ndescription = \"test\"\n[fs]\nworkspace = \"write\"\nexecute = [\"/usr\"]\n\
         [remember]\n{handlers}\n"
    );
    Profile::parse("test", &text).unwrap()
}

fn claim(exact: u8) -> ApprovalKey {
    ApprovalKey {
        session: "s1".parse().unwrap(),
        uid: 1,
        profile: "test".to_owned(),
        profile_digest: "d".to_owned(),
        tool: "bash".parse().unwrap(),
        exact: [exact; 32],
        exact_words: None,
        facts: Facts { workspace: b"/w".to_vec(), ..Facts::default() },
        part: ReviewedPart::Call,
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn bash(line: &str, kind: Option<&str>) -> ApprovalKey {
    let mut claim = claim(0);
    claim.facts.commands = Commands::Known(vec![words("cd x"), words(line)]);
    if let Some(kind) = kind {
        let mut finding = Finding::new(kind, Severity::Warning, "why");
        let mut words = words(line).into_iter();
        finding.program = words.next().unwrap();
        finding.arguments = words.collect();
        claim.facts.findings.push(finding);
    }
    claim
}

fn file(paths: &[&str]) -> ApprovalKey {
    let mut claim = claim(0);
    claim.facts.paths = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    claim
}

fn remember(scope: Scope) -> Remember {
    Remember { scope, until: Until::Session }
}

fn prefix(line: &str) -> Scope {
    Scope::CommandPrefix(CommandPrefix { words: words(line) })
}

fn path(text: &str) -> Scope {
    Scope::Path(PathScope { path: RawPath::from(text) })
}

fn keep(memory: &mut RememberedApprovals, claim: &ApprovalKey, remember: Remember) -> GrantId {
    let kept = memory.prepare(claim, remember, "ann", Instant::now()).unwrap();
    let id = kept.id();
    assert!(!memory.holds(&kept) && memory.covering(claim) != Some(id.clone()));
    memory.keep(kept, Instant::now());
    id
}

#[tokio::test]
async fn an_exact_call_is_only_itself() {
    let mut memory = RememberedApprovals::default();
    let id = keep(&mut memory, &claim(1), remember(Scope::ExactCall));
    let now = Instant::now();
    assert_eq!(memory.find(&claim(1), now), Some((id, "ann".to_owned())));
    assert_eq!(memory.find(&claim(2), now), None);
    for other in [
        ApprovalKey { session: "s2".parse().unwrap(), ..claim(1) },
        ApprovalKey { uid: 2, ..claim(1) },
        ApprovalKey { profile_digest: "changed".to_owned(), ..claim(1) },
        ApprovalKey { tool: "write_file".parse().unwrap(), ..claim(1) },
    ] {
        assert_eq!(memory.find(&other, now), None);
    }
    assert_eq!(memory.list(now)[0].used, 1);
    memory.end_session(&"s1".parse().unwrap());
    assert_eq!(memory.find(&claim(1), now), None);
}

#[tokio::test]
async fn a_time_is_for_every_session_and_ends() {
    let mut memory = RememberedApprovals::default();
    let for_a_second = Remember { scope: Scope::ExactCall, until: Until::Ms(1000) };
    keep(&mut memory, &claim(1), for_a_second);
    let now = Instant::now();
    let other = ApprovalKey { session: "s2".parse().unwrap(), ..claim(1) };
    assert!(memory.find(&other, now).is_some());
    assert!(memory.list(now)[0].expires_in_ms.is_some());
    assert_eq!(memory.find(&other, now + Duration::from_secs(2)), None);
    assert_eq!(memory.list(now + Duration::from_secs(2)), []);
}

#[tokio::test]
async fn a_prefix_covers_every_command_that_is_asked_about() {
    let mut memory = RememberedApprovals::default();
    keep(&mut memory, &bash("rm -r build", Some("destructive")), remember(prefix("rm -r")));
    let now = Instant::now();
    for (claim, covered) in [
        (bash("rm -r build", Some("destructive")), true),
        (bash("rm -r src", Some("destructive")), true),
        (bash("rm -f src", Some("destructive")), false),
        (bash("rm -r $x", Some("hidden")), false),
        (bash("rm -r src", None), false),
    ] {
        assert_eq!(memory.find(&claim, now).is_some(), covered, "{claim:?}");
    }
    let mut two = bash("rm -r build", Some("destructive"));
    two.facts.findings.extend(bash("dd of=x", Some("destructive")).facts.findings);
    assert_eq!(memory.find(&two, now), None);
    let unknown = Facts { commands: Commands::Unknown, ..two.facts };
    assert_eq!(memory.find(&ApprovalKey { facts: unknown, ..claim(0) }, now), None);
}

#[tokio::test]
async fn a_path_covers_what_is_below_it() {
    let mut memory = RememberedApprovals::default();
    keep(&mut memory, &file(&["/w/out/a"]), remember(path("/w/out")));
    let now = Instant::now();
    for (paths, covered) in [
        (&["/w/out"][..], true),
        (&["/w/out/a/b", "/w/out/c"], true),
        (&["/w/output"], false),
        (&["/w/out/../src"], false),
        (&["/w/out/link", "/etc/passwd"], false),
        (&[], false),
    ] {
        assert_eq!(memory.find(&file(paths), now).is_some(), covered, "{paths:?}");
    }
}

#[tokio::test]
async fn nothing_wider_than_the_profile_is_taken() {
    let exact = limits("");
    let all = limits("scopes = [\"exact\", \"prefix\", \"path\"]\nms = 1000");
    let none = limits("scopes = []");
    let asked = bash("rm -r build", Some("destructive"));
    let check = |profile: &Profile, claim: &ApprovalKey, remember: &Remember| {
        RememberedApprovals::check(claim, remember, profile.handlers())
            .map_err(|error| error.message)
    };
    assert_eq!(check(&exact, &asked, &remember(Scope::ExactCall)), Ok(()));
    assert_eq!(check(&all, &asked, &remember(prefix("rm -r"))), Ok(()));
    assert_eq!(check(&all, &file(&["/w/a"]), &remember(path("/w"))), Ok(()));
    let scope = "not remembered: the profile does not allow this scope";
    assert_eq!(check(&exact, &asked, &remember(prefix("rm"))), Err(scope.to_owned()));
    assert_eq!(check(&none, &asked, &remember(Scope::ExactCall)), Err(scope.to_owned()));
    let long = Remember { scope: Scope::ExactCall, until: Until::Ms(1) };
    let time = "not remembered: the time is longer than the profile allows";
    assert_eq!(check(&exact, &asked, &long), Err(time.to_owned()));
    assert_eq!(check(&all, &asked, &long), Ok(()));
    let outside = "not remembered: the path is not in the workspace";
    assert_eq!(check(&all, &file(&["/w/a"]), &remember(path("/"))), Err(outside.to_owned()));
    let other = "not remembered: the scope does not cover this call";
    assert_eq!(check(&all, &asked, &remember(prefix("git"))), Err(other.to_owned()));
    let hidden = bash("rm -r $x", Some("hidden"));
    assert_eq!(check(&all, &hidden, &remember(prefix("rm"))), Err(other.to_owned()));
}

#[tokio::test]
async fn what_is_revoked_is_gone() {
    let mut memory = RememberedApprovals::default();
    let id = keep(&mut memory, &claim(1), remember(Scope::ExactCall));
    assert_eq!(memory.covering(&claim(1)), Some(id.clone()));
    assert_eq!(memory.revoke(&id).unwrap().id, id);
    assert_eq!(memory.covering(&claim(1)), None);
    assert_eq!(memory.find(&claim(1), Instant::now()), None);
    assert_eq!(memory.revoke(&id).unwrap_err().code, ErrorCode::NotFound);
}
