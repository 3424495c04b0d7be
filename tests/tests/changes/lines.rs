//! Shell lines at random, each with something in it that destroys a file: whatever analysis makes of
//! a line, with nobody to approve it nothing is lost.

use palisade_client::CallResult;
use palisade_protocol::Route;
use palisade_tests::{Desk, Dice, Mode, cases, job_of, profile_with, report, tree};
use serde_json::json;
use std::{
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    time::Duration,
};

/// Commands that destroy `victim`, or what is in it.
const DESTROYS: [&str; 16] = [
    "rm victim",
    "rm -f ./victim",
    "mv victim gone",
    ": > victim",
    "> victim",
    "truncate -s 0 victim",
    "cp /dev/null victim",
    "sort $'\\x2do' victim /dev/null",
    "sort -o victim /dev/null",
    "sort --outp=victim /dev/null",
    "uniq /dev/null victim",
    "find victim -delete",
    "sed -n 'w victim' other",
    "tee victim < /dev/null",
    "chmod 000 victim",
    "dd of=victim if=/dev/null status=none",
];

/// Commands that only read, to hide among.
const READS: [&str; 10] = [
    "cat other",
    "ls -l",
    "wc -l other",
    "echo hello",
    "true",
    "head -1 other",
    "stat other",
    "grep -c x other",
    "printf '%s\\n' a b",
    "test -e other",
];

/// The lines that a command can be part of. `@` is the command, `~` one that only reads.
const FRAMES: [&str; 46] = [
    "@",
    "~; @",
    "~ && @",
    "~ || @",
    "~ | @",
    "@ | ~",
    "( @ )",
    "{ @; }",
    "! @",
    "@ &\nwait",
    "echo $(@)",
    "echo `@`",
    "echo \"$(@)\"",
    "echo \"a $(~; @) b\"",
    "echo \"`@`\"",
    "cat <(@)",
    "cat < <(@)",
    "~ > >(@)",
    "x=$(@)",
    "a=([$(@)]=1)",
    "a[$(@)]=1",
    "declare -A a=([x]=$(@))",
    "local_=${x:-$(@)}",
    "echo ${x:-$(@)}",
    "echo ${x:=`@`}",
    "echo ${#x[$(@)]}",
    "echo $((0$(@)))",
    "((x=0$(@)0))",
    "[[ -n $(@) ]]",
    "[[ x == $(@) ]]",
    "test -z \"$(@)\"",
    "case $(@) in *) ~;; esac",
    "for f in $(@); do ~; done",
    "for f in 1; do @; done",
    "while @; do break; done",
    "until ~; do @; done",
    "if @; then ~; fi",
    "if ~; then @; fi",
    "f() { @; }; f",
    "cat <<E; echo $(@)\nE",
    "cat <<E\n$(@)\nE",
    "cat <<'E'\n$(~)\nE\n@",
    "cat <<< \"$(@)\"",
    "echo \"$( #)\n@\n)\"",
    "eval '@'",
    "trap '@' EXIT",
];

/// Changes the text of a command, but not its meaning.
fn disguise(dice: &mut Dice, command: &str) -> String {
    match dice.roll(8) {
        0 => command.replacen(' ', "  ", 1),
        1 => command.replacen(' ', "\t", 1),
        2 => command.replacen("victim", "vic''tim", 1),
        3 => command.replacen("victim", "\"vic\"tim", 1),
        4 => command.replacen("victim", "v*m", 1),
        5 => command.replacen(' ', " \\\n", 1),
        6 => {
            format!("command {command}").replacen("command >", ">", 1).replacen("command :", ":", 1)
        }
        _ => command.to_owned(),
    }
}

/// A line: a command in frames in frames.
fn line(dice: &mut Dice) -> String {
    let destroys = DESTROYS[dice.roll(DESTROYS.len())];
    let mut text = disguise(dice, destroys);
    for _ in 0..=dice.roll(3) {
        let frame = FRAMES[dice.roll(FRAMES.len())];
        let reads = READS[dice.roll(READS.len())];
        // A quote inside of quotes would end them.
        if frame.contains('\'') && text.contains('\'') {
            continue;
        }
        text = frame.replace('~', reads).replace('@', &text);
    }
    text
}

