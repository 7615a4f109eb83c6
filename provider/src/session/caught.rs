//! What becomes of a statement that the engine's planner panics at?
//!
//! An error like any other: a mistyped statement ends neither a shell nor the process that a session is part of. What is
//! known to make it panic is refused by name before (`sql::refused`); this is for what is not known.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures::FutureExt;

use crate::error::{Code, Error, Result};

/// What `planning` comes to, or `internal` where it panics. Planning changes nothing that a later statement sees half done:
/// what it loads is dropped with it.
///
/// Boxed, since planning takes much room, which would be taken again on the stack for every layer around it.
pub(super) async fn caught<T>(planning: Pin<Box<impl Future<Output = Result<T>>>>) -> Result<T> {
    match AssertUnwindSafe(planning).catch_unwind().await {
        Ok(planned) => planned,
        Err(panic) => Err(Error::new(Code::Internal, "the engine failed while it planned the statement")
            .with("because", message(panic.as_ref()))
            .help("write the statement in another way, and report this one")),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it does not say")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error() {
        assert_eq!(caught(Box::pin(async { Ok(5) })).await.unwrap(), 5);
        let list: Vec<i32> = Vec::new();
        let error = caught(Box::pin(async { Ok(list[0]) })).await.unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert!(error.to_string().contains("index out of bounds"), "{error}");
        let error =
            caught(Box::pin(async { if list.is_empty() { panic!("at {}", 7) } else { Ok(()) } })).await.unwrap_err();
        assert!(error.to_string().contains("at 7"), "{error}");
    }
}
