//! `palisade shell` at a terminal: an interactive shell, confined, whose changes are committed with
//! each prompt.

use palisade_tests::{Mode, Screen, UNASKED, World, binary, processes, rooms::until};
use std::{fs, path::Path, process::Command};

/// Opens a terminal in which `palisade` is found.
fn screen(world: &World, more: impl FnOnce(&mut Command)) -> Screen {
    let mut command = world.command("palisade");
    let beside = binary("palisade").parent().unwrap().to_owned();
    command.env("PATH", format!("{}:/usr/bin:/bin", beside.display()));
    more(&mut command);
    Screen::new(world, &command)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Starts the shell and waits for its prompt.
fn start(screen: &Screen) {
    screen.line("palisade shell; echo sta''tus=$?");
    screen.shows("(palisade) ");
}

#[test]
fn an_interactive_shell_is_confined_and_keeps_its_state() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let at = world.workspace();
        fs::create_dir(at.join("sub")).unwrap();
        world.give(&at.join("sub"));
        let screen = screen(&world, |command| {
            command.env("PALISADE_SOCKET", &daemon.socket);
        });
        screen.line("stty -g > before");
        start(&screen);

        // Confined, and on a terminal of its own of the same size.
        screen.line(&format!("cat {}; echo x > {0}", world.canary().display()));
        screen.shows("No such file or directory");
        screen.line("stty size; tty; echo l''eft=$SECRET.");
        screen.shows("40 100");
        screen.shows("/dev/pts/");
        screen.shows("left=.");
        screen.resize(90, 30);
        screen.line("until [ \"$(stty size)\" = '30 90' ]; do sleep 0.1; done; echo si''zed");
        screen.shows("sized");

        // One shell: its directory, variables and functions stay.
        screen.line("cd sub; v=kept; f() { echo fu''nction $v $PWD; }");
        screen.line("f");
        screen.shows(&format!("function kept {}", at.join("sub").display()));
        // A name that is completed, and a line from the history.
        screen.line("echo one > long-name; mkdir other");
        screen.keys(&["c", "a", "t", " ", "l", "o", "n", "Tab", "Enter"]);
        screen.shows("cat long-name");

        // Keys reach the program: Ctrl-C ends it, the shell goes on.
        let mark = processes::mark();
        screen.line(&format!("bash -c 'exec -a {mark} sleep 300'"));
        until("it runs", || !processes::marked(&mark).is_empty());
        screen.keys(&["C-c"]);
        screen.line("echo en''ded=$?");
        screen.shows("ended=130");
        until("it has ended", || processes::marked(&mark).is_empty());

        screen.line("exit 3");
        screen.shows("status=3");
        screen.line("stty -g > after; echo com''pared");
        screen.shows("compared");
        assert!(!text(&at.join("before")).is_empty());
        assert_eq!(text(&at.join("before")), text(&at.join("after")), "{mode:?}");
        assert_eq!(text(&world.canary()), "canary\n");
    }
}

#[test]
fn what_a_command_changes_is_there_when_the_next_prompt_is() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let at = world.workspace();
        let kept = at.join("kept");
        fs::write(&kept, "kept\n").unwrap();
        world.give(&kept);
        let screen = screen(&world, |command| {
            command.env("PALISADE_SOCKET", &daemon.socket);
        });
        start(&screen);
        screen.line("echo one > made; echo wr''itten");
        screen.shows("written");
        until("it is committed", || text(&at.join("made")) == "one\n");
        // While a command runs, what it changes is its own.
        screen.line("echo two > later; echo ru''ns; read x");
        screen.shows("runs");
        assert!(!at.join("later").exists(), "{mode:?}");
        screen.keys(&["Enter"]);
        until("it is committed", || text(&at.join("later")) == "two\n");

        // Nobody approves a loss: the file is gone for the shell alone, and stays.
        screen.line("rm kept");
        screen.shows("no changes of the job were committed");
        screen.line("ls kept; echo three > third");
        screen.shows("cannot access 'kept'");
        screen.line("echo kept > kept; echo re''stored");
        screen.shows("restored");
        until("the rest is committed", || text(&at.join("third")) == "three\n");
        assert_eq!(text(&kept), "kept\n");
        screen.line("rm kept; exit");
        screen.shows("status=126");
        assert_eq!(text(&kept), "kept\n");
    }
}

#[test]
fn without_a_transaction_changes_take_effect_at_once() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let screen = screen(&world, |command| {
            command.env("PALISADE_SOCKET", &daemon.socket).env("PALISADE_PROFILE", UNASKED);
        });
        start(&screen);
        screen.line("echo one > made; read x");
        until("it is there", || text(&world.workspace().join("made")) == "one\n");
        screen.keys(&["Enter"]);
        screen.line("echo go''es-on; exit");
        screen.shows("status=0");
        let shown = screen.text();
        assert!(shown.contains("goes-on") && !shown.contains("error:"), "{mode:?}: {shown}");
    }
}

#[test]
fn a_person_at_the_terminal_approves_there() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let at = world.workspace();
        for name in ["first", "second"] {
            fs::write(at.join(name), "text\n").unwrap();
            world.give(&at.join(name));
        }
        let screen = screen(&world, |_| {});
        start(&screen);
        screen.line("rm first");
        screen.shows("[y]es");
        assert!(at.join("first").exists(), "{mode:?}");
        // The keys are shown once one of them counts.
        screen.keys(&["y"]);
        until("it is approved", || !at.join("first").exists());
        screen.line("echo typed > typed; echo go''es-on");
        screen.shows("goes-on");
        until("the keys reach the shell again", || text(&at.join("typed")) == "typed\n");
        screen.line("rm second; exit");
        let asked = || screen.text().matches("bash finished. Keep its changes?").count();
        until("it is asked at the end, too", || asked() == 2);
        screen.shows("[y]es");
        screen.keys(&["n"]);
        screen.shows("reason for the denial");
        screen.keys(&["Enter"]);
        screen.shows("status=126");
        assert_eq!(text(&at.join("second")), "text\n", "{mode:?}");
    }
}

#[test]
fn what_makes_a_terminal_answer_does_not_reach_it() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let screen = screen(&world, |command| {
            command.env("PALISADE_SOCKET", &daemon.socket);
        });
        let ask = |says: &str| {
            let line =
                r"printf '\033[6n\033[c\033]0;title\007\033[5n'; echo as''ked; IFS= read -r x";
            screen.line(&format!("{line}; echo {says}$(printf %s \"$x\" | tr -dc cRn | tr R r)."));
            screen.shows("asked");
            screen.keys(&["Enter"]);
        };
        // The control: outside, the terminal answers.
        ask("outs''ide=");
        screen.shows("outside=rcn.");
        screen.line("clear");
        start(&screen);
        ask("ins''ide=");
        screen.shows("inside=.");
    }
}

#[test]
fn an_interactive_shell_needs_a_terminal_to_print_at() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let screen = screen(&world, |_| {});
        screen.line("palisade shell | cat; palisade shell --json; echo st''atus=$?");
        screen.shows("status=125");
        let shown = screen.text();
        assert!(shown.contains("needs a terminal for its output"), "{shown}");
        assert!(shown.contains("not for an interactive shell"), "{shown}");
    }
}
