//! The repositories that a change affects: which one each path belongs to, and what each one lost.
//! Runs in the cell.

use super::{
    git_configuration::{configuration_changes, file_changes},
    git_files::{is_compared, is_compared_in_worktree},
    ignored::IgnoreRules,
    linked::{LinkedWorktree, RepositoryPlace, joined, linked_worktrees, worktree_part},
    lost::{LostEntry, ancestors},
    noticed::{ChangedParts, ChangedRepositories, note_part},
    object_files::{ChangedObjects, changed_objects},
    renamed::ListedFiles,
    tracked::TrackedPaths,
    trees::{self, TreeView, Trees, relative},
    working_tree::{WorkingTree, bounds},
};
use palisade_plan::{
    Path,
    change::Effect,
    evidence::{
        EarlierEntry, EarlierKind, GitEvidence, KeepingFile, RepositoryChange, RepositoryLoss,
        StoredContent, WorkingTreeEvidence,
    },
    parts::ListEntry,
};
use palisade_repository::{
    Comparison, ObjectChanges, ObjectId, Repository, RepositoryError, StagedEntry, compare,
    is_stash, lost_staged, paths_gone_from_head,
};
use std::{
    collections::{BTreeMap, HashMap},
    io::Read as _,
};

/// The maximum number of losses of one kind that are reported.
const MOST_LOSSES: usize = 100;

/// The maximum number of paths no longer tracked by git that are reported one by one.
const MOST_UNTRACKED: usize = 1000;

/// The maximum number of entries of trees that are examined to find out what `HEAD` has no more.
const MOST_HEAD_ENTRIES: usize = 400_000;

/// The maximum number of bytes that what a change stored in git takes in a message, and also what
/// keeps what git no longer has.
const MOST_STORED_BYTES: usize = 256 * 1024;

/// The repositories that a change affects.
pub(super) struct Repositories<'a> {
    trees: &'a Trees,
    is_made: bool,
    /// The repositories in which something changes, by directory.
    changed: ChangedRepositories,
    /// The files of their object databases that change.
    objects: BTreeMap<Vec<u8>, ChangedObjects>,
    tracked: TrackedPaths<'a>,
    working_trees: BTreeMap<Vec<u8>, Option<WorkingTree>>,
    /// The linked worktrees of each changed repository.
    linked: HashMap<Vec<u8>, Vec<LinkedWorktree>>,
    ignore: IgnoreRules<'a>,
}

impl<'a> Repositories<'a> {
    /// Finds the repositories of a change. `is_made` says whether the workspace shows the change
    /// already, so that repositories can be compared.
    pub(super) fn new(
        trees: &'a Trees,
        mut changed: ChangedRepositories,
        (lost, effects): (&[LostEntry], &[Effect]),
        is_made: bool,
    ) -> Self {
        let objects = match is_made {
            true => changed_objects(trees, lost, effects),
            false => BTreeMap::new(),
        };
        for one in lost.iter().filter(|_| is_made) {
            let path = one.spot.path();
            let Some(way) = trees.way(&path.0) else { continue };
            let Some(git_dir) = trees.git_directory(way) else { continue };
            note_part(&mut changed, git_dir, way);
        }
        let (tracked, working_trees) = (TrackedPaths::new(trees), BTreeMap::new());
        let linked =
            changed.keys().map(|git_dir| (git_dir.clone(), linked_worktrees(trees, git_dir)));
        let linked = linked.collect();
        let ignore = IgnoreRules::new(trees.before());
        Self { trees, is_made, changed, objects, tracked, working_trees, linked, ignore }
    }

