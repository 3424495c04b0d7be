//! Programs see one behaviour whichever way a command is held: the same errno from the same call.

use palisade_protocol::ErrorCode;
use palisade_tests::{Desk, Mode, World, named_profile, profile_with};

/// Tries renames and links, one line of output each: what, and the errno or `ok`.
const TRIES: &str = r#"
import os, errno
def attempt(what, act, *paths):
    try:
        act(*paths)
        print(what, 'ok')
    except OSError as e:
        print(what, errno.errorcode[e.errno])
home = os.environ['HOME']
attempt('rename to another directory', os.rename, 'a/one', 'b/one')
attempt('rename up', os.rename, 'b/one', 'one')
attempt('rename over a file of another directory', os.rename, 'one', 'b/over')
attempt('link to another directory', os.link, 'a/two', 'b/two')
attempt('link to the top', os.link, 'a/two', 'three')
os.mkdir('fresh')
open('fresh/f', 'w').close()
attempt('rename a new directory', os.rename, 'fresh', 'a/fresh')
attempt('rename to /tmp', os.rename, 'a/two', '/tmp/two')
attempt('link to /tmp', os.link, 'a/two', '/tmp/two')
attempt('rename to the home', os.rename, 'a/two', home + '/two')
open('/tmp/out', 'w').close()
attempt('rename from /tmp', os.rename, '/tmp/out', 'b/out')
attempt('link from /tmp', os.link, '/tmp/out', 'b/out')
attempt('link from the system', os.link, '/etc/passwd', 'b/passwd')
os.mkdir('/tmp/d')
attempt('rename in /tmp', os.rename, '/tmp/out', '/tmp/d/out')
attempt('link in /tmp', os.link, '/tmp/d/out', '/tmp/again')
"#;

const EXPECTED: &str = "\
rename to another directory ok
rename up ok
rename over a file of another directory ok
link to another directory ok
link to the top ok
rename a new directory ok
rename to /tmp EXDEV
link to /tmp EXDEV
rename to the home EXDEV
rename from /tmp EXDEV
link from /tmp EXDEV
link from the system EXDEV
rename in /tmp ok
link in /tmp ok
";

#[test]
fn renames_and_links_give_the_same_errno_on_every_route() {
    for mode in Mode::all() {
        for guard in ["off", "transaction"] {
            let profile = profile_with(&[("guard = \"auto\"", &format!("guard = \"{guard}\""))]);
            let desk = Desk::new(mode, &profile);
            for file in ["a/one", "a/two", "b/over", "tries.py"] {
                desk.file(file, if file == "tries.py" { TRIES } else { "text\n" });
            }
            desk.attach();
            let (result, _) = desk.bash("python3 tries.py", |_| palisade_client::Answer::approve());
            assert!(result.success, "{mode:?} {guard}: {result:?}");
            assert_eq!(result.stdout, EXPECTED, "{mode:?} {guard}");
            assert_eq!(desk.text("b/over").as_deref(), Some("text\n"), "{mode:?} {guard}");
            assert_eq!(desk.text("a/one"), None, "{mode:?} {guard}");
            assert_eq!(desk.text("three").as_deref(), Some("text\n"), "{mode:?} {guard}");
        }
    }
}

#[test]
fn a_redirection_to_an_unknown_place_needs_approval_where_it_could_lose_something_only() {
    let net = "mode = \"domains\"\nallow = [\"packages.example\"]";
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_profile("loopback", &named_profile("mode = \"loopback\""));
        world.add_profile("by-name", &named_profile(net));
        for profile in ["loopback", "by-name"] {
            let sandbox = world.open_with(profile);
            // The mounts hold such a file, whatever the network: it is new, or private to the session.
            let own = format!("ls 2>$PWD/errors-{profile}");
            for line in [own.as_str(), "ls 2>~/errors", "F=/tmp/errors; ls 2>$F >&2"] {
                let done = sandbox.bash(line);
                assert!(done.success, "{mode:?}: {profile}: {line}: {:?}", done.error);
            }
        }
        // The controls: what a program might lose elsewhere is asked about where there is an elsewhere.
        let sandbox = world.open_with("by-name");
        for line in ["rm $F", "git push --force", "ssh host.example 'ls > $X'"] {
            let refused = sandbox.bash(line).error.unwrap();
            assert_eq!(refused.code, ErrorCode::Denied, "{mode:?}: {line}: {refused}");
            assert!(refused.message.contains("needs approval"), "{mode:?}: {line}: {refused}");
        }
    }
}
