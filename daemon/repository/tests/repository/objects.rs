//! Compares the files in which a repository keeps its objects, and those that lead git to objects.

use crate::compare::{changed, name, project, run};
use crate::git::Git;
use palisade_repository::{Comparison, ObjectChanges, compare};
use std::fs;

/// Compares like [`changed`], but is told which files below `objects` are new.
fn added(git: &Git, paths: &[&str], act: impl FnOnce(&Git)) -> Comparison {
    let (_copy, before) = git.snapshot();
    act(git);
    let paths: Vec<_> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    let found = compare(&before, &git.open(), ObjectChanges::Added(&paths)).unwrap();
    let (missing, packs) = (&found.missing_objects, &found.missing_packs);
    let all = compare(&before, &git.open(), ObjectChanges::Possible).unwrap();
    assert_eq!((missing, packs), (&all.missing_objects, &all.missing_packs));
    found
}

/// Writes a pack that has `EVIL` for the object with this id.
fn forge_pack(git: &Git, id: &str) {
    let script = r"import hashlib, struct, sys, zlib
victim = bytes.fromhex(sys.argv[1])
blob = bytes([0x34]) + zlib.compress(b'EVIL')
pack = b'PACK' + struct.pack('>II', 2, 1) + blob
pack += hashlib.sha1(pack).digest()
counts = b''.join(struct.pack('>I', int(first >= victim[0])) for first in range(256))
index = b'\xfftOc' + struct.pack('>I', 2) + counts + victim
index += struct.pack('>II', zlib.crc32(blob), 12) + pack[-20:]
index += hashlib.sha1(index).digest()
open('.git/objects/pack/pack-forged.pack', 'wb').write(pack)
open('.git/objects/pack/pack-forged.idx', 'wb').write(index)";
    git.write("forge.py", script.as_bytes());
    git.shell(&format!("python3 forge.py {id}; rm forge.py"));
}

#[test]
fn deleted_and_damaged_objects_are_missing() {
    let git = project();
    let blob = git.line(&["rev-parse", "HEAD:dir/b"]);
    let path = git.loose(&blob);
    let ids = |found: Comparison| -> Vec<_> {
        found.missing_objects.iter().map(ToString::to_string).collect()
    };
    let bytes = fs::read(&path).unwrap();
    assert_eq!(
        ids(changed(&git, |_| fs::remove_file(&path).unwrap())),
        std::slice::from_ref(&blob)
    );
    fs::write(&path, &bytes).unwrap();
    assert_eq!(
        ids(changed(&git, |_| fs::write(&path, b"nonsense").unwrap())),
        std::slice::from_ref(&blob)
    );
    // It was already damaged, so nothing more is lost.
    assert_eq!(ids(changed(&git, |_| fs::remove_file(&path).unwrap())), Vec::<String>::new());
    fs::write(&path, &bytes).unwrap();
    git.run(&["gc", "-q"]);
    let count = git.text(&["cat-file", "--batch-all-objects", "--batch-check"]).lines().count();
    let pack = git.pack("pack");
    let found = changed(&git, |_| fs::remove_file(&pack).unwrap());
    assert_eq!(found.missing_objects.len(), count);
    assert!(!found.lost_tips.is_empty() || !found.missing_objects.is_empty());
}

