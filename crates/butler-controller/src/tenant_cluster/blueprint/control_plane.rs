//! The control plane: who runs it, how it is reached, how large it is.

use butler_api::{
    butler::{
        butler_config::ControlPlaneProvider,
        control_plane_exposure::{ControlPlaneExposure, ExposureMode},
        control_plane_resources::ControlPlaneResources,
        provider_config::Provider,
        tenant_cluster::{ControlPlaneMode, ControlPlaneServiceType, TenantClusterControlPlane},
    },
    keys::names,
    steward::exposure::ServiceType,
};
use butler_runtime::object::ObjectKey;
use kube::ResourceExt;

use super::{
    ControlPlane, Exposure, Hosted, Hosts, Standalone,
    machines::{self, Role},
    resolve::Case,
};

pub(super) fn resolve(case: &mut Case<'_>, namespace: &str) -> Option<ControlPlane> {
    let wish = case.cluster.spec.control_plane.clone().unwrap_or_default();
    match wish.mode {
        ControlPlaneMode::Hosted => {
            let found = hosted(case, &wish, namespace);
            found.map(Box::new).map(ControlPlane::Hosted)
        }
        ControlPlaneMode::Standalone => standalone(case, &wish).map(ControlPlane::Standalone),
    }
}

fn hosted(
    case: &mut Case<'_>,
    wish: &TenantClusterControlPlane,
    namespace: &str,
) -> Option<Hosted> {
    let settled = &case.surroundings.settled;
    let provider = settled.host.unwrap_or(case.config.control_plane_provider);
    let exposure = settled.exposure.as_ref();
    let exposure = exposure.or(case.config.control_plane_exposure.as_ref());
    let exposure = exposure.cloned().unwrap_or_default();
    if provider == ControlPlaneProvider::Kamaji {
        beyond_kamaji(case, exposure.mode);
    }
    let service_type = wish
        .service_type
        .map_or_else(|| usual_service(exposure.mode), service_type);
    let data_store = wish.data_store_ref.as_ref();
    let data_store = data_store.map_or(names::DEFAULT_DATA_STORE, |store| store.name.as_str());
    Some(Hosted {
        provider,
        replicas: case.reading.control_plane_replicas,
        data_store: data_store.to_owned(),
        service_type,
        exposure: reached(case, &exposure, namespace)?,
        exposed: exposure,
        certificate_names: wish.cert_sans.clone(),
        resources: resources(
            wish.resources.as_ref(),
            case.config.default_control_plane_resources.as_ref(),
        ),
    })
}

/// What Kamaji's kinds have no words for.
fn beyond_kamaji(case: &mut Case<'_>, mode: ExposureMode) {
    if case.provider() == Provider::Local {
        case.refuse(
            "Kamaji cannot give machines of this host the kube-proxy configuration that they need: set \
             spec.controlPlaneProvider of the ButlerConfig to steward, or use another provider",
        );
    }
    if mode == ExposureMode::Gateway {
        case.refuse(
            "Kamaji knows no Gateway: set spec.controlPlaneProvider of the ButlerConfig to steward, or \
             spec.controlPlaneExposure.mode to LoadBalancer or Ingress",
        );
    }
}

fn usual_service(mode: ExposureMode) -> ServiceType {
    match mode {
        ExposureMode::LoadBalancer => ServiceType::LoadBalancer,
        ExposureMode::Ingress | ExposureMode::Gateway => ServiceType::ClusterIP,
    }
}

fn service_type(wish: ControlPlaneServiceType) -> ServiceType {
    match wish {
        ControlPlaneServiceType::LoadBalancer => ServiceType::LoadBalancer,
        ControlPlaneServiceType::NodePort => ServiceType::NodePort,
        ControlPlaneServiceType::ClusterIP => ServiceType::ClusterIP,
    }
}

fn reached(
    case: &mut Case<'_>,
    exposure: &ControlPlaneExposure,
    namespace: &str,
) -> Option<Exposure> {
    match exposure.mode {
        ExposureMode::LoadBalancer => Some(Exposure::Service),
        ExposureMode::Ingress => Some(Exposure::Ingress {
            hosts: hosts(case, exposure, namespace)?,
            class: exposure.ingress_class_name.clone(),
            controller: exposure.controller_type,
        }),
        ExposureMode::Gateway => {
            let gateway = exposure.gateway_ref.as_deref().unwrap_or_default();
            let Some((place, name)) = gateway.split_once('/') else {
                case.refuse(
                    "spec.controlPlaneExposure.gatewayRef of the ButlerConfig names no Gateway: write it as namespace/name",
                );
                return None;
            };
            Some(Exposure::Gateway {
                hosts: hosts(case, exposure, namespace)?,
                gateway: ObjectKey::namespaced(place, name),
            })
        }
    }
}

fn hosts(case: &mut Case<'_>, exposure: &ControlPlaneExposure, namespace: &str) -> Option<Hosts> {
    let domain = exposure.hostname.as_deref().unwrap_or_default();
    let domain = domain.strip_prefix("*.").unwrap_or(domain);
    if domain.is_empty() {
        case.refuse(
            "spec.controlPlaneExposure.hostname of the ButlerConfig is not set: clusters behind an Ingress or a Gateway \
             get their names below it; set it to a domain such as *.k8s.example.com",
        );
        return None;
    }
    let api = format!("{}.{namespace}.{domain}", case.cluster.name_any());
    let Some(address) = case.surroundings.exposure_address.clone() else {
        case.wait(
            "the Ingress controller or Gateway before hosted control planes has no address yet; nodes need it to find \
             their API server",
        );
        return None;
    };
    Some(Hosts {
        // The rule by which Steward names the server of the reverse tunnel.
        tunnel: api.replacen(".k8s.", ".konnectivity.", 1),
        api,
        address,
    })
}

/// Each component has what the cluster says of it, else what the platform says.
fn resources(
    cluster: Option<&ControlPlaneResources>,
    platform: Option<&ControlPlaneResources>,
) -> ControlPlaneResources {
    let cluster = cluster.cloned().unwrap_or_default();
    let platform = platform.cloned().unwrap_or_default();
    ControlPlaneResources {
        api_server: cluster.api_server.or(platform.api_server),
        controller_manager: cluster.controller_manager.or(platform.controller_manager),
        scheduler: cluster.scheduler.or(platform.scheduler),
    }
}

fn standalone(case: &mut Case<'_>, wish: &TenantClusterControlPlane) -> Option<Standalone> {
    let template = wish.machine_template.as_ref();
    let machine = machines::resolve(case, template, &Role::ControlPlane)?;
    Some(Standalone {
        replicas: case.reading.control_plane_replicas,
        endpoint: case.surroundings.endpoint.clone(),
        machine: machine.machine,
        system: machine.system,
        ssh_authorized_key: machine.ssh_authorized_key,
        certificate_names: wish.cert_sans.clone(),
    })
}
