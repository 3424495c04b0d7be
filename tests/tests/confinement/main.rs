//! The reach of a session and its programs, by each layer and by all of them.

mod attributes;
mod commands;
mod egress_rooms;
mod guarded;
mod hidden;
mod host_services;
mod identity;
mod layers;
mod leaks;
mod listeners;
mod neighbours;
mod network;
mod paths;
mod planted;
mod ports;
mod processes;
mod profiles;
mod proof;
mod published;
mod races;
mod removal;
mod resources;
mod rights;
mod sockets;
mod syscalls;
