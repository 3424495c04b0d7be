//! The checkpoint: questions to people and programs before something is done, and to nobody else.
//! Broker.

pub(crate) mod answer;
mod changes;
pub(crate) mod consult;
pub(crate) mod desk;
pub(crate) mod effects;
pub(crate) mod grants;
pub(crate) mod inquiry;
mod open;
pub(crate) mod poll;
pub(crate) mod question;
pub(crate) mod review;
pub(crate) mod verdict;
pub(crate) mod view;
pub(crate) mod visible;
