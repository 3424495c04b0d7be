//! A corpus of invalid profiles: each is refused with exactly the error in the file beside it, and
//! none causes a panic. `BLESS=1` writes the error files again; read them before you commit them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on fails")]

use palisade_policy::{Owner, ProfileSet, Source};
use std::{fs, path::Path};

#[test]
fn each_is_refused_with_its_error() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let mut names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|file| file.strip_suffix(".toml").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 60, "{} broken profiles", names.len());
    let mut wrong = Vec::new();
    for name in &names {
        let text = fs::read_to_string(directory.join(format!("{name}.toml"))).unwrap();
        let file = format!("{name}.toml");
        let source = Source { name, file: &file, text: &text, owner: Owner::Other };
        let told = match ProfileSet::new([source]) {
            Ok(_) => panic!("{name} is a profile"),
            Err(error) => format!("{error}\n"),
        };
        let expected = directory.join(format!("{name}.expected"));
        if std::env::var_os("BLESS").is_some() {
            fs::write(&expected, &told).unwrap();
        }
        if fs::read_to_string(&expected).unwrap_or_default() != told {
            wrong.push(format!("{name}: {told}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}
