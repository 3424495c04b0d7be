//! A profile that requires two approvals: what is told between the first and the second, and the ways
//! in which the second does not come.

use super::*;

impl Handler {
    /// Waits for the news that another approver has approved.
    async fn approved(&mut self) -> (DecidedBy, u64) {
        loop {
            let message = self.events.recv().await.unwrap().message;
            if let ServerMessage::Event(Event::ApprovalGiven(told)) = message {
                return (told.by, told.missing);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_quorum_needs_that_many() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let few = "fewer approvers are connected than the 2 that the profile requires";
    assert_eq!(reason(ask(&desk, prepared("d", "quorum = 2")).await.unwrap()), few);
    ann.request().await;
    let mut bob = attach(&desk, 2, register("bob"));
    let asked = ask(&desk, prepared("d", "quorum = 2"));
    let request = ann.request().await;
    assert_eq!(ann.answer(&request, Decision::Approve), Ok(Answered { grant: None, missing: 1 }));
    assert_eq!(desk.pending()[0].approved_by, ["handler:ann"]);
    assert_eq!(bob.approved().await, (approver("ann"), 1));
    let arguments = JsonText::default();
    let modified = Decision::ApproveModified(Modified { arguments });
    assert_eq!(code(bob.answer(&request, modified)), ErrorCode::InvalidRequest);
    bob.answer(&request, Decision::Approve).unwrap();
    assert!(matches!(asked.await.unwrap(), Verdict::Approved { .. }));
}

/// A request waits only as long as the remaining approvers may take: not for one that has approved,
/// nor for a late one that hangs.
#[tokio::test(start_paused = true)]
async fn a_request_waits_no_longer_than_those_who_are_left_may_take() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let _bob = attach(&desk, 2, Register { deadline_ms: Some(2000), ..register("bob") });
    let begun = Instant::now();
    let asked = ask(&desk, prepared("d", "quorum = 2"));
    let request = ann.request().await;
    ann.answer(&request, Decision::Approve).unwrap();
    let late = "no answer came in time; it had 1 of the 2 required approvals (handler:ann)";
    assert_eq!(reason(asked.await.unwrap()), late);
    assert_eq!(begun.elapsed().as_secs(), 2);
    desk.detach(1);
    desk.detach(2);
    let begun = Instant::now();
    let asked = ask(&desk, prepared("e", "grace_ms = 60000"));
    tokio::task::yield_now().await;
    let _late = attach(&desk, 3, Register { heartbeat_ms: Some(3000), ..register("late") });
    assert_eq!(reason(asked.await.unwrap()), "the approver stopped responding");
    assert_eq!(begun.elapsed().as_secs(), 3);
    assert_over(&desk);
}

/// The client of the call hears of each approval, and of no change that is none.
#[tokio::test(start_paused = true)]
async fn a_waiting_call_is_told_of_the_first_approval() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let bob = attach(&desk, 2, register("bob"));
    let (sender, mut told) = mpsc::unbounded_channel();
    let waiting = Arc::clone(&desk);
    let asked = tokio::spawn(async move {
        let mut prepared = prepared("d", "quorum = 2\ndeadline_ms = 60000");
        waiting.announce(&mut prepared).unwrap();
        waiting.ask_telling(prepared, |left, given| sender.send((left, given)).unwrap()).await
    });
    let request = ann.request().await;
    let minute = Duration::from_secs(60);
    assert_eq!(told.recv().await, Some((minute, 0)));
    ann.answer(&request, Decision::Approve).unwrap();
    assert_eq!(told.recv().await, Some((minute, 1)));
    bob.answer(&request, Decision::Approve).unwrap();
    let decided = asked.await.unwrap();
    assert_eq!(decided.verdict, approved(approver("ann")));
    assert_eq!(decided.approvals, [approver("ann"), approver("bob")]);
    assert_eq!(told.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn nobody_counts_twice() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let bob = attach(&desk, 2, register("bob"));
    let asked = ask(&desk, prepared("d", "quorum = 2"));
    let request = ann.request().await;
    ann.answer(&request, Decision::Approve).unwrap();
    let again = ann.answer(&request, Decision::Approve);
    assert_eq!(code(again), ErrorCode::StaleApproval);
    // The same process under another name, and the same name in another process, are not even asked.
    for (from, name) in [(from(1), "ann-too"), (from(7), "ann")] {
        let (outbox, mut events) = mpsc::channel(8);
        let answerer = Answerer { connection: 70, ..from };
        desk.attach(answerer, register(name), outbox).unwrap();
        assert!(events.try_recv().is_err(), "{name} was asked");
        let (id, digest) = (request.id.clone(), request.digest.clone());
        let yes = Answer { request: id, digest, decision: Decision::Approve, remember: None };
        assert_eq!(code(desk.answer(answerer, yes)), ErrorCode::StaleApproval, "{name}");
        desk.detach(70);
    }
    assert_eq!(desk.pending().len(), 1);
    bob.answer(&request, Decision::Approve).unwrap();
    assert!(matches!(asked.await.unwrap(), Verdict::Approved { .. }));

    // Two answers of one operator who is not registered, each from a process of its own.
    let asked = ask(&desk, prepared("e", "quorum = 2"));
    let request = ann.request().await;
    let answer = |connection| {
        let from = Answerer { uid: 42, ..from(connection) };
        let (id, digest) = (request.id.clone(), request.digest.clone());
        let yes = Answer { request: id, digest, decision: Decision::Approve, remember: None };
        desk.answer(from, yes)
    };
    assert_eq!(answer(8), Ok(Answered { grant: None, missing: 1 }));
    assert_eq!(code(answer(9)), ErrorCode::StaleApproval);
    assert_eq!(desk.pending()[0].approved_by, ["handler:operator:42"]);
    bob.answer(&request, Decision::Approve).unwrap();
    assert!(matches!(asked.await.unwrap(), Verdict::Approved { .. }));
    assert_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn an_approval_stays_when_its_approver_leaves_and_does_not_suffice_alone() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let mut bob = attach(&desk, 2, register("bob"));
    let asked = ask(&desk, prepared("d", "quorum = 2"));
    let request = ann.request().await;
    ann.answer(&request, Decision::Approve).unwrap();
    desk.detach(1);
    assert_eq!(bob.request().await.approved_by, Vec::<String>::new());
    bob.answer(&request, Decision::Approve).unwrap();
    assert!(matches!(asked.await.unwrap(), Verdict::Approved { .. }));

    let mut ann = attach(&desk, 1, register("ann"));
    let asked = ask(&desk, prepared("e", "quorum = 2"));
    let request = ann.request().await;
    ann.answer(&request, Decision::Approve).unwrap();
    // An approver that comes late is shown who has approved.
    let mut cid = attach(&desk, 3, register("cid"));
    assert_eq!(cid.request().await.approved_by, ["handler:ann"]);
    desk.detach(3);
    assert_eq!(desk.pending().len(), 1, "bob can still answer");
    desk.detach(2);
    let gone = "the approver disconnected before it answered; it had 1 of the 2 required approvals \
                (handler:ann)";
    assert_eq!(reason(asked.await.unwrap()), gone);
    assert_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn the_second_approver_denies_alone() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let bob = attach(&desk, 2, register("bob"));
    let asked = ask(&desk, prepared("d", "quorum = 2"));
    let request = ann.request().await;
    ann.answer(&request, Decision::Approve).unwrap();
    assert_eq!(bob.answer(&request, deny()), Ok(Answered { grant: None, missing: 0 }));
    let Verdict::Denied { by, reason, .. } = asked.await.unwrap() else { panic!("not denied") };
    assert_eq!((by, reason.as_str()), (approver("bob"), "no"));
    assert_over(&desk);
}