    /// Returns which repository a path belongs to, without looking for its bytes.
    pub(super) fn place_of(&mut self, lost: &LostEntry) -> GitEvidence {
        let (path, trees) = (lost.spot.path(), self.trees);
        let Some(way) = trees.way(&path.0) else { return GitEvidence::None };
        if let Some(git_dir) = trees.git_directory(way) {
            let rest = way.get(git_dir.len() + 1..).unwrap_or_default();
            let is_compared =
                self.is_made && lost.entries.is_none() && self.is_compared(git_dir, rest);
            return GitEvidence::Internal { git_dir: trees.path(git_dir), is_compared };
        }
        let otherwise = match self.tracked.is_tracked(way) {
            true => GitEvidence::Tracked,
            false => GitEvidence::None,
        };
        let Some(top) = self.tracked.top_of(way) else { return otherwise };
        let tree = self.working_trees.entry(top.clone());
        let tree = tree.or_insert_with(|| {
            let place = RepositoryPlace::of(trees, &top)?;
            WorkingTree::open(trees, &top, place).ok()
        });
        let Some(tree) = tree else { return otherwise };
        let ignored = match lost.entries {
            Some(_) => self.ignore.directory_of(&top, &[way, b"/"].concat()).map(<[u8]>::to_vec),
            None => self.ignore.directory_of(&top, way).map(<[u8]>::to_vec),
        };
        GitEvidence::WorkingTree(WorkingTreeEvidence {
            git_dir: trees.path(&tree.place.common),
            is_tracked: otherwise == GitEvidence::Tracked,
            stays_tracked: tree.is_tracked(way),
            commit: None,
            ignored: ignored.map(|ignored| trees.path(&ignored)),
        })
    }

    /// Returns `true` if comparing the repository accounts for a file in its directory.
    fn is_compared(&self, git_dir: &[u8], rest: &[u8]) -> bool {
        let Some((name, file)) = worktree_part(rest) else { return is_compared(rest) };
        let own = [git_dir, b"/worktrees/", name].concat();
        let is_own = |linked: &LinkedWorktree| linked.place.own.as_ref() == Some(&own);
        let is_known = self.linked.get(git_dir).is_some_and(|all| all.iter().any(is_own));
        is_known && is_compared_in_worktree(file)
    }

    /// Asks git which of the bytes it keeps.
    pub(super) fn ask_git(&mut self, earlier: &mut [EarlierEntry], lost: &[LostEntry]) {
        let (tracked, trees) = (&mut self.tracked, self.trees);
        for (top, tree) in &self.working_trees {
            let Some(tree) = tree else { continue };
            let makes_commits = self.changed.get(&tree.place.common) == Some(&ChangedParts::More);
            let wanted = earlier.iter_mut().zip(lost).filter_map(|(one, lost)| {
                let GitEvidence::WorkingTree(known) = &mut one.git else { return None };
                let is_here = tracked.top_of(&lost_path(lost, &trees.top)?).as_ref() == Some(top);
                let is_file = !matches!(one.kind, EarlierKind::Tree { .. } | EarlierKind::Other);
                // Of a renamed file, only if git agrees that it is no longer at its earlier path.
                let may_be_asked = one.moved_to.is_none() || !known.stays_tracked;
                let is_asked = is_here && is_file && may_be_asked;
                // An untracked file is in a commit only if the program made one.
                let may_be_kept = known.is_tracked || makes_commits;
                (is_asked && may_be_kept).then_some((&mut known.commit, lost))
            });
            tree.ask(trees, wanted.collect());
            // Those that are left may have been renamed without git, by an earlier call.
            let wanted = earlier.iter_mut().zip(lost).filter_map(|(one, lost)| {
                let GitEvidence::WorkingTree(known) = &mut one.git else { return None };
                let is_here = tracked.top_of(&lost_path(lost, &trees.top)?).as_ref() == Some(top);
                let may_be_renamed = !known.is_tracked && known.ignored.is_none();
                let is_asked = one.kind == EarlierKind::File && may_be_renamed;
                (is_here && is_asked && known.commit.is_none()).then_some((known, lost))
            });
            let wanted: Vec<_> = wanted.collect();
            if let Some(index) = tracked.index(top).filter(|_| !wanted.is_empty()) {
                tree.ask_renamed(trees, &ListedFiles::of(index), wanted);
            }
        }
    }

