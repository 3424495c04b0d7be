//! Finds the main repository of a workspace that is a linked worktree of git (`git worktree add`).
//! Runs in the cell, while it has privilege.
//!
//! In such a workspace `.git` is a file that names a directory of the main repository. A program
//! may have written that file, so it only says where to look. The directory counts if it is where
//! git makes it, if its own files lead back to the workspace, and if all of it belongs to the
//! session's user. The files are read with the session's rights.

use crate::{failure::StepFailure, mounts};
use palisade_plan::{Access, Identity, Path, ceiling};
use palisade_workspace::MainRepository;
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};
use std::{
    fs::File,
    io::Read as _,
    os::fd::{AsFd, OwnedFd},
};

/// The file in a session's root that names the main repository. Nothing in the session can change
/// it, because its root is read-only.
pub(crate) const RECORD: &str = "/.palisade-repository";

/// The maximum size of a file that leads to another directory.
const MOST_LINK_BYTES: u64 = 4096;

/// Finds the main repository of a workspace, and opens its directory. The caller has the session's
/// file system identity.
///
/// # Errors
/// If the workspace can not be examined.
pub(crate) fn find(
    workspace: &Path,
    owner: Identity,
) -> Result<Option<(MainRepository, OwnedFd)>, StepFailure> {
    let top = match mounts::resolve_without_links(workspace.as_path()) {
        Ok(top) => top,
        // The steps that need the workspace say why it can not be opened.
        Err(_) => return Ok(None),
    };
    let kind = rustix::fs::statat(&top, ".git", rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    match kind.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::RegularFile) => Ok(linked(workspace, &top, owner)),
        Ok(_) | Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(StepFailure::kernel("look at .git of the workspace")(error)),
    }
}

fn linked(workspace: &Path, top: &OwnedFd, owner: Identity) -> Option<(MainRepository, OwnedFd)> {
    let link = read(top, b".git", owner)?;
    let own = resolved(&workspace.0, link.strip_prefix(b"gitdir:")?)?;
    let (all, name) = split(&own)?;
    let path = Path(all.strip_suffix(b"/worktrees").filter(|path| !path.is_empty())?.to_vec());
    let (outer, inner) = (path.as_path(), workspace.as_path());
    if outer.starts_with(inner) || inner.starts_with(outer) {
        return None;
    }
    ceiling::check_resolved(outer, Access::Write).ok()?;
    let common = mounts::resolve_without_links(outer).ok()?;
    let way = [b"worktrees/", name].concat();
    for part in [b".".as_slice(), b"objects", b"refs", b"worktrees", &way] {
        let stat = rustix::fs::fstat(open(&common, part, OFlags::PATH).ok()?).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory || !is_owned(&stat, owner) {
            return None;
        }
    }
    read(&common, b"HEAD", owner)?;
    let leads_to = |file: &[u8]| resolved(&own, &read(&common, &[&way, file].concat(), owner)?);
    let git = [workspace.0.as_slice(), b"/.git"].concat();
    let is_mutual = leads_to(b"/gitdir")? == git && leads_to(b"/commondir")? == path.0;
    let name = name.to_vec();
    is_mutual.then_some((MainRepository { path, name }, common))
}

fn is_owned(stat: &Stat, owner: Identity) -> bool {
    stat.st_uid == owner.uid
}

