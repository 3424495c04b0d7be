use super::*;
use proptest::prelude::*;

fn matcher(lists: &[&[&str]]) -> Matcher {
    let list = |list: &&[&str]| NameList(list.iter().map(|text| (*text).to_owned()).collect());
    Matcher::new(&lists.iter().map(list).collect::<Vec<_>>()).unwrap()
}

fn covers(list: &[&str], path: &str) -> bool {
    matcher(&[list]).covers(path.as_bytes(), Kind::Other).is_some()
}

#[test]
fn patterns_are_those_of_git() {
    for (list, path, expected) in [
        (&[".env"][..], ".env", true),
        (&[".env"], "a/b/.env", true),
        (&[".env"], ".envx", false),
        (&[".env"], ".env/inside", true),
        (&["/.env"], "a/.env", false),
        (&["a/.env"], "a/.env", true),
        (&["a/.env"], "b/a/.env", false),
        (&["**/a/.env"], "b/a/.env", true),
        (&["**/a/.env"], "a/.env", true),
        (&["*.pem"], "x/y.pem", true),
        (&["*.pem"], "y.pem.txt", false),
        (&["*credentials*"], "my-credentials.json", true),
        (&["*credentials*", "!*.rs"], "src/credentials.rs", false),
        (&["secrets/**"], "secrets/a/b", true),
        (&["secrets/**"], "secrets", false),
        (&["secrets/**", "!secrets/a"], "secrets/a", false),
        (&["a/**/z"], "a/z", true),
        (&["a/**/z"], "a/b/c/z", true),
        (&["a/**/z"], "a/b/c/y", false),
        (&[".ssh/"], ".ssh", false),
        (&[".ssh/"], ".ssh/id", true),
        (&[".ssh/"], "home/.ssh/id", true),
        (&[".env.*", "!.env.example"], ".env.local", true),
        (&[".env.*", "!.env.example"], "a/.env.example", false),
        (&["!.env", ".env"], ".env", true),
        // An exception does not apply to the contents of a directory that itself matches.
        (&["a/", "!a/b"], "a/b", true),
        (&["x?[0-9]"], "xa7", true),
        (&["x?[0-9]"], "xa", false),
        (&["[!a]b"], "cb", true),
        (&["[!a]b"], "ab", false),
        (&["[]x]"], "]", true),
        (&["\\*"], "*", true),
        (&["\\*"], "a", false),
        (&["a*b*c"], "aXbYbZc", true),
    ] {
        assert_eq!(covers(list, path), expected, "{list:?} {path}");
    }
    let ssh = matcher(&[&[".ssh/"]]);
    assert!(ssh.covers(b".ssh", Kind::Directory).is_some());
    assert!(ssh.covers(b".ssh", Kind::Either).is_some());
    // An exception for directories does not apply to files, nor to what may be a file.
    let git = matcher(&[&[".git", "!.git/"]]);
    let told = [Kind::Other, Kind::Either, Kind::Directory].map(|kind| git.covers(b".git", kind));
    assert!(told[0].is_some() && told[1].is_some() && told[2].is_none());
    assert!(git.covers(b"a/.git/index", Kind::Other).is_none());
}

#[test]
fn what_is_no_pattern_is_refused() {
    for bad in
        ["", "!", "/", "*", "**", "**/*", "*/", "a//b", "../x", "./a", "$HOME/x", "[a", "a\\"]
    {
        assert!(Pattern::parse(bad).is_err(), "{bad:?}");
    }
    assert!(Pattern::parse(&"a".repeat(2000)).is_err());
    assert_eq!(
        Pattern::parse("[z-a]").unwrap_err().to_string(),
        "\"[z-a]\" has a range that goes backwards"
    );
}

#[test]
fn the_last_that_matches_decides_and_is_named() {
    let hit = |path: &str| matcher(&[&["*.a", "b"], &["*.c"]]).covers(path.as_bytes(), Kind::Other);
    assert_eq!(hit("x.a"), Some(Hit { list: 0, pattern: 0 }));
    assert_eq!(hit("d/b"), Some(Hit { list: 0, pattern: 1 }));
    assert_eq!(hit("x.c"), Some(Hit { list: 1, pattern: 0 }));
    assert_eq!(hit("x.d"), None);
}

#[test]
fn only_bare_names_are_literals() {
    let all = matcher(&[&[".env", "*.pem", "/x", ".ssh/", "!.netrc", "a/b"]]);
    assert_eq!(all.literals().collect::<Vec<_>>(), [b".env".as_slice(), b".ssh"]);
}

#[test]
fn a_hostile_pattern_is_no_harm() {
    let many = format!("{}b", "*a".repeat(500));
    assert!(!covers(&[&many], &"a".repeat(4000)));
    let deep = format!("{}b", "**/a/".repeat(200));
    assert!(!covers(&[&deep], &format!("{}c", "a/".repeat(2000))));
}

const PATTERNS: [&str; 9] = ["a", "b*", "/a", "a/b", "**/b", "a/**", "!a", "!b/a", "c/"];

proptest! {
    /// A name matches several lists if it matches any of them: adding a list never removes a match.
    #[test]
    fn a_stack_of_lists_only_grows(
        one in proptest::collection::vec(proptest::sample::select(&PATTERNS[..]), 0..5),
        other in proptest::collection::vec(proptest::sample::select(&PATTERNS[..]), 0..5),
        path in "[abc](/[abc]){0,3}",
    ) {
        let apart = covers(&one, &path) || covers(&other, &path);
        let both = matcher(&[&one, &other]).covers(path.as_bytes(), Kind::Other).is_some();
        prop_assert_eq!(apart, both);
    }

    /// Everything below a matching entry matches as well.
    #[test]
    fn all_below_is_meant(
        list in proptest::collection::vec(proptest::sample::select(&PATTERNS[..]), 0..5),
        path in "[abc](/[abc]){0,3}",
    ) {
        let meant = matcher(&[&list]).covers(path.as_bytes(), Kind::Directory).is_some();
        let below = format!("{path}/x");
        prop_assert!(!meant || covers(&list, &below));
    }
}