    /// Compares every repository in which something changes.
    pub(super) fn into_changes(self) -> Vec<RepositoryChange> {
        let changed = self.changed.iter();
        changed.filter_map(|(git_dir, parts)| self.change_of(git_dir, *parts)).collect()
    }

    fn change_of(&self, git_dir: &[u8], parts: ChangedParts) -> Option<RepositoryChange> {
        let was = trees::directory(self.trees.before(), git_dir);
        let is = trees::directory(self.trees.after(), git_dir);
        let mut change = RepositoryChange {
            git_dir: self.trees.path(git_dir),
            is_new: was.is_err(),
            losses: Vec::new(),
            configuration: Vec::new(),
            untracked: Vec::new(),
            stored: Vec::new(),
            keepers: Vec::new(),
            is_cut: false,
        };
        let Ok(is) = is else {
            was.ok()?;
            change.losses.push(RepositoryLoss::Unreadable("it was deleted".to_owned()));
            return Some(change);
        };
        if parts == ChangedParts::More {
            change.configuration = configuration_changes(self.trees, git_dir);
        }
        let Ok(was) = was else { return Some(change) };
        let both = Repository::open_at(was, bounds())
            .and_then(|was| Ok((was, Repository::open_at(is, bounds())?)));
        let compared = both.and_then(|(was, is)| {
            if parts == ChangedParts::More {
                self.compare(git_dir, (&was, &is), &mut change)?;
            }
            if let Some(top) = self.main_top(git_dir) {
                self.compare_index(top, (&was, &is), &mut change)?;
            }
            self.compare_linked(git_dir, &mut change)
        });
        if let Err(error) = compared {
            change.losses.push(RepositoryLoss::Unreadable(error.to_string()));
        }
        Some(change)
    }

    fn compare(
        &self,
        git_dir: &[u8],
        (was, is): (&Repository, &Repository),
        change: &mut RepositoryChange,
    ) -> Result<(), RepositoryError> {
        let objects = match self.objects.get(git_dir) {
            Some(ChangedObjects { has_changed: true, .. }) => ObjectChanges::Possible,
            Some(ChangedObjects { has_changed: false, added }) => ObjectChanges::Added(added),
            None => ObjectChanges::Added(&[]),
        };
        let mut found = compare(was, is, objects)?;
        let keepers = self.excuse_stashes(git_dir, is, &mut found)?;
        self.note_keepers(keepers, change);
        let stashes = found.new_stashes.iter().map(|id| self.stored(git_dir, id));
        Self::note_stored(change, stashes);
        change.losses.extend(losses(&found));
        Ok(())
    }

