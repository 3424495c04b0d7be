//! Tests that work is bounded. Bombs, floods of references, long histories and deep trees cost no
//! more than the bounds allow, and beyond them nothing counts as kept.

use crate::git::{Git, ask, keeps, question};
use palisade_repository::{Bounds, NotKeptReason, Repository, RepositoryError};
use std::fs;

fn with(git: &Git, bounds: Bounds) -> Repository {
    Repository::open(&git.git_dir(), bounds).unwrap()
}

/// Makes a zlib stream that inflates to a header and then to endless zeroes.
fn bomb(header: &[u8], zeroes: usize) -> Vec<u8> {
    use std::io::Write;
    let mut deflate =
        gix_zlib::stream::deflate::Write::new(Vec::new(), gix_zlib::Compression::BEST);
    deflate.write_all(header).unwrap();
    deflate.write_all(&vec![0; zeroes]).unwrap();
    deflate.flush().unwrap();
    deflate.into_inner()
}

#[test]
fn zlib_bomb_is_not_inflated_beyond_what_its_header_says() {
    let git = Git::new();
    git.write("a", b"precious\n");
    git.commit("first");
    let path = git.loose(&git.line(&["rev-parse", "HEAD:a"]));
    // The stream has more bytes than its header says, or too many, or the size is invalid or beyond
    // all memory.
    let sizes =
        ["9", "67108865", "18446744073709551615", "99999999999999999999999", "-1", "+9", "09", ""];
    for size in sizes {
        fs::remove_file(&path).unwrap();
        fs::write(&path, bomb(format!("blob {size}\0").as_bytes(), 80 << 20)).unwrap();
        let answer = keeps(&git, "a", b"precious\n");
        let expected = match size {
            "67108865" | "18446744073709551615" => NotKeptReason::BeyondBound,
            _ => NotKeptReason::Damaged,
        };
        assert_eq!(answer, Err(expected), "{size}");
    }
}

#[test]
fn stream_without_content_is_not_read_to_its_end() {
    let git = Git::new();
    git.write("a", b"precious\n");
    git.commit("first");
    let path = git.loose(&git.line(&["rev-parse", "HEAD:a"]));
    let stored = |data: &[u8], last: u8| {
        let length = u16::try_from(data.len()).unwrap();
        [&[last][..], &length.to_le_bytes(), &(!length).to_le_bytes(), data].concat()
    };
    let adler = |data: &[u8]| {
        let (mut a, mut b) = (1u32, 0u32);
        for byte in data {
            a = (a + u32::from(*byte)) % 65521;
            b = (b + a) % 65521;
        }
        (b << 16 | a).to_be_bytes()
    };
    let object = b"blob 9\0precious\n";
    // The object with empty blocks in between, which are valid and can make it arbitrarily long.
    for (blocks, expected) in [(0, true), (200, true), (2_000, false), (2_000_000, false)] {
        let empty = stored(b"", 0).repeat(blocks);
        let bytes = [&[0x78, 0x01][..], &empty, &stored(object, 1), &adler(object)].concat();
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        assert_eq!(git.run(&["show", "HEAD:a"]), b"precious\n", "control: git reads it");
        assert_eq!(keeps(&git, "a", b"precious\n").is_ok(), expected, "{blocks}");
    }
}

#[test]
fn budget_of_objects_bytes_and_commits_ends_a_search() {
    let git = Git::new();
    git.write("old", b"old\n");
    git.commit("first");
    git.run(&["rm", "-q", "old"]);
    for n in 0..20 {
        git.write("a", format!("{n}\n").as_bytes());
        git.commit("more");
    }
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    assert!(keeps(&git, "old", b"old\n").is_ok(), "control");
    for bounds in [
        Bounds { commits: 10, ..Bounds::default() },
        Bounds { objects: 20, ..Bounds::default() },
        Bounds { inflated_bytes: 5000, ..Bounds::default() },
    ] {
        let repository = with(&git, bounds);
        assert_eq!(
            ask(&repository, "old", b"old\n"),
            Err(NotKeptReason::BeyondBound),
            "{bounds:?}"
        );
        assert!(ask(&repository, "a", b"19\n").is_ok(), "what is near is found");
    }
}

#[test]
fn hundred_thousand_references_are_read_or_refused() {
    let git = Git::new();
    git.write("a", b"one\n");
    git.commit("first");
    git.write("a", b"two\n");
    let commit = git.commit("second");
    let mut packed = String::from("# pack-refs with: peeled fully-peeled sorted \n");
    for n in 0..100_000 {
        packed += &format!("{commit} refs/tags/{n:06}\n");
    }
    fs::write(git.git_dir().join("packed-refs"), packed).unwrap();
    let repository = git.open();
    let tips = repository.tips().unwrap();
    assert!(tips.references().len() > 100_000);
    let answer = repository.keeps(&tips, question("a", b"one\n")).unwrap();
    assert!(answer.is_ok(), "many tips do not hide history: {answer:?}");
    let error = with(&git, Bounds { references: 99_999, ..Bounds::default() }).tips().unwrap_err();
    assert!(matches!(error, RepositoryError::Bound { what: "references", .. }), "{error}");
    // The same flood, as directories.
    let git = Git::new();
    let mut deep = git.git_dir().join("refs/heads");
    for _ in 0..40 {
        deep = deep.join("d");
    }
    fs::create_dir_all(&deep).unwrap();
    assert!(matches!(git.open().tips(), Err(RepositoryError::Bound { what: "depth", .. })));
}

