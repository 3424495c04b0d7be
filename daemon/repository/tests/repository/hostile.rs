//! Tests repositories that lie. Nothing that they claim counts as kept unless its bytes are there,
//! and no claim costs more than the bounds allow.

use crate::git::{Git, ask, keeps, question, tips};
use palisade_repository::{Bounds, NotKeptReason, Repository, RepositoryError};
use std::fs;
use std::os::unix::fs::symlink;

/// Overwrites a file that git made read-only.
fn overwrite(path: impl AsRef<std::path::Path>, bytes: &[u8]) {
    fs::remove_file(&path).unwrap();
    fs::write(path, bytes).unwrap();
}

fn committed() -> Git {
    let git = Git::new();
    git.write("dir/a", b"precious\n");
    git.commit("first");
    assert!(keeps(&git, "dir/a", b"precious\n").is_ok(), "control");
    git
}

fn with(git: &Git, bounds: Bounds) -> Repository {
    Repository::open(&git.git_dir(), bounds).unwrap()
}

#[test]
fn object_that_does_not_match_its_id_is_not_kept() {
    for part in ["HEAD:dir/a", "HEAD:dir", "HEAD^{tree}", "HEAD"] {
        let git = committed();
        git.write("other/b", b"something else\n");
        git.commit("second");
        let of_other = match part {
            "HEAD:dir/a" => "HEAD:other/b",
            "HEAD:dir" => "HEAD:other",
            "HEAD^{tree}" => "HEAD~^{tree}",
            _ => "HEAD~",
        };
        let (victim, other) = (git.line(&["rev-parse", part]), git.line(&["rev-parse", of_other]));
        // A valid object of the right kind, under the wrong id.
        overwrite(git.loose(&victim), &fs::read(git.loose(&other)).unwrap());
        let bytes: &[u8] = if part == "HEAD:dir/a" || part == "HEAD:dir" {
            b"precious\n"
        } else {
            b"something else\n"
        };
        let path = if bytes == b"precious\n" { "dir/a" } else { "other/b" };
        let answer = keeps(&git, path, bytes);
        assert!(answer.is_err(), "{part}: {answer:?}");
    }
}

#[test]
fn malformed_objects_with_the_right_id_keep_nothing() {
    let git = committed();
    let blob = git.line(&["rev-parse", "HEAD:dir/a"]);
    let raw: Vec<u8> =
        (0..20).map(|at| u8::from_str_radix(&blob[at * 2..at * 2 + 2], 16).unwrap()).collect();
    let entry =
        |mode: &str, name: &str| [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &raw].concat();
    let store = |kind: &str, bytes: &[u8]| {
        fs::write(git.tree().join("object"), bytes).unwrap();
        let line = format!("git hash-object -t {kind} --literally -w object");
        String::from_utf8(git.shell(&line)).unwrap().trim_end().to_owned()
    };
    let good = entry("100644", "evil");
    let people = "author A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nmessage\n";
    let try_tree = |bytes: &[u8]| {
        let tree = store("tree", bytes);
        let commit = store("commit", format!("tree {tree}\n{people}").as_bytes());
        fs::write(git.git_dir().join("refs/heads/evil"), &commit).unwrap();
        keeps(&git, "evil", b"precious\n")
    };
    assert!(try_tree(&good).is_ok(), "control");
    let other = entry("100644", "other");
    for bytes in [
        // Duplicate names, wrong order, a truncated entry, a directory that is a blob, no mode.
        [good.as_slice(), &good].concat(),
        [other.as_slice(), &good].concat(),
        [good.as_slice(), &other[..other.len() - 1]].concat(),
        entry("40000", "evil"),
        entry("160000", "evil"),
        entry("", "evil"),
        entry("100644", ""),
        b"100644 evil".to_vec(),
    ] {
        let answer = try_tree(&bytes);
        assert!(answer.is_err(), "{}: {answer:?}", String::from_utf8_lossy(&bytes));
    }
    let tree = store("tree", &good);
    for bytes in [
        String::new(),
        format!("tree {tree}"),
        format!("tree {}\n{people}", &tree[..39]),
        format!("tre {tree}\n{people}"),
        people.to_owned(),
        format!("parent {tree}\n{people}"),
    ] {
        let commit = store("commit", bytes.as_bytes());
        fs::write(git.git_dir().join("refs/heads/evil"), &commit).unwrap();
        assert!(keeps(&git, "evil", b"precious\n").is_err(), "{bytes}");
    }
    for bytes in [
        "",
        "object",
        "object x\n",
        &format!("object {tree}\n"),
        &format!("object {tree}\ntype tree\n"),
    ] {
        let tag = store("tag", bytes.as_bytes());
        fs::write(git.git_dir().join("refs/heads/evil"), &tag).unwrap();
        assert!(keeps(&git, "evil", b"precious\n").is_err(), "{bytes}");
    }
}

