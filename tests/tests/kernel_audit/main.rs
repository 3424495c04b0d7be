//! Denials by the kernel's own records. A program of its own: its tests turn the audit of the
//! host on and off, which a daemon of any other test would notice.

mod audit_setting;
mod denials;
mod refusals;
mod why;
