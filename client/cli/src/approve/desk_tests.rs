//! Every key in every mode, without a terminal.

use super::*;
use crate::{approve::card::tests::request, visible::columns::Width};
use palisade_client::{ApprovalOutcome, CommandPrefix, DecidedBy, Scope, Until};

fn desk() -> (ApprovalQueue, Instant) {
    let now = Instant::now();
    let mut desk = ApprovalQueue::new(now);
    assert_eq!(desk.add(request(), now), None);
    assert!(desk.show(now).is_some());
    assert!(desk.show(now).is_none(), "once is enough");
    (desk, now + PAUSE)
}

#[test]
fn yes_counts_only_after_it_could_be_read() {
    let (mut desk, now) = desk();
    let before = now - Duration::from_millis(1);
    for key in [b"y", b"e", b"a", b"A"] {
        assert_eq!(desk.typed(key, before), KeyAction::Nothing);
    }
    assert_eq!(desk.prompt(80, before), "...");
    assert_eq!(desk.typed(b"y", now), KeyAction::Nothing, "it is another key of the same text");
    assert_eq!(desk.typed(b"y", now + PAUSE), KeyAction::Answer(Answer::approve()));
}

#[test]
fn every_way_to_say_no() {
    let plain = KeyAction::Answer(Answer::deny("no reason given"));
    let cases: [&[&[u8]]; 8] = [
        &[b"\x1b"],
        &[b"\x04"],
        &[b""],
        &[b"n", b"\r"],
        &[b"n", b"half", b"\x1b"],
        &[b"n", b"half\x04"],
        &[b"a", b"\x1b"],
        &[b"A", b"\x1b"],
    ];
    for keys in cases {
        let (mut desk, now) = desk();
        let (last, first) = keys.split_last().unwrap();
        for key in first {
            assert!(
                matches!(
                    desk.typed(key, now),
                    KeyAction::Nothing | KeyAction::Say(_) | KeyAction::Offer(_)
                ),
                "{keys:?}"
            );
        }
        assert_eq!(desk.typed(last, now), plain, "{keys:?}");
    }
}

#[test]
fn a_reason_can_be_typed_and_corrected() {
    let (mut desk, now) = desk();
    assert_eq!(desk.typed(b"nwrong\x15not", now), KeyAction::Nothing);
    assert_eq!(desk.typed(" nöw\x7f\x7f\x7f\x7f here".as_bytes(), now), KeyAction::Nothing);
    assert_eq!(desk.prompt(80, now), "reason for the denial (Enter sends): not here");
    assert_eq!(desk.typed(b"\x1b[A", now), KeyAction::Nothing, "an arrow");
    assert_eq!(desk.typed(b"\r", now), KeyAction::Answer(Answer::deny("not here")));
}

#[test]
fn what_is_pasted_approves_nothing() {
    for text in [&b"yes"[..], b"yy", b"y y", b"ay", b"\x1by", b"\x1bOy", b"1y"] {
        let (mut desk, now) = desk();
        assert!(
            matches!(desk.typed(text, now), KeyAction::Nothing | KeyAction::Say(_)),
            "{text:?}"
        );
    }
    let (mut desk, now) = desk();
    assert_eq!(desk.typed(b"y\r", now), KeyAction::Answer(Answer::approve()), "y and Enter is y");
}

#[test]
fn always_offers_what_the_profile_permits() {
    let (mut desk, now) = desk();
    let KeyAction::Offer(scopes) = desk.typed(b"a", now) else { panic!("nothing offered") };
    let expected = "approve, and do not ask again for:\n  1  exactly this call, until the session \
                    ends\n  2  commands that begin with: rm -r, until the session ends";
    assert_eq!(scopes::describe(&scopes, None, Width::Unlimited), expected);
    assert_eq!(desk.typed(b"3", now), KeyAction::Nothing);
    assert!(matches!(desk.typed(b"a", now), KeyAction::Offer(_)));
    let words = vec!["rm".to_owned(), "-r".to_owned()];
    let scope = Scope::CommandPrefix(CommandPrefix { words });
    let remembered = Answer::approve().remember(scope, Until::Session);
    assert_eq!(desk.typed(b"2", now), KeyAction::Answer(remembered));
}

