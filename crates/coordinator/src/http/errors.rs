//! `GET /errors/{page}`: what an error code means, from the server that sent it.

use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use wire::Code;

use super::api_error::ApiError;

pub(super) async fn explain(Path(page): Path<String>) -> Result<impl IntoResponse, ApiError> {
    let missing = || ApiError::new(Code::NotFound, "no error code has this name");
    // People paste the code as it is printed, and its page has hyphens.
    let code = Code::of_page(&page.replace('_', "-")).ok_or_else(missing)?;
    Ok(([(CONTENT_TYPE, "text/markdown; charset=utf-8")], code.explanation()))
}
