//! The process of a cell: `palisade-cell-setup` confines it, and then it serves one session's calls.
//! Here is what runs its programs; `palisade-cell-tools` has its file tools. Runs in the cell, after
//! privilege is gone.
#![forbid(unsafe_code)]

mod freeze;
mod lookup;
mod open_files;
mod overlays;
mod record;
mod run;
mod runner;
mod spare;
mod streams;
mod tree;

pub use palisade_cell_setup::StartIdentity;
pub use run::{CellError, run};
