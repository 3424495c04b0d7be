use super::*;
use palisade_plan::names::{NameList, Names};
use std::{fs, path::Path, thread::sleep};

fn view(dir: &Path) -> View {
    let list = [".env", "*.pem", ".ssh/", "!ok.pem"].map(str::to_owned).to_vec();
    View::new(dir, Names { hide: vec![NameList(list)], protect: vec![] }).unwrap()
}

fn hits(scan: &Scan) -> Vec<String> {
    let mut hits: Vec<_> =
        scan.hits().into_iter().map(|hit| String::from_utf8(hit).unwrap()).collect();
    hits.sort();
    hits
}

fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for path in ["a/b", "a/.ssh", "c"] {
        fs::create_dir_all(dir.path().join(path)).unwrap();
    }
    for path in [".env", "a/b/x.pem", "a/b/ok.pem", "a/.ssh/id", "a/.ssh/.env", "c/plain"] {
        fs::write(dir.path().join(path), "x").unwrap();
    }
    dir
}

#[test]
fn what_matches_is_found_and_what_is_below_it_is_not_looked_at() {
    let dir = tree();
    let mut scan = Scan::default();
    let counts = scan.refresh(&view(dir.path())).unwrap();
    assert_eq!(hits(&scan), [".env", "a/.ssh", "a/b/x.pem"]);
    assert_eq!((counts.found, counts.read, counts.directories), (3, 4, 4));
}

#[test]
fn only_what_changed_is_read_again_and_kept_for_the_next() {
    let dir = tree();
    let view = view(dir.path());
    let mut scan = Scan::default();
    scan.refresh(&view).unwrap();
    sleep(GRAIN * 3);
    scan.refresh(&view).unwrap();
    assert_eq!(scan.refresh(&view).unwrap().read, 0);
    fs::write(dir.path().join("c/new.pem"), "x").unwrap();
    assert_eq!(scan.refresh(&view).unwrap().read, 1);
    assert_eq!(hits(&scan), [".env", "a/.ssh", "a/b/x.pem", "c/new.pem"]);
    // Just changed: another change could leave the same time, so it is read again.
    assert_eq!(scan.refresh(&view).unwrap().read, 1);
    fs::rename(dir.path().join("a"), dir.path().join("moved")).unwrap();
    scan.refresh(&view).unwrap();
    assert_eq!(hits(&scan), [".env", "c/new.pem", "moved/.ssh", "moved/b/x.pem"]);
    sleep(GRAIN * 3);
    scan.refresh(&view).unwrap();
    let kept = keep(&scan, &view.names).unwrap();
    let mut again = Scan::restore(&kept, &view.names).unwrap();
    assert_eq!(again.refresh(&view).unwrap().read, 0);
    assert_eq!(hits(&again), hits(&scan));
    assert!(Scan::restore(&kept, &Names::default()).is_none());
    let file = palisade_workspace::memory_file::read(&found(&scan).unwrap()).unwrap();
    assert_eq!(palisade_plan::codec::decode::<Vec<Vec<u8>>>(&file).unwrap(), scan.hits());
    assert!(Scan::restore(&found(&scan).unwrap(), &view.names).is_none());
}
