//! The route of a program: where it runs, and what needs approval before it does. The kernel
//! enforces both routes; command analysis only chooses the faster one. Pure: no I/O.

use crate::{
    base::task::{Program, RouteChoice},
    cells::{runner::RunnerKind, session::Session},
};
use palisade_policy::{UpFront, analysis::Nature};
use palisade_protocol::{Guard, Route as RouteName};

/// The route of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// With the workspace mounted read-only.
    Reading,
    /// On an overlay of the workspace; its changes take effect after it has ended.
    Transaction(EffectsReview),
    /// In the workspace itself: its changes take effect at once.
    Direct,
}

/// The review of a transaction's effects before they are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EffectsReview {
    Required,
    /// The profile waives the review (`guard = "off"`), or the text was judged instead (`guard =
    /// "text"`). The overlay is used only to hide or protect names.
    Waived,
}

impl Route {
    /// The name of the route in results.
    pub(crate) const fn name(self) -> RouteName {
        match self {
            Self::Reading => RouteName::Reading,
            Self::Transaction(_) => RouteName::Transaction,
            Self::Direct => RouteName::Direct,
        }
    }

    /// The runner of a program that has no transaction.
    pub(crate) const fn runner(self) -> Option<RunnerKind> {
        match self {
            Self::Reading => Some(RunnerKind::Reading),
            Self::Direct => Some(RunnerKind::Direct),
            Self::Transaction(_) => None,
        }
    }
}

/// The route of a call, and what needs approval before it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Routing {
    pub(crate) route: Route,
    pub(crate) up_front: UpFront,
    /// The nature of a program whose changes nothing holds back; `None` if its route does.
    pub(crate) unheld: Option<Nature>,
}

/// The extent of everything that the text is known to destroy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LossExtent {
    /// In the workspace: a transaction holds it back.
    Workspace,
    /// Also in other files of this host, or at an unknown place on it: lost only if the session can
    /// change directories that no transaction holds back.
    Host,
    /// Also outside the workspace, or at an unknown place.
    Beyond,
}

/// The properties of a session that decide about routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Terms {
    guard: Guard,
    writes_workspace: bool,
    /// True if the session can change something that no transaction holds back: unguarded
    /// directories, or systems reached over the network.
    unheld: bool,
    /// True if the session can change directories of the host that no transaction holds back.
    unguarded: bool,
    /// True if names of the workspace are hidden from programs or protected.
    restricts_names: bool,
    /// True if programs can run where the workspace is mounted read-only.
    has_reading_view: bool,
}

/// Chooses the route of a program in a session.
pub(crate) fn route(
    session: &Session,
    program: &Program,
    nature: Nature,
    reach: LossExtent,
) -> Routing {
    let profile = &session.profile;
    let unguarded = profile.writes_beyond();
    let terms = Terms {
        guard: session.guard(),
        writes_workspace: profile.writes_workspace(),
        unheld: unguarded || profile.reaches_network(),
        unguarded,
        restricts_names: session.restricts_names(),
        has_reading_view: session.has_reading_view(),
    };
    routing(terms, program.route, nature, reach)
}

