//! Where the one entrance is that hosted control planes are reached through.

use butler_api::{
    butler::butler_config::{ControlPlaneExposure, ExposureMode},
    steward::exposure::IngressControllerType,
};
use butler_runtime::{cache::Caches, object::ObjectKey};

use super::facts::GatewayAddress;
use crate::ipam::infrastructure::ServiceAddresses;

/// Where the one Ingress controller or Gateway is that API servers are reached through.
pub(super) fn address(exposure: &ControlPlaneExposure, caches: &Caches) -> Option<String> {
    let services = caches.store::<ServiceAddresses>();
    match exposure.mode {
        ExposureMode::LoadBalancer => None,
        ExposureMode::Ingress => {
            let key = ingress_controller(exposure.controller_type.unwrap_or_default());
            let found = services.get(&key)?;
            found.value.0.first().map(ToString::to_string)
        }
        ExposureMode::Gateway => {
            let (namespace, name) = exposure.gateway_ref.as_deref()?.split_once('/')?;
            let key = ObjectKey::namespaced(namespace, name);
            let found = caches.store::<GatewayAddress>().get(&key)?;
            found.value.0.clone()
        }
    }
}

/// The Service of an Ingress controller, where its own chart puts it.
fn ingress_controller(controller: IngressControllerType) -> ObjectKey {
    let (namespace, name) = match controller {
        IngressControllerType::Nginx => ("ingress-nginx", "ingress-nginx-controller"),
        IngressControllerType::Haproxy => ("haproxy-controller", "haproxy-kubernetes-ingress"),
        IngressControllerType::Traefik | IngressControllerType::Generic => ("traefik", "traefik"),
    };
    ObjectKey::namespaced(namespace, name)
}

/// Whether a Service may be that of the Ingress controller before all API servers.
pub(super) fn is_ingress_controller(service: &ObjectKey) -> bool {
    let controllers = [
        IngressControllerType::Nginx,
        IngressControllerType::Haproxy,
        IngressControllerType::Traefik,
    ];
    controllers
        .into_iter()
        .any(|controller| ingress_controller(controller) == *service)
}
