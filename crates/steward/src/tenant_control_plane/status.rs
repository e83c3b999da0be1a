//! What a control plane shows of itself: the pieces, each with the time at which it last changed.

use butler_api::steward::{
    exposure::ServiceType,
    tenant_control_plane::{
        TenantControlPlane,
        status::{
            CertificateStates, KubeconfigStates, SecretState,
            resources::{
                AccessPoint, DeploymentState, GatewayState, IngressState, RouteReference,
                ServiceState,
            },
        },
    },
};
use butler_runtime::conditions::whole_seconds;
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::LoadBalancerStatus, apimachinery::pkg::apis::meta::v1::Time};

use super::observe::World;
use crate::{
    addresses::{konnectivity_host, public_host},
    foreign_routes::RouteFacts,
    names::{Names, SecretRole},
    projections::DeploymentFacts,
};

/// A time as Kubernetes keeps it.
pub(super) fn time(now: Timestamp) -> Time {
    Time(whole_seconds(now))
}

/// A Secret, and when its content last changed.
pub(super) fn secret_state(
    world: &World,
    role: SecretRole,
    before: Option<&SecretState>,
    now: Timestamp,
) -> Option<SecretState> {
    let seen = world.secrets.get(&role)?;
    let checksum = Some(seen.value.checksum.clone());
    let same = before.filter(|before| before.checksum == checksum);
    Some(SecretState {
        secret_name: Some(seen.facts.key.name.clone()),
        last_update: same.map_or_else(|| Some(time(now)), |before| before.last_update.clone()),
        checksum,
    })
}

pub(super) fn certificates(
    world: &World,
    before: Option<&CertificateStates>,
    now: Timestamp,
) -> CertificateStates {
    let state = |role, before: Option<&SecretState>| secret_state(world, role, before, now);
    let was = |pick: fn(&CertificateStates) -> Option<&SecretState>| before.and_then(pick);
    CertificateStates {
        ca: state(SecretRole::Authority, was(|states| states.ca.as_ref())),
        api_server: state(
            SecretRole::ApiServer,
            was(|states| states.api_server.as_ref()),
        ),
        api_server_kubelet_client: state(
            SecretRole::KubeletClient,
            was(|states| states.api_server_kubelet_client.as_ref()),
        ),
        front_proxy_ca: state(
            SecretRole::FrontProxyAuthority,
            was(|states| states.front_proxy_ca.as_ref()),
        ),
        front_proxy_client: state(
            SecretRole::FrontProxyClient,
            was(|states| states.front_proxy_client.as_ref()),
        ),
        sa: state(SecretRole::ServiceAccount, was(|states| states.sa.as_ref())),
        etcd: before.and_then(|states| states.etcd.clone()),
    }
}

pub(super) fn kubeconfigs(
    world: &World,
    before: Option<&KubeconfigStates>,
    now: Timestamp,
) -> KubeconfigStates {
    let state = |role, before: Option<&SecretState>| secret_state(world, role, before, now);
    let was = |pick: fn(&KubeconfigStates) -> Option<&SecretState>| before.and_then(pick);
    KubeconfigStates {
        admin: state(
            SecretRole::AdminKubeconfig,
            was(|states| states.admin.as_ref()),
        ),
        controller_manager: state(
            SecretRole::ControllerManagerKubeconfig,
            was(|states| states.controller_manager.as_ref()),
        ),
        scheduler: state(
            SecretRole::SchedulerKubeconfig,
            was(|states| states.scheduler.as_ref()),
        ),
    }
}

pub(super) fn deployment(
    names: &Names,
    found: &DeploymentFacts,
    before: Option<&DeploymentState>,
    now: Timestamp,
) -> DeploymentState {
    let status = &found.status;
    let mut state = DeploymentState {
        name: names.name().to_owned(),
        namespace: names.namespace().to_owned(),
        selector: names.selector_text(),
        last_update: before.and_then(|before| before.last_update.clone()),
        observed_generation: status.observed_generation,
        replicas: status.replicas,
        updated_replicas: status.updated_replicas,
        ready_replicas: status.ready_replicas,
        available_replicas: status.available_replicas,
        unavailable_replicas: status.unavailable_replicas,
        terminating_replicas: status.terminating_replicas,
        collision_count: status.collision_count,
        conditions: status.conditions.clone().unwrap_or_default(),
    };
    if before != Some(&state) {
        state.last_update = Some(time(now));
    }
    state
}

pub(super) fn service(
    control_plane: &TenantControlPlane,
    names: &Names,
    world: &World,
) -> Option<ServiceState> {
    let found = world.service.as_ref()?;
    let spec = &control_plane.spec;
    let is_balanced = spec.control_plane.service.service_type == ServiceType::LoadBalancer;
    let balancer = LoadBalancerStatus {
        ingress: Some(found.balancers.clone()).filter(|balancers| !balancers.is_empty()),
    };
    Some(ServiceState {
        name: names.name().to_owned(),
        namespace: names.namespace().to_owned(),
        port: spec.network_profile.port,
        load_balancer: is_balanced.then_some(balancer),
        conditions: found.conditions.clone(),
    })
}

pub(super) fn ingress(names: &Names, world: &World) -> Option<IngressState> {
    world.ingress.as_ref().map(|found| IngressState {
        name: names.name().to_owned(),
        namespace: names.namespace().to_owned(),
        load_balancer: found.balancer.clone(),
    })
}

/// The route and where it is reached: at each Gateway that has taken it.
pub(super) fn gateway(
    control_plane: &TenantControlPlane,
    names: &Names,
    world: &World,
) -> Option<GatewayState> {
    let (host, _) = public_host(control_plane)?;
    let port = control_plane.spec.network_profile.port;
    let found = world.route.as_ref()?;
    Some(route(found, names.name(), &host, port))
}

/// The same of the reverse tunnel's route.
pub(super) fn konnectivity_gateway(
    control_plane: &TenantControlPlane,
    names: &Names,
    world: &World,
) -> Option<GatewayState> {
    let (host, _) = public_host(control_plane)?;
    let wish = control_plane.spec.addons.konnectivity.as_ref()?;
    let found = world.konnectivity_route.as_ref()?;
    let (name, host) = (names.konnectivity_route(), konnectivity_host(&host));
    Some(route(found, &name, &host, wish.server.port))
}

fn route(found: &RouteFacts, name: &str, host: &str, port: i32) -> GatewayState {
    let accepted = found.parents.iter().filter(|parent| {
        let mut conditions = parent.conditions.iter();
        conditions.any(|condition| condition.type_ == "Accepted" && condition.status == "True")
    });
    let points = accepted.map(|parent| {
        let port = parent.parent_ref.port.unwrap_or(port);
        AccessPoint {
            type_: "Hostname".to_owned(),
            value: host.to_owned(),
            port,
            urls: vec![format!("https://{host}:{port}")],
        }
    });
    GatewayState {
        access_points: points.collect(),
        parents: found.parents.clone(),
        route_ref: Some(RouteReference {
            name: name.to_owned(),
        }),
    }
}
