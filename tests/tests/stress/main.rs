//! Load, faults and crowds. A program of its own: it raises its limit of descriptors, and `tests/endure`
//! has long forms of these.

mod chaos;
mod crowd;
mod exhaustion;
mod floods;
mod hostile;
mod lifecycle;
mod load;
mod retention;
mod scheduling;
mod wire;
