//! The built binary, as people and scripts use it.

mod crash;
mod errors;
mod full_disk;
mod guide;
mod help;
mod home;
mod runs;
mod serving;
mod tour;
mod verify;
mod work;
