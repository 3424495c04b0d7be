//! Finds out what a git repository keeps, by comparing bytes and not names. Every byte of a
//! repository may be hostile. Runs in the cell, in a confined process without privilege.
//!
//! Nothing is executed, no symbolic link is followed, and no file outside the repository's own
//! directory is opened. Alternates, `gitdir:` links, replacements, grafts, commit graphs,
//! multi-pack indexes and promisor packs never make anything count as kept. The work is limited by
//! [`Bounds`].

mod author;
mod bounds;
mod commit_graph;
mod compare;
mod configuration;
mod contents;
mod delta;
mod directory;
mod error;
mod harmless;
mod head;
mod history;
mod inflate;
mod keep;
mod log;
mod missing;
mod object;
mod pack;
mod pack_index;
mod references;
mod repository;
mod search;
mod staged;
mod stored;
mod tips;

pub use author::CommitAuthor;
pub use bounds::Bounds;
pub use compare::{
    Comparison, LossReason, LostStagedBlob, LostTip, ObjectChanges, compare, lost_staged,
};
pub use configuration::{Configuration, ConfigurationKey, ConfigurationValues};
pub use error::RepositoryError;
pub use gix_hash::ObjectId;
pub use head::{HeadTree, paths_gone_from_head};
pub use keep::{CommittedBlob, ContentQuery, KeepAnswer, NotKeptReason};
pub use log::{LogEntry, ReferenceLog};
pub use repository::{Repository, read_index, read_index_file};
pub use search::FileType;
pub use staged::{StagedEntry, StagedType, StagingIndex};
pub use tips::{Tips, is_stash};
