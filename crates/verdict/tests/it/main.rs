//! Tests of the rules through their public interface: one module per request, then all of them
//! together.

mod allowance;
mod backoff;
mod bounds;
mod cancel;
mod explain;
mod extend;
mod grant;
mod hand_backs;
mod heartbeat;
mod matrix;
mod order;
mod properties;
mod record;
mod release;
mod report;
mod rules;
mod stall;
mod started;
mod submit;
mod sweep;
mod token_grace;
mod transitions;
mod world;
