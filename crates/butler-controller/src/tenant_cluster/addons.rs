//! What the condition `AddonsReady` says: which of the addons that a cluster asks for this release can give.

use butler_api::{
    butler::{
        provider_config::{Provider, ProviderConfig},
        tenant_cluster::{CniProvider, LoadBalancerProvider, ManagementMode, TenantCluster},
    },
    conditions::{reasons, types},
    normalize::tenant_cluster::{Wish, addons},
};
use butler_runtime::conditions::Finding;

use super::why::Waiting;

/// What is said of the addons of a cluster whose pod network is already chosen.
pub(super) fn judge(
    cluster: &TenantCluster,
    provider: &ProviderConfig,
    cni: Option<CniProvider>,
) -> Result<Finding, Box<Waiting>> {
    if super::mode(cluster) == ManagementMode::GitOps {
        let message = "the addons are left to Git";
        return Ok(Finding::new(true, reasons::NOT_REQUIRED, message));
    }
    let wishes = addons(cluster.spec.addons.as_ref());
    let mut missing = Vec::new();
    if cni == Some(CniProvider::Cilium) {
        missing.push("cni cilium");
    }
    let is_local = provider.spec.provider == Provider::Local;
    let balancer = match &wishes.load_balancer {
        Wish::On(choice) => choice.provider,
        Wish::Off | Wish::Unstated => None,
    };
    match (&wishes.load_balancer, balancer) {
        (Wish::Off, _) | (_, Some(LoadBalancerProvider::Local | LoadBalancerProvider::None)) => {}
        (_, None) if is_local => {}
        (_, None | Some(LoadBalancerProvider::Metallb)) => missing.push("loadBalancer metallb"),
    }
    let others = [
        ("storage", matches!(wishes.storage, Wish::On(_))),
        ("certManager", matches!(wishes.cert_manager, Wish::On(_))),
        ("ingress", matches!(wishes.ingress, Wish::On(_))),
        ("gitops", wishes.gitops.is_some()),
    ];
    missing.extend(
        others
            .iter()
            .filter(|(_, is_wished)| *is_wished)
            .map(|(name, _)| *name),
    );
    if missing.is_empty() {
        return Ok(Finding::new(
            true,
            reasons::NOT_REQUIRED,
            "nothing has to be installed",
        ));
    }
    let why = format!(
        "spec.addons: this release does not install {} yet",
        missing.join(", ")
    );
    let waiting = Waiting::new(types::ADDONS_READY, reasons::NOT_YET_IMPLEMENTED, why);
    let waiting = waiting.advise("install them yourself, or leave them out");
    Err(Box::new(waiting))
}