#[test]
fn wrong_copy_beside_a_right_one_makes_an_object_damaged() {
    let git = committed();
    git.run(&["gc", "-q"]);
    let blob = git.line(&["rev-parse", "HEAD:dir/a"]);
    assert!(keeps(&git, "dir/a", b"precious\n").is_ok());
    git.write("dir/b", b"wrong\n");
    let wrong = git.line(&["hash-object", "-w", "dir/b"]);
    fs::create_dir_all(git.loose(&blob).parent().unwrap()).unwrap();
    fs::copy(git.loose(&wrong), git.loose(&blob)).unwrap();
    assert_eq!(keeps(&git, "dir/a", b"precious\n"), Err(NotKeptReason::Damaged));
}

#[test]
fn truncated_and_padded_loose_objects_are_damaged() {
    let git = committed();
    let path = git.loose(&git.line(&["rev-parse", "HEAD:dir/a"]));
    let bytes = fs::read(&path).unwrap();
    for length in 0..bytes.len() {
        overwrite(&path, &bytes[..length]);
        assert_eq!(keeps(&git, "dir/a", b"precious\n"), Err(NotKeptReason::Damaged), "{length}");
    }
    overwrite(&path, &[bytes.as_slice(), b"x"].concat());
    assert_eq!(keeps(&git, "dir/a", b"precious\n"), Err(NotKeptReason::Damaged));
    overwrite(&path, &bytes);
    assert!(keeps(&git, "dir/a", b"precious\n").is_ok(), "control");
}

#[test]
fn truncated_packs_and_indexes_keep_nothing() {
    let git = committed();
    git.run(&["gc", "-q"]);
    for ending in ["pack", "idx"] {
        let path = git.pack(ending);
        let bytes = fs::read(&path).unwrap();
        for length in (0..bytes.len()).step_by(7) {
            overwrite(&path, &bytes[..length]);
            assert_eq!(
                keeps(&git, "dir/a", b"precious\n"),
                Err(NotKeptReason::NoObject),
                "{ending} {length}"
            );
        }
        overwrite(&path, &bytes);
        assert!(keeps(&git, "dir/a", b"precious\n").is_ok(), "control");
    }
}

#[test]
fn flipped_bytes_of_a_pack_never_make_wrong_bytes_kept() {
    let git = Git::new();
    for n in 0..8 {
        let text: String = (0..200).map(|line| format!("{line} {}\n", line * n)).collect();
        git.write("dir/a", text.as_bytes());
        git.commit("revision");
    }
    git.run(&["gc", "-q", "--aggressive"]);
    for ending in ["pack", "idx"] {
        let path = git.pack(ending);
        let bytes = fs::read(&path).unwrap();
        for at in (0..bytes.len()).step_by(11) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            overwrite(&path, &damaged);
            // It must neither panic nor answer that bytes are kept that never existed.
            for content in [b"".as_slice(), b"0 0\n", b"never"] {
                assert!(keeps(&git, "dir/a", content).is_err());
            }
        }
        overwrite(&path, &bytes);
    }
}

#[test]
fn replaced_objects_are_not_kept() {
    for part in ["HEAD:dir/a", "HEAD:dir", "HEAD^{tree}", "HEAD"] {
        let git = committed();
        git.write("other/b", b"something else\n");
        git.commit("second");
        let of_other = match part {
            "HEAD:dir/a" => "HEAD:other/b",
            "HEAD:dir" => "HEAD:other",
            "HEAD^{tree}" => "HEAD~^{tree}",
            _ => "HEAD~",
        };
        let (victim, other) = (git.line(&["rev-parse", part]), git.line(&["rev-parse", of_other]));
        git.run(&["replace", &victim, &other]);
        // The previous commit still leads to it, unless the blob or tree is what was replaced.
        let (path, bytes): (_, &[u8]) = match part {
            "HEAD:dir/a" | "HEAD:dir" => ("dir/a", b"precious\n"),
            _ => ("other/b", b"something else\n"),
        };
        assert!(keeps(&git, path, bytes).is_err(), "{part}");
        git.run(&["replace", "-d", &victim]);
        assert!(keeps(&git, path, bytes).is_ok(), "control: {part}");
    }
}

