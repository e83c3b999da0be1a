//! Where objects of ours can be in a tenant, and which of them are watched. Pure.
//!
//! A kind that the tenant's API servers do not serve is nowhere: to ask for it would fail, and with it every look.

use butler_api::version::KubernetesVersion;
use butler_runtime::object::Kind;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};

use crate::build::versions::has_policies;
use crate::desired::DesiredObject;
use crate::object::{KUBE_PUBLIC, KUBE_SYSTEM};

/// A kind, and where its objects are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The kind.
    pub kind: Kind,
    /// The namespace; absent if its objects are in none.
    pub namespace: Option<&'static str>,
}

/// Every kind we write, and where. Kinds that live in many namespaces are looked at in ours alone.
pub(crate) fn places(version: &KubernetesVersion) -> Vec<Place> {
    let system = Some(KUBE_SYSTEM);
    let public = Some(KUBE_PUBLIC);
    let mut all = vec![
        (Kind::of::<ConfigMap>(), system),
        (Kind::of::<ServiceAccount>(), system),
        (Kind::of::<Service>(), system),
        (Kind::of::<Deployment>(), system),
        (Kind::of::<DaemonSet>(), system),
        (Kind::of::<Role>(), system),
        (Kind::of::<RoleBinding>(), system),
        (Kind::of::<ConfigMap>(), public),
        (Kind::of::<Role>(), public),
        (Kind::of::<RoleBinding>(), public),
        (Kind::of::<ClusterRole>(), None),
        (Kind::of::<ClusterRoleBinding>(), None),
    ];
    if has_policies(version) {
        all.push((Kind::of::<ValidatingAdmissionPolicy>(), None));
        all.push((Kind::of::<ValidatingAdmissionPolicyBinding>(), None));
    }
    let place = |(kind, namespace)| Place { kind, namespace };
    all.into_iter().map(place).collect()
}

/// Where somebody who takes an object away does harm at once: policies, without which all writes pass, and what runs. A watch
/// costs a connection, so that the rest is looked at now and then.
pub(crate) fn watched(places: &[Place], objects: &[DesiredObject]) -> Vec<Place> {
    let kinds = [
        Kind::of::<ValidatingAdmissionPolicy>(),
        Kind::of::<ValidatingAdmissionPolicyBinding>(),
        Kind::of::<Deployment>(),
        Kind::of::<DaemonSet>(),
    ];
    let is_used = |place: &&Place| {
        let mut objects = objects.iter().map(|object| &object.manifest);
        objects.any(|manifest| {
            manifest.kind == place.kind && manifest.key.namespace.as_deref() == place.namespace
        })
    };
    let places = places.iter().filter(|place| kinds.contains(&place.kind));
    places.filter(is_used).cloned().collect()
}
