//! Lists the files of a repository that are judged by comparing the repository as a whole. Runs in
//! the cell.

/// Files that git overwrites in normal use. Everything that they name or contain is compared:
/// references, logs, objects, the index and the configuration.
const FILES: [&[u8]; 12] = [
    b"HEAD",
    b"index",
    b"config",
    b"packed-refs",
    b"info/refs",
    b"shallow",
    b"objects/info/packs",
    b"objects/info/commit-graph",
    b"gc.log",
    b"gc.pid",
    b"COMMIT_EDITMSG",
    b"MERGE_RR",
];

/// Directories of such files.
const DIRECTORIES: [&[u8]; 7] = [
    b"refs/",
    b"logs/",
    b"rebase-merge/",
    b"rebase-apply/",
    b"sequencer/",
    b"rr-cache/",
    b"objects/info/commit-graphs/",
];

/// Beginnings of the names of files with the state of one operation.
const STATES: [&[u8]; 8] = [
    b"ORIG_",
    b"FETCH_",
    b"MERGE_",
    b"AUTO_MERGE",
    b"SQUASH_MSG",
    b"CHERRY_PICK_",
    b"REVERT_",
    b"BISECT_",
];

/// The extensions of the files that belong to a pack.
const PACK_FILES: [&[u8]; 5] = [b".pack", b".idx", b".rev", b".bitmap", b".mtimes"];

/// Returns `true` if a file is judged with the whole repository. The path is relative to the
/// repository's directory.
pub(super) fn is_compared(path: &[u8]) -> bool {
    if FILES.contains(&path) || DIRECTORIES.iter().any(|name| path.starts_with(name)) {
        return true;
    }
    let is_top = !path.contains(&b'/');
    if is_top && (STATES.iter().any(|name| path.starts_with(name)) || path == b"REBASE_HEAD") {
        return true;
    }
    if path.ends_with(b".lock") {
        return true;
    }
    let Some(object) = path.strip_prefix(b"objects/") else { return false };
    match object.strip_prefix(b"pack/") {
        Some(pack) => {
            pack.starts_with(b"pack-") && PACK_FILES.iter().any(|end| pack.ends_with(end))
        }
        None => is_loose_object(object),
    }
}

/// Returns `true` if a file of a linked worktree's own directory is judged with the whole repository.
/// The path is relative to that directory. References that belong to one worktree are not compared.
pub(super) fn is_compared_in_worktree(path: &[u8]) -> bool {
    let is_elsewhere = [b"objects/".as_slice(), b"refs/", b"info/"];
    let is_common = [b"config".as_slice(), b"packed-refs", b"shallow"].contains(&path);
    is_compared(path) && !is_common && !is_elsewhere.iter().any(|name| path.starts_with(name))
}

fn is_loose_object(path: &[u8]) -> bool {
    let digits: Vec<u8> = path.iter().copied().filter(|byte| *byte != b'/').collect();
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    path.get(2) == Some(&b'/')
        && path.len() == digits.len() + 1
        && matches!(digits.len(), 40 | 64)
        && digits.iter().all(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_git_compares_is_covered() {
        let object = format!("objects/ab/{}", "0".repeat(38));
        for (path, expected) in [
            ("HEAD", true),
            ("refs/heads/main", true),
            ("logs/HEAD", true),
            ("index", true),
            (object.as_str(), true),
            ("objects/pack/pack-1.idx", true),
            ("objects/pack/notes.txt", false),
            ("objects/ab/notes", false),
            ("hooks/pre-commit", false),
            ("info/exclude", false),
            ("description", false),
            ("modules/x/HEAD", false),
            ("my-notes", false),
            ("sub/ORIG_HEAD", false),
        ] {
            assert_eq!(is_compared(path.as_bytes()), expected, "{path}");
        }
        for (path, expected) in [
            ("HEAD", true),
            ("index", true),
            ("logs/HEAD", true),
            ("ORIG_HEAD", true),
            ("gitdir", false),
            ("commondir", false),
            ("config.worktree", false),
            ("refs/bisect/bad", false),
            (object.as_str(), false),
        ] {
            assert_eq!(is_compared_in_worktree(path.as_bytes()), expected, "{path}");
        }
    }
}
