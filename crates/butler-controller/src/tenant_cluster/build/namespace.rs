//! The namespace of a tenant cluster.

use butler_api::{
    butler::butler_config::ControlPlaneProvider,
    keys::{annotations, labels},
};
use butler_runtime::object::{Kind, Manifest};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::json;

use crate::tenant_cluster::blueprint::{Blueprint, ControlPlane};

/// Pods without any right of their host and without root.
const RESTRICTED: &str = "restricted";

/// Pods without rights of their host.
const BASELINE: &str = "baseline";

/// The namespace. Only control planes run there: those of Steward keep the strictest level, those of Kamaji run as whoever their
/// images say. Of both nothing is ever privileged.
pub(crate) fn namespace(blueprint: &Blueprint) -> Manifest {
    let level = match &blueprint.control_plane {
        ControlPlane::Hosted(hosted) if hosted.provider == ControlPlaneProvider::Kamaji => BASELINE,
        _ => RESTRICTED,
    };
    let mut found = blueprint.labels.clone();
    let levels = [
        (labels::POD_SECURITY_ENFORCE, level),
        (labels::POD_SECURITY_AUDIT, RESTRICTED),
        (labels::POD_SECURITY_WARN, RESTRICTED),
    ];
    found.extend(levels.map(|(key, level)| (key.to_owned(), level.to_owned())));
    let mut notes = blueprint.annotations.clone();
    notes.insert(
        annotations::DESCRIPTION.to_owned(),
        format!("Objects of the tenant cluster {}", blueprint.source),
    );
    let body = json!({
        "metadata": { "name": blueprint.namespace, "labels": found, "annotations": notes },
    });
    Manifest::new(Kind::of::<Namespace>(), body)
}
