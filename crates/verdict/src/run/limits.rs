//! How much one run, one call and one wait may hold.

use crate::time::Span;

/// Maximum bytes of one step's result, and of one signal's payload. Larger results belong into an object store, with
/// their address as the result: every attempt reads all results again.
pub const RESULT_MAX: usize = 256 * 1024;

/// Maximum steps in one call: with results of the largest size one call is 25 MiB.
pub const STEPS_PER_CALL_MAX: usize = 100;

/// Maximum children in one call: each is a task that the same batch creates, and a batch decides 1,000 messages.
pub const CHILDREN_PER_CALL_MAX: usize = 500;

/// Maximum steps of one task. With savepoints, so many steps still resume at once.
pub const STEPS_MAX: u32 = 1_000_000;

/// Maximum live children of one task: each of them is a history entry of its parent when it ends.
pub const CHILDREN_MAX: u32 = 10_000;

/// Maximum items of one wait: as many as there can be children, so that one wait can name all of them.
pub const WAIT_ITEMS_MAX: usize = CHILDREN_MAX as usize;

/// Maximum signals that a task has not taken, and their bytes. They are loaded together when the task waits.
pub const SIGNALS_MAX: u32 = 1_000;
pub const SIGNAL_BYTES_MAX: u32 = 1024 * 1024;

/// How long a wait lasts if its call sets no other limit. A wait without end would keep its run for ever.
pub const WAIT_DEFAULT: Span = Span::from_secs(30 * 24 * 60 * 60);

/// How many children one decision of a closing task cancels: one batch must not be all about one run.
pub const SLICE_MAX: usize = 500;

/// How many failures and lost workers a task may have in all, those before its last new checkpoint included. A task that
/// makes progress may fail again and again, but not for ever.
pub const SETBACKS_MAX: u32 = 100;
