//! Derives the build id that the rooms compare: the release, and a digest of the sources that
//! define what the rooms say to each other.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::Path,
};

fn main() -> io::Result<()> {
    let mut hasher = DefaultHasher::new();
    for room in ["plan/src", "channel/src", "egress-protocol/src"] {
        digest(&Path::new("..").join(room), &mut hasher)?;
    }
    let release = env!("CARGO_PKG_VERSION");
    println!("cargo::rustc-env=PALISADE_BUILD_ID={release}-{:016x}", hasher.finish());
    Ok(())
}

/// Hashes names and contents of everything below `path`, in sorted order.
fn digest(path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", path.display());
    if !path.is_dir() {
        path.hash(hasher);
        fs::read(path)?.hash(hasher);
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    entries.iter().try_for_each(|entry| digest(&entry.path(), hasher))
}
