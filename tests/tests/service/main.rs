//! The service as it is installed, most of it in a systemd booted for the test.

mod egress_credentials;
mod launcher_user;
mod package;
mod places;
mod service;
mod service_life;
