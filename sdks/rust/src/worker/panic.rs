//! Turns a panic in a task's code into a failure that names its location.
//!
//! Only the process-wide panic hook knows the location of a panic. Our hook wraps the existing one,
//! records only panics inside a task, and passes every panic on.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Once;

use futures_util::FutureExt;
use workflow::Failure;

tokio::task_local! {
    static PANIC_LOCATION: RefCell<Option<String>>;
}

static HOOK: Once = Once::new();

/// The task's own result, or its panic as USER_CODE.
pub(crate) async fn catch_panic<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    HOOK.call_once(install_panic_hook);
    PANIC_LOCATION
        .scope(RefCell::new(None), async {
            let ended = AssertUnwindSafe(work).catch_unwind().await;
            ended.unwrap_or_else(|panic| Err(failure(&*panic, PANIC_LOCATION.with(RefCell::take))))
        })
        .await
}

fn install_panic_hook() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let location = panic.location().map(|location| format!("panicked at {location}"));
        // Outside a task the cell does not exist, and the panic does not concern us.
        let _ = PANIC_LOCATION.try_with(|cell| cell.replace(location));
        before(panic);
    }));
}

fn failure(panic: &(dyn Any + Send), location: Option<String>) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let message = text.unwrap_or_else(|| "a value that is not text".to_owned());
    let error = Failure::user_code(format!("panicked: {message}"));
    match location {
        Some(location) => error.with_stack_trace(location),
        None => error,
    }
}
