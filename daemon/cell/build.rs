//! Compiles the object that is preloaded into spare shells. Cargo has no way to put one crate's
//! shared object into another crate, so the compiler is called here.

#![allow(clippy::disallowed_methods)]

use std::{env, io, path::Path, process::Command};

const SOURCE: &str = "preload/spare.rs";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={SOURCE}");
    let variable = |name: &str| env::var(name).map_err(io::Error::other);
    let output = Path::new(&variable("OUT_DIR")?).join("spare.so");
    let mut compiler = Command::new(variable("RUSTC")?);
    compiler.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=spare"]);
    compiler.args(["-Cpanic=abort", "-Copt-level=s", "-Cstrip=symbols", "-Dwarnings"]);
    if variable("TARGET")? != variable("HOST")? {
        compiler.arg(format!("--target={}", variable("TARGET")?));
    }
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={linker}"));
    }
    let status = compiler.arg("-o").arg(output).arg(SOURCE).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{SOURCE}: {status}"))) }
}
