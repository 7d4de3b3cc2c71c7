//! The built binary, as people and scripts use it.

mod errors;
mod help;
mod home;
mod runs;
mod serving;
mod tour;
mod verify;
mod work;
