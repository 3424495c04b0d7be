//! The configuration file: what is wrong in it is named with file, line and key; every value says
//! where it comes from; and nothing is served by rules that somebody else could change.

use palisade_tests::{Mode, World, text};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Output,
};

/// A world with a configuration file in a directory of its own.
struct Configured {
    world: World,
    file: PathBuf,
}

impl Configured {
    fn new(mode: Mode, text: &str) -> Self {
        let world = World::new(mode);
        world.configure(text);
        let file = world.configuration();
        Self { world, file }
    }

    fn write(&self, text: &str) {
        self.world.configure(text);
    }

    fn set(&self, path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.world.run().join("agent.sock")
    }

    /// Runs the daemon; returns its output and status.
    fn daemon(&self, arguments: &[&str]) -> Output {
        let mut command = self.world.command("palisaded");
        command.arg("--config").arg(&self.file).args(arguments);
        self.world.mode.act(|| command.output().expect("palisaded"))
    }

    /// Runs a daemon that must refuse; returns its message.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.daemon(arguments);
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        assert_eq!(text(&output.stdout), "");
        text(&output.stderr)
    }
}

#[test]
fn what_is_wrong_is_named_with_file_line_and_key() {
    for mode in Mode::all() {
        let configured = Configured::new(mode, "audit_sync = \"100ms\"\n");
        let socket = configured.socket();
        let good = ["--check", "--socket", socket.to_str().unwrap()];
        let fine = configured.daemon(&good);
        assert_eq!(fine.status.code(), Some(0), "{fine:?}");
        assert!(text(&fine.stdout).contains("\naudit log on disk: 100ms\n"), "{fine:?}");
        assert!(text(&fine.stdout).contains("\nmetrics: not answered\n"), "{fine:?}");
        configured.write("metrics.listen = \"127.0.0.1:9464\"\n");
        let fine = configured.daemon(&good);
        let told = "\nmetrics: listen on 127.0.0.1:9464; the service refuses this: there, enable \
                    palisade-metrics.socket\n";
        assert!(text(&fine.stdout).contains(told), "{fine:?}");
        let file = configured.file.display();
        for (written, expected) in [
            ("# first\nstate = \"state\"\n", "2:9: state: \"state\" is not an absolute path"),
            (
                "log = \"info\"\n\naudit_sink = \"always\"\n",
                "3:1: audit_sink: unknown key; did you mean `audit_sync`?",
            ),
            ("user = [\"me\"]\n", "1:8: user: invalid type: sequence, expected a string"),
        ] {
            configured.write(written);
            let expected = format!("palisaded: {file}:{expected}\n");
            assert_eq!(configured.refused(&good), expected);
            // And it does not start with it.
            assert_eq!(configured.refused(&["--socket", good[2]]), expected);
            assert!(!socket.exists());
        }
    }
}

#[test]
fn every_value_says_where_it_comes_from() {
    for mode in Mode::all() {
        let configured = Configured::new(mode, "# mine\nstate = \"/srv/state\"\nlog = \"warn\"\n");
        let file = configured.file.display().to_string();
        let dumped = configured.daemon(&["--dump-config", "--log", "debug"]);
        assert_eq!(dumped.status.code(), Some(0), "{dumped:?}");
        let dumped = text(&dumped.stdout);
        let socket = match mode {
            Mode::System => "socket = \"/run/palisade/agent.sock\"  # default".to_owned(),
            Mode::User => {
                let path = configured.socket().with_file_name("palisade").join("agent.sock");
                format!("socket = {path:?}  # default, from $XDG_RUNTIME_DIR")
            }
        };
        let credentials = match mode {
            Mode::System => "credentials = \"/etc/palisade/credentials\"  # default".to_owned(),
            Mode::User => {
                let path = configured.world.user_configuration().join("credentials");
                format!("credentials = {path:?}  # default, from $XDG_CONFIG_HOME")
            }
        };
        for line in [
            socket.as_str(),
            &format!("state = \"/srv/state\"  # {file}:2:9"),
            "log = \"debug\"  # command line",
            "audit_sync = \"50ms\"  # default",
            "# launcher_socket is not set",
            "# egress_socket is not set",
            &credentials,
        ] {
            assert!(dumped.lines().any(|found| found == line), "{line}\n{dumped}");
        }
        // It is a configuration file that means the same.
        configured.write(&dumped.replace("\nprofiles = ", "\n# profiles = "));
        let again = text(&configured.daemon(&["--dump-config"]).stdout);
        let values = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.split("  # ").next().unwrap().to_owned()).collect()
        };
        assert_eq!(values(&again), values(&dumped));
        assert!(again.contains(&format!("log = \"debug\"  # {file}:")), "{again}");
    }
}

#[test]
fn what_others_could_change_is_not_served_by() {
    for mode in Mode::all() {
        let configured = Configured::new(mode, "log = \"info\"\n");
        let socket = configured.socket();
        let (run, state) = (socket.parent().unwrap().to_owned(), configured.world.state());
        let profiles = configured.world.profiles();
        let arguments = [
            "--socket",
            socket.to_str().unwrap(),
            "--state",
            state.to_str().unwrap(),
            "--profiles",
            profiles.to_str().unwrap(),
        ];
        let checked = [&["--check"], &arguments[..]].concat();
        assert_eq!(configured.daemon(&checked).status.code(), Some(0));
        let top = configured.world.outside().parent().unwrap().to_owned();
        for (place, mode, usual, what, fix) in [
            (&configured.file, 0o646, 0o644, "other users could change it", "o-w"),
            (&profiles, 0o777, 0o755, "other users could change it", "go-w"),
            (&run, 0o775, 0o755, "other users could replace the socket", "go-w"),
            (&top, 0o777, 0o755, "other users could change it", "o-w"),
        ] {
            configured.set(place, mode);
            for arguments in [&checked[..], &arguments[..]] {
                let said = configured.refused(arguments);
                let path = place.display();
                let expected = format!(
                    "palisaded: {path} has mode {mode:04o}, so {what}; `chmod {fix} {path}`"
                );
                assert!(said.starts_with(&expected), "{said}\n{expected}");
                assert!(!socket.exists());
            }
            configured.set(place, usual);
        }
        // A state directory that is only a link to one.
        let link = top.join("link");
        std::os::unix::fs::symlink(&state, &link).unwrap();
        let said = configured.refused(&[
            "--check",
            "--socket",
            arguments[1],
            "--state",
            link.to_str().unwrap(),
        ]);
        let expected = format!(
            "palisaded: {} is a symbolic link, not a directory of the daemon; remove it, ",
            link.display()
        );
        assert!(said.starts_with(&expected), "{said}");
        assert_eq!(configured.daemon(&checked).status.code(), Some(0));
    }
}

#[test]
fn a_file_of_somebody_else_is_not_believed() {
    if !Mode::all().contains(&Mode::System) {
        // Another user's file takes root to make; one of root's is fine.
        let configured = Configured::new(Mode::User, "");
        assert_eq!(configured.daemon(&["--dump-config"]).status.code(), Some(0));
        return;
    }
    let configured = Configured::new(Mode::System, "log = \"info\"\n");
    assert_eq!(configured.daemon(&["--dump-config"]).status.code(), Some(0));
    std::os::unix::fs::lchown(&configured.file, Some(4242), Some(4242)).unwrap();
    let path = configured.file.display();
    assert_eq!(
        configured.refused(&["--check"]),
        format!("palisaded: {path} belongs to uid 4242, who could change it; `chown 0 {path}`\n")
    );
}
