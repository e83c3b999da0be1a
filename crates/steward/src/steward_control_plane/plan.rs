//! Decides what a control plane hands on: to its `TenantControlPlane`, its own spec, the infrastructure and the Secrets of Cluster
//! API; and what it shows.

use butler_api::{
    cluster_api::{
        contract::ControlPlaneEndpoint,
        steward_control_plane::{
            ControlPlaneInitialization, StewardControlPlane, StewardControlPlaneStatus,
        },
    },
    conditions::{reasons, types},
};
use butler_runtime::{
    conditions::{Answer, Conditions, Finding},
    fields::hash_of_intent,
    object::{Kind, Manifest, ObjectKey},
    plan::{Next, Note, Plan},
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::{
    Effect, build,
    cluster::{ClusterFacts, ClusterSight},
    infrastructure::{self, shown},
    observe::{Host, World, tenant_key},
    secrets, status,
    tenant::TenantSight,
};

pub(super) fn plan(
    control_plane: &StewardControlPlane,
    world: &World,
    now: Timestamp,
) -> Plan<StewardControlPlaneStatus, Effect> {
    if control_plane.metadata.deletion_timestamp.is_some() {
        return teardown(control_plane, world, now);
    }
    let mut steps = Steps::default();
    let tenant = steps.make(control_plane, world);
    let endpoint = tenant.and_then(|tenant| tenant.endpoint.as_ref());
    steps.address(tenant);
    steps.publish(control_plane, endpoint);
    steps.infrastructure(world, endpoint);
    let has_kubeconfig = steps.secrets(control_plane, world, tenant);
    steps.conclude(control_plane, tenant, has_kubeconfig, now)
}

/// What is found and decided on the way.
#[derive(Default)]
struct Steps {
    apply: Vec<Manifest>,
    effects: Vec<Effect>,
    told: Vec<(&'static str, Finding)>,
}

fn pending(message: impl Into<String>) -> Finding {
    Finding::new(false, reasons::PENDING, message)
}

fn succeeded(message: impl Into<String>) -> Finding {
    Finding::new(true, reasons::SUCCEEDED, message)
}

impl Steps {
    fn tell(&mut self, type_: &'static str, finding: Finding) {
        self.told.push((type_, finding));
    }

    /// The `TenantControlPlane`; none if there is none that is ours.
    fn make<'a>(
        &mut self,
        control_plane: &StewardControlPlane,
        world: &'a World,
    ) -> Option<&'a TenantSight> {
        let is_reached = self.reach(&world.host);
        let ours = world.tenant_of(control_plane);
        let finding = match &world.cluster {
            ClusterSight::Unset => {
                pending("waiting for a Cluster that names it in spec.controlPlaneRef")
            }
            ClusterSight::Missing(key) => pending(format!("waiting for its Cluster {key}")),
            ClusterSight::Found(..) if !is_reached => {
                pending("waiting until the other cluster can be reached")
            }
            ClusterSight::Found(key, facts) => self.keep(control_plane, (key, facts), world, ours),
        };
        self.tell(types::TENANT_CONTROL_PLANE_CREATED, finding);
        ours
    }

    fn reach(&mut self, host: &Host) -> bool {
        let type_ = types::FOUND_EXTERNAL_REFERENCE_CLIENT;
        match host {
            Host::Here => true,
            Host::There => {
                self.tell(type_, succeeded("the other cluster answers"));
                true
            }
            Host::Unreachable(why) => {
                self.tell(type_, Finding::new(false, reasons::FAILED, why.clone()));
                false
            }
        }
    }

    /// Makes the `TenantControlPlane` what it should be.
    fn keep(
        &mut self,
        control_plane: &StewardControlPlane,
        cluster: (&ObjectKey, &ClusterFacts),
        world: &World,
        ours: Option<&TenantSight>,
    ) -> Finding {
        let key = tenant_key(control_plane);
        if let Some(left_behind) = &world.left_behind {
            let message = format!(
                "spec.deployment.externalClusterReference: the control plane runs here as TenantControlPlane {left_behind}, and a control plane cannot be moved; remove the reference"
            );
            return Finding::new(false, reasons::FAILED, message);
        }
        if world.tenant.is_some() && ours.is_none() {
            let message = format!(
                "the TenantControlPlane {key} exists and is not this control plane's; give the control plane another name"
            );
            return Finding::new(false, reasons::NAME_TAKEN, message);
        }
        if ours.is_some_and(|tenant| tenant.deleting) {
            return pending(format!(
                "the TenantControlPlane {key} is being deleted; it is made anew when it is gone"
            ));
        }
        let is_here = world.host == Host::Here;
        let (name, facts) = cluster;
        let manifest = build::tenant(control_plane, (name, &facts.network), &key, is_here, ours);
        if is_here {
            self.apply.push(manifest);
        } else if ours.and_then(|tenant| tenant.applied) != Some(hash_of_intent(&manifest.body)) {
            self.effects
                .push(Effect::ApplyElsewhere(Box::new(manifest)));
        }
        let refused = ours
            .and_then(|tenant| tenant.condition(types::READY))
            .filter(|said| said.status != "True" && said.reason == reasons::VERSION_SKEW);
        match (ours, refused) {
            (_, Some(refused)) => {
                Finding::new(false, reasons::VERSION_SKEW, refused.message.clone())
            }
            (Some(_), None) => succeeded(format!("the TenantControlPlane {key} runs it")),
            (None, None) => pending(format!("the TenantControlPlane {key} is being made")),
        }
    }

    fn address(&mut self, tenant: Option<&TenantSight>) {
        let endpoint = tenant.and_then(|tenant| tenant.endpoint.as_ref());
        let finding = if let Some(endpoint) = endpoint {
            succeeded(format!("the API server is at {}", shown(endpoint)))
        } else {
            let said = tenant.and_then(|tenant| tenant.condition(types::ENDPOINT_READY));
            let said = said.filter(|said| said.status != "True");
            let usual = "the address is not known yet";
            pending(said.map_or(usual, |said| said.message.as_str()))
        };
        self.tell(types::TENANT_CONTROL_PLANE_ADDRESS_READY, finding);
    }

    /// Writes the endpoint into the control plane's own spec, where Cluster API looks for it.
    fn publish(
        &mut self,
        control_plane: &StewardControlPlane,
        endpoint: Option<&ControlPlaneEndpoint>,
    ) {
        let finding = match endpoint {
            None => pending("the endpoint is written when it is known"),
            Some(endpoint)
                if control_plane.spec.control_plane_endpoint.as_ref() == Some(endpoint) =>
            {
                succeeded(format!("spec.controlPlaneEndpoint is {}", shown(endpoint)))
            }
            Some(endpoint) => {
                self.apply.push(endpoint_of(control_plane, endpoint));
                pending("spec.controlPlaneEndpoint is being written")
            }
        };
        self.tell(types::CONTROL_PLANE_ENDPOINT_PATCHED, finding);
    }

    /// Tells the infrastructure of the Cluster.
    fn infrastructure(&mut self, world: &World, endpoint: Option<&ControlPlaneEndpoint>) {
        let (finding, effects) = if let ClusterSight::Found(..) = &world.cluster {
            infrastructure::settle(&world.infrastructure, endpoint)
        } else {
            let message = "the infrastructure is told the endpoint when there is a Cluster";
            (pending(message), Vec::new())
        };
        self.tell(types::INFRASTRUCTURE_CLUSTER_PATCHED, finding);
        self.effects.extend(effects);
    }

    /// Keeps the Secrets of Cluster API. Says whether the kubeconfig is there.
    fn secrets(
        &mut self,
        control_plane: &StewardControlPlane,
        world: &World,
        tenant: Option<&TenantSight>,
    ) -> bool {
        let type_ = types::KUBEADM_RESOURCES_CREATED;
        let (ClusterSight::Found(cluster, _), Some(tenant)) = (&world.cluster, tenant) else {
            let message = "the Secrets are made when there is a TenantControlPlane";
            self.tell(type_, pending(message));
            return false;
        };
        let is_here = world.host == Host::Here;
        let settled = secrets::settle(control_plane, cluster, tenant, is_here, &world.secrets);
        self.effects.extend(settled.effects);
        self.tell(type_, settled.finding);
        settled.has_kubeconfig
    }

    fn conclude(
        mut self,
        control_plane: &StewardControlPlane,
        tenant: Option<&TenantSight>,
        has_kubeconfig: bool,
        now: Timestamp,
    ) -> Plan<StewardControlPlaneStatus, Effect> {
        let before = control_plane.status.clone().unwrap_or_default();
        let ready = tenant.is_some_and(TenantSight::is_serving);
        let initialized = was_initialized(&before) || (ready && has_kubeconfig);
        self.tell(
            types::STEWARD_CONTROL_PLANE_IS_INITIALIZED,
            if initialized {
                succeeded("the API server has served, and its kubeconfig is there")
            } else {
                pending("waiting until the API server serves and its kubeconfig is there")
            },
        );
        self.tell(
            types::STEWARD_CONTROL_PLANE_IS_READY,
            if ready {
                succeeded("the API server serves")
            } else {
                pending("the API server does not serve; Available says why")
            },
        );
        let obstacle = self.obstacle();
        let generation = control_plane.metadata.generation;
        let conditions = Conditions::since(&before.conditions, generation, now);
        let conditions = match tenant {
            Some(tenant) => {
                let changes = status::changes(control_plane.spec.replicas, tenant);
                let said = status::available(conditions, tenant);
                told(said, changes)
            }
            None => status::nothing_yet(conditions, &obstacle),
        };
        let notes = self.notes();
        let conditions =
            told(conditions, self.told).say(types::PAUSED, false, reasons::NOT_PAUSED, "");
        let status = StewardControlPlaneStatus {
            initialization: Some(ControlPlaneInitialization {
                control_plane_initialized: Some(initialized),
            }),
            initialized,
            ready,
            conditions: conditions.finish(),
            ..tenant.map(status::counts).unwrap_or_default()
        };
        Plan {
            apply: self.apply,
            effects: self.effects,
            notes,
            ..Plan::status(status)
        }
    }

    /// The first thing that is in the way.
    fn obstacle(&self) -> Finding {
        let mut told = self.told.iter().map(|(_, finding)| finding);
        let obstacle = told.find(|finding| finding.answer != Answer::True);
        obstacle.cloned().unwrap_or_else(|| pending(""))
    }

    /// What somebody has to do something about.
    fn notes(&self) -> Vec<Note> {
        let told = self.told.iter().map(|(_, finding)| finding);
        let grave = told.filter(|finding| {
            let waits = finding.reason == reasons::PENDING;
            finding.answer == Answer::False && !waits
        });
        grave
            .map(|finding| Note::warning(finding.reason, &finding.message))
            .collect()
    }
}

