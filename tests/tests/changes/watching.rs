//! Jobs that watch (`route = "watch"`): they see every edit of the live workspace, and write only in
//! directories of noise, whose changes are judged when the job ends.

use palisade_protocol::Route;
use palisade_tests::{Desk, Mode, outside, profile_with};
use serde_json::json;
use std::fs;

/// A script that makes a project: packages with a hard link to another file, a tracked directory
/// that is called like noise, and a link that is called like noise.
const PROJECT: &str = "set -eu
git init -q -b main && git config user.name x && git config user.email x@example.org
mkdir -p node_modules/pkg src/target data web/.cache
echo 'module.exports = 1' > node_modules/pkg/index.js
echo precious > precious && ln precious node_modules/hard
echo 'pub fn f() {}' > src/target/mod.rs && echo 1 > data/one && ln -s data target
printf 'node_modules/\\n.cache/\\n' > .gitignore
git add .gitignore src && git commit -qm Begin";

/// The acts of a development server, allowed and not. Each attempt prints its outcome.
const SERVER: &str =
    "try() { if (eval \"$1\") 2>/dev/null; then echo \"did $1\"; else echo \"no $1\"; fi; }
try 'mkdir -p node_modules/.vite && echo cache > node_modules/.vite/deps'
try 'echo 2 > node_modules/pkg/index.js'
try 'echo changed > node_modules/hard'
try 'echo x > web/.cache/x'
try 'echo x > /tmp/socket'
try 'echo x > new.txt'
try 'rm precious'
try 'chmod 600 precious'
try 'echo x > src/target/mod.rs'
try 'echo x > target/two'
try 'mv node_modules gone'
try 'echo x > .git/x'
until test -e edited; do sleep 0.02; done
cat edited";

const EXPECTED: &str = "did mkdir -p node_modules/.vite && echo cache > node_modules/.vite/deps
did echo 2 > node_modules/pkg/index.js
did echo changed > node_modules/hard
did echo x > web/.cache/x
did echo x > /tmp/socket
no echo x > new.txt
no rm precious
no chmod 600 precious
no echo x > src/target/mod.rs
no echo x > target/two
no mv node_modules gone
no echo x > .git/x
live
";

#[test]
fn a_watching_job_writes_noise_and_sees_every_edit() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        outside(&desk.world, &desk.world.workspace(), PROJECT);
        let job = desk.sandbox.start_job(json!({"command": SERVER, "route": "watch"}));
        // While it runs, nothing of it is in the workspace.
        assert!(!desk.path("node_modules/.vite").exists());
        desk.file("edited", "live\n");
        let (said, status) = desk.sandbox.whole_job(job);
        assert_eq!((said.as_str(), status.exit_code), (EXPECTED, Some(0)), "{status:?}");
        assert!(status.error.is_none(), "{:?}", status.error);
        assert_eq!(desk.text("node_modules/.vite/deps").as_deref(), Some("cache\n"));
        assert_eq!(desk.text("node_modules/pkg/index.js").as_deref(), Some("2\n"));
        assert_eq!(desk.text("web/.cache/x").as_deref(), Some("x\n"));
        // A hard link leads to no other file.
        assert_eq!(desk.text("node_modules/hard").as_deref(), Some("changed\n"));
        assert_eq!(desk.text("precious").as_deref(), Some("precious\n"));
        assert!(!desk.path("new.txt").exists() && !desk.path("data/two").exists());
        assert_eq!(desk.text("src/target/mod.rs").as_deref(), Some("pub fn f() {}\n"));
        let undone = desk.sandbox.call("undo", json!({"call_id": status.undo}));
        assert!(undone.success, "{:?}", undone.error);
        assert!(!desk.path("node_modules/.vite").exists());
    }
}

#[test]
fn without_noise_a_watching_job_reads_only() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        desk.file("f", "1\n");
        let arguments = json!({"command": "cat f; rm f", "route": "watch", "background": true});
        let started = desk.sandbox.call("bash", arguments);
        assert_eq!(started.route, Some(Route::Reading));
        let (said, status) = desk.sandbox.whole_job(1);
        assert!(said.starts_with("1\n") && said.contains("Read-only file system"), "{said}");
        assert_eq!(status.exit_code, Some(1));
        assert!(fs::exists(desk.path("f")).unwrap());
    }
}
