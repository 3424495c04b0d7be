//! Approvals that an approver wants remembered: recorded before they count, within what is permitted.

use super::*;
use palisade_protocol::Until;

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_so_only_once_it_is_kept_and_as_far_as_permitted() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let asked = ask(&desk, prepared("d", ""));
    let request = ann.request().await;
    let wanted = Some(Remember { scope: Scope::ExactCall, until: Until::Session });
    let answered = ann.answer_with(&request, "d", Decision::Approve, wanted).unwrap();
    let id = answered.grant.unwrap();
    let verdict = asked.await.unwrap();
    let claim = prepared("another digest", "").claim;
    assert_eq!(desk.remembered(&claim), None, "nobody has recorded it yet");
    let Verdict::Approved { kept, .. } = verdict else { panic!("{verdict:?}") };
    for kept in kept {
        assert!(!desk.holds(&kept));
        desk.keep(kept.clone());
        assert!(desk.holds(&kept));
    }
    assert_eq!(desk.covering(&claim), Some(id.clone()));
    assert_eq!(desk.grants()[0].used, 0);
    assert_eq!(desk.remembered(&claim), Some((id.clone(), "ann".to_owned())));
    assert_eq!(desk.grants().len(), 1);
    assert_eq!(desk.revoke(&id).unwrap().id, id);
    assert_eq!(desk.remembered(&claim), None);
}

#[tokio::test(start_paused = true)]
async fn a_decision_counts_although_it_is_not_remembered() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    for (decision, until) in [(Decision::Approve, Until::Ms(1000)), (deny(), Until::Session)] {
        let asked = ask(&desk, prepared("d", ""));
        let request = ann.request().await;
        let approves = decision == Decision::Approve;
        let wanted = Some(Remember { scope: Scope::ExactCall, until });
        let error = ann.answer_with(&request, "d", decision, wanted).unwrap_err();
        assert_eq!(error.code, ErrorCode::Denied);
        assert!(
            error.message.starts_with("the decision counts, but is not remembered: "),
            "{error}"
        );
        let verdict = asked.await.unwrap();
        assert_eq!(verdict == approved(approver("ann")), approves, "{verdict:?}");
        assert_eq!(desk.grants(), []);
        assert_over(&desk);
    }
}
