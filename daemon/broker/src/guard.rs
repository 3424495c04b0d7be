//! How a `bash` call is held to the checkpoint: what is asked before it runs, and whether it runs in
//! a transaction, where its effects are known before they count. Broker, pure.

use crate::{
    session::Session,
    task::{Manner, Program},
};
use palisade_policy::{Search, UpFront, analysis::Nature};
use palisade_protocol::{Ask, Guard};

/// How a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// What it does counts at once.
    Direct(Search),
    /// What it does counts when it was judged.
    Transaction,
    /// What it does counts when it has ended, unless it did something to what is protected: it sees
    /// nothing of what is hidden.
    Veiled,
}

/// How a call is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) route: Route,
    pub(crate) up_front: UpFront,
}

/// Where everything lies that the text is known to destroy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In the workspace: a transaction holds it back.
    Workspace,
    /// Somewhere else too, or that is not known.
    Beyond,
}

/// What a session says of guarding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Terms {
    guard: Guard,
    /// Nobody is asked, whatever it did.
    unasked: bool,
    writes_workspace: bool,
    writes_beyond: bool,
}

/// How a program is held.
pub(crate) fn hold(session: &Session, program: &Program, nature: Nature, reach: Reach) -> Held {
    let profile = &session.profile;
    let terms = Terms {
        guard: session.guard(),
        unasked: session.ask.max(profile.ask()) == Ask::Never && !profile.has_path_rules(),
        writes_workspace: profile.writes_workspace(),
        writes_beyond: profile.writes_beyond(),
    };
    let held = held(terms, program, nature, reach);
    let fixed = !profile.writes_workspace() && !profile.hides();
    match held.route {
        Route::Direct(Search::Whole) if session.is_veiled() && !fixed => {
            Held { route: Route::Veiled, ..held }
        }
        // Whether there is something to be hidden from what only reads is looked at when it runs.
        Route::Direct(Search::Whole | Search::Fixed | Search::System)
        | Route::Transaction
        | Route::Veiled => held,
    }
}

fn held(terms: Terms, program: &Program, nature: Nature, reach: Reach) -> Held {
    let direct = |up_front| Held { route: Route::Direct(Search::Whole), up_front };
    // What runs on, or is typed into, has no end at which its effects could be judged.
    let ends = program.manner == Manner::Foreground && program.terminal.is_none();
    match terms.guard {
        Guard::Off => direct(UpFront::Nothing),
        Guard::Text => direct(UpFront::Everything),
        Guard::Auto | Guard::Transaction if !ends => direct(UpFront::Everything),
        Guard::Auto if nature == Nature::Reads && program.environment.is_empty() => {
            let route = Route::Direct(Search::System);
            Held { route, up_front: UpFront::Everything }
        }
        // There is nothing that it could destroy.
        Guard::Auto | Guard::Transaction if !terms.writes_workspace => {
            direct(if terms.writes_beyond { UpFront::Everything } else { UpFront::Known })
        }
        Guard::Auto if terms.unasked => direct(UpFront::Everything),
        Guard::Auto | Guard::Transaction => {
            let up_front = match (terms.guard, reach) {
                // No transaction holds back what is written elsewhere.
                (Guard::Off | Guard::Text | Guard::Auto | Guard::Transaction, _)
                    if terms.writes_beyond =>
                {
                    UpFront::Everything
                }
                (Guard::Transaction, Reach::Workspace) => UpFront::Nothing,
                (Guard::Off | Guard::Text | Guard::Auto | Guard::Transaction, _) => UpFront::Known,
            };
            Held { route: Route::Transaction, up_front }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Directory, Typing};
    use palisade_plan::cell::Size;

    const TERMS: Terms =
        Terms { guard: Guard::Auto, unasked: false, writes_workspace: true, writes_beyond: false };
    const SYSTEM: Route = Route::Direct(Search::System);
    const WHOLE: Route = Route::Direct(Search::Whole);

    fn program() -> Program {
        Program {
            argv: vec!["x".to_owned()],
            script: None,
            cwd: None,
            environment: Default::default(),
            stdin: None,
            directory: Directory::Left,
            manner: Manner::Foreground,
            typing: Typing::Closed,
            lifetime: None,
            terminal: None,
        }
    }

    fn both(terms: Terms, program: &Program) -> [(Route, UpFront); 2] {
        [Nature::Reads, Nature::Acts].map(|nature| {
            let held = held(terms, program, nature, Reach::Workspace);
            (held.route, held.up_front)
        })
    }

    #[test]
    fn what_is_proven_runs_and_the_rest_is_held_by_its_effects() {
        use UpFront::{Everything, Known, Nothing};
        let transaction = (Route::Transaction, Known);
        assert_eq!(both(TERMS, &program()), [(SYSTEM, Everything), transaction]);
        let always = Terms { guard: Guard::Transaction, ..TERMS };
        assert_eq!(both(always, &program()), [(Route::Transaction, Nothing); 2]);
        let text = Terms { guard: Guard::Text, ..TERMS };
        assert_eq!(both(text, &program()), [(WHOLE, Everything); 2]);
        let off = Terms { guard: Guard::Off, ..TERMS };
        assert_eq!(both(off, &program()), [(WHOLE, Nothing); 2]);
    }

    #[test]
    fn a_variable_of_the_callers_proves_nothing() {
        let mut program = program();
        program.environment.insert("X".to_owned(), "y".to_owned());
        assert_eq!(both(TERMS, &program), [(Route::Transaction, UpFront::Known); 2]);
    }

    #[test]
    fn what_runs_on_or_is_typed_into_is_asked_about_by_its_text() {
        let direct = [(WHOLE, UpFront::Everything); 2];
        let background = Program { manner: Manner::Background, ..program() };
        assert_eq!(both(TERMS, &background), direct);
        let terminal = Program { terminal: Some(Size { rows: 24, cols: 80 }), ..program() };
        assert_eq!(both(TERMS, &terminal), direct);
    }

    #[test]
    fn what_no_transaction_holds_back_is_asked_about_first() {
        let beyond = Terms { writes_beyond: true, ..TERMS };
        let everything = (Route::Transaction, UpFront::Everything);
        assert_eq!(both(beyond, &program()), [(SYSTEM, UpFront::Everything), everything]);
        let always = Terms { guard: Guard::Transaction, ..TERMS };
        let held = held(always, &program(), Nature::Acts, Reach::Beyond);
        assert_eq!((held.route, held.up_front), (Route::Transaction, UpFront::Known));
    }

    #[test]
    fn where_nothing_can_be_changed_or_nobody_is_asked_there_is_nothing_to_hold() {
        let fixed = Terms { writes_workspace: false, ..TERMS };
        assert_eq!(both(fixed, &program())[1], (WHOLE, UpFront::Known));
        let unasked = Terms { unasked: true, ..TERMS };
        assert_eq!(both(unasked, &program())[1], (WHOLE, UpFront::Everything));
        let always = Terms { guard: Guard::Transaction, ..unasked };
        assert_eq!(both(always, &program())[1].0, Route::Transaction);
    }
}
