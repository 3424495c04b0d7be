//! Tests of hidden and protected names.

use super::*;

/// Checks that the whole change is refused, and the workspace unchanged.
fn refused_by_name(two: &Two, kind: FileErrorKind, path: &str) {
    let before = two.picture();
    let error = two.settle(None).unwrap_err();
    assert_eq!((error.kind, error.about), (kind, Some(two.broker.path(path))), "{}", error.message);
    assert_eq!(two.picture(), before);
}

fn named() -> Two {
    let list = |text: &[&str]| vec![NameList(text.iter().map(|one| (*one).to_owned()).collect())];
    let names = Names { hide: list(&[".env", "*.pem"]), protect: list(&["**/.git/hooks/"]) };
    let mut two = Two::new();
    two.names = names;
    two
}

#[test]
fn names_that_are_hidden_or_protected_are_not_committed() {
    let (hidden, protected) = (FileErrorKind::Hidden, FileErrorKind::Protected);
    let two = named();
    two.up("a/b/.env", "mine");
    refused_by_name(&two, hidden, "a/b/.env");
    let two = named();
    two.low(".env", "secret");
    two.up(".env", "mine");
    two.up("fine", "x");
    refused_by_name(&two, hidden, ".env");
    let two = named();
    two.low(".git/hooks/pre-commit", "old");
    two.up(".git/hooks/pre-commit", "new");
    refused_by_name(&two, protected, ".git/hooks/pre-commit");
    let two = named();
    two.up("sub/.git/hooks/x", "new");
    refused_by_name(&two, protected, "sub/.git/hooks");
    // The directory above is deleted, and with it a file that the program did not see.
    let two = named();
    two.low("conf/deep/a.pem", "secret");
    two.white("conf");
    refused_by_name(&two, hidden, "conf/deep/a.pem");
    // A name that is not hidden or protected is allowed.
    let two = named();
    two.low(".git/hooks/pre-commit", "old");
    two.up(".git/index", "new");
    two.settle(None).unwrap();
}
