//! Makes the `TenantControlPlane` of a control plane: every field of the one is a field of the other.
//!
//! A field that the control plane leaves open is left out, so that defaults, and what others wrote into it, stay.

use std::collections::BTreeMap;

use butler_api::{
    cluster_api::{
        cluster::ClusterNetwork,
        steward_control_plane::{
            ControlPlaneSettings, StewardControlPlane,
            settings::{
                ComponentSettings, ControlPlaneNetwork, GatewaySettings, IngressSettings,
                LoadBalancerSettings,
            },
        },
    },
    keys::{annotations, groups, labels},
    steward::{
        addons::Addons,
        deployment::{
            ComponentArguments, ComponentResources, ComponentVolumeMounts, ControlPlaneDeployment,
            RegistrySettings,
        },
        exposure::AdditionalMetadata,
        tenant_control_plane::{
            ControlPlane, ControlPlaneGateway, ControlPlaneIngress, ControlPlaneService,
            KubernetesSettings, NetworkProfile, TenantControlPlane, TenantControlPlaneSpec,
            WritePermissions,
        },
    },
};
use butler_runtime::object::{Kind, Manifest, ObjectKey};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::tenant::TenantSight;

/// What kubectl leaves on objects that it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Labels that say whom an object was made for: those of the one are not those of the other.
const OWN_LABELS: [&str; 3] = [labels::MANAGED_BY, labels::OWNER_UID, labels::OWNER_KIND];
/// Annotations that are about the control plane object alone. Which kubeconfig Cluster API gets does not say as whom Steward enters
/// the tenant.
const OWN_ANNOTATIONS: [&str; 4] = [
    LAST_APPLIED,
    annotations::CLUSTER_API_PAUSED,
    annotations::PAUSED,
    annotations::STEWARD_KUBECONFIG_SECRET_KEY,
];

/// The name that a control plane has in another cluster, where several management clusters may put theirs.
pub(super) fn name_elsewhere(control_plane: &StewardControlPlane) -> String {
    format!("kcp-{}", control_plane.uid().unwrap_or_default())
}

/// The `TenantControlPlane` at a key. In the same cluster it belongs to the control plane, and goes with it.
pub(super) fn tenant(
    control_plane: &StewardControlPlane,
    cluster: (&ObjectKey, &ClusterNetwork),
    key: &ObjectKey,
    is_here: bool,
    existing: Option<&TenantSight>,
) -> Manifest {
    let (cluster, network) = cluster;
    let mut labels = without(control_plane.labels(), &OWN_LABELS);
    labels.insert(labels::CLUSTER_API_CLUSTER.to_owned(), cluster.name.clone());
    let mut metadata = json!({ "name": key.name, "namespace": key.namespace, "labels": labels });
    let annotations = without(control_plane.annotations(), &OWN_ANNOTATIONS);
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    if is_here {
        metadata["ownerReferences"] = json!([owner_reference(control_plane)]);
    }
    let mut spec = json!(spec(control_plane, network, existing));
    if control_plane.spec.settings.admission_controllers.is_empty()
        && let Some(kubernetes) = spec["kubernetes"].as_object_mut()
    {
        kubernetes.remove("admissionControllers");
    }
    let body = json!({ "metadata": metadata, "spec": spec });
    Manifest::new(Kind::of::<TenantControlPlane>(), body)
}