fn routing(terms: Terms, choice: RouteChoice, nature: Nature, reach: LossExtent) -> Routing {
    let unjudged = match terms.restricts_names {
        true => Route::Transaction(EffectsReview::Waived),
        false => Route::Direct,
    };
    // In a read-only workspace, writable places are mounts of their own, which no transaction holds
    // back.
    let reach = match reach {
        LossExtent::Workspace if !terms.writes_workspace => LossExtent::Beyond,
        LossExtent::Workspace | LossExtent::Host | LossExtent::Beyond => reach,
    };
    let up_front = match (terms.guard, reach) {
        (Guard::Off, _) => UpFront::Nothing,
        (Guard::Text, _) => UpFront::Everything,
        (Guard::Auto | Guard::Transaction, LossExtent::Beyond) if terms.unheld => UpFront::Known,
        (Guard::Auto | Guard::Transaction, LossExtent::Host) if terms.unguarded => UpFront::Known,
        (
            Guard::Auto | Guard::Transaction,
            LossExtent::Workspace | LossExtent::Host | LossExtent::Beyond,
        ) => UpFront::Nothing,
    };
    let reads = nature == Nature::Reads && choice == RouteChoice::Automatic;
    let direct = choice == RouteChoice::Direct;
    let up_front = if direct { UpFront::Everything } else { up_front };
    // A transaction of a read-only workspace would have nothing to hold back.
    let is_fixed = !terms.writes_workspace && !terms.unguarded;
    let route = match terms.guard {
        _ if choice == RouteChoice::Watch => Route::Reading,
        Guard::Off => unjudged,
        Guard::Text | Guard::Auto | Guard::Transaction if direct => unjudged,
        Guard::Text if (reads || is_fixed) && terms.has_reading_view => Route::Reading,
        Guard::Text => unjudged,
        Guard::Auto if reads => Route::Reading,
        Guard::Auto | Guard::Transaction if is_fixed => Route::Reading,
        Guard::Auto | Guard::Transaction if !terms.writes_workspace => unjudged,
        Guard::Auto | Guard::Transaction => Route::Transaction(EffectsReview::Required),
    };
    let is_unheld = terms.guard == Guard::Text && route != Route::Reading && !is_fixed;
    // A program that is to write, as its call says, does not only read.
    let nature = if reads { Nature::Reads } else { Nature::Acts };
    Routing { route, up_front, unheld: is_unheld.then_some(nature) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        guard: Guard::Auto,
        writes_workspace: true,
        unheld: false,
        unguarded: false,
        restricts_names: false,
        has_reading_view: true,
    };
    const REVIEWED: Route = Route::Transaction(EffectsReview::Required);

    /// The routes of a line that seems only to read and of one that does not.
    fn both(terms: Terms, choice: RouteChoice) -> [(Route, UpFront); 2] {
        [Nature::Reads, Nature::Acts].map(|nature| {
            let routing = routing(terms, choice, nature, LossExtent::Workspace);
            (routing.route, routing.up_front)
        })
    }

    #[test]
    fn everything_that_may_write_runs_in_a_transaction() {
        use UpFront::{Everything, Nothing};
        let automatic = both(TERMS, RouteChoice::Automatic);
        assert_eq!(automatic, [(Route::Reading, Nothing), (REVIEWED, Nothing)]);
        assert_eq!(both(TERMS, RouteChoice::Transaction), [(REVIEWED, Nothing); 2]);
        let always = Terms { guard: Guard::Transaction, ..TERMS };
        assert_eq!(both(always, RouteChoice::Automatic), [(REVIEWED, Nothing); 2]);
        let text = Terms { guard: Guard::Text, ..TERMS };
        let automatic = both(text, RouteChoice::Automatic);
        assert_eq!(automatic, [(Route::Reading, Everything), (Route::Direct, Everything)]);
        assert_eq!(both(text, RouteChoice::Transaction), [(Route::Direct, Everything); 2]);
        let off = Terms { guard: Guard::Off, ..TERMS };
        assert_eq!(both(off, RouteChoice::Automatic), [(Route::Direct, Nothing); 2]);
    }

    #[test]
    fn only_what_no_transaction_holds_back_is_asked_about_first() {
        let asked =
            |terms, reach| routing(terms, RouteChoice::Automatic, Nature::Acts, reach).up_front;
        let unheld = Terms { unheld: true, ..TERMS };
        assert_eq!(asked(TERMS, LossExtent::Beyond), UpFront::Nothing);
        assert_eq!(asked(unheld, LossExtent::Workspace), UpFront::Nothing);
        assert_eq!(asked(unheld, LossExtent::Beyond), UpFront::Known);
        // A network reaches no file of this host.
        assert_eq!(asked(unheld, LossExtent::Host), UpFront::Nothing);
        let unguarded = Terms { unguarded: true, ..unheld };
        assert_eq!(asked(unguarded, LossExtent::Host), UpFront::Known);
    }

    #[test]
    fn a_job_runs_directly_only_after_it_was_asked_about() {
        for guard in [Guard::Off, Guard::Text, Guard::Auto, Guard::Transaction] {
            let terms = Terms { guard, ..TERMS };
            let asked = both(terms, RouteChoice::Direct);
            assert_eq!(asked, [(Route::Direct, UpFront::Everything); 2]);
        }
    }

    #[test]
    fn a_job_that_watches_changes_nothing_whatever_the_guard() {
        for guard in [Guard::Off, Guard::Text, Guard::Auto, Guard::Transaction] {
            let terms = Terms { guard, ..TERMS };
            let routes = both(terms, RouteChoice::Watch).map(|(route, _)| route);
            assert_eq!(routes, [Route::Reading; 2]);
        }
    }

    #[test]
    fn a_workspace_that_is_only_read_has_nothing_to_hold_back() {
        let fixed = Terms { writes_workspace: false, ..TERMS };
        assert_eq!(both(fixed, RouteChoice::Automatic)[1].0, Route::Reading);
        let beyond = Terms { unguarded: true, unheld: true, ..fixed };
        // An unguarded directory inside the workspace is as unguarded as one outside.
        assert_eq!(both(beyond, RouteChoice::Automatic)[1], (Route::Direct, UpFront::Known));
    }

    /// Under `guard = "text"`, the nature by which both lines are judged where nothing holds back
    /// their changes.
    fn unheld(terms: Terms, choice: RouteChoice) -> [Option<Nature>; 2] {
        let terms = Terms { guard: Guard::Text, ..terms };
        [Nature::Reads, Nature::Acts]
            .map(|nature| routing(terms, choice, nature, LossExtent::Workspace).unheld)
    }

    #[test]
    fn where_nothing_holds_back_changes_the_text_must_prove_that_there_are_none() {
        let acts = Some(Nature::Acts);
        assert_eq!(unheld(TERMS, RouteChoice::Automatic), [None, acts]);
        // Nothing is proven about a line that is to write.
        assert_eq!(unheld(TERMS, RouteChoice::Transaction), [acts; 2]);
        assert_eq!(unheld(TERMS, RouteChoice::Direct), [acts; 2]);
        assert_eq!(unheld(TERMS, RouteChoice::Watch), [None; 2]);
        let blind = Terms { has_reading_view: false, ..TERMS };
        let reads = Some(Nature::Reads);
        assert_eq!(unheld(blind, RouteChoice::Automatic), [reads, acts]);
        // An overlay that only hides names holds nothing back.
        let restricted = Terms { restricts_names: true, ..TERMS };
        assert_eq!(unheld(restricted, RouteChoice::Automatic), [None, acts]);
        for has_reading_view in [true, false] {
            let fixed = Terms { writes_workspace: false, has_reading_view, ..TERMS };
            assert_eq!(unheld(fixed, RouteChoice::Automatic), [None; 2]);
            let beyond = Terms { unguarded: true, ..fixed };
            assert_eq!(unheld(beyond, RouteChoice::Automatic)[1], acts);
        }
        for guard in [Guard::Off, Guard::Auto, Guard::Transaction] {
            let terms = Terms { guard, ..TERMS };
            let routing =
                routing(terms, RouteChoice::Automatic, Nature::Acts, LossExtent::Workspace);
            assert_eq!(routing.unheld, None);
        }
    }

    #[test]
    fn hidden_names_are_hidden_whatever_the_guard() {
        let waived = Route::Transaction(EffectsReview::Waived);
        for (guard, reader) in [(Guard::Off, waived), (Guard::Text, Route::Reading)] {
            let restricted = Terms { guard, restricts_names: true, ..TERMS };
            // From the reading route a call goes to a reviewed transaction if names are hidden.
            assert_eq!(
                both(restricted, RouteChoice::Automatic).map(|(route, _)| route),
                [reader, waived]
            );
        }
    }
}
