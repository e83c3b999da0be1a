//! Butler's kinds as the world meets them: against the tables of fields that must be accepted, and on a real API server.

#![expect(
    clippy::panic,
    reason = "a test that cannot go on ends with a panic that says why"
)]

mod compatibility;
mod examples;
mod manifests;
mod refusals;
mod source;

use std::sync::LazyLock;

use butler_api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Every definition, made once: without optimisation that takes seconds.
static DEFINITIONS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(crds::all);

/// The definition of a kind.
fn definition(kind: &str) -> &'static CustomResourceDefinition {
    DEFINITIONS
        .iter()
        .find(|definition| definition.spec.names.kind == kind)
        .unwrap_or_else(|| panic!("no definition of the kind {kind}"))
}