/// All that there is in the one file.
const BYTES: &str = "all there is\n";

/// Makes the workspace what it is at first.
fn furnish(desk: &Desk) {
    for entry in std::fs::read_dir(desk.world.workspace()).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            std::fs::remove_dir_all(entry.path()).unwrap();
        } else if entry.file_name() != "probe" {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    desk.file("victim", BYTES);
    desk.file("other", "x\ny\n");
}

/// Returns `true` if the bytes are still in the workspace, under whichever name.
fn has_it(desk: &Desk) -> bool {
    let entries = std::fs::read_dir(desk.world.workspace()).unwrap().flatten();
    entries.into_iter().any(|entry| {
        // The owner opens again what a line has closed.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let open = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(entry.path(), open).unwrap();
        }
        desk.text(&entry.file_name().to_string_lossy()).is_some_and(|text| text == BYTES)
    })
}

/// The outcomes of the lines of one mode.
#[derive(Default)]
struct Tally {
    reading: usize,
    refused: usize,
    timed_out: usize,
    controls: usize,
    destroyed: usize,
}

/// The time after which a line is ended. A loop whose reader has gone may run for ever.
const TIME: Duration = Duration::from_secs(20);

fn run(desk: &Desk, line: &str) -> CallResult {
    desk.sandbox.wait(desk.sandbox.session.bash(line).timeout(TIME).into_future()).unwrap()
}

fn try_lines(mode: Mode, lines: usize, mut dice: Dice) -> Tally {
    let mut tally = Tally::default();
    let desk = Desk::new(mode, &profile_with(&[]));
    furnish(&desk);
    let whole = tree(&desk.world.workspace());
    // The control: without a guard these lines do destroy.
    let control = Desk::new(mode, &profile_with(&[("guard = \"auto\"", "guard = \"off\"")]));
    for number in 0..lines {
        let line = line(&mut dice);
        let result = run(&desk, &line);
        assert!(has_it(&desk), "{mode:?}: {line}\n{:?} {:?}", result.route, result.error);
        if tree(&desk.world.workspace()) != whole {
            furnish(&desk);
        }
        assert_ne!(result.route, Some(Route::Direct), "{line}");
        tally.reading += usize::from(result.route == Some(Route::Reading));
        tally.refused += usize::from(!result.success);
        tally.timed_out += usize::from(result.timed_out);
        if number % 20 == 0 {
            furnish(&control);
            drop(run(&control, &line));
            tally.controls += 1;
            tally.destroyed += usize::from(!has_it(&control));
        }
    }
    tally
}

/// The number of daemons of each mode that try lines at once. A loop that only its time ends leaves
/// the processors to the others.
const DESKS: usize = 4;

#[test]
fn no_line_loses_anything_unasked() {
    let modes = Mode::all();
    let lines = cases(2_000, 50_000).div_ceil(modes.len() * DESKS);
    let mut dice = Dice::new("lines");
    let desks = modes.iter().flat_map(|mode| [*mode; DESKS]);
    let dice: Vec<_> = desks.map(|mode| (mode, dice.beside())).collect();
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let tried = |(mode, dice)| scope.spawn(move || try_lines(mode, lines, dice));
        let tried: Vec<_> = dice.into_iter().map(tried).collect();
        tried.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let sum = |of: fn(&Tally) -> usize| tallies.iter().map(of).sum::<usize>();
    let (reading, refused) = (sum(|one| one.reading), sum(|one| one.refused));
    report("random lines that were tried", lines * tallies.len());
    report("of them, ended by their time", sum(|one| one.timed_out));
    let (controls, destroyed) = (sum(|one| one.controls), sum(|one| one.destroyed));
    report(
        "random lines that took the reading route; that were refused or failed",
        format!("{reading}; {refused}"),
    );
    report("of the same lines without a guard, destroyed", format!("{destroyed} of {controls}"));
    assert!(destroyed * 3 > controls, "the lines are harmless: {destroyed} of {controls}");
    assert!(refused > 0, "nothing was refused");
}

