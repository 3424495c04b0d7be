//! The file tools of a session: reading, searching, changing and committing files, and the search
//! for hidden names. All of it runs in the cell after privilege is gone, and reads what the
//! session's programs wrote.
#![forbid(unsafe_code)]

pub mod change_time;
pub mod files;
pub mod git_author;
pub mod usage;

mod change_parts;
mod hidden;
mod tools;
