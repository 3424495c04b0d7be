//! A profile's `[jobs]` settings: the routes that jobs may take, and the default route. Pure: no
//! I/O.

use crate::{
    ProfileError,
    access::Widening,
    document::Document,
    keys::{Choosing, Chosen, Section as _, section, words},
};

words! {
    /// The route of a job. Each variant lets the job do more than the one before it.
    pub enum JobRoute {
        /// The job sees the live workspace, but can not change it.
        Watch = "watch",
        /// The job runs in a transaction, which is judged when the job ends.
        Transaction = "transaction",
        /// The job runs in the workspace itself. An approver has to allow that first.
        Direct = "direct",
    }
}

section! {
    /// The profile section `[jobs]`.
    "jobs." pub(crate) struct Jobs, written as JobsText {
        /// where jobs may run. `watch`: in the live workspace, read-only. `transaction`: in a
        /// transaction, judged when the job ends. `direct`: in the workspace itself, with approval
        /// before the job starts
        routes: Vec<JobRoute> = vec![JobRoute::Watch, JobRoute::Transaction, JobRoute::Direct],
            Choosing("is not allowed by");
        /// where a job runs whose call names no route; one of `jobs.routes`. A job that seems to
        /// read only needs no transaction
        default: JobRoute = JobRoute::Transaction, Chosen;
    }
}

impl Jobs {
    /// Returns the section of a file that extends a profile with this one. The routes are sorted.
    pub(crate) fn resolve(
        &self,
        text: &JobsText,
        document: &Document<'_>,
        widening: Widening,
    ) -> Result<Self, ProfileError> {
        let mut jobs = self.over(text, document, widening)?;
        jobs.routes.sort_unstable();
        jobs.routes.dedup();
        if !jobs.routes.contains(&jobs.default) {
            let why = format!("is {:?}, which is not in jobs.routes", jobs.default.name());
            return Err(document.wrong("jobs.default", &why, "name one that is"));
        }
        Ok(jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Owner, ProfileSet, Source};
    use JobRoute::{Direct, Transaction, Watch};

    #[test]
    fn a_stack_allows_what_both_do() {
        let all = Jobs::default();
        let some = Jobs { routes: vec![Watch, Direct], default: Watch };
        assert_eq!(all.both(&some), some);
        let other = Jobs { routes: vec![Transaction], default: Transaction };
        assert_eq!(some.both(&other), Jobs { routes: vec![], default: Watch });
    }

    #[test]
    fn a_profile_narrows_what_it_extends() {
        let text = |extends: &str, more: &str, routes: &str| {
            format!(
                "version = 1\ndescription = \"x\"\nextends = {extends:?}\n{more}[jobs]\n\
                 routes = {routes}\n"
            )
        };
        let narrow = text("workspace", "", "[\"transaction\", \"watch\"]");
        let routes = |child: &str| {
            let source = |name, text| Source { name, file: "f.toml", text, owner: Owner::Root };
            let set = ProfileSet::new([source("narrow", narrow.as_str()), source("child", child)])?;
            let profile = |name| set.get(name).map(|profile| profile.settings.jobs.routes.clone());
            Ok::<_, ProfileError>((profile("narrow").unwrap(), profile("child").unwrap()))
        };
        let watch = text("narrow", "", "[\"transaction\"]");
        assert_eq!(routes(&watch).unwrap(), (vec![Watch, Transaction], vec![Transaction]));
        let direct = "[\"direct\", \"transaction\"]";
        let refused = routes(&text("narrow", "", direct)).unwrap_err().to_string();
        let why = "jobs.routes: direct is not allowed by the extended profile";
        assert!(refused.contains(why), "{refused}");
        let wider = text("narrow", "widen = true\n", direct);
        assert_eq!(routes(&wider).unwrap().1, [Transaction, Direct]);
    }
}
