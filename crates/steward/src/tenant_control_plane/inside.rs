//! What a control plane shows of its addons and of the inside of its tenant. Pure.
//!
//! What is in the tenant is known only while it is in step, and of a part only while nothing is in its way; else what was shown
//! last still is. A time changes only with what it is the time of, so that a control plane at rest writes nothing.

use butler_api::steward::tenant_control_plane::status::{
    AddonsStatus, ChecksumState, KubeadmConfigState, KubeadmPhaseState, ObjectState,
    addons::{
        AddonStatus, ConfigMapState, KonnectivityAgentState, KonnectivityStatus, TcpProxyStatus,
        WorkerBootstrapStatus,
    },
};
use butler_runtime::object::Manifest;
use butler_tunnel::manifests::names::{TCP_PROXY, TCP_PROXY_ROLE};
use jiff::Timestamp;
use steward_tenant::{Desired, TenantPart, desired};

use super::{
    look::Look,
    part::is_frozen,
    status::{konnectivity_gateway, secret_state, service, time},
};
use crate::{
    build,
    names::SecretRole,
    secrets::{Content, bytes, checksum},
    tenants::facts_of,
};

impl Look<'_> {
    /// What the tenant holds of ours; nothing while that is not known.
    pub(super) fn inside(&self) -> Option<Desired> {
        if self.is_in_step() != Some(true) || is_frozen(self.control_plane) {
            return None;
        }
        let authority = self.world.secrets.get(&SecretRole::Authority)?;
        let Content::Pair(Ok(authority)) = &authority.value.content else {
            return None;
        };
        let facts = facts_of(
            self.control_plane,
            self.world.service.as_ref(),
            self.addresses.endpoint.clone()?,
            &authority.certificate_pem,
            self.settings,
        );
        Some(desired(&facts.ok()?))
    }

    /// The same, if nothing is in the way of a part.
    fn known<'b>(&self, inside: Option<&'b Desired>, part: TenantPart) -> Option<&'b Desired> {
        inside.filter(|_| !self.is_hindered(part))
    }

    pub(super) fn addons(
        &self,
        inside: Option<&Desired>,
        before: Option<&AddonsStatus>,
    ) -> Option<AddonsStatus> {
        let before = before.cloned().unwrap_or_default();
        let addon = |part, before: Option<AddonStatus>| {
            let enabled = self.known(inside, part).map(|inside| inside.has(part));
            addon(enabled, before, self.now)
        };
        let bootstrap = self.control_plane.spec.addons.worker_bootstrap.as_ref();
        let now = AddonsStatus {
            core_dns: addon(TenantPart::CoreDns, before.core_dns),
            kube_proxy: addon(TenantPart::KubeProxy, before.kube_proxy),
            konnectivity: self.konnectivity(inside, before.konnectivity),
            tcp_proxy: tcp_proxy(
                self.known(inside, TenantPart::TcpProxy),
                before.tcp_proxy,
                self.now,
            ),
            // Nodes of this kind are not helped yet, which a condition says.
            worker_bootstrap: bootstrap.map(|wish| WorkerBootstrapStatus {
                provider: Some(wish.provider),
                ..WorkerBootstrapStatus::default()
            }),
        };
        (now != AddonsStatus::default()).then_some(now)
    }

    fn konnectivity(
        &self,
        inside: Option<&Desired>,
        before: Option<KonnectivityStatus>,
    ) -> Option<KonnectivityStatus> {
        let wish = self.control_plane.spec.addons.konnectivity.as_ref();
        if wish.is_none() && before.is_none() {
            return None;
        }
        let before = before.unwrap_or_default();
        let ours = |manifest: &&Manifest| !is_of_proxy(manifest);
        let inside = self.known(inside, TenantPart::Tunnel);
        let objects = inside.map(|inside| objects(inside, TenantPart::Tunnel).filter(ours));
        let objects: Option<Vec<_>> = objects.map(Iterator::collect);
        let found = |kinds: &[&str], before: Option<ObjectState>| match &objects {
            None => before,
            Some(objects) => object(objects, kinds, before, self.now),
        };
        let in_tenant = KonnectivityStatus {
            enabled: objects
                .as_ref()
                .map_or(before.enabled, |objects| !objects.is_empty()),
            sa: found(&["ServiceAccount"], before.sa),
            cluster_role_binding: found(&["ClusterRoleBinding"], before.cluster_role_binding),
            agent: match &objects {
                None => before.agent,
                Some(objects) => agent(objects, before.agent, self.now),
            },
            ..KonnectivityStatus::default()
        };
        let Some(wish) = wish else {
            return Some(in_tenant);
        };
        let (world, now) = (self.world, self.now);
        let configuration =
            build::egress_configuration(self.control_plane, &self.names, self.settings);
        let mut reached = service(self.control_plane, &self.names, world);
        if let Some(reached) = &mut reached {
            reached.port = wish.server.port;
        }
        let role = SecretRole::KonnectivityCertificate;
        let certificate = secret_state(world, role, before.certificate.as_ref(), now);
        let role = SecretRole::KonnectivityKubeconfig;
        let kubeconfig = secret_state(world, role, before.kubeconfig.as_ref(), now);
        Some(KonnectivityStatus {
            config_map: configuration.map(|manifest| ConfigMapState {
                checksum: Some(fingerprint(&manifest.body["data"].to_string())),
                name: Some(manifest.key.name),
            }),
            certificate,
            kubeconfig,
            service: reached,
            gateway: konnectivity_gateway(self.control_plane, &self.names, world),
            ..in_tenant
        })
    }

    /// The configuration that joining nodes read.
    pub(super) fn kubeadm_config(
        &self,
        inside: Option<&Desired>,
        before: Option<KubeadmConfigState>,
    ) -> Option<KubeadmConfigState> {
        let part = TenantPart::KubeadmConfig;
        let Some(inside) = self.known(inside, part) else {
            return before;
        };
        let mut objects = objects(inside, part);
        let name = objects.find(|object| object.kind.kind == "ConfigMap")?;
        let checksum = inside.checksums().remove(&part);
        let before = before.filter(|before| before.checksum == checksum);
        Some(KubeadmConfigState {
            config_map_name: Some(name.key.name.clone()),
            last_update: before.map_or_else(|| Some(time(self.now)), |before| before.last_update),
            checksum,
        })
    }

    /// The roles of bootstrap tokens, and what nodes find the cluster by.
    pub(super) fn kubeadm_phase(
        &self,
        inside: Option<&Desired>,
        before: Option<KubeadmPhaseState>,
    ) -> Option<KubeadmPhaseState> {
        let part = TenantPart::Bootstrap;
        let Some(inside) = self.known(inside, part) else {
            return before;
        };
        let checksum = inside.checksums().remove(&part)?;
        let before = before.map(|before| before.bootstrap_token);
        let same = before.filter(|before| before.checksum.as_ref() == Some(&checksum));
        let bootstrap_token = same.unwrap_or_else(|| ChecksumState {
            checksum: Some(checksum),
            last_update: Some(time(self.now)),
        });
        Some(KubeadmPhaseState { bootstrap_token })
    }
}

