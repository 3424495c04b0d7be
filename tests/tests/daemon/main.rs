//! The daemon: its rooms, users, configuration and clock, and sessions that outlive connections.

mod clock;
mod configuration;
mod degraded;
mod door;
mod hostile_mutations;
mod hostile_plans;
mod hostile_requests;
mod linger;
mod log_export;
mod metrics;
mod one_call;
mod peers;
mod queries;
mod reload;
mod resume;
mod roles;
mod rooms;
mod taken_over;
mod throwaway;