/// Lines that an earlier analysis took for reading.
const MISREAD: [&str; 10] = [
    "cat <<E; echo $(rm victim)\nE",
    "a=([$(rm victim)]=1)",
    "sort $'\\x{2d}o' victim /dev/null",
    "echo \"$( #)\nrm victim\n)\"",
    "cd u; uniq ./*",
    "cat other > victim",
    "sort -o victim /dev/null",
    "ln -f other victim",
    "find . -name victim -fprint victim",
    "sed -n w\\ victim other",
];

/// Tries every kind of change, and prints what the kernel says to each.
const CHANGES: &str = r#"exec python3 - <<'E'
import errno, os
changes = {
    "utime": lambda: os.utime("victim", (1, 1)),
    "setxattr": lambda: os.setxattr("victim", "user.note", b"x"),
    "chmod": lambda: os.chmod("victim", 0o640),
    "chmod directory": lambda: os.chmod("u", 0o750),
    "chown": lambda: os.chown("victim", os.getuid(), os.getgid()),
    "write": lambda: open("victim", "a").write("more"),
    "truncate": lambda: os.truncate("victim", 1),
    "create": lambda: open("made", "x"),
    "mkdir": lambda: os.mkdir("new"),
    "link": lambda: os.link("other", "second"),
    "symlink": lambda: os.symlink("other", "soft"),
    "rename": lambda: os.rename("other", "victim"),
    "rename inside": lambda: os.rename("u/1", "u/2"),
    "unlink": lambda: os.unlink("u/2"),
    "rmdir": lambda: os.rmdir("empty"),
}
for name, change in changes.items():
    try:
        change()
        print(name, "done")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
E"#;

/// Runs a line where a job that watches runs, whatever analysis makes of it: on the reading route.
fn run_reading(desk: &Desk, line: &str) -> String {
    let asked = json!({"command": line, "route": "watch", "background": true});
    let started = desk.sandbox.call("bash", asked);
    assert_eq!(started.route, Some(Route::Reading), "{line}: {started:?}");
    desk.sandbox.whole_job(job_of(&started).job).0
}

/// What runs on the reading route can change neither bytes nor names nor attributes.
#[test]
fn the_reading_route_can_not_write_whatever_runs_there() {
    for mode in Mode::all() {
        let furnished = |guard: &str| {
            let guard = format!("guard = {guard:?}");
            let desk = Desk::new(mode, &profile_with(&[("guard = \"auto\"", &guard)]));
            furnish(&desk);
            desk.file("u/1", "one\n");
            desk.file("u/2", "two\n");
            desk.file("empty/gone", "");
            std::fs::remove_file(desk.path("empty/gone")).unwrap();
            desk
        };
        let desk = furnished("auto");
        let before = tree(&desk.world.workspace());
        let attributes = || {
            let names = ["victim", "other", "u", "u/1", "u/2", "empty"];
            names.map(|name| {
                let meta = std::fs::metadata(desk.path(name)).unwrap();
                let listed = rustix::fs::listxattr(desk.path(name), &mut [0_u8; 0]).unwrap();
                (meta.mode(), meta.mtime(), meta.ctime(), meta.ctime_nsec(), listed)
            })
        };
        let attributes_before = attributes();
        for line in MISREAD.into_iter().chain(DESTROYS) {
            let said = run_reading(&desk, line);
            assert_eq!(tree(&desk.world.workspace()), before, "{mode:?}: {line}: {said}");
        }
        let said = run_reading(&desk, CHANGES);
        assert_eq!(said.lines().count(), 15, "{mode:?}: {said}");
        assert!(said.lines().all(|line| line.ends_with(" EROFS")), "{mode:?}: {said}");
        assert_eq!(tree(&desk.world.workspace()), before, "{mode:?}");
        assert_eq!(attributes(), attributes_before, "{mode:?}");
        // The control: without a guard each of these changes something.
        let said = furnished("off").sandbox.ok(CHANGES);
        assert!(said.lines().all(|line| line.ends_with(" done")), "{mode:?}: {said}");
    }
}