#[test]
fn reference_below_replace_keeps_nothing() {
    let git = Git::new();
    git.write("a", b"one\n");
    git.commit("first");
    git.write("a", b"two\n");
    let second = git.commit("second");
    git.run(&["reset", "-q", "--hard", "HEAD~"]);
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    git.run(&["update-ref", &format!("refs/replace/{}", "1".repeat(40)), &second]);
    assert_eq!(keeps(&git, "a", b"two\n"), Err(NotKeptReason::NoCommit));
}

#[test]
fn objects_of_alternates_are_not_kept() {
    let (git, other) = (committed(), Git::new());
    other.run(&["commit", "-q", "--allow-empty", "-m", "own"]);
    let alternates = other.git_dir().join("objects/info/alternates");
    fs::create_dir_all(alternates.parent().unwrap()).unwrap();
    fs::write(&alternates, format!("{}\n", git.git_dir().join("objects").display())).unwrap();
    let commit = git.line(&["rev-parse", "HEAD"]);
    other.run(&["update-ref", "refs/heads/borrowed", &commit]);
    assert_eq!(other.run(&["show", "borrowed:dir/a"]), b"precious\n", "control: git follows");
    assert_eq!(keeps(&other, "dir/a", b"precious\n"), Err(NotKeptReason::NoObject));
}

#[test]
fn promisor_packs_are_not_read() {
    let git = committed();
    git.run(&["gc", "-q"]);
    fs::write(git.pack("pack").replace(".pack", ".promisor"), b"").unwrap();
    assert_eq!(keeps(&git, "dir/a", b"precious\n"), Err(NotKeptReason::NoObject));
}

#[test]
fn history_behind_grafts_and_shallow_commits_is_not_kept() {
    for file in ["info/grafts", "shallow"] {
        let git = Git::new();
        git.write("a", b"one\n");
        git.commit("first");
        git.write("a", b"two\n");
        let second = git.commit("second");
        git.run(&["reflog", "expire", "--expire=all", "--all"]);
        assert!(keeps(&git, "a", b"one\n").is_ok(), "control");
        fs::create_dir_all(git.git_dir().join("info")).unwrap();
        fs::write(git.git_dir().join(file), format!("{second}\n")).unwrap();
        assert_eq!(keeps(&git, "a", b"one\n"), Err(NotKeptReason::NoCommit), "{file}");
        assert!(keeps(&git, "a", b"two\n").is_ok());
        fs::write(git.git_dir().join(file), b"nonsense\n").unwrap();
        let repository = git.open();
        let answer = repository.keeps(&repository.tips().unwrap(), question("a", b"two\n"));
        assert!(matches!(answer, Err(RepositoryError::Malformed { .. })), "{answer:?}");
    }
}

#[test]
fn graft_that_adds_a_parent_keeps_nothing() {
    let git = committed();
    let first = git.line(&["rev-parse", "HEAD"]);
    git.run(&["checkout", "-q", "--orphan", "other"]);
    git.run(&["rm", "-rqf", "."]);
    git.write("b", b"b\n");
    let other = git.commit("orphan");
    git.run(&["branch", "-D", "main"]);
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    fs::create_dir_all(git.git_dir().join("info")).unwrap();
    fs::write(git.git_dir().join("info/grafts"), format!("{other} {first}\n")).unwrap();
    assert_eq!(keeps(&git, "dir/a", b"precious\n"), Err(NotKeptReason::NoCommit));
}

#[test]
fn symbolic_links_are_never_followed() {
    // References in a loop, and one that leads outside.
    let git = committed();
    let heads = git.git_dir().join("refs/heads");
    symlink("loop-b", heads.join("loop-a")).unwrap();
    symlink("loop-a", heads.join("loop-b")).unwrap();
    symlink("/etc/hostname", heads.join("outside")).unwrap();
    symlink("..", git.git_dir().join("refs/around")).unwrap();
    let tips = tips(&git);
    assert_eq!(tips.unreadable().len(), 4, "{:?}", tips.unreadable());
    assert!(keeps(&git, "dir/a", b"precious\n").is_ok(), "the others still count");

    // Objects, packs or the whole repository are elsewhere.
    for part in ["objects", "objects/pack", "refs", "."] {
        let git = committed();
        git.run(&["gc", "-q"]);
        let away = tempfile::tempdir().unwrap();
        let (from, to) = (git.git_dir().join(part), away.path().join("moved"));
        let from = if part == "." { git.git_dir() } else { from };
        fs::rename(&from, &to).unwrap();
        symlink(&to, &from).unwrap();
        assert_eq!(git.run(&["show", "HEAD:dir/a"]), b"precious\n", "control: git follows");
        let is_kept = Repository::open(&git.git_dir(), Bounds::default())
            .and_then(|repository| {
                let tips = repository.tips()?;
                repository.keeps(&tips, question("dir/a", b"precious\n"))
            })
            .is_ok_and(|answer| answer.is_ok());
        assert!(!is_kept, "{part}");
    }
}

