//! What the condition `FeaturesAvailable` says: settings of a cluster that are kept and that nothing acts on. It is there while there
//! are any, and takes nothing from a cluster that works. Addons that are missing `AddonsReady` names.

use butler_api::{
    butler::{
        provider_config::{Provider, ProviderConfig},
        tenant_cluster::{
            CniProvider, ControlPlaneMode, LoadBalancerProvider, OperatingSystem, TenantCluster,
        },
    },
    conditions::reasons,
    normalize::tenant_cluster::pools,
};
use butler_runtime::conditions::Finding;

/// What is said of the settings of a cluster whose pod network is already chosen.
pub(super) fn judge(
    cluster: &TenantCluster,
    provider: &ProviderConfig,
    cni: Option<CniProvider>,
) -> Option<Finding> {
    let spec = &cluster.spec;
    let has_workspaces = spec.workspaces.as_ref().is_some_and(|wish| wish.enabled);
    let mut said = Vec::new();
    if has_workspaces {
        said.push("spec.workspaces: kept, but without effect in this version".to_owned());
    }
    if provider.spec.provider == Provider::Local {
        let fields = of_machines(cluster);
        if !fields.is_empty() {
            said.push(format!(
                "{}: without effect, since machines of the provider local run the system of their host and have no accounts",
                fields.join(", ")
            ));
        }
        let fields = of_addons(cluster, cni);
        if !fields.is_empty() {
            said.push(format!(
                "{}: without effect, since bridge and local are part of the machines and no chart is installed",
                fields.join(", ")
            ));
        }
    }
    let reason = if has_workspaces {
        reasons::NOT_YET_IMPLEMENTED
    } else {
        reasons::UNSUPPORTED
    };
    (!said.is_empty()).then(|| Finding::new(false, reason, said.join("; ")))
}

/// Settings of a system that machines of this host do not have.
fn of_machines(cluster: &TenantCluster) -> Vec<String> {
    let pools = pools(&cluster.spec).into_iter();
    let mut machines: Vec<_> = pools.map(|pool| (pool.field, pool.os)).collect();
    let control_plane = cluster.spec.control_plane.as_ref();
    let own = control_plane.filter(|wish| wish.mode == ControlPlaneMode::Standalone);
    let template = own.and_then(|wish| wish.machine_template.as_ref());
    let os = template.and_then(|template| template.os.clone());
    machines.push(("spec.controlPlane".to_owned(), os));
    let named = |field: &str,
                 OperatingSystem {
                     version,
                     ssh_authorized_key,
                     ..
                 }: OperatingSystem| {
        let stated = |text: Option<String>| text.is_some_and(|text| !text.is_empty());
        let settings = [
            ("version", stated(version)),
            ("sshAuthorizedKey", stated(ssh_authorized_key)),
        ];
        let settings = settings.into_iter().filter(|(_, stated)| *stated);
        let named = settings.map(|(name, _)| format!("{field}.machineTemplate.os.{name}"));
        named.collect::<Vec<_>>()
    };
    let machines = machines.into_iter();
    machines
        .filter_map(|(field, os)| Some(named(&field, os?)))
        .flatten()
        .collect()
}

/// Settings of charts where none is installed.
fn of_addons(cluster: &TenantCluster, cni: Option<CniProvider>) -> Vec<&'static str> {
    let Some(addons) = cluster.spec.addons.as_ref() else {
        return Vec::new();
    };
    let network = addons.cni.as_ref();
    let network = network.filter(|_| cni == Some(CniProvider::Bridge));
    let balancer = addons.load_balancer.as_ref().filter(|balancer| {
        let usual = LoadBalancerProvider::Local;
        balancer.provider.unwrap_or(usual) == usual
    });
    let settings = [
        (
            "spec.addons.cni.version",
            network.is_some_and(|addon| addon.version.is_some()),
        ),
        (
            "spec.addons.cni.values",
            network.is_some_and(|addon| !addon.values.is_empty()),
        ),
        (
            "spec.addons.loadBalancer.version",
            balancer.is_some_and(|addon| addon.version.is_some()),
        ),
        (
            "spec.addons.loadBalancer.values",
            balancer.is_some_and(|addon| !addon.values.is_empty()),
        ),
    ];
    let settings = settings.into_iter().filter(|(_, stated)| *stated);
    settings.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use crate::{
        tenant_cluster::{
            plan::plan,
            scene::{condition, ready, shop, world},
        },
        testing::at,
    };

    /// What is said of the features of a cluster on this host, which is ready all the same.
    fn told(parts: &Value) -> String {
        let plan = plan(&shop(parts), &world(ready()), at(1));
        assert_eq!(condition(&plan, "Ready"), "True Ready: ");
        condition(&plan, "FeaturesAvailable")
    }

    #[test]
    fn settings_that_nothing_acts_on_are_named_and_the_cluster_is_ready() {
        assert_eq!(told(&json!({})), "");
        assert_eq!(told(&json!({ "workspaces": { "enabled": false } })), "");
        insta::assert_snapshot!(told(&json!({ "workspaces": { "enabled": true, "maxWorkspaces": 3 } })), @"False NotYetImplemented: spec.workspaces: kept, but without effect in this version");
    }

    #[test]
    fn machines_of_this_host_have_no_system_and_no_accounts_of_their_own() {
        let os = json!({ "version": "9.5", "sshAuthorizedKey": "ssh-ed25519 AAAA ada" });
        let with = |os: &Value| json!({ "replicas": 2, "machineTemplate": { "os": os } });
        let pool = json!({ "name": "gpu", "replicas": 0, "machineTemplate": { "os": { "version": "9.6" } } });
        insta::assert_snapshot!(told(&json!({ "workers": with(&os), "nodePools": [pool] })), @"False Unsupported: spec.workers.machineTemplate.os.version, spec.workers.machineTemplate.os.sshAuthorizedKey, spec.nodePools[0].machineTemplate.os.version: without effect, since machines of the provider local run the system of their host and have no accounts");
        assert_eq!(told(&json!({ "workers": with(&json!({})) })), "");
    }

    #[test]
    fn charts_that_are_not_installed_have_no_version_and_no_values() {
        let addons = json!({
            "cni": { "provider": "bridge", "version": "1.16.0" },
            "loadBalancer": { "values": { "speaker": {} } },
        });
        insta::assert_snapshot!(told(&json!({ "addons": addons })), @"False Unsupported: spec.addons.cni.version, spec.addons.loadBalancer.values: without effect, since bridge and local are part of the machines and no chart is installed");
        let plain =
            json!({ "cni": { "provider": "bridge" }, "loadBalancer": { "provider": "local" } });
        assert_eq!(told(&json!({ "addons": plain })), "");
        let other = json!({ "cni": { "provider": "none", "version": "1.16.0" } });
        assert_eq!(told(&json!({ "addons": other })), "");
    }
}
