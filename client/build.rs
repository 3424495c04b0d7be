//! Tells a debug build the directory it is built in. Doc tests, which run elsewhere, need it to
//! find the daemon.

use std::{env, path::Path};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let (Ok(out), Ok(profile)) = (env::var("OUT_DIR"), env::var("PROFILE")) else { return };
    // <build directory>/build/<package>/out
    if let (Some(directory), "debug") = (Path::new(&out).ancestors().nth(3), profile.as_str()) {
        println!("cargo::rustc-env=PALISADE_BUILD_DIRECTORY={}", directory.display());
    }
}
