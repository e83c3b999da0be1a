//! The control planes that are measured: all alike, one replica each.

use butler_api::{keys::groups, steward::tenant_control_plane::TenantControlPlane};
use butler_assets::{Asset, Component};
use serde_json::{Value, json};

/// Whether pods are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// It serves.
    Awake,
    /// Everything is made for it but pods.
    Asleep,
}

/// A control plane, at the version that tests run and with what every cluster has: names and Services.
pub(super) fn control_plane(
    name: &str,
    wanted: Wanted,
    port: u16,
) -> anyhow::Result<TenantControlPlane> {
    let replicas = match wanted {
        Wanted::Awake => 1,
        Wanted::Asleep => 0,
    };
    let version = Asset::default_of(Component::KubeApiserver).version;
    let body = json!({
        "apiVersion": groups::STEWARD_API_VERSION,
        "kind": "TenantControlPlane",
        "metadata": { "name": name },
        "spec": {
            "controlPlane": {
                "service": { "serviceType": "LoadBalancer" },
                "deployment": { "replicas": replicas, "resources": resources() },
            },
            "kubernetes": { "version": format!("v{version}"), "kubelet": {} },
            "networkProfile": { "port": port },
            "addons": { "coreDNS": {}, "kubeProxy": {} },
        },
    });
    Ok(serde_json::from_value(body)?)
}

/// Less than usual is set aside of the processors, so that ten fit on a machine with two. Limits there are none.
fn resources() -> Value {
    let set_aside =
        |cpu: &str, memory: &str| json!({ "requests": { "cpu": cpu, "memory": memory } });
    json!({
        "apiServer": set_aside("20m", "256Mi"),
        "controllerManager": set_aside("10m", "64Mi"),
        "scheduler": set_aside("5m", "32Mi"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_has_the_same_spec_but_for_the_pods() {
        let mut awake = control_plane("one", Wanted::Awake, 6443).unwrap();
        let asleep = control_plane("one", Wanted::Asleep, 6443).unwrap();
        assert_eq!(asleep.spec.control_plane.deployment.replicas, 0);
        awake.spec.control_plane.deployment.replicas = 0;
        assert_eq!(awake.spec, asleep.spec);
    }
}