fn open(base: impl AsFd, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(base, name, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Reads a short regular file that belongs to the session's user.
fn read(base: impl AsFd, name: &[u8], owner: Identity) -> Option<Vec<u8>> {
    let file = open(base, name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_file && is_owned(&stat, owner) { read_link_file(&File::from(file)) } else { None }
}

/// Reads a file that leads to another directory; `None` if it is too long for one.
pub(crate) fn read_link_file(file: &File) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    file.take(MOST_LINK_BYTES).read_to_end(&mut text).ok()?;
    let is_whole = u64::try_from(text.len()).is_ok_and(|length| length < MOST_LINK_BYTES);
    is_whole.then_some(text)
}

/// Returns the absolute path that the text of a file in a directory names. Links are refused when
/// it is opened, so the text can be resolved by itself.
fn resolved(directory: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    let start = if text.starts_with(b"/") { b"".as_slice() } else { directory };
    let mut path = Vec::new();
    for name in start.split(|byte| *byte == b'/').chain(text.split(|byte| *byte == b'/')) {
        match name {
            b"" | b"." => {}
            b".." => path.truncate(path.iter().rposition(|byte| *byte == b'/')?),
            name => {
                path.push(b'/');
                path.extend_from_slice(name);
            }
        }
    }
    (!path.contains(&0)).then_some(path)
}

fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    Some((path.get(..slash)?, path.get(slash + 1..).filter(|name| !name.is_empty())?))
}

/// Returns the main repository that the session's root was made with. What a program writes to
/// `.git` of the workspace later changes nothing: the repository stays where it was mounted.
///
/// # Errors
/// If its mount is not there.
pub(crate) fn recorded() -> Result<Option<MainRepository>, StepFailure> {
    let text = match std::fs::read(RECORD) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StepFailure::kernel(format!("read {RECORD}"))(error)),
    };
    let main = MainRepository::of_record(&text)
        .ok_or_else(|| StepFailure::Setup(format!("{RECORD} names no repository")))?;
    let failed = || StepFailure::kernel(format!("look at the main repository {:?}", main.path));
    let common = mounts::resolve_without_links(main.path.as_path()).map_err(failed())?;
    match mounts::is_mount(&common).map_err(failed())? {
        true => Ok(Some(main)),
        false => Err(StepFailure::Setup(format!("{:?} is no mount", main.path))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink, path::Path as StdPath};

    fn owner() -> Identity {
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        Identity { uid, gid }
    }

    /// Makes a main repository and a worktree of it, as git does.
    fn make(at: &StdPath) -> (std::path::PathBuf, std::path::PathBuf) {
        let (main, tree) = (at.join("main/.git"), at.join("tree"));
        let own = main.join("worktrees/tree");
        for directory in [&main.join("objects"), &main.join("refs"), &own, &tree] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(main.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(own.join("gitdir"), format!("{}/.git\n", tree.display())).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        (main, tree)
    }

    fn found(tree: &StdPath) -> Option<MainRepository> {
        find(&Path::from(tree), owner()).unwrap().map(|(found, _)| found)
    }

    #[test]
    fn a_worktree_leads_to_its_repository() {
        let temp = tempfile::tempdir().unwrap();
        let (main, tree) = make(temp.path());
        let expected = MainRepository { path: Path::from(&main), name: b"tree".to_vec() };
        assert_eq!(found(&tree), Some(expected.clone()));
        // Newer versions of git can write relative paths.
        fs::write(tree.join(".git"), "gitdir: ../main/.git/worktrees/tree\n").unwrap();
        fs::write(main.join("worktrees/tree/gitdir"), "../../../../tree/.git\n").unwrap();
        assert_eq!(found(&tree), Some(expected));
    }

    #[test]
    fn a_link_that_is_not_mutual_leads_nowhere() {
        let temp = tempfile::tempdir().unwrap();
        let (main, tree) = make(temp.path());
        let other = temp.path().join("other");
        fs::create_dir(&other).unwrap();
        // The same text in another directory: the repository does not lead back to it.
        fs::copy(tree.join(".git"), other.join(".git")).unwrap();
        assert_eq!(found(&other), None);
        for text in ["/etc", "/etc/worktrees/x", "", "../main/.git", "../main/.git/worktrees/none"]
        {
            fs::write(other.join(".git"), format!("gitdir: {text}\n")).unwrap();
            assert_eq!(found(&other), None, "{text}");
        }
        fs::write(main.join("worktrees/tree/commondir"), "/etc\n").unwrap();
        assert_eq!(found(&tree), None);
    }

    #[test]
    fn symbolic_links_and_the_files_of_others_lead_nowhere() {
        let temp = tempfile::tempdir().unwrap();
        let (main, tree) = make(temp.path());
        let somebody = Identity { uid: owner().uid + 1, gid: 0 };
        assert!(find(&Path::from(&tree), somebody).unwrap().is_none());
        fs::rename(main.join("objects"), temp.path().join("objects")).unwrap();
        symlink(temp.path().join("objects"), main.join("objects")).unwrap();
        assert_eq!(found(&tree), None);
        let (_, tree) = make(&temp.path().join("again"));
        symlink(temp.path().join("again"), temp.path().join("alias")).unwrap();
        let alias = temp.path().join("alias/main/.git/worktrees/tree");
        fs::write(tree.join(".git"), format!("gitdir: {}\n", alias.display())).unwrap();
        assert_eq!(found(&tree), None);
    }

    #[test]
    fn a_repository_around_or_inside_the_workspace_is_none() {
        let temp = tempfile::tempdir().unwrap();
        let (_, tree) = make(temp.path());
        let above = temp.path().to_owned();
        fs::copy(tree.join(".git"), above.join(".git")).unwrap();
        fs::write(
            above.join("main/.git/worktrees/tree/gitdir"),
            format!("{}/.git\n", above.display()),
        )
        .unwrap();
        assert_eq!(found(&above), None);
    }
}