#[test]
fn new_files_that_stand_in_for_known_objects_are_found() {
    let forged = ["pack/pack-forged.idx", "pack/pack-forged.pack"];
    for is_packed in [false, true] {
        let git = project();
        if is_packed {
            git.run(&["gc", "-q"]);
        }
        let blob = git.line(&["rev-parse", "HEAD:a"]);
        let is_lost = |found: Comparison| {
            found.missing_objects.iter().map(ToString::to_string).eq([blob.clone()])
        };
        // Git reads the new pack, whatever its name.
        assert!(is_lost(added(&git, &forged, |git| forge_pack(git, &blob))));
        assert!(is_packed || git.text(&["cat-file", "blob", "HEAD:a"]) == "EVIL");
        git.shell("rm -f .git/objects/pack/pack-forged.*");
        let promised = |git: &Git| {
            forge_pack(git, &blob);
            git.shell("touch .git/objects/pack/pack-forged.promisor");
        };
        assert!(is_lost(added(&git, &forged, promised)));
        git.shell("rm -f .git/objects/pack/pack-forged.*");
        // An object that was not there may have any bytes.
        assert!(added(&git, &forged, |git| forge_pack(git, &"12".repeat(20))).is_lossless());
        git.shell("rm -f .git/objects/pack/pack-forged.*");
        let linked = |git: &Git| {
            forge_pack(git, &blob);
            git.shell(
                "cd .git/objects/pack; mv pack-forged.pack pack-forged.idx ../../..; \
                 ln -s ../../../pack-forged.pack ../../../pack-forged.idx .",
            );
        };
        assert!(!added(&git, &forged, linked).is_lossless());
    }
    let git = project();
    git.run(&["gc", "-q"]);
    let blob = git.line(&["rev-parse", "HEAD:a"]);
    let loose = format!("{}/{}", &blob[..2], &blob[2..]);
    let found = added(&git, &[&loose], |git| {
        fs::create_dir_all(git.loose(&blob).parent().unwrap()).unwrap();
        git.shell(&format!("echo nonsense > .git/objects/{loose}"));
    });
    assert_eq!(found.missing_objects.len(), 1, "{found:?}");
}

#[test]
fn new_files_of_everyday_commands_are_no_losses() {
    let git = project();
    git.run(&["repack", "-q", "-a"]);
    let (_copy, before) = git.snapshot();
    git.run(&["repack", "-q", "-a", "-f", "--depth=1"]);
    git.write("a", b"three\n");
    git.commit("third");
    git.run(&["repack", "-q"]);
    let found = compare(&before, &git.open(), ObjectChanges::Added(&[])).unwrap();
    assert!(found.is_lossless(), "{found:?}");
}

#[test]
fn index_of_a_pack_that_lists_what_is_not_there_does_not_hide_a_loss() {
    let git = project();
    git.run(&["gc", "-q"]);
    let (pack, index) = (git.pack("pack"), git.pack("idx"));
    let found = changed(&git, |_| {
        // The same index, and a pack with the same header and trailer but nothing in between.
        let mut bytes = fs::read(&pack).unwrap();
        let end = bytes.len() - 20;
        bytes[12..end].fill(0);
        fs::remove_file(&pack).unwrap();
        fs::write(&pack, &bytes).unwrap();
        assert!(fs::metadata(&index).is_ok());
    });
    assert!(found.missing_objects.len() > 5, "{found:?}");
}

#[test]
fn files_that_lead_git_elsewhere_are_reported() {
    for path in ["objects/info/alternates", "info/grafts", "shallow", "worktrees/x/gitdir"] {
        let git = project();
        let path_of = git.git_dir().join(path);
        fs::create_dir_all(path_of.parent().unwrap()).unwrap();
        let content = format!("{}\n", "1".repeat(40));
        let found = changed(&git, |_| fs::write(&path_of, &content).unwrap());
        assert_eq!(found.changed_links, [name(path)]);
        assert!(changed(&git, |_| {}).changed_links.is_empty());
        let found = changed(&git, |_| fs::remove_file(&path_of).unwrap());
        assert_eq!(found.changed_links, [name(path)]);
    }
}

