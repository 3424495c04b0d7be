//! Approval: who is asked, who answers, who watches, and what the log says of it.

mod afar;
mod approvals;
mod approvers;
mod audit;
mod checkpoints;
mod crashes;
mod misdeeds;
mod observe;
mod observers;
mod quorum;
mod remembered_losses;
mod suggest;
mod watch;
