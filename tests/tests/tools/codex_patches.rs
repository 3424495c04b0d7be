//! `apply_patch` beside the scenarios of Codex's own suite: for each one, whether the files are the same
//! in the end, and if not, why that is meant. Names are Codex's; files and texts are our own.

use palisade_tests::{Mode, World, profile_never_asking};
use serde_json::json;
use std::{collections::BTreeMap, fs, path::Path};

/// Files, by their paths in the workspace.
type Files = &'static [(&'static str, &'static str)];

/// A scenario: files, a patch, and the files that Codex leaves.
struct Scenario {
    name: &'static str,
    before: Files,
    patch: &'static str,
    codex: Files,
    ours: Ours,
}

/// What Palisade leaves.
enum Ours {
    /// The same files as Codex.
    Same,
    /// Other files, for a reason.
    Differs { files: Files, why: &'static str },
}

const SCENARIOS: [Scenario; 25] = [
    Scenario {
        name: "001_add_file",
        before: &[],
        patch: "*** Begin Patch\n*** Add File: notes.md\n+a note\n*** End Patch\n",
        codex: &[("notes.md", "a note\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "002_multiple_operations",
        before: &[("edited", "a\nb\n"), ("old", "x\n")],
        patch: "*** Begin Patch\n*** Add File: in/made\n+m\n*** Delete File: old\n\
                *** Update File: edited\n@@\n-b\n+B\n*** End Patch\n",
        codex: &[("edited", "a\nB\n"), ("in/made", "m\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "003_multiple_chunks",
        before: &[("f", "a\nb\nc\nd\n")],
        patch: "*** Begin Patch\n*** Update File: f\n@@\n-b\n+B\n@@\n-d\n+D\n*** End Patch\n",
        codex: &[("f", "a\nB\nc\nD\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "004_move_to_new_directory",
        before: &[("from/f", "a\n"), ("from/other", "o\n")],
        patch: "*** Begin Patch\n*** Update File: from/f\n*** Move to: to/new/f\n@@\n-a\n+b\n\
                *** End Patch\n",
        codex: &[("from/other", "o\n"), ("to/new/f", "b\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "005_rejects_empty_patch",
        before: &[("f", "a\n")],
        patch: "*** Begin Patch\n*** End Patch\n",
        codex: &[("f", "a\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "006_rejects_missing_context",
        before: &[("f", "a\nb\n")],
        patch: "*** Begin Patch\n*** Update File: f\n@@\n-none\n+some\n*** End Patch\n",
        codex: &[("f", "a\nb\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "007_rejects_missing_file_delete",
        before: &[("f", "a\n")],
        patch: "*** Begin Patch\n*** Delete File: none\n*** End Patch\n",
        codex: &[("f", "a\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "008_rejects_empty_update_hunk",
        before: &[("f", "a\n")],
        patch: "*** Begin Patch\n*** Update File: f\n*** End Patch\n",
        codex: &[("f", "a\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "009_requires_existing_file_for_update",
        before: &[("f", "a\n")],
        patch: "*** Begin Patch\n*** Update File: none\n@@\n-a\n+b\n*** End Patch\n",
        codex: &[("f", "a\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "010_move_overwrites_existing_destination",
        before: &[("f", "a\n"), ("taken", "precious\n")],
        patch: "*** Begin Patch\n*** Update File: f\n*** Move to: taken\n@@\n-a\n+b\n*** End Patch\n",
        codex: &[("taken", "b\n")],
        ours: Ours::Differs {
            files: &[("f", "a\n"), ("taken", "precious\n")],
            why: "a patch that does not name the old content does not replace a file",
        },
    },
    Scenario {
        name: "011_add_overwrites_existing_file",
        before: &[("taken", "precious\n")],
        patch: "*** Begin Patch\n*** Add File: taken\n+new\n*** End Patch\n",
        codex: &[("taken", "new\n")],
        ours: Ours::Differs {
            files: &[("taken", "precious\n")],
            why: "a patch that does not name the old content does not replace a file",
        },
    },
    Scenario {
        name: "012_delete_directory_fails",
        before: &[("d/f", "a\n")],
        patch: "*** Begin Patch\n*** Delete File: d\n*** End Patch\n",
        codex: &[("d/f", "a\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "013_rejects_invalid_hunk_header",
        before: &[("f", "a\n")],
        patch: "*** Begin Patch\n*** Rename File: f\n*** End Patch\n",
        codex: &[("f", "a\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "014_update_file_appends_trailing_newline",
        before: &[("f", "no newline")],
        patch: "*** Begin Patch\n*** Update File: f\n@@\n-no newline\n+one\n+two\n*** End Patch\n",
        codex: &[("f", "one\ntwo\n")],
        ours: Ours::Differs {
            files: &[("f", "one\ntwo")],
            why: "a patch changes only the lines that it names: the last line of the file stays \
                  without a newline",
        },
    },
    Scenario {
        name: "015_failure_after_partial_success_leaves_changes",
        before: &[],
        patch: "*** Begin Patch\n*** Add File: made\n+m\n*** Update File: none\n@@\n-a\n+b\n\
                *** End Patch\n",
        codex: &[("made", "m\n")],
        ours: Ours::Differs {
            files: &[],
            why: "a patch is applied as a whole or not at all, so that it can be repeated",
        },
    },
    Scenario {
        name: "016_pure_addition_update_chunk",
        before: &[("f", "a\nb\n")],
        patch: "*** Begin Patch\n*** Update File: f\n@@\n+c\n+d\n*** End Patch\n",
        codex: &[("f", "a\nb\nc\nd\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "017_whitespace_padded_hunk_header",
        before: &[("f", "a\n")],
        patch: "*** Begin Patch\n  *** Update File: f\n@@\n-a\n+b\n*** End Patch\n",
        codex: &[("f", "b\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "018_whitespace_padded_patch_markers",
        before: &[("f", "a\n")],
        patch: " *** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch \n",
        codex: &[("f", "b\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "019_unicode_simple",
        before: &[("f", "a\nüber\nc\n")],
        patch: "*** Begin Patch\n*** Update File: f\n@@\n a\n-über\n+über → ✓\n*** End Patch\n",
        codex: &[("f", "a\nüber → ✓\nc\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "020_delete_file_success",
        before: &[("gone", "g\n"), ("stays", "s\n")],
        patch: "*** Begin Patch\n*** Delete File: gone\n*** End Patch\n",
        codex: &[("stays", "s\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "020_whitespace_padded_patch_marker_lines",
        before: &[("f", "a\n")],
        patch: "*** Begin Patch \n*** Update File: f\n@@\n-a\n+b\n *** End Patch\n",
        codex: &[("f", "b\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "021_update_file_deletion_only",
        before: &[("f", "a\nb\nc\n")],
        patch: "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n c\n*** End Patch\n",
        codex: &[("f", "a\nc\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "022_update_file_end_of_file_marker",
        before: &[("f", "a\nb\n")],
        patch: "*** Begin Patch\n*** Update File: f\n@@\n a\n-b\n+B\n*** End of File\n*** End Patch\n",
        codex: &[("f", "a\nB\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "023_preserves_crlf_line_endings",
        before: &[("f", "a\r\nb\r\nc\r\n")],
        patch: "*** Begin Patch\n*** Update File: f\n@@\n-a\n+A\n b\n+between\n c\n*** End Patch\n",
        codex: &[("f", "A\r\nb\r\nbetween\r\nc\r\n")],
        ours: Ours::Same,
    },
    Scenario {
        name: "024_preserves_mixed_line_endings",
        before: &[("f", "a\r\nb\rc\nd\r\n")],
        patch: "*** Begin Patch\n*** Update File: f\n@@\n a\n b\n-c\n+C\n d\n*** End Patch\n",
        codex: &[("f", "a\r\nb\rC\nd\r\n")],
        ours: Ours::Differs {
            files: &[("f", "a\r\nb\rc\nd\r\n")],
            why: "a carriage return alone ends no line",
        },
    },
];

/// Makes the workspace have these files and no others of the test.
fn put(world: &World, place: &Path, files: Files) {
    fs::create_dir(place).unwrap();
    world.give(place);
    for (name, text) in files {
        let path = place.join(name);
        let parent = path.parent().unwrap();
        if !parent.exists() {
            fs::create_dir(parent).unwrap();
            world.give(parent);
        }
        fs::write(&path, text).unwrap();
        world.give(&path);
    }
}

/// Reads all files below a directory.
fn read(place: &Path) -> BTreeMap<String, String> {
    let (mut found, mut directories) = (BTreeMap::new(), vec![place.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(place).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

fn map(files: Files) -> BTreeMap<String, String> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn each_scenario_of_codex_ends_the_same_or_differs_for_a_reason() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked("free", &profile_never_asking());
        let sandbox = world.open_with("free");
        for Scenario { name, before, patch, codex, ours } in &SCENARIOS {
            let place = world.workspace().join(name);
            put(&world, &place, before);
            // The paths of a patch are relative to the session's directory.
            assert!(
                sandbox.done("bash", json!({"command": format!("cd {}", place.display())})).success
            );
            let result = sandbox.call("apply_patch", json!({"patch": patch}));
            let (expected, why) = match ours {
                Ours::Same => (codex, ""),
                Ours::Differs { files, why } => (files, *why),
            };
            assert_eq!(read(&place), map(expected), "{mode:?} {name}: {why} {:?}", result.error);
            // What changes nothing is an error.
            assert_eq!(result.success, expected != before, "{mode:?} {name}: {:?}", result.error);
            let differs = matches!(ours, Ours::Differs { .. });
            assert_eq!(differs, map(expected) != map(codex), "{name}");
        }
        let same = SCENARIOS.iter().filter(|scenario| matches!(scenario.ours, Ours::Same)).count();
        assert_eq!(same, 20, "docs/agents.md has this number");
    }
}
