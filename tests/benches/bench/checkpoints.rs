//! The cost of approval requests.

use super::{Bench, interleave};
use palisade_client::{Answer, Operator, OperatorEvent, Registration, Scope, Session, Until};
use std::fs;

const GROUP: &str = "approval requests";

impl Bench {
    /// Measures the cost of approval requests: an approver beside the daemon that approves at once,
    /// and a remembered approval.
    pub(super) fn checkpoints(&self) {
        let always = [("ask = \"destructive\"", "ask = \"always\"")];
        self.world.add_profile("always", &palisade_tests::profile_with(&always));
        fs::write(self.world.workspace().join("four"), "x".repeat(4096)).unwrap();
        let daemon = self.world.daemon();
        let plain = self.open(&self.connect(&daemon));
        let (asked, remembered) = (
            self.open_with(&self.connect(&daemon), "always"),
            self.open_with(&self.connect(&daemon), "always"),
        );
        let (path, once) = (daemon.operators.clone(), remembered.id().clone());
        let (attached, attach) = std::sync::mpsc::channel();
        let handler = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let operator = Operator::connect(&path).await.unwrap();
                operator.register(Registration::new("program:bench")).await.unwrap();
                attached.send(()).unwrap();
                while let Some(event) = operator.next().await {
                    let OperatorEvent::ApprovalRequest(request) = event else { continue };
                    let yes = Answer::approve();
                    let answer = if request.asker.session == once {
                        yes.remember(Scope::ExactCall, Until::Session)
                    } else {
                        yes
                    };
                    // Its end may come before the reply.
                    drop(operator.answer(&request, answer).await);
                }
            });
        });
        attach.recv().unwrap();
        let read = |session: &Session| {
            let text = self.runtime.block_on(session.read_file("four")).unwrap();
            assert_eq!(text.len(), 4096);
        };
        let times = interleave(
            self.rounds * 10,
            &mut [&mut || read(&plain), &mut || read(&remembered), &mut || read(&asked)],
        );
        self.baseline(GROUP, "read_file that needs no approval", &times[0]);
        self.show(GROUP, "… with a remembered approval", &times[1], &times[0], "none");
        self.show(GROUP, "… approved by a program", &times[2], &times[0], "none");
        drop((plain, asked, remembered, daemon));
        handler.join().unwrap();
    }
}
