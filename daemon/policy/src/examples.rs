//! Holds a profile to its own tests when it is loaded.

use crate::{Profile, ProfileError, Scene, explain};

/// Where tests are tried when a profile is loaded: any project of any user's.
pub(crate) fn scene() -> Scene {
    Scene {
        workspace: "/home/user/project".into(),
        home: Some("/home/user".into()),
        user: "user".to_owned(),
        uid: 1000,
        gid: 1000,
    }
}

/// Holds a profile to its tests.
pub(crate) fn check(profile: &Profile) -> Result<(), ProfileError> {
    for example in profile.tests() {
        let failed = |why| {
            let (at, test) = (Box::new(example.at.clone()), example.to_string());
            Err(ProfileError::Test { at, test, why })
        };
        match explain(profile, &scene(), example.act, &example.target) {
            Ok(found) if found.decision == example.expected => {}
            Ok(found) => return failed(format!("it is {}: {}", found.decision, found.rule)),
            Err(error) => return failed(error.to_string()),
        }
    }
    Ok(())
}
