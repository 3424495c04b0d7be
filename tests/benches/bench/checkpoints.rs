//! The cost of approval requests.

use super::{Bench, Times, interleave, show};
use palisade_client::{Answer, Operator, OperatorEvent, Registration, Scope, Session, Until};
use std::fs;

impl Bench {
    /// Measures the cost of approval requests: an approver beside the daemon that approves at once,
    /// and a remembered approval.
    pub(super) fn checkpoints(&self) {
        println!("\ncheckpoints, read_file of 4 KiB where everything is asked about");
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
                    let OperatorEvent::Question(question) = event else { continue };
                    let yes = Answer::approve();
                    let answer = if question.asker.session == once {
                        yes.remember(Scope::ExactCall, Until::Session)
                    } else {
                        yes
                    };
                    // Its end may come before the reply.
                    drop(operator.answer(&question, answer).await);
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
        let baseline = times[0].median();
        show("  not asked about", &times[0], baseline);
        show("  answered from memory", &times[1], baseline);
        show("  answered by a handler beside it", &times[2], baseline);
        let added = |times: &Times| (times.median() - baseline) * 1e6;
        println!("  added: {:.1} µs, {:.1} µs", added(&times[1]), added(&times[2]));
        drop((plain, asked, remembered, daemon));
        handler.join().unwrap();
    }
}