/// Says several findings, each under its type.
fn told(
    conditions: Conditions<'_>,
    findings: impl IntoIterator<Item = (&'static str, Finding)>,
) -> Conditions<'_> {
    let findings = findings.into_iter();
    findings.fold(conditions, |said, (type_, finding)| {
        said.tell(type_, finding)
    })
}

/// Whether the API server has ever served, in the words of either contract.
fn was_initialized(status: &StewardControlPlaneStatus) -> bool {
    let told = status.initialization.unwrap_or_default();
    status.initialized || told.control_plane_initialized == Some(true)
}

fn endpoint_of(control_plane: &StewardControlPlane, endpoint: &ControlPlaneEndpoint) -> Manifest {
    let body = json!({
        "metadata": { "name": control_plane.name_any(), "namespace": control_plane.namespace() },
        "spec": { "controlPlaneEndpoint": endpoint },
    });
    Manifest::new(Kind::of::<StewardControlPlane>(), body)
}

/// The control plane goes when its `TenantControlPlane` has gone.
fn teardown(
    control_plane: &StewardControlPlane,
    world: &World,
    now: Timestamp,
) -> Plan<StewardControlPlaneStatus, Effect> {
    let ours = world.tenant_of(control_plane);
    let mut effects = Vec::new();
    let finding = match (&world.host, ours) {
        (Host::Unreachable(why), _) => {
            let message = format!(
                "the TenantControlPlane {} of the other cluster cannot be deleted: {why}; or delete it yourself and remove the finalizer",
                tenant_key(control_plane)
            );
            Finding::new(true, reasons::DELETION_BLOCKED, message)
        }
        (_, Some(tenant)) => {
            if !tenant.deleting {
                effects.push(Effect::RemoveTenant {
                    key: tenant.key(),
                    uid: tenant.uid.clone(),
                });
            }
            let message = format!(
                "waiting until the TenantControlPlane {} is gone",
                tenant.key()
            );
            Finding::new(true, reasons::DELETING, message)
        }
        (_, None) => Finding::new(true, reasons::DELETING, ""),
    };
    let is_done = ours.is_none() && !matches!(world.host, Host::Unreachable(_));
    let notes = if finding.reason == reasons::DELETION_BLOCKED {
        vec![Note::warning(finding.reason, &finding.message)]
    } else {
        Vec::new()
    };
    let before = control_plane.status.clone().unwrap_or_default();
    let generation = control_plane.metadata.generation;
    let conditions = Conditions::since(&before.conditions, generation, now)
        .say(types::AVAILABLE, false, reasons::DELETING, "")
        .tell(types::DELETING, finding)
        .say(types::PAUSED, false, reasons::NOT_PAUSED, "")
        .finish();
    let status = StewardControlPlaneStatus {
        ready: false,
        conditions,
        observed_generation: None,
        ..before
    };
    Plan {
        effects,
        notes,
        next: if is_done {
            Next::Done
        } else {
            Next::AwaitChange
        },
        ..Plan::status(status)
    }
}

#[cfg(test)]
#[path = "plan_end_tests.rs"]
mod end_tests;
#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
