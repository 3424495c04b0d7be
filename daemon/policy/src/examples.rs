//! Runs a profile's own tests when the profile is loaded. Pure: no I/O.

use crate::{Profile, ProfileError, Scene, explain};

/// Returns the sample session on which tests run: an ordinary user's project.
pub(crate) fn scene() -> Scene {
    Scene {
        workspace: "/home/user/project".into(),
        home: Some("/home/user".into()),
        user: "user".to_owned(),
        uid: 1000,
        gid: 1000,
    }
}

/// Runs the tests of a profile and returns the first failure.
pub(crate) fn check(profile: &Profile) -> Result<(), ProfileError> {
    for example in profile.tests() {
        let failed = |why| {
            let (at, test) = (Box::new(example.at.clone()), example.to_string());
            Err(ProfileError::Test { at, test, why })
        };
        match explain(profile, &scene(), example.act, &example.target) {
            Ok(found) if found.decision == example.expected => {}
            Ok(found) => {
                return failed(format!("the decision is {}: {}", found.decision, found.rule));
            }
            Err(error) => return failed(error.to_string()),
        }
    }
    Ok(())
}