fn objects(inside: &Desired, part: TenantPart) -> impl Iterator<Item = &Manifest> {
    let objects = inside.objects.iter();
    let objects = objects.filter(move |object| object.part == part);
    objects.map(|object| &object.manifest)
}

fn is_of_proxy(manifest: &Manifest) -> bool {
    [TCP_PROXY, TCP_PROXY_ROLE].contains(&manifest.key.name.as_str())
}

fn fingerprint(text: &str) -> String {
    checksum(&[("text".to_owned(), bytes(text))].into())
}

/// An addon without parts worth naming. One that was never there is not spoken of.
fn addon(
    enabled: Option<bool>,
    before: Option<AddonStatus>,
    now: Timestamp,
) -> Option<AddonStatus> {
    let Some(enabled) = enabled else {
        return before;
    };
    let was = before.as_ref().is_some_and(|before| before.enabled);
    if enabled == was {
        return before;
    }
    let last_update = Some(time(now));
    Some(AddonStatus {
        enabled,
        last_update,
    })
}

/// The object of these kinds, if there is one, with the time since when it is that one.
fn object(
    objects: &[&Manifest],
    kinds: &[&str],
    before: Option<ObjectState>,
    now: Timestamp,
) -> Option<ObjectState> {
    let mut objects = objects.iter();
    let found = objects.find(|object| kinds.contains(&object.kind.kind.as_str()))?;
    let state = ObjectState {
        name: Some(found.key.name.clone()),
        namespace: found.key.namespace.clone(),
        last_update: before
            .as_ref()
            .and_then(|before| before.last_update.clone()),
    };
    if before.as_ref() == Some(&state) {
        return before;
    }
    let last_update = Some(time(now));
    Some(ObjectState {
        last_update,
        ..state
    })
}

/// The agents of the tunnel, with the time since when they are these.
fn agent(
    objects: &[&Manifest],
    before: Option<KonnectivityAgentState>,
    now: Timestamp,
) -> Option<KonnectivityAgentState> {
    let kinds = ["DaemonSet", "Deployment"];
    let mut found = objects.iter();
    let found = found.find(|object| kinds.contains(&object.kind.kind.as_str()))?;
    let state = KonnectivityAgentState {
        name: Some(found.key.name.clone()),
        namespace: found.key.namespace.clone(),
        mode: Some(found.kind.kind.clone()),
        last_update: before
            .as_ref()
            .and_then(|before| before.last_update.clone()),
    };
    if before.as_ref() == Some(&state) {
        return before;
    }
    let last_update = Some(time(now));
    Some(KonnectivityAgentState {
        last_update,
        ..state
    })
}

/// What stands in for the API server inside of the tenant.
fn tcp_proxy(
    inside: Option<&Desired>,
    before: Option<TcpProxyStatus>,
    now: Timestamp,
) -> Option<TcpProxyStatus> {
    let Some(inside) = inside else {
        return before;
    };
    let objects = inside.objects.iter().map(|object| &object.manifest);
    let objects: Vec<_> = objects.filter(|manifest| is_of_proxy(manifest)).collect();
    if objects.is_empty() && before.is_none() {
        return None;
    }
    let before = before.unwrap_or_default();
    let found = |kinds: &[&str], before| object(&objects, kinds, before, now);
    Some(TcpProxyStatus {
        enabled: !objects.is_empty(),
        deployment: found(&["Deployment", "DaemonSet"], before.deployment),
        service: found(&["Service"], before.service),
        service_account: found(&["ServiceAccount"], before.service_account),
        cluster_role: found(&["ClusterRole"], before.cluster_role),
        cluster_role_binding: found(&["ClusterRoleBinding"], before.cluster_role_binding),
    })
}
