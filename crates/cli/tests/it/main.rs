//! The built binary, as people and scripts use it.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report, in its helpers too")]

mod bench;
mod caller;
mod crash;
mod descriptors;
mod error_codes;
mod errors;
mod first_day;
mod full_disk;
mod guide;
mod guide_workers;
mod help;
mod home;
mod keys;
mod lost_store;
mod manners;
mod memory_limit;
mod operate_backup;
mod operate_bulk;
mod operate_config;
mod operate_database;
mod operate_deploy;
mod operate_doctor;
mod operate_explain;
mod operate_migrate;
mod operate_prune;
mod operate_retry;
mod operate_rules;
mod pages;
mod queues;
mod runs;
mod rust_client;
mod scraping;
mod secure;
mod serving;
mod submit_from;
mod tls_recipe;
mod tour;
mod traces;
mod verify;
mod work;
mod workers;