#[test]
fn pipe_instead_of_a_file_does_not_block() {
    let git = committed();
    let make = |path: &str| {
        let path = git.git_dir().join(path);
        if path.exists() {
            fs::remove_file(&path).unwrap();
        }
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
    };
    make("refs/heads/pipe");
    assert_eq!(tips(&git).unreadable(), [b"refs/heads/pipe".to_vec()]);
    make("packed-refs");
    assert!(git.open().tips().is_err());
    make("index");
    assert!(git.open().index().is_err());
    make("config");
    assert!(Repository::open(&git.git_dir(), Bounds::default()).is_err());
}

#[test]
fn reference_with_a_bad_name_or_value_is_no_root() {
    let git = Git::new();
    git.write("a", b"one\n");
    git.commit("first");
    git.write("a", b"two\n");
    let second = git.commit("second");
    git.run(&["reset", "-q", "--hard", "HEAD~"]);
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    let place = |path: &str, content: &str| {
        let path = git.git_dir().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let lost = || assert_eq!(keeps(&git, "a", b"two\n"), Err(NotKeptReason::NoCommit));
    // Git's maintenance does not look outside of refs/.
    place("ORIG_HEAD", &second);
    place("FETCH_HEAD", &second);
    place("heads/other", &second);
    lost();
    place("refs/heads/a..b", &second);
    place("refs/heads/.hidden", &second);
    place("refs/heads/x.lock", &second);
    place("refs/heads/short", &second[..39]);
    place("refs/heads/long", &format!("{second}0"));
    place("refs/heads/link", &format!("ref: {second}"));
    lost();
    assert_eq!(tips(&git).unreadable().len(), 4);
    // A reflog of a reference that does not exist.
    place("logs/refs/heads/gone", &format!("{second} {second} A <a> 1 +0000\tx\n"));
    lost();
    place("refs/heads/gone", &second);
    assert!(keeps(&git, "a", b"two\n").is_ok(), "control");
}

#[test]
fn damaged_loose_reference_hides_the_packed_one() {
    let git = committed();
    git.run(&["pack-refs", "--all"]);
    git.run(&["reflog", "expire", "--expire=all", "--all"]);
    assert!(keeps(&git, "dir/a", b"precious\n").is_ok(), "control");
    fs::write(git.git_dir().join("refs/heads/main"), b"").unwrap();
    assert_eq!(keeps(&git, "dir/a", b"precious\n"), Err(NotKeptReason::NoCommit));
}

#[test]
fn log_entries_that_git_may_delete_soon_keep_nothing() {
    let git = Git::new();
    git.write("a", b"one\n");
    git.commit("first");
    git.write("a", b"two\n");
    git.commit("second");
    git.run(&["reset", "-q", "--hard", "HEAD~"]);
    let future = Some(i64::MAX);
    let repository = with(&git, Bounds { oldest_log_entry: future, ..Bounds::default() });
    assert_eq!(ask(&repository, "a", b"two\n"), Err(NotKeptReason::NoCommit));
    assert!(ask(&repository, "a", b"one\n").is_ok());
    let repository = with(&git, Bounds { oldest_log_entry: Some(0), ..Bounds::default() });
    assert!(ask(&repository, "a", b"two\n").is_ok(), "control");
    // The stash does not expire.
    git.write("a", b"stashed\n");
    git.run(&["stash", "-q"]);
    git.write("a", b"stashed later\n");
    git.run(&["stash", "-q"]);
    let repository = with(&git, Bounds { oldest_log_entry: future, ..Bounds::default() });
    assert!(ask(&repository, "a", b"stashed\n").is_ok());
}

#[test]
fn large_objects_are_not_read() {
    let git = Git::new();
    let large = vec![b'x'; 3 << 20];
    git.write("large", &large);
    git.write("small", b"small\n");
    git.commit("first");
    let bounds = Bounds { object_bytes: 1 << 20, ..Bounds::default() };
    for packed in [false, true] {
        if packed {
            git.run(&["gc", "-q"]);
        }
        let repository = with(&git, bounds);
        assert_eq!(ask(&repository, "large", &large), Err(NotKeptReason::BeyondBound));
        assert!(ask(&repository, "small", b"small\n").is_ok());
        assert!(keeps(&git, "large", &large).is_ok(), "control");
    }
}

/// Makes a commit of `precious` at `u` that nothing leads to, and returns `HEAD` and that commit.
fn with_lonely_commit(git: &Git) -> (String, String) {
    let head = git.commit("first");
    git.write("u", b"precious\n");
    git.run(&["add", "u"]);
    let tree = git.line(&["write-tree"]);
    git.run(&["rm", "-q", "--cached", "u"]);
    (head, git.line(&["commit-tree", "-m", "lonely", &tree]))
}

#[test]
fn log_lines_that_git_ignores_keep_nothing() {
    let git = Git::new();
    let (head, lonely) = with_lonely_commit(&git);
    let zero = "0".repeat(40);
    let logs = [
        ("refs/heads/main", "logs/HEAD", head.as_str(), "n <m> 2000000000"),
        ("refs/stash", "logs/refs/stash", zero.as_str(), "n <m> 2000000000"),
    ];
    for (reference, log, old, author) in logs {
        let (log, reference) = (git.git_dir().join(log), git.git_dir().join(reference));
        fs::write(reference, format!("{head}\n")).unwrap();
        for (author, zone, is_read) in [
            (author, "+0000", true),
            (author, "-0130", true),
            (author, "+abcd", false),
            (author, "+000", false),
            (author, "00000", false),
            ("n\0 <m> 2000000000", "+0000", false),
            ("n <m> 0", "+0000", false),
            ("n <m> -5", "+0000", false),
        ] {
            fs::write(&log, format!("{old} {lonely} {author} {zone}\tx\n")).unwrap();
            let is_kept = keeps(&git, "u", b"precious\n").is_ok();
            assert_eq!(is_kept, is_read, "{log:?}: {author:?} {zone}");
            let reached = git.text(&["rev-list", "--all", "--reflog", "HEAD"]);
            let does_git = reached.lines().any(|id| id == lonely);
            // Git takes a negative time for one in the far future.
            assert!(does_git == is_read || author.contains('-'), "control: {author:?} {zone}");
        }
        fs::remove_file(&log).unwrap();
    }
}

#[test]
fn references_and_logs_of_one_worktree_keep_nothing() {
    let git = Git::new();
    let (head, lonely) = with_lonely_commit(&git);
    git.run(&["worktree", "add", "-q", "--detach", "wt"]);
    let place = |path: &str, content: &str| {
        let path = git.git_dir().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    };
    let lost = |what: &str| {
        let open = |path| std::fs::File::open(path).unwrap().into();
        let linked = Repository::open_worktree(
            open(git.git_dir().join("worktrees/wt")),
            open(git.git_dir()),
            Bounds::default(),
        );
        for repository in [git.open(), linked.unwrap()] {
            let answer = ask(&repository, "u", b"precious\n");
            assert_eq!(answer, Err(NotKeptReason::NoCommit), "{what}");
        }
    };
    // Git reads neither of these, or only in one of the worktrees.
    for name in ["heads/zzz", "tags/zzz", "bisect/bad", "worktree/zzz", "rewritten/zzz"] {
        place(&format!("worktrees/wt/refs/{name}"), &lonely);
        lost(name);
    }
    for name in ["bisect/bad", "worktree/zzz", "rewritten/zzz"] {
        place(&format!("refs/{name}"), &lonely);
        lost(name);
    }
    let line = format!("{head} {lonely} n <m> 2000000000 +0000\tx");
    for name in ["main-worktree/HEAD", "worktrees/wt/HEAD", "ORIG_HEAD"] {
        place(&format!("logs/{name}"), &line);
        lost(name);
    }
    // A symbolic reference to one of a worktree.
    place("worktrees/wt/HEAD", "ref: refs/worktree/zzz");
    lost("worktrees/wt/HEAD");
    git.run(&["update-ref", "refs/heads/zzz", &lonely]);
    assert!(keeps(&git, "u", b"precious\n").is_ok(), "control");
    // A branch in the worktree's own directory overrides nothing.
    place("worktrees/wt/refs/heads/zzz", &head);
    let (own, common) = (git.git_dir().join("worktrees/wt"), git.git_dir());
    let open = |path| std::fs::File::open(path).unwrap().into();
    let linked = Repository::open_worktree(open(own), open(common), Bounds::default()).unwrap();
    assert!(ask(&linked, "u", b"precious\n").is_ok());
}
