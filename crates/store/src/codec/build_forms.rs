//! The stored form of builds, field by field.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::{Build, Name};

use super::scalars::as_text;

#[derive(Serialize, Deserialize)]
#[serde(remote = "Build")]
struct BuildForm {
    #[serde(with = "as_text")]
    id: Name,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pins: bool,
}

super::budget_forms::optional_box!(optional_build, Build, "BuildForm");