#[test]
fn many_distinct_tips_do_not_hide_history() {
    let git = Git::new();
    git.write("a", b"one\n");
    git.commit("first");
    git.write("a", b"two\n");
    git.commit("second");
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    let tree = git.line(&["rev-parse", "HEAD^{tree}"]);
    let mut packed = String::new();
    for n in 0..50 {
        let commit = git.line(&["commit-tree", "-m", &n.to_string(), &tree]);
        packed += &format!("{commit} refs/tags/{n:03}\n");
    }
    fs::write(git.git_dir().join("packed-refs"), packed).unwrap();
    let repository = with(&git, Bounds { commits: 10, ..Bounds::default() });
    assert!(ask(&repository, "a", b"one\n").is_ok());
}

#[test]
fn deep_and_repeating_trees_end() {
    // One blob, and trees that each have the previous one twice: 2^60 paths.
    let git = Git::new();
    git.write("f", b"deep\n");
    let blob = git.line(&["hash-object", "-w", "f"]);
    let mktree = |listing: String| {
        let path = git.tree().join("listing");
        fs::write(&path, listing).unwrap();
        let line = format!("git mktree < {}", path.display());
        String::from_utf8(git.shell(&line)).unwrap().trim_end().to_owned()
    };
    let mut tree = mktree(format!("100644 blob {blob}\tf\n"));
    for _ in 0..60 {
        tree = mktree(format!("040000 tree {tree}\ta\n040000 tree {tree}\tb\n"));
    }
    let commit = git.line(&["commit-tree", "-m", "deep", &tree]);
    git.run(&["update-ref", "refs/heads/main", &commit]);
    let path = format!("{}f", "a/".repeat(60));
    assert!(keeps(&git, &path, b"deep\n").is_ok(), "control");
    assert_eq!(keeps(&git, "a/b/f", b"deep\n"), Err(NotKeptReason::NoCommit));
    let bounded = with(&git, Bounds { objects: 30, ..Bounds::default() });
    assert_eq!(ask(&bounded, &path, b"deep\n"), Err(NotKeptReason::BeyondBound));
    let too_deep = format!("{}f", "a/".repeat(1000));
    assert_eq!(keeps(&git, &too_deep, b"deep\n"), Err(NotKeptReason::NoCommit));
}

#[test]
fn packs_logs_and_files_beyond_the_bounds_are_refused() {
    let git = Git::new();
    for n in 0..3 {
        git.write("a", format!("{n}\n").as_bytes());
        git.commit("more");
        git.run(&["repack", "-qd"]);
    }
    let open = |bounds| Repository::open(&git.git_dir(), bounds);
    assert!(open(Bounds { packs: 3, ..Bounds::default() }).is_ok(), "control");
    let error = open(Bounds { packs: 2, ..Bounds::default() }).unwrap_err();
    assert!(matches!(error, RepositoryError::Bound { what: "packs", limit: 2 }), "{error}");
    let tips = with(&git, Bounds { log_bytes: 100, ..Bounds::default() }).tips();
    assert!(matches!(tips, Err(RepositoryError::Bound { .. })), "{tips:?}");
    let index = with(&git, Bounds { file_bytes: 100, ..Bounds::default() }).index();
    assert!(matches!(index, Err(RepositoryError::Bound { .. })), "{index:?}");
}

#[test]
fn index_that_is_cut_damaged_or_partial_is_refused() {
    let git = Git::new();
    for n in 0..5 {
        git.write(&format!("dir/file-{n}"), b"x\n");
    }
    git.commit("first");
    for version in ["2", "4"] {
        git.run(&["update-index", "--index-version", version]);
        let path = git.git_dir().join("index");
        let bytes = fs::read(&path).unwrap();
        let entries = git.open().index().unwrap();
        for length in 0..bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            assert!(git.open().index().is_err(), "{length} of {}", bytes.len());
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            fs::write(&path, &damaged).unwrap();
            assert!(git.open().index().is_err(), "{at}");
            // The checksum is zeroed, as git may write it.
            let end = damaged.len() - 20;
            damaged[end..].fill(0);
            fs::write(&path, &damaged).unwrap();
            // Whatever the index says, parsing neither panics nor adds entries.
            if let Ok(index) = git.open().index() {
                assert!(index.entries().len() <= entries.entries().len());
            }
        }
        fs::write(&path, &bytes).unwrap();
    }
    let split = "the repository uses a split index, which is not supported";
    git.run(&["update-index", "--split-index"]);
    assert_eq!(git.open().index().unwrap_err().to_string(), split);
    // Entries that replace those of the shared index have no path.
    for n in 0..3 {
        git.write(&format!("dir/file-{n}"), b"other\n");
    }
    git.run(&["update-index", "dir/file-0", "dir/file-1", "dir/file-2"]);
    assert_eq!(git.open().index().unwrap_err().to_string(), split);
}

#[test]
fn small_index_cannot_name_paths_without_end() {
    // In version 4, each path is the previous one and one byte more.
    let (entries, long) = (20_000u32, 60_000);
    let mut bytes = [b"DIRC".as_slice(), &4u32.to_be_bytes(), &entries.to_be_bytes()].concat();
    for n in 0..entries {
        bytes.extend([0; 24]);
        bytes.extend(0o100_644u32.to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend([7; 20]);
        bytes.extend([0, 0, 0]);
        bytes.extend(if n == 0 { vec![b'p'; long] } else { vec![b'p'] });
        bytes.push(0);
    }
    bytes.extend([0; 20]);
    let git = Git::new();
    fs::write(git.git_dir().join("index"), bytes).unwrap();
    let index = git.open().index();
    assert!(matches!(index, Err(RepositoryError::Bound { .. })), "{:?}", index.is_ok());
}
