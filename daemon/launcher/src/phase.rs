//! The phase of the conversation, which decides what requests the broker may make. Any other
//! request ends the conversation.

use palisade_plan::{BUILD_ID, launcher::Request};

/// The state of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// `Hello` is expected, once, with this build's id.
    Greeting,
    /// Sessions may be created and ended.
    Serving,
}

impl Phase {
    /// Returns the phase after a request, or why the request is not allowed now.
    pub(crate) fn allows(self, request: &Request) -> Result<Self, String> {
        match (self, request) {
            (Self::Greeting, Request::Hello { build_id }) if build_id == BUILD_ID => {
                Ok(Self::Serving)
            }
            (Self::Greeting, Request::Hello { build_id }) => Err(format!(
                "the broker is build {build_id}, but the launcher is build {BUILD_ID}; install \
                 both from the same release and restart both"
            )),
            (
                Self::Serving,
                Request::Identify { .. }
                | Request::Session { .. }
                | Request::Runner { .. }
                | Request::Reader { .. }
                | Request::Transaction { .. }
                | Request::Watch { .. }
                | Request::End { .. },
            ) => Ok(Self::Serving),
            (Self::Serving, Request::Hello { .. }) => Err("a second greeting".into()),
            (
                Self::Greeting,
                Request::Identify { .. }
                | Request::Session { .. }
                | Request::Runner { .. }
                | Request::Reader { .. }
                | Request::Transaction { .. }
                | Request::Watch { .. }
                | Request::End { .. },
            ) => Err("a request before the greeting".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greets_once_with_the_same_build_and_then_serves() {
        let hello = |id: &str| Request::Hello { build_id: id.into() };
        assert_eq!(Phase::Greeting.allows(&hello(BUILD_ID)), Ok(Phase::Serving));
        assert!(
            Phase::Greeting.allows(&hello("other")).is_err_and(|why| why.contains("build other"))
        );
        assert!(Phase::Serving.allows(&hello(BUILD_ID)).is_err());
        assert!(Phase::Greeting.allows(&Request::End { session: 1 }).is_err());
        assert_eq!(Phase::Serving.allows(&Request::End { session: 1 }), Ok(Phase::Serving));
    }
}