    /// Returns the top of the main working tree of a repository, if it is in the workspace.
    fn main_top<'w>(&self, git_dir: &'w [u8]) -> Option<&'w [u8]> {
        ancestors(git_dir).next().filter(|_| !self.trees.is_outside(git_dir))
    }

    fn linked(&self, git_dir: &[u8]) -> &[LinkedWorktree] {
        self.linked.get(git_dir).map(Vec::as_slice).unwrap_or_default()
    }

    /// Compares the indexes and the own settings of the linked worktrees that change.
    fn compare_linked(
        &self,
        git_dir: &[u8],
        change: &mut RepositoryChange,
    ) -> Result<(), RepositoryError> {
        for LinkedWorktree { top, place } in self.linked(git_dir) {
            let (was, is) = (place.open(self.trees.before())?, place.open(self.trees.after()));
            let Ok(is) = is else {
                let gone = String::from_utf8_lossy(top).into_owned();
                let why = format!("the linked worktree {gone:?} was removed or damaged");
                change.losses.push(RepositoryLoss::Unreadable(why));
                continue;
            };
            self.compare_index(top, (&was, &is), change)?;
            if let Some(own) = &place.own {
                let settings = file_changes(self.trees, &joined(own, b"config.worktree"));
                change.configuration.extend(settings);
            }
        }
        Ok(())
    }

    /// Finds staged content that is lost, and paths that git no longer tracks.
    fn compare_index(
        &self,
        top: &[u8],
        (was, is): (&Repository, &Repository),
        change: &mut RepositoryChange,
    ) -> Result<(), RepositoryError> {
        let mut keepers = Vec::new();
        let staged = lost_staged(was, is, |path, _, bytes| {
            let way = joined(top, path);
            let has = self.has(&way, bytes);
            if let Some(id) = is.blob_id(bytes).filter(|_| has) {
                keepers.push((self.stored(&way, &id), way));
            }
            has
        })?;
        self.note_keepers(keepers, change);
        if staged.len() > MOST_LOSSES {
            // Those that are not listed may not be the session's own.
            let why = format!("more than {MOST_LOSSES} staged files would be lost");
            change.losses.push(RepositoryLoss::Unreadable(why));
        }
        let staged = staged.iter().take(MOST_LOSSES);
        let lost = staged.map(|blob| self.stored(&joined(top, &blob.path), &blob.object));
        change.losses.extend(lost.map(RepositoryLoss::Staged));
        let (index, later) = (was.index()?, is.index()?);
        let is_new = |entry: &&StagedEntry| {
            index.of_path(&entry.path).iter().all(|earlier| earlier.object != entry.object)
        };
        let new = later.entries().iter().filter(is_new);
        let new = new.map(|entry| self.stored(&joined(top, &entry.path), &entry.object));
        Self::note_stored(change, new);
        // What the index listed, and what only the commit that was checked out had.
        let gone = paths_gone_from_head(was, is, MOST_HEAD_ENTRIES);
        change.is_cut |= gone.is_none();
        let gone = gone.iter().flatten().filter(|path| !index.is_tracked(path));
        let listed = index.entries().iter().map(|entry| &entry.path);
        for path in listed.chain(gone).filter(|path| !later.is_tracked(path)) {
            let way = joined(top, path);
            if trees::seen(self.trees.after(), &way).is_none() {
                continue;
            }
            if change.untracked.len() == MOST_UNTRACKED {
                change.is_cut = true;
                break;
            }
            change.untracked.push(self.trees.path(&way));
        }
        Ok(())
    }

    /// Records the files of the working tree that keep what a repository no longer has. They are not
    /// the session's own from then on.
    fn note_keepers(&self, files: Vec<(StoredContent, Vec<u8>)>, change: &mut RepositoryChange) {
        let mut bytes = change.keepers.iter().map(ListEntry::max_encoded_len).sum::<usize>();
        for (content, way) in files {
            let version = trees::seen(self.trees.before(), &way).map(|seen| seen.version());
            let file = KeepingFile { path: self.trees.path(&way), version, content };
            bytes += file.max_encoded_len();
            if bytes > MOST_STORED_BYTES {
                change.is_cut = true;
                return;
            }
            change.keepers.push(file);
        }
    }

    /// Records content that the change staged or stashed, as much as can be reported. The rest does
    /// not count as the session's own.
    fn note_stored(change: &mut RepositoryChange, contents: impl Iterator<Item = StoredContent>) {
        let mut bytes = change.stored.iter().map(ListEntry::max_encoded_len).sum::<usize>();
        let fits = |content: &StoredContent| {
            bytes += content.max_encoded_len();
            bytes <= MOST_STORED_BYTES
        };
        change.stored.extend(contents.take_while(fits));
    }

    fn stored(&self, way: &[u8], id: &ObjectId) -> StoredContent {
        StoredContent { path: self.trees.path(way), id: id.to_string() }
    }

    /// Removes lost stashes from the findings if all their files are in a working tree or in
    /// commits, as after `git stash pop`. Returns the files of the working trees that have them.
    fn excuse_stashes(
        &self,
        git_dir: &[u8],
        is: &Repository,
        found: &mut Comparison,
    ) -> Result<Vec<(StoredContent, Vec<u8>)>, RepositoryError> {
        let mut keepers = Vec::new();
        if !found.lost_tips.iter().any(|tip| is_stash(&tip.reference)) {
            return Ok(keepers);
        }
        let tips = is.tips()?;
        let linked = self.linked(git_dir).iter().map(|linked| linked.top.as_slice());
        let tops: Vec<&[u8]> = self.main_top(git_dir).into_iter().chain(linked).collect();
        let mut lost = Vec::new();
        for tip in std::mem::take(&mut found.lost_tips) {
            let in_tree = |path: &[u8], _, bytes: &[u8]| {
                let mut ways = tops.iter().map(|top| joined(top, path));
                let way = ways.find(|way| self.has(way, bytes));
                let has = way.is_some();
                keepers.extend(way.map(|way| (self.stored(git_dir, &tip.object), way)));
                has
            };
            if !is_stash(&tip.reference)
                || !is.has_contents_of_stash(&tip.object, &tips, in_tree)?
            {
                lost.push(tip);
            }
        }
        // The stash log only recorded those stashes.
        if !lost.iter().any(|tip| is_stash(&tip.reference)) {
            found.shrunk_logs.retain(|log| !is_stash(log));
        }
        found.lost_tips = lost;
        Ok(keepers)
    }

    /// Returns `true` if the working tree has these bytes at a path after the change.
    fn has(&self, way: &[u8], bytes: &[u8]) -> bool {
        has_bytes(self.trees.after(), way, bytes) && has_bytes(self.trees.kept(), way, bytes)
    }
}

