//! A profile that is printed whole is a profile file: it loads, and means the same.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on fails")]

use palisade_policy::{Owner, Profile, ProfileSet, Source};

fn assert_loads_again(profile: &Profile) {
    let printed = profile.canonical().unwrap();
    assert!(printed.starts_with("version = 1\n"), "{printed}");
    // Names of built-in profiles are taken.
    let again = Profile::parse("again", &printed);
    let again = again.unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(again.canonical().unwrap(), printed);
    assert_eq!(again.tests().len(), profile.tests().len());
    assert!(again.extends().is_empty());
}

#[test]
fn built_in_profiles_load_as_printed() {
    let set = ProfileSet::new([]).unwrap();
    let names: Vec<_> = set.names().collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        assert_loads_again(set.get(name).unwrap());
    }
}

/// Loads the texts as profiles, and returns the last one.
fn last(texts: &[(&str, &str)]) -> Profile {
    let head = |text: &str| format!("version = 1\ndescription = \"x\"\n{text}");
    let texts: Vec<_> = texts.iter().map(|(name, text)| (*name, head(text))).collect();
    let source = |(name, text)| Source { name, file: "made.toml", text, owner: Owner::Root };
    let sources = texts.iter().map(|(name, text)| source((*name, text.as_str())));
    let set = ProfileSet::new(sources).unwrap();
    set.get(texts.last().unwrap().0).unwrap().clone()
}

const FILES: &str = "[fs]\nworkspace = \"write\"\nexecute = [\"!/usr\"]\n";

/// Several parents hide names, each with an exception that is its own.
#[test]
fn lists_of_several_parents_stay_apart() {
    let one = format!("{FILES}hide = [\".env*\", \"!.env.example\"]\nprotect = [\"a\"]\n");
    let two = format!("{FILES}hide = [\"*.key\", \"!test.key\"]\nprotect = [\"a\", \"b\"]\n");
    let child = "extends = [\"one\", \"two\"]\n";
    let profile = last(&[("one", &one), ("two", &two), ("child", child)]);
    let printed = profile.canonical().unwrap();
    assert!(printed.contains("hide = [\n    [\n"), "{printed}");
    assert_loads_again(&profile);
}

#[test]
fn conditions_of_several_parents_stay_apart() {
    let one = format!("{FILES}[who]\nuid = [1, 2]\n");
    let two = format!("{FILES}[who]\ngid = [3]\nunit = [\"a.service\"]\n");
    let profile =
        last(&[("one", &one), ("two", &two), ("child", "extends = [\"one\", \"two\"]\n")]);
    assert_eq!(profile.canonical().unwrap().matches("[[who]]").count(), 2);
    assert_loads_again(&profile);
}

/// Nothing is left to protect in a workspace that is only read, or whose name is hidden.
#[test]
fn names_that_need_no_protection_are_left_out() {
    let base = format!("{FILES}protect = [\"a\", \"b\"]\n");
    for (child, kept) in [
        ("extends = \"base\"\n[fs]\nworkspace = \"read\"\n", false),
        ("extends = \"base\"\n[fs]\nhide = [\"a\"]\n", true),
    ] {
        let profile = last(&[("base", &base), ("child", child)]);
        assert_eq!(profile.canonical().unwrap().contains("protect = "), kept, "{child}");
        assert_loads_again(&profile);
    }
}

#[test]
fn every_other_section_is_printed_as_it_is_written() {
    let text = format!(
        "ask = \"always\"\ntests = [\"read $WORKSPACE/x: allow\"]\n{FILES}unguarded = [\"/srv\"]\n\
         [net]\nmode = \"domains\"\nallow = [\"a.example:8080\", \"*.b.example\"]\nask = true\n\
         [net.host]\nports = [5432]\nsockets = [\"/run/postgresql/.s.PGSQL.5432\"]\n\
         [net.publish]\nports = [3000]\n\
         [[net.rule]]\nhost = \"api.c.example\"\nmethods = [\"GET\", \"POST /x/*\"]\n\
         [env]\nset = {{ A = \"1\" }}\npass = [\"TZ\"]\n\
         [limits]\njob_ms = 5\n[layers]\nrequired = [\"landlock\"]\n\
         [tools]\nallow = [\"bash\"]\n[remember]\nscopes = [\"path\"]\nms = 5\n\
         [handlers]\nquorum = 2\nreview_output = [\"bash\"]\n\
         [[rules]]\nverdict = \"deny\"\nwhy = \"x\"\ncommand = [\"git\", \"push\"]\n\
         [[rules]]\nverdict = \"ask\"\nwhy = \"x\"\nchanges = true\npaths = [\"x/**\"]\nmatch = [\"x/y\"]\nnot_match = [\"z\"]\n"
    );
    assert_loads_again(&last(&[("mine", &text)]));
}
