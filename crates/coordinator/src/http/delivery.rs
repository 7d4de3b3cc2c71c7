//! An answer with leases that detects when it was not delivered.
//!
//! If the worker disconnects before the first byte of the answer was requested, the grants are
//! released at once as undelivered, so that the next poll gets the tasks without waiting for lease
//! expiry.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use store::TaskKey;
use verdict::LeaseId;

use crate::coordinator::Coordinator;
use crate::item::Granted;

pub(super) struct Delivery {
    coordinator: Arc<Coordinator>,
    grants: Vec<(TaskKey, LeaseId)>,
    /// `None` once the connection has requested it.
    answer: Option<Bytes>,
}

impl Delivery {
    pub(super) fn new(
        coordinator: Arc<Coordinator>,
        granted: Vec<Granted>,
        answer: Vec<u8>,
    ) -> Self {
        let grants = granted.iter().map(|granted| (granted.key(), granted.lease())).collect();
        Self { coordinator, grants, answer: Some(answer.into()) }
    }
}

impl http_body::Body for Delivery {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        faultpoint::point!("grants.leaving");
        Poll::Ready(self.answer.take().map(|answer| Ok(Frame::data(answer))))
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.answer.as_ref().map_or(0, |answer| answer.len() as u64))
    }
}

impl Unpin for Delivery {}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.answer.is_some() {
            self.coordinator.release(std::mem::take(&mut self.grants));
        }
    }
}

impl IntoResponse for Delivery {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::new(self));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}