#[test]
fn abort_is_asked_twice() {
    let (mut desk, now) = desk();
    assert!(matches!(desk.typed(b"A", now), KeyAction::Say(_)));
    assert_eq!(desk.prompt(80, now), "end session s-1? y; Esc: deny; other: back");
    assert_eq!(desk.typed(b"x", now), KeyAction::Nothing);
    assert!(matches!(desk.typed(b"A", now), KeyAction::Say(_)));
    assert_eq!(desk.typed(b"y", now), KeyAction::Abort);
}

#[test]
fn the_queue_is_seen_and_each_has_its_turn() {
    let (mut desk, now) = desk();
    let mut second = request();
    second.id = "q-2".parse().unwrap();
    let told = desk.add(second, now).unwrap();
    assert_eq!(told, "  + q-2 is waiting: bash: rm -r build (and 1 more)");
    let prompt = desk.prompt(100, now);
    assert_eq!(prompt, "[y]es [n]o [e]dit [a] remember [A] end session [q]uit · 59s · 1 more");
    assert_eq!(desk.prompt(20, now).chars().count(), 19, "no line wraps");
    desk.done();
    assert_eq!(desk.show(now).unwrap().0.id.as_str(), "q-2");
    assert_eq!(desk.typed(b"y", now), KeyAction::Nothing, "the key was for the one before");
    let over = ApprovalClosed {
        request: "q-2".parse().unwrap(),
        outcome: ApprovalOutcome::Denied,
        by: DecidedBy::Default,
    };
    assert_eq!(desk.over(&over).unwrap(), "q-2 is over: denied by default");
    assert_eq!(desk.over(&over), None);
    assert_eq!(desk.typed(b"y", now + PAUSE), KeyAction::Nothing);
    assert_eq!(desk.typed(b"q", now), KeyAction::Quit);
    assert_eq!(desk.prompt(80, now), "Waiting for approval requests (q quits)");
}

#[test]
fn what_others_must_still_approve_is_told_until_it_is_over() {
    let (mut desk, now) = desk();
    let by = DecidedBy::Approver("program:\u{1b}rules".to_owned());
    let id = desk.front().unwrap().id.clone();
    let approved = ApprovalGiven { request: id.clone(), by: by.clone(), missing: 1 };
    let told = desk.approved(&approved).unwrap();
    let line = "approved by handler:program:␛rules; 1 more approval is needed";
    assert_eq!(told, format!("{} {line}", card::short_id(&id)));
    assert_eq!(desk.front().unwrap().approved_by, ["handler:program:\u{1b}rules"]);
    // This person approves as one of three: the request leaves the queue, and its end is told.
    desk.approved_by_this();
    assert_eq!(desk.front(), None);
    assert_eq!(desk.approved(&approved), None);
    let over = ApprovalClosed { request: id.clone(), outcome: ApprovalOutcome::Approved, by };
    let told = desk.over(&over).unwrap();
    assert!(told.ends_with("is over: approved by handler:program:␛rules"), "{told}");
    assert_eq!(desk.over(&over), None);
    assert_eq!(desk.prompt(80, now), "Waiting for approval requests (q quits)");
}

#[test]
fn a_text_that_is_typed_for_something_else_approves_nothing() {
    let (mut desk, start) = desk();
    // Keys as a person types them, some before the request was visible for long enough.
    let mut now = start - PAUSE;
    for key in "by my day: yyyy y\r y".bytes() {
        now += PAUSE / 3;
        assert_eq!(desk.typed(&[key], now), KeyAction::Nothing, "{:?}", char::from(key));
    }
    assert!(desk.prompt(100, now).starts_with("..."));
    // The control: after a pause the key counts.
    now += PAUSE;
    assert!(desk.prompt(100, now).starts_with("[y]es"));
    assert!(matches!(desk.typed(b"y", now), KeyAction::Answer(_)));
}
