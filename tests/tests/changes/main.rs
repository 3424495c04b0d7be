//! The changes of commands: held in transactions, judged, committed, lost only if approved, undone.

mod appends;
mod autonomous;
mod contests;
mod cuts;
mod destruction;
mod everyday;
mod interrupted;
mod job_commits;
mod lines;
mod losing;
mod losing_doors;
mod ordinary;
mod overlays;
mod plants;
mod routes;
mod sequences;
mod shared_workspaces;
mod stored;
mod transactions;
mod undo;
mod undo_keep;
mod unguarded;
mod unreadable;
mod watching;
mod worktrees;
