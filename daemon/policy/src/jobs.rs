//! A profile's `[jobs]` settings: the routes that jobs may take, and the default route. Pure: no
//! I/O.

use crate::access::Widening;
use serde::{Deserialize, Serialize};

/// The route of a job. Each variant lets the job do more than the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobRoute {
    /// The job sees the live workspace, but can not change it.
    Watch,
    /// The job runs in a transaction, which is judged when the job ends.
    Transaction,
    /// The job runs in the workspace itself. An approver has to allow that first.
    Direct,
}

impl JobRoute {
    /// Returns the name of the route in profiles and calls.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Transaction => "transaction",
            Self::Direct => "direct",
        }
    }
}

/// The profile section `[jobs]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Jobs {
    /// The routes that jobs may take, sorted.
    pub(crate) routes: Vec<JobRoute>,
    /// The route of a job whose call does not name one.
    pub(crate) default: JobRoute,
}

impl Default for Jobs {
    fn default() -> Self {
        let routes = vec![JobRoute::Watch, JobRoute::Transaction, JobRoute::Direct];
        Self { routes, default: JobRoute::Transaction }
    }
}

/// The section `[jobs]` as it is written in a profile.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JobsText {
    routes: Option<Vec<JobRoute>>,
    default: Option<JobRoute>,
}

impl Jobs {
    /// Combines two profiles: only routes that both allow, and the stricter of the two defaults.
    pub(crate) fn stricter(&self, other: &Self) -> Self {
        let both = |route: &&JobRoute| other.routes.contains(route);
        let routes: Vec<JobRoute> = self.routes.iter().filter(both).copied().collect();
        Self { routes, default: self.default.min(other.default) }
    }

    /// Applies a profile's own `[jobs]` section on top of this one. Returns the key and the reason
    /// if the section is invalid, or if it is laxer and the profile may not widen.
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
                let why =
                    format!("has {:?}, which the extended profile does not allow", route.name());
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
