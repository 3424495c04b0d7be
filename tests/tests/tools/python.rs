//! The Python package: its own tests, with the daemon of root and of an ordinary user.

use palisade_tests::{Mode, World, binary};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The pages with examples, and their names in the copy.
const PAGES: [(&str, &str); 4] = [
    ("README.md", "project.md"),
    ("docs/python.md", "python.md"),
    ("client/python/README.md", "package.md"),
    ("client/python/example.ipynb", "example.ipynb"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Copies the package to a place where every user can read it; the checkout may be a closed
/// directory.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A command of Python's that finds the package, run as the world's user.
fn python(world: &World, package: &Path) -> Command {
    let daemon = world.command("palisaded");
    let mut command = Command::new("python3");
    command.env_clear().envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
        .env("PALISADE_DAEMON", binary("palisaded"))
        .env("PYTHONPATH", package.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TMPDIR", std::env::temp_dir());
    command
}

fn staged(world: &World) -> PathBuf {
    let package = world.outside().join("python");
    fs::create_dir(&package).unwrap();
    for folder in ["src", "tests"] {
        copy(&root().join("client/python").join(folder), &package.join(folder));
    }
    for (page, name) in PAGES {
        fs::copy(root().join(page), package.join(name)).unwrap();
    }
    fs::copy(root().join("protocol/PROTOCOL.md"), package.join("PROTOCOL.md")).unwrap();
    package
}

#[test]
fn the_tests_of_the_python_package_pass() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let package = staged(&world);
        let pages = PAGES.map(|(_, name)| package.join(name));
        let pages = std::env::join_paths(pages).unwrap();
        let output = mode.act(|| {
            python(&world, &package)
                .args(["-W", "error::ResourceWarning", "-m", "unittest", "discover", "-s", "tests"])
                .env("PALISADE_PROTOCOL", package.join("PROTOCOL.md"))
                .env("PALISADE_PAGES", &pages)
                .current_dir(&package)
                .output()
                .unwrap()
        });
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{mode:?}\n{text}");
        // Nothing was left out.
        assert!(text.contains("\nOK\n") && text.contains("\nRan "), "{mode:?}\n{text}");
    }
}
