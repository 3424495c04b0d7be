//! What a profile says of jobs: where they may run, and where one runs whose call does not say. Pure.

use crate::access::Widening;
use serde::{Deserialize, Serialize};

/// Where a job runs, from the least that it can do to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobRoute {
    /// In the live workspace, which it can not change.
    Watch,
    /// In a transaction, which is judged when it ends.
    Transaction,
    /// In the workspace itself, after that was approved.
    Direct,
}

impl JobRoute {
    /// Its name in profiles and calls.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Transaction => "transaction",
            Self::Direct => "direct",
        }
    }
}

/// `[jobs]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Jobs {
    /// Where they may run, in order.
    pub(crate) routes: Vec<JobRoute>,
    /// Where one runs whose call does not say.
    pub(crate) default: JobRoute,
}

impl Default for Jobs {
    fn default() -> Self {
        let routes = vec![JobRoute::Watch, JobRoute::Transaction, JobRoute::Direct];
        Self { routes, default: JobRoute::Transaction }
    }
}

/// `[jobs]` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JobsText {
    routes: Option<Vec<JobRoute>>,
    default: Option<JobRoute>,
}

impl Jobs {
    /// What both allow; where one runs that does not say is where it can do less.
    pub(crate) fn stricter(&self, other: &Self) -> Self {
        let both = |route: &&JobRoute| other.routes.contains(route);
        let routes: Vec<JobRoute> = self.routes.iter().filter(both).copied().collect();
        Self { routes, default: self.default.min(other.default) }
    }

    /// What is written in place of what was; or the key that is wrong or laxer, unless it may be.
    pub(crate) fn with(
        &self,
        text: JobsText,
        widening: Widening,
    ) -> Result<Self, (&'static str, String)> {
        let mut routes = text.routes.unwrap_or_else(|| self.routes.clone());
        routes.sort_unstable();
        routes.dedup();
        let default = text.default.unwrap_or(self.default);
        let more = routes.iter().find(|route| !self.routes.contains(route));
        match more {
            Some(route) if widening == Widening::No => {
                let why = format!("has {:?}, which what the profile extends has not", route.name());
                Err(("jobs.routes", why))
            }
            Some(_) | None => Ok(Self { routes, default }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use JobRoute::{Direct, Transaction, Watch};

    #[test]
    fn a_stack_allows_what_both_do() {
        let all = Jobs::default();
        let some = Jobs { routes: vec![Watch, Direct], default: Watch };
        assert_eq!(all.stricter(&some), some);
        let other = Jobs { routes: vec![Transaction], default: Transaction };
        assert_eq!(some.stricter(&other), Jobs { routes: vec![], default: Watch });
    }

    #[test]
    fn a_profile_narrows_what_it_extends() {
        let text = |routes: &[JobRoute]| JobsText { routes: Some(routes.to_vec()), default: None };
        let narrow = Jobs::default().with(text(&[Transaction, Watch]), Widening::No).unwrap();
        assert_eq!(narrow.routes, [Watch, Transaction]);
        assert_eq!(narrow.with(text(&[Direct]), Widening::No).unwrap_err().0, "jobs.routes");
        assert_eq!(narrow.with(text(&[Direct]), Widening::Yes).unwrap().routes, [Direct]);
    }
}
