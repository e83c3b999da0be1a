use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::foreign_routes::TlsRouteVersion;

fn behind(exposure: Value) -> TenantControlPlane {
    let mut parts = json!({ "service": { "serviceType": "ClusterIP" } });
    if let (Value::Object(parts), Value::Object(exposure)) = (&mut parts, exposure) {
        parts.extend(exposure);
    }
    control_plane_with(json!({ "controlPlane": parts, "addons": { "konnectivity": {} } }))
}

fn behind_gateway() -> TenantControlPlane {
    behind(json!({ "gateway": {
        "hostname": "shop.k8s.example.com", "parentRefs": [{ "name": "public" }],
    } }))
}

fn behind_traefik() -> TenantControlPlane {
    behind(
        json!({ "ingress": { "hostname": "shop.k8s.example.com", "controllerType": "traefik" } }),
    )
}

/// What the condition says, and what is applied.
fn seen(plan: &Plan<TenantControlPlaneStatus, Effect>) -> String {
    let told = told(plan);
    let lines = told.lines().filter(|line| {
        ["EndpointReady=", "Ready=", "apply ", "Warning "]
            .iter()
            .any(|start| line.starts_with(start))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn routes_that_the_cluster_does_not_serve_are_held_back_and_nothing_else_is() {
    let (control_plane, world, _) = ready(behind_gateway());
    insta::assert_snapshot!(seen(&look(&control_plane, &world)), @"
    EndpointReady=False WaitingForDependencies: the cluster does not serve TLSRoute of gateway.networking.k8s.io, so that nothing leads to the API server; install the definitions of the Gateway API, v1.5 or newer, or the experimental ones of an older release
    Ready=True Ready: the API server serves at shop.k8s.example.com:6443
    apply Service payments/shop
    apply ConfigMap payments/shop-konnectivity-egress-selector-configuration
    apply Deployment payments/shop
    apply PodDisruptionBudget payments/shop
    Warning WaitingForDependencies: the cluster does not serve TLSRoute of gateway.networking.k8s.io, so that nothing leads to the API server; install the definitions of the Gateway API, v1.5 or newer, or the experimental ones of an older release
    ");
    let (control_plane, world, _) = ready(behind_traefik());
    insta::assert_snapshot!(seen(&look(&control_plane, &world)), @"
    EndpointReady=False WaitingForDependencies: the cluster does not serve IngressRouteTCP of traefik.io/v1alpha1, so that nothing leads to the API server; install the definitions of Traefik v2.10 or newer, or choose another controllerType
    Ready=True Ready: the API server serves at shop.k8s.example.com:443
    apply Service payments/shop
    apply ConfigMap payments/shop-konnectivity-egress-selector-configuration
    apply Deployment payments/shop
    apply PodDisruptionBudget payments/shop
    Warning WaitingForDependencies: the cluster does not serve IngressRouteTCP of traefik.io/v1alpha1, so that nothing leads to the API server; install the definitions of Traefik v2.10 or newer, or choose another controllerType
    ");
}

#[test]
fn routes_are_made_as_soon_as_the_cluster_serves_them() {
    let (control_plane, world, _) = ready(behind_gateway());
    for version in TlsRouteVersion::ALL {
        let world = World {
            tls_routes: Some(version),
            ..world.clone()
        };
        let plan = look(&control_plane, &world);
        let routes = plan
            .apply
            .iter()
            .filter(|found| found.kind.kind == "TLSRoute");
        let routes: Vec<_> = routes
            .map(|found| (found.kind.clone(), found.key.name.as_str()))
            .collect();
        let kind = version.kind();
        assert_eq!(
            routes,
            [(kind.clone(), "shop"), (kind.clone(), "shop-konnectivity")]
        );
        // One object is shown in every version that is served, and must not go because another version lists it.
        let Prune::UnlistedBut(kept) = plan.prune else {
            panic!("{:?}", plan.prune);
        };
        assert_eq!(kept.len(), 4, "two routes in two other versions: {kept:?}");
        assert!(kept.iter().all(|(of, _)| *of != kind));
    }
    let (control_plane, world, _) = ready(behind_traefik());
    let world = World {
        has_traefik_routes: true,
        ..world
    };
    let plan = look(&control_plane, &world);
    assert!(
        seen(&plan).contains("EndpointReady=True"),
        "{}",
        seen(&plan)
    );
    let mut applied = plan.apply.iter();
    assert!(applied.any(|found| found.kind.kind == "IngressRouteTCP"));
}

#[test]
fn a_route_that_nobody_wants_any_more_goes_in_whatever_version_it_is_shown() {
    let (control_plane, world, _) = ready(control_plane("LoadBalancer"));
    let world = World {
        tls_routes: Some(TlsRouteVersion::V1),
        ..world
    };
    assert_eq!(look(&control_plane, &world).prune, Prune::Unlisted);
}