/// Says that an object is there because of a control plane.
pub(super) fn owner_reference(control_plane: &StewardControlPlane) -> Value {
    json!({
        "apiVersion": groups::CONTROL_PLANE_API_VERSION,
        "kind": StewardControlPlane::kind(&()),
        "name": control_plane.name_any(),
        "uid": control_plane.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

fn without(texts: &BTreeMap<String, String>, names: &[&str]) -> BTreeMap<String, String> {
    let texts = texts.iter();
    texts
        .filter(|(name, _)| !names.contains(&name.as_str()))
        .map(|(name, text)| (name.clone(), text.clone()))
        .collect()
}

fn filled(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

fn spec(
    control_plane: &StewardControlPlane,
    network: &ClusterNetwork,
    existing: Option<&TenantSight>,
) -> TenantControlPlaneSpec {
    let settings = &control_plane.spec.settings;
    let version = &control_plane.spec.version;
    // A store that was chosen once cannot be taken away, only exchanged.
    let chosen = existing.and_then(|existing| existing.data_store.clone());
    TenantControlPlaneSpec {
        control_plane: ControlPlane {
            deployment: deployment(settings, control_plane.spec.replicas),
            service: ControlPlaneService {
                service_type: settings.network.service_type,
                additional_metadata: metadata(
                    &settings.network.service_labels,
                    &settings.network.service_annotations,
                ),
                additional_ports: Vec::new(),
            },
            ingress: settings.network.ingress.as_ref().map(ingress),
            gateway: settings.network.gateway.as_ref().map(gateway),
        },
        kubernetes: KubernetesSettings {
            version: format!("v{}", version.trim_start_matches('v')),
            kubelet: settings.kubelet.clone(),
            admission_controllers: settings.admission_controllers.clone(),
        },
        network_profile: profile(settings, network),
        addons: addons(settings),
        data_store: filled(settings.data_store_name.as_ref()).or(chosen),
        data_store_schema: filled(settings.data_store_schema.as_ref()),
        data_store_username: filled(settings.data_store_username.as_ref()),
        data_store_overrides: Vec::new(),
        write_permissions: WritePermissions::default(),
    }
}

fn deployment(settings: &ControlPlaneSettings, replicas: i32) -> ControlPlaneDeployment {
    let components = [
        &settings.api_server,
        &settings.controller_manager,
        &settings.scheduler,
    ];
    let [api_server, controller_manager, scheduler] =
        components.map(|component| component.clone().unwrap_or_default());
    let kine = settings.kine.clone().unwrap_or_default();
    let usual = RegistrySettings::default();
    let image = |component: &ComponentSettings, usual: String| {
        filled(component.container_image_name.as_ref()).unwrap_or(usual)
    };
    let registry_settings = RegistrySettings {
        registry: settings.registry.clone(),
        tag_suffix: None,
        api_server_image: image(&api_server, usual.api_server_image),
        controller_manager_image: image(&controller_manager, usual.controller_manager_image),
        scheduler_image: image(&scheduler, usual.scheduler_image),
    };
    let resources = ComponentResources {
        api_server: api_server.resources,
        controller_manager: controller_manager.resources,
        scheduler: scheduler.resources,
        kine: kine.resources,
    };
    let arguments = ComponentArguments {
        api_server: api_server.extra_args,
        controller_manager: controller_manager.extra_args,
        scheduler: scheduler.extra_args,
        kine: kine.extra_args,
    };
    let mounts = ComponentVolumeMounts {
        api_server: api_server.extra_volume_mounts,
        controller_manager: controller_manager.extra_volume_mounts,
        scheduler: scheduler.extra_volume_mounts,
    };
    let pods = &settings.deployment;
    ControlPlaneDeployment {
        registry_settings,
        replicas,
        placement: pods.placement.clone(),
        resources: unless_empty(resources),
        extra_args: unless_empty(arguments),
        additional_init_containers: pods.extra_init_containers.clone(),
        additional_containers: pods.extra_containers.clone(),
        additional_volumes: pods.extra_volumes.clone(),
        additional_volume_mounts: unless_empty(mounts),
    }
}

fn unless_empty<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

fn metadata(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Option<AdditionalMetadata> {
    unless_empty(AdditionalMetadata {
        labels: labels.clone(),
        annotations: annotations.clone(),
    })
}

fn ingress(ingress: &IngressSettings) -> ControlPlaneIngress {
    ControlPlaneIngress {
        ingress_class_name: ingress.class_name.clone(),
        hostname: Some(ingress.hostname.clone()),
        controller_type: ingress.controller_type,
        additional_metadata: metadata(&ingress.extra_labels, &ingress.extra_annotations),
    }
}

fn gateway(gateway: &GatewaySettings) -> ControlPlaneGateway {
    ControlPlaneGateway {
        parent_refs: gateway.parent_refs.clone(),
        hostname: Some(gateway.hostname.clone()),
        additional_metadata: metadata(&gateway.extra_labels, &gateway.extra_annotations),
    }
}

fn profile(settings: &ControlPlaneSettings, cluster: &ClusterNetwork) -> NetworkProfile {
    let network: &ControlPlaneNetwork = &settings.network;
    let usual = NetworkProfile::default();
    let ranges = |blocks: &[String], usual: String| {
        if blocks.is_empty() {
            usual
        } else {
            blocks.join(",")
        }
    };
    let core_dns = settings.addons.core_dns.as_ref();
    let core_dns = core_dns.filter(|core_dns| !core_dns.dns_service_ips.is_empty());
    let LoadBalancerSettings {
        load_balancer_source_ranges,
        load_balancer_class,
    } = network.load_balancer_config.clone().unwrap_or_default();
    NetworkProfile {
        address: filled(network.service_address.as_ref()),
        allow_address_as_external_ip: false,
        port: cluster
            .api_server_port
            .filter(|port| *port > 0)
            .unwrap_or(usual.port),
        cert_sans: network.cert_sans.clone(),
        cluster_domain: filled(cluster.service_domain.as_ref()).unwrap_or(usual.cluster_domain),
        service_cidr: ranges(&cluster.services.cidr_blocks, usual.service_cidr),
        pod_cidr: ranges(&cluster.pods.cidr_blocks, usual.pod_cidr),
        dns_service_ips: core_dns.map_or_else(
            || network.dns_service_ips.clone(),
            |core_dns| core_dns.dns_service_ips.clone(),
        ),
        load_balancer_source_ranges,
        load_balancer_class,
    }
}

fn addons(settings: &ControlPlaneSettings) -> Addons {
    let addons = &settings.addons;
    Addons {
        core_dns: addons
            .core_dns
            .as_ref()
            .map(|core_dns| core_dns.image.clone()),
        kube_proxy: addons.kube_proxy.clone(),
        konnectivity: addons.konnectivity.clone(),
        tcp_proxy: addons.tcp_proxy.clone(),
        worker_bootstrap: addons.worker_bootstrap.clone(),
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
