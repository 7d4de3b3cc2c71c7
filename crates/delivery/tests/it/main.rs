//! The guard against hostile addresses, and calls to hostile receivers.

mod hostile_dns;
mod hostile_urls;
mod receivers;
mod retry_after;
mod slow_dns;
mod support;
