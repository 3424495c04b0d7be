//! The builder's task: a program of at most 60 lines, written from the documentation alone.

use palisade_tests::{Mode, World, binary};
use std::{fs, process::Command};

#[test]
fn the_builders_task_in_sixty_lines() {
    let lines = include_str!("../../src/bin/builder.rs").lines().count();
    assert!(lines <= 60, "{lines} lines");
    // Root's state is not in the world.
    let world = World::new(Mode::User);
    for name in ["old-1", "old-2"] {
        let path = world.workspace().join(name);
        fs::write(&path, "old").unwrap();
        world.give(&path);
    }
    let output = world.mode.act(|| {
        let known = world.command("palisade");
        let known = known.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut command = Command::new(binary("builder"));
        command.env_clear().envs(known).env("PALISADE_DAEMON", binary("palisaded"));
        command.arg(world.workspace()).output().unwrap()
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}{complained}");
    let answers: Vec<&str> = told.lines().skip(1).collect();
    assert_eq!(answers.len(), 4, "{told}");
    assert!(answers[0].starts_with("bash true: \"data"), "{told}");
    assert!(answers[1].starts_with("bash false: "), "{told}");
    assert!(answers[1].contains("delete one file at a time"), "{told}");
    assert!(answers[2].starts_with("bash true: "), "{told}");
    assert!(answers[3].starts_with("read_file false: "), "{told}");
    let left = ["new", "old-1", "old-2"].map(|name| world.workspace().join(name).exists());
    assert_eq!(left, [true, false, true], "{told}");
}
