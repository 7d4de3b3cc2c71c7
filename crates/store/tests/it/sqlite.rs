//! What only the SQLite engine promises: files, locks, commits and the loss of power.

mod basics;
mod disk;
mod play;
mod power;
mod vfs;
