//! Routes that are kinds of other projects: the Gateway API's and Traefik's. A cluster may not serve them, or serve another version,
//! which their definitions tell. The definitions are watched, so that what is installed later is used at once.

use std::marker::PhantomData;

use butler_api::{
    keys::labels, steward::tenant_control_plane::status::resources::RouteParentState,
};
use butler_runtime::{cache::Projection, object::Kind, watch::served_versions};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::projections::at;

/// The versions of the Gateway API's route that passes TLS through. What Steward says in it means the same in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsRouteVersion {
    /// From v1.5 of the Gateway API on. Its standard channel serves no other.
    V1,
    /// In the experimental channel, from v1.4 on.
    V1Alpha3,
    /// In the experimental channel.
    V1Alpha2,
}

impl TlsRouteVersion {
    /// All, the one to prefer first.
    pub const ALL: [Self; 3] = [Self::V1, Self::V1Alpha3, Self::V1Alpha2];

    /// As the API server spells it.
    const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Alpha3 => "v1alpha3",
            Self::V1Alpha2 => "v1alpha2",
        }
    }

    /// The kind in this version.
    pub fn kind(self) -> Kind {
        Kind {
            group: "gateway.networking.k8s.io".to_owned(),
            version: self.as_str().to_owned(),
            kind: "TLSRoute".to_owned(),
            plural: "tlsroutes".to_owned(),
            namespaced: true,
        }
    }
}

/// The name of the definition of the Gateway API's route.
pub const TLS_ROUTE_DEFINITION: &str = "tlsroutes.gateway.networking.k8s.io";
/// The name of the definition of Traefik's route.
pub const TRAEFIK_DEFINITION: &str = "ingressroutetcps.traefik.io";

/// The definition of the Gateway API's route, if the cluster has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsRouteDefinition {
    /// The version to use; none if no version that we know is served.
    pub version: Option<TlsRouteVersion>,
}

impl Projection for TlsRouteDefinition {
    const NAME: Option<&'static str> = Some(TLS_ROUTE_DEFINITION);

    fn kind() -> Kind {
        Kind::of::<CustomResourceDefinition>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let is_served = |version: &TlsRouteVersion| serves(&object, version.as_str());
        Ok(Self {
            version: TlsRouteVersion::ALL.into_iter().find(is_served),
        })
    }
}

/// Whether a definition has a version served, now and not only soon.
fn serves(definition: &Value, version: &str) -> bool {
    let conditions = definition
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let is_established = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    is_established && served_versions(definition).any(|served| served == version)
}

/// What the Gateways of a route say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteFacts {
    /// Each Gateway, and whether it took the route.
    pub parents: Vec<RouteParentState>,
}

/// A version as a type: each has a cache of its own, and that of a version that is not served stays empty.
pub trait InVersion: Send + Sync + 'static {
    /// The version.
    const VERSION: TlsRouteVersion;
}

/// In `v1`.
pub struct InV1;
/// In `v1alpha3`.
pub struct InV1Alpha3;
/// In `v1alpha2`.
pub struct InV1Alpha2;

impl InVersion for InV1 {
    const VERSION: TlsRouteVersion = TlsRouteVersion::V1;
}
impl InVersion for InV1Alpha3 {
    const VERSION: TlsRouteVersion = TlsRouteVersion::V1Alpha3;
}
impl InVersion for InV1Alpha2 {
    const VERSION: TlsRouteVersion = TlsRouteVersion::V1Alpha2;
}

/// A route as one version shows it.
pub struct TlsRoute<V> {
    /// What its Gateways say.
    pub facts: RouteFacts,
    version: PhantomData<fn() -> V>,
}

impl<V> Clone for TlsRoute<V> {
    fn clone(&self) -> Self {
        Self {
            facts: self.facts.clone(),
            version: PhantomData,
        }
    }
}

impl<V: InVersion> Projection for TlsRoute<V> {
    const LABELS: Option<&'static str> = Some(labels::OWNER_UID);
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        V::VERSION.kind()
    }

    fn project(mut object: Value) -> Result<Self, serde_json::Error> {
        Ok(Self {
            facts: RouteFacts {
                parents: at(&mut object, "/status/parents")?,
            },
            version: PhantomData,
        })
    }
}

/// That a route of Traefik exists.
#[derive(Clone, Copy, Debug)]
pub struct TraefikRoute;

/// The version of Traefik's route.
const TRAEFIK_VERSION: &str = "v1alpha1";

/// The route of Traefik that passes TLS through.
pub fn traefik_route() -> Kind {
    Kind {
        group: "traefik.io".to_owned(),
        version: TRAEFIK_VERSION.to_owned(),
        kind: "IngressRouteTCP".to_owned(),
        plural: "ingressroutetcps".to_owned(),
        namespaced: true,
    }
}

impl Projection for TraefikRoute {
    const LABELS: Option<&'static str> = Some(labels::OWNER_UID);
    const OPTIONAL: bool = true;

    fn kind() -> Kind {
        traefik_route()
    }

    fn project(_: Value) -> Result<Self, serde_json::Error> {
        Ok(Self)
    }
}

/// The definition of Traefik's route, if the cluster has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraefikDefinition {
    /// Whether the version that we know is served.
    pub is_served: bool,
}

impl Projection for TraefikDefinition {
    const NAME: Option<&'static str> = Some(TRAEFIK_DEFINITION);

    fn kind() -> Kind {
        Kind::of::<CustomResourceDefinition>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        Ok(Self {
            is_served: serves(&object, TRAEFIK_VERSION),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The version that is used where the definition has these, and whether it is served.
    fn chosen(versions: &[(&str, bool)], established: &str) -> Option<TlsRouteVersion> {
        let versions: Vec<_> = versions
            .iter()
            .map(|(name, served)| json!({ "name": name, "served": served }))
            .collect();
        let definition = json!({
            "spec": { "versions": versions },
            "status": { "conditions": [{ "type": "Established", "status": established }] },
        });
        TlsRouteDefinition::project(definition).unwrap().version
    }

    #[test]
    fn the_newest_version_that_is_served_is_used() {
        let standard = [("v1", true), ("v1alpha2", false), ("v1alpha3", false)];
        assert_eq!(chosen(&standard, "True"), Some(TlsRouteVersion::V1));
        let all = [("v1alpha2", true), ("v1alpha3", true), ("v1", true)];
        assert_eq!(chosen(&all, "True"), Some(TlsRouteVersion::V1));
        let older = [("v1alpha2", true)];
        assert_eq!(chosen(&older, "True"), Some(TlsRouteVersion::V1Alpha2));
    }

    #[test]
    fn what_is_not_served_yet_or_in_no_version_that_we_know_is_not_used() {
        assert_eq!(chosen(&[("v1", true)], "False"), None);
        assert_eq!(chosen(&[("v2", true)], "True"), None);
    }
}