#[test]
fn commit_graph_that_lies_is_reported() {
    let git = project();
    git.run(&["merge", "-q", "-s", "ours", "-m", "two parents", "feature"]);
    for branch in ["x", "y", "z"] {
        git.run(&["checkout", "-q", "-b", branch, "main"]);
        git.commit(branch);
    }
    git.run(&["checkout", "-q", "main"]);
    git.run(&["merge", "-q", "-m", "three parents", "x", "y", "z"]);
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    let found = run(&git, &["commit-graph", "write", "--reachable"]);
    assert!(found.is_lossless(), "control: {found:?}");
    let path = git.git_dir().join("objects/info/commit-graph");
    let bytes = fs::read(&path).unwrap();
    let data = {
        let at = bytes.windows(4).position(|four| four == b"CDAT").unwrap();
        let offset = u64::from_be_bytes(bytes[at + 4..at + 12].try_into().unwrap());
        usize::try_from(offset).unwrap()
    };
    let commits = git.text(&["rev-list", "--all"]).lines().count();
    let mut lies = 0;
    for commit in 0..commits {
        for parent in 0..2 {
            // The forged graph says that the commit has no such parent.
            let at = data + commit * 36 + 20 + parent * 4;
            let mut forged = bytes.clone();
            forged[at..at + 4].copy_from_slice(&0x7000_0000u32.to_be_bytes());
            fs::remove_file(&path).unwrap();
            fs::write(&path, &bytes).unwrap();
            let found = changed(&git, |_| fs::write(&path, &forged).unwrap());
            let is_lie = forged != bytes;
            assert_eq!(found.is_lossless(), !is_lie, "{found:?}");
            lies += usize::from(is_lie);
            if is_lie {
                assert_eq!(found.changed_links, [name("objects/info/commit-graph")]);
            }
        }
    }
    assert!(lies > 5, "control: {lies}");
    // Truncated or damaged anywhere, it never panics.
    fs::remove_file(&path).unwrap();
    let (_copy, before) = git.snapshot();
    for at in (0..bytes.len()).step_by(5) {
        fs::write(&path, &bytes[..at]).unwrap();
        let found = compare(&before, &git.open(), ObjectChanges::Possible).unwrap();
        assert!(!found.is_lossless() || at + 20 >= bytes.len(), "{at} of {}", bytes.len());
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        fs::write(&path, &damaged).unwrap();
        drop(compare(&before, &git.open(), ObjectChanges::Possible).unwrap());
    }
    fs::remove_file(&path).unwrap();
    fs::write(&path, &bytes).unwrap();
    let found = run(&git, &["commit-graph", "write", "--reachable", "--split=replace"]);
    // The chain, and the graph that it names.
    assert_eq!(found.changed_links.len(), 2, "{found:?}");
    assert_eq!(found.changed_links[0], name("objects/info/commit-graphs/commit-graph-chain"));
}

#[test]
fn files_of_a_split_commit_graph_are_compared() {
    let git = project();
    git.run(&["commit-graph", "write", "--reachable", "--split"]);
    let directory = git.git_dir().join("objects/info/commit-graphs");
    let graph = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let graph = graph.into_iter().find(|path| path.extension().is_some_and(|e| e == "graph"));
    let graph = graph.unwrap();
    let bytes = fs::read(&graph).unwrap();
    let found = changed(&git, |git| drop(git.commit("third")));
    assert!(found.is_lossless(), "control: {found:?}");
    let rewrite = |bytes: &[u8]| {
        fs::remove_file(&graph).unwrap();
        fs::write(&graph, bytes).unwrap();
    };
    assert!(changed(&git, |_| rewrite(&bytes)).is_lossless(), "the same bytes");
    let mut forged = bytes.clone();
    let end = forged.len() - 30;
    forged[end] ^= 1;
    let graph_name = graph.file_name().unwrap().to_str().unwrap();
    let path = name(&format!("objects/info/commit-graphs/{graph_name}"));
    assert_eq!(changed(&git, |_| rewrite(&forged)).changed_links, std::slice::from_ref(&path));
    // One that a chain names and that was not there.
    fs::remove_file(&graph).unwrap();
    assert_eq!(changed(&git, |_| fs::write(&graph, &bytes).unwrap()).changed_links, [path]);
    let moved = git.git_dir().join("elsewhere");
    let found = changed(&git, |_| {
        fs::rename(&directory, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &directory).unwrap();
    });
    assert!(found.changed_links.contains(&name("objects/info/commit-graphs")), "{found:?}");
}

#[test]
fn incremental_multi_pack_index_is_reported() {
    let git = project();
    git.run(&["repack", "-q", "-a", "-d"]);
    // Only newer versions of git write such a directory; they read what is in it.
    let directory = "objects/pack/multi-pack-index.d/";
    fs::create_dir(git.git_dir().join(directory)).unwrap();
    let found = changed(&git, |git| drop(git.commit("third")));
    assert!(found.is_lossless(), "control: {found:?}");
    for file in ["multi-pack-index-chain", "multi-pack-index-1.midx", "multi-pack-index-1.bitmap"] {
        let path = format!("{directory}{file}");
        let found = changed(&git, |git| {
            fs::write(git.git_dir().join(&path), b"forged").unwrap();
        });
        assert_eq!(found.changed_links, [name(&path)]);
    }
}
