//! The project's checks of itself: the house rules, the lints, and pages that name what there is.

mod collectors;
mod escapes;
mod house;
mod pages;
mod programs;
