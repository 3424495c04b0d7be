//! Commands that write much: their time without a sandbox, and in a session's transaction.

use super::{Bench, interleave_after, transactions::outside};
use palisade_client::{Guard, Open, Session};
use std::{fs, path::Path, time::Duration};

const GROUP: &str = "large changes";

/// The sizes of what is written.
struct Sizes {
    /// Files in an archive.
    files: usize,
    /// Packages of a tree like `node_modules`, each with ten files in three directories.
    packages: usize,
    /// Crates of a workspace, each of which uses the one before it.
    crates: usize,
}

impl Bench {
    /// Measures an archive that is unpacked, a tree of packages that is installed, and a build.
    pub(super) fn large(&self, session: &Session, quick: bool) {
        let sizes = match quick {
            true => Sizes { files: 2_000, packages: 50, crates: 3 },
            false => Sizes { files: 100_000, packages: 2_000, crates: 50 },
        };
        let workspace = self.world.workspace();
        prepare(&workspace, &sizes);
        let (client, daemon) = self.client();
        let open = Open::new(&workspace).profile(palisade_tests::UNASKED);
        let held = self.runtime.block_on(client.open(open.guard(Guard::Transaction))).unwrap();
        let timed = |session: &Session, line: &str| {
            let call = session.bash(line).timeout(Duration::from_secs(300));
            let result = self.runtime.block_on(async { call.await }).unwrap();
            assert!(result.success, "{line}: {result:?}");
        };
        let commands = [
            (
                format!("untar, {} files", sizes.files),
                "mkdir out && tar -xf large.tar -C out",
                "out",
            ),
            (format!("install, {} packages", sizes.packages), "cp -r store installed", "installed"),
            (
                format!("cargo build, {} crates", sizes.crates),
                "(cd crates && cargo build -q --offline)",
                "crates/target",
            ),
        ];
        for (name, line, made) in &commands {
            // Removing what the round before made is not measured as part of the command.
            let clear = || {
                let path = workspace.join(made);
                if path.exists() {
                    fs::remove_dir_all(path).unwrap();
                }
            };
            let mut bare = || outside(&workspace, line);
            let mut reading = || timed(session, line);
            let mut transaction = || timed(&held, line);
            let acts: &mut [&mut dyn FnMut()] = &mut [&mut bare, &mut reading, &mut transaction];
            let times = interleave_after(2, &clear, acts);
            self.baseline(GROUP, &format!("{name}, bare"), &times[0]);
            self.show(GROUP, &format!("{name}, in a session"), &times[1], &times[0], "bare");
            self.show(GROUP, &format!("{name}, in a transaction"), &times[2], &times[0], "bare");
            clear();
        }
        drop((held, client));
        self.end(daemon);
        for name in ["store", "crates"] {
            fs::remove_dir_all(workspace.join(name)).unwrap();
        }
        fs::remove_file(workspace.join("large.tar")).unwrap();
    }
}

/// Makes the archive, the tree and the workspace.
fn prepare(workspace: &Path, sizes: &Sizes) {
    let packed = workspace.join("packed");
    for file in 0..sizes.files {
        let directory = packed.join(format!("d{}", file / 200));
        if file % 200 == 0 {
            fs::create_dir_all(&directory).unwrap();
        }
        fs::write(directory.join(format!("f{file}")), format!("{file}\n")).unwrap();
    }
    outside(workspace, "tar -cf large.tar packed");
    fs::remove_dir_all(packed).unwrap();
    for package in 0..sizes.packages {
        let directory = workspace.join(format!("store/p{package}"));
        for (part, files) in [("", 2), ("lib", 5), ("types", 3)] {
            fs::create_dir_all(directory.join(part)).unwrap();
            for file in 0..files {
                let text = format!("{package} {file}\n").repeat(100);
                fs::write(directory.join(part).join(format!("f{file}.js")), text).unwrap();
            }
        }
    }
    let members = (0..sizes.crates).map(|number| format!("\"c{number}\"")).collect::<Vec<_>>();
    let manifest = format!("[workspace]\nresolver = \"2\"\nmembers = [{}]\n", members.join(", "));
    for number in 0..sizes.crates {
        let directory = workspace.join(format!("crates/c{number}/src"));
        fs::create_dir_all(&directory).unwrap();
        let before = number.checked_sub(1);
        let used = before.map(|before| format!("c{before} = {{ path = \"../c{before}\" }}\n"));
        let package = format!(
            "[package]\nname = \"c{number}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n{}",
            used.unwrap_or_default()
        );
        fs::write(directory.with_file_name("Cargo.toml"), package).unwrap();
        let value = before.map_or("1".to_owned(), |before| format!("c{before}::value() + 1"));
        let code = format!("pub fn value() -> u32 {{ {value} }}\n");
        fs::write(directory.join("lib.rs"), code).unwrap();
    }
    fs::write(workspace.join("crates/Cargo.toml"), manifest).unwrap();
    outside(workspace, "chmod -R a+rwX store crates large.tar");
}
