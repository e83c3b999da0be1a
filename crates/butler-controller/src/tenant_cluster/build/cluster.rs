//! The Cluster of Cluster API.

use butler_api::{
    butler::butler_config::ControlPlaneProvider,
    cluster_api::{cluster::Cluster, steward_control_plane::StewardControlPlane},
};
use butler_runtime::object::{Kind, Manifest};
use serde_json::json;

use super::{
    infrastructure::infrastructure, kubeadm_control_plane, metadata, reference, reference_to,
};
use crate::tenant_cluster::{
    Origin,
    blueprint::{Blueprint, ControlPlane},
    kinds,
};

/// The Cluster: its networks, its control plane, its infrastructure.
pub(crate) fn cluster(blueprint: &Blueprint) -> Manifest {
    let mut metadata = metadata(blueprint, &blueprint.name);
    for (name, value) in Origin::annotations(blueprint) {
        metadata["annotations"][name] = json!(value);
    }
    let body = json!({
        "metadata": metadata,
        "spec": {
            "clusterNetwork": {
                "pods": { "cidrBlocks": [blueprint.network.pods] },
                "services": { "cidrBlocks": [blueprint.network.services] },
            },
            "controlPlaneRef": reference_to(&control_plane_kind(blueprint), &blueprint.name),
            "infrastructureRef": reference(&infrastructure(blueprint)),
        },
    });
    Manifest::new(Kind::of::<Cluster>(), body)
}

fn control_plane_kind(blueprint: &Blueprint) -> Kind {
    match &blueprint.control_plane {
        ControlPlane::Standalone(_) => kubeadm_control_plane(),
        ControlPlane::Hosted(hosted) => match hosted.provider {
            ControlPlaneProvider::Steward => Kind::of::<StewardControlPlane>(),
            ControlPlaneProvider::Kamaji => kinds::kamaji_control_plane(),
        },
    }
}
