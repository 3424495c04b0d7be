//! Calls: the tools, their output and their jobs, and ordinary development inside.

mod background;
mod credentials;
mod development;
mod edits;
mod egress_clients;
mod endings;
mod fenced;
mod files;
mod frameworks;
mod inspected_hosts;
mod jobs;
mod large;
mod learn;
mod many;
mod mcp;
mod mcp_http;
mod output;
mod providers;
mod python;
mod search;
mod session_tools;
mod shell;
mod spare_shells;
mod terminals;
mod trees;
