//! Addons that only some providers can give.

use butler_api::{
    butler::{
        provider_config::Provider,
        tenant_cluster::{CniProvider, LoadBalancerProvider},
    },
    conditions::{reasons, types},
    normalize::tenant_cluster::{Addons, Wish, addons},
};

use super::{Breach, Case};

const KIND: (&str, &str) = (types::ADDONS_READY, reasons::VALIDATION_FAILED);

/// The bridge and the local load balancer are made by the process on the host of local machines. Elsewhere nobody would make
/// them: nodes would never become ready, and Services would wait for ever.
pub(super) fn breaches(case: &Case<'_>) -> Vec<Breach> {
    let Some(provider) = case.provider.map(|provider| provider.spec.provider) else {
        return Vec::new();
    };
    if provider == Provider::Local {
        return Vec::new();
    }
    let Addons {
        cni, load_balancer, ..
    } = addons(case.cluster.spec.addons.as_ref());
    let mut found = Vec::new();
    if stated(&cni) == Some(CniProvider::Bridge) {
        let rule = format!(
            "bridge connects machines of the provider local alone, and the cluster runs on {}: choose cilium, or none and \
             install a network of your own",
            provider.as_str()
        );
        found.push(Breach::new(KIND, "spec.addons.cni.provider", rule));
    }
    if stated(&load_balancer) == Some(LoadBalancerProvider::Local) {
        let rule = format!(
            "local serves machines of the provider local alone, and the cluster runs on {}: choose metallb or none",
            provider.as_str()
        );
        found.push(Breach::new(KIND, "spec.addons.loadBalancer.provider", rule));
    }
    found
}

fn stated<P: Copy>(wish: &Wish<P>) -> Option<P> {
    match wish {
        Wish::On(choice) => choice.provider,
        Wish::Off | Wish::Unstated => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tenant_rules::testing::{Scene, cluster};

    #[test]
    fn what_only_local_machines_have_is_refused_elsewhere_with_what_to_choose() {
        let wish = json!({"addons": {"cni": {"provider": "bridge"}, "loadBalancer": {"provider": "local"}}});
        let mut scene = Scene::new(cluster(&wish));
        assert_eq!(scene.told(super::breaches), "");
        scene.provide(&json!({"provider": "nutanix"}));
        insta::assert_snapshot!(scene.told(super::breaches), @r"
        spec.addons.cni.provider: bridge connects machines of the provider local alone, and the cluster runs on nutanix: choose cilium, or none and install a network of your own
        spec.addons.loadBalancer.provider: local serves machines of the provider local alone, and the cluster runs on nutanix: choose metallb or none
        ");
        for wish in [
            json!({}),
            json!({"addons": {"cni": {"provider": "none"}, "loadBalancer": {"provider": "none"}}}),
            json!({"addons": {"cni": {"provider": "cilium"}, "loadBalancer": {"provider": "metallb"}}}),
        ] {
            scene.cluster = cluster(&wish);
            assert_eq!(scene.told(super::breaches), "", "{wish}");
        }
    }
}