/// Returns `true` if a file or link of a tree has these bytes.
fn has_bytes(tree: TreeView<'_>, way: &[u8], bytes: &[u8]) -> bool {
    if trees::link(tree, way).is_some_and(|target| target == bytes) {
        return true;
    }
    let Ok(file) = trees::file(tree, way) else { return false };
    let mut there = Vec::new();
    let most = bytes.len() as u64 + 1;
    let read = std::fs::File::from(file).take(most).read_to_end(&mut there);
    read.is_ok() && there == bytes
}

fn losses(found: &Comparison) -> Vec<RepositoryLoss> {
    let Comparison {
        lost_tips,
        shrunk_logs,
        deleted_logs: _,
        deleted_branches,
        damaged_references,
        missing_objects,
        missing_packs,
        changed_links,
        new_stashes: _,
    } = found;
    let name = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
    let mut losses = Vec::new();
    losses.extend(lost_tips.iter().take(MOST_LOSSES).map(|tip| RepositoryLoss::Commit {
        reference: name(&tip.reference),
        id: tip.object.to_string(),
    }));
    let deleted = deleted_branches.iter().filter(|branch| !lost_tips.contains(branch));
    losses.extend(deleted.take(MOST_LOSSES).map(|branch| RepositoryLoss::Branch {
        reference: name(&branch.reference),
        id: branch.object.to_string(),
    }));
    losses.extend(shrunk_logs.iter().take(MOST_LOSSES).map(|log| RepositoryLoss::Log(name(log))));
    let damaged = damaged_references.iter().take(MOST_LOSSES);
    losses.extend(damaged.map(|reference| RepositoryLoss::Reference(name(reference))));
    if let Some(example) = missing_objects.first().map(ToString::to_string) {
        losses.push(RepositoryLoss::Objects { count: missing_objects.len() as u64, example });
    }
    if let Some(example) = missing_packs.first().map(name) {
        losses.push(RepositoryLoss::Objects { count: missing_packs.len() as u64, example });
    }
    losses.extend(changed_links.iter().map(|link| RepositoryLoss::Link(name(link))));
    losses
}

/// Returns a path relative to the repository, as git names it.
pub(super) fn in_repository<'w>(top: &[u8], way: &'w [u8]) -> &'w [u8] {
    relative(way, top).filter(|_| !top.is_empty()).unwrap_or(way)
}

/// Returns the path of a lost file, relative to the workspace.
pub(super) fn lost_path(lost: &LostEntry, top: &[u8]) -> Option<Vec<u8>> {
    let Path(path) = lost.spot.path();
    relative(&path, top).map(<[u8]>::to_vec)
}
