//! The values of `guard`: what each holds, which of them a session may choose, and what holds where no
//! overlay can be mounted.

use crate::transactions::{filled, guarded, profile};
use palisade_client::{Guard, Open};
use palisade_protocol::{ErrorCode, Route};
use palisade_tests::{Mode, Sandbox, World, profile_with};
use std::fs;

#[test]
fn guards_that_hold_less_say_so() {
    for mode in Mode::all() {
        let desk = filled(mode, &guarded("off"));
        let result = desk.sandbox.bash("rm b.txt; sh wipe.sh");
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(result.receipt.as_ref().unwrap().guard, Guard::Off);
        assert_eq!((desk.text("b.txt"), desk.text("d/c.txt")), (None, None), "{mode:?}");
        let desk = filled(mode, &guarded("text"));
        // A command with hidden code is not run at all.
        let result = desk.sandbox.bash("echo ran; eval \"$(cat wipe.sh)\"");
        assert_eq!(result.error.unwrap().code, ErrorCode::Denied, "{mode:?}");
        assert_eq!(
            (result.stdout.as_str(), result.receipt.as_ref().unwrap().guard),
            ("", Guard::Text)
        );
        // One that a rule allows by name is, but not with others, nor if it is known to lose something.
        let rule = "\n[[rules]]\nverdict = \"allow\"\nwhy = \"it is ours\"\ncommand = [\"sh\"]\n";
        let desk = filled(mode, &format!("{}{rule}", guarded("text")));
        let code = |line: &str| desk.sandbox.bash(line).error.map(|error| error.code);
        for line in ["sh wipe.sh; touch new", "sh wipe.sh; rm b.txt", "sh wipe.sh > b.txt"] {
            assert_eq!(code(line), Some(ErrorCode::Denied), "{mode:?}: {line}");
        }
        assert!(desk.text("d/c.txt").is_some() && desk.text("b.txt").is_some());
        assert_eq!(code("sh wipe.sh"), None, "{mode:?}");
        assert_eq!(desk.text("d/c.txt"), None, "the control: it ran");
    }
}

#[test]
fn a_session_is_only_ever_stricter() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_profile("p", &profile());
        let open = |guard| {
            let (stream, daemon) = world.embedded(&[]);
            let open = Open::new(world.workspace()).profile("p").guard(guard);
            Sandbox::over(stream, Some(daemon), open)
        };
        let strict = open(Guard::Transaction).unwrap();
        assert_eq!(strict.bash("true").receipt.unwrap().guard, Guard::Transaction);
        let error = open(Guard::Text).unwrap_err().to_string();
        assert!(error.contains("guard = \"text\" is laxer"), "{error}");
    }
}

/// A mount below the workspace can not be laid over.
#[test]
fn without_an_overlay_commands_are_held_by_their_text() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let inner = world.workspace().join("vendor");
        fs::create_dir(&inner).unwrap();
        world.give(&inner);
        let read = "    \"$HOME/.cargo/git\",\n";
        let more = format!("{read}    \"$WORKSPACE/vendor\",\n");
        world.add_profile("asking", &profile_with(&[(read, &more)]));
        let wipe = world.workspace().join("wipe.sh");
        fs::write(&wipe, "rm keep\n").unwrap();
        fs::write(world.workspace().join("keep"), "x").unwrap();
        let sandbox = world.open_with("asking");
        let result = sandbox.bash("echo ran; eval \"$(cat wipe.sh)\"");
        assert_eq!(result.error.as_ref().unwrap().code, ErrorCode::Denied, "{mode:?}: {result:?}");
        // It was not run at all.
        assert_eq!(result.stdout, "", "{mode:?}");
        assert_eq!(result.receipt.as_ref().unwrap().guard, Guard::Text, "{mode:?}");
        let degraded: Vec<&str> = result
            .receipt
            .as_ref()
            .unwrap()
            .degraded
            .iter()
            .map(|one| one.layer.as_str())
            .collect();
        assert!(degraded.contains(&"transaction"), "{mode:?}: {degraded:?}");
        assert!(world.workspace().join("keep").exists());
        // A command that is proven to only read runs, where it could not write.
        let read = sandbox.bash("cat keep");
        let ran = (read.stdout.as_str(), read.route);
        assert_eq!(ran, ("x", Some(Route::Reading)), "{mode:?}: {read:?}");
    }
}
