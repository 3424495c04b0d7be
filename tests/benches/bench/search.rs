//! The cost of searching, beside the programs that people use for it.

use super::{Bench, interleave};
use palisade_client::Session;
use serde_json::json;
use std::{
    fs,
    process::{Command, Stdio},
};

const GROUP: &str = "search";

impl Bench {
    /// Measures the search for lines and names in many files, and a batch of reads.
    pub(super) fn search(&self, session: &Session, files: usize) {
        let tree = self.world.workspace().join("tree");
        let line = "some words that are like those of a program, and nothing to be found\n";
        for file in 0..files {
            let directory = tree.join(format!("d{}/e{}", file % 40, file % 7));
            fs::create_dir_all(&directory).unwrap();
            let found = if file % 100 == 0 { "the needle is here\n" } else { "" };
            let text = format!("{}{found}{}", line.repeat(15), line.repeat(15));
            fs::write(directory.join(format!("f{file}.rs")), text).unwrap();
        }
        let bare = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(&tree).stdin(Stdio::null()).stdout(Stdio::null());
            move || assert!(command.status().unwrap().success())
        };
        let tool = |name: &'static str, arguments: serde_json::Value| {
            move || {
                let result = self.runtime.block_on(async { session.call(name, &arguments).await });
                assert!(result.unwrap().success);
            }
        };
        let limit = 10_000;
        let mut acts: [Box<dyn FnMut()>; 8] = [
            Box::new(bare("rg", &["--no-config", "--hidden", "-n", "needle"])),
            Box::new(tool("grep", json!({"pattern": "needle", "path": "tree"}))),
            Box::new(bare("rg", &["--no-config", "--hidden", "-n", r"n\w+dle\s+is"])),
            Box::new(tool("grep", json!({"pattern": r"n\w+dle\s+is", "path": "tree"}))),
            Box::new(bare("find", &[".", "-name", "*7.rs", "-printf", "%T@ %p\n"])),
            Box::new(tool("glob", json!({"pattern": "*7.rs", "path": "tree", "limit": limit}))),
            Box::new(bare("ls", &["-lR"])),
            Box::new(tool(
                "list_files",
                json!({"path": "tree", "recursive": true, "limit": limit}),
            )),
        ];
        let mut acts: Vec<&mut dyn FnMut()> = acts.iter_mut().map(|act| &mut **act as _).collect();
        let times = interleave((self.rounds / 20).max(3), &mut acts);
        for (place, name) in
            ["grep, a word", "grep, an expression", "glob", "list_files"].into_iter().enumerate()
        {
            let other = ["rg", "rg", "find", "ls -lR"][place];
            let (without, with) = (&times[2 * place], &times[2 * place + 1]);
            self.baseline(GROUP, &format!("{other}, {files} files of 2 KiB, bare"), without);
            self.show(GROUP, name, with, without, other);
        }
        self.batch(session);
        fs::remove_dir_all(tree).unwrap();
    }

    /// Measures a hundred reads at once, and one after another.
    fn batch(&self, session: &Session) {
        let paths: Vec<String> =
            (0..100).map(|n| format!("tree/d{}/e{}/f{n}.rs", n % 40, n % 7)).collect();
        let times = interleave(
            self.rounds / 10,
            &mut [
                &mut || {
                    self.runtime.block_on(async {
                        for path in &paths {
                            session.read_file(path).await.unwrap();
                        }
                    });
                },
                &mut || {
                    self.runtime.block_on(async {
                        let mut running = Vec::with_capacity(paths.len());
                        for path in &paths {
                            let arguments = json!({"path": path});
                            running
                                .push(session.call("read_file", arguments).start().await.unwrap());
                        }
                        for running in running {
                            assert!(running.result().await.unwrap().success);
                        }
                    });
                },
            ],
        );
        self.baseline(GROUP, "100 reads, one after another", &times[0]);
        self.show(GROUP, "100 reads at once", &times[1], &times[0], "one after another");
    }
}
