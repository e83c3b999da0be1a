//! What exists for a tenant cluster: the objects in its namespace, as far as anybody asks.
//!
//! The controller fills it from its caches, the command line from the API server with [`Related::see`]: both judge by the same
//! facts, so [`super::why`] tells both the same.

use std::collections::BTreeMap;

use butler_api::{
    butler::load_balancer_request::{LoadBalancerRequest, LoadBalancerRequestStatus},
    cluster_api::{
        butler_cluster::ButlerCluster,
        butler_machine::ButlerMachine,
        cluster::Cluster,
        kubeadm_control_plane::KubeadmControlPlane,
        machine::Machine,
        machine_group::{MachineDeployment, MachineSet},
        steward_control_plane::StewardControlPlane,
    },
    conditions::types,
    keys::names,
    steward::tenant_control_plane::TenantControlPlane,
};
use butler_runtime::{
    cache::{Facts, Projection},
    object::Kind,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Resource;
use serde_json::Value;

use super::{
    facts::{
        ControlPlaneFacts, DeploymentFacts, HostedFacts, InfrastructureFacts, MachineSetFacts,
    },
    kinds,
};
use crate::{
    cluster_api::{ClusterFacts, MachineFacts},
    projections::{Said, deleted_at},
};

/// An object that was seen, and that very one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen<T> {
    /// Its kind.
    pub kind: String,
    /// Its UID.
    pub uid: String,
    /// What is known of it.
    pub facts: T,
}

/// The namespace of a tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceSight {
    /// UID of the object it was made for.
    pub owner: Option<String>,
    /// Its UID.
    pub uid: String,
    /// When its deletion began.
    pub deleted_at: Option<Timestamp>,
}

/// What exists for a tenant cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Related {
    /// Its namespace.
    pub namespace: Option<NamespaceSight>,
    /// Its Cluster.
    pub cluster: Option<Seen<ClusterFacts>>,
    /// Its control plane.
    pub control_plane: Option<Seen<ControlPlaneFacts>>,
    /// What Steward says of the control plane that it hosts.
    pub hosted: Option<HostedFacts>,
    /// Its infrastructure.
    pub infrastructure: Option<Seen<InfrastructureFacts>>,
    /// The load balancer before a control plane on machines of its own.
    pub balancer: Option<LoadBalancerRequestStatus>,
    /// Its `MachineDeployments` by name.
    pub deployments: BTreeMap<String, Seen<DeploymentFacts>>,
    /// Its `MachineSets` by name.
    pub sets: BTreeMap<String, MachineSetFacts>,
    /// The images of its templates of machines, by the template's name; `None` leaves it to the provider.
    pub images: BTreeMap<String, Option<String>>,
    /// Its Machines by name.
    pub machines: BTreeMap<String, MachineFacts>,
    /// What the infrastructure says of a machine, by the machine's name.
    pub machine_words: BTreeMap<String, Said>,
    /// Name of the Secret with the administrator's kubeconfig.
    pub kubeconfig: Option<String>,
}

impl Related {
    /// The kinds that matter, for somebody who has to ask for them one by one. All are in the
    /// tenant's namespace. The cluster may not serve some of them.
    pub fn kinds() -> Vec<Kind> {
        vec![
            Kind::of::<Cluster>(),
            Kind::of::<StewardControlPlane>(),
            kinds::kamaji_control_plane(),
            Kind::of::<KubeadmControlPlane>(),
            Kind::of::<TenantControlPlane>(),
            Kind::of::<ButlerCluster>(),
            kinds::nutanix_cluster(),
            kinds::kubevirt_cluster(),
            Kind::of::<LoadBalancerRequest>(),
            Kind::of::<MachineDeployment>(),
            Kind::of::<MachineSet>(),
            Kind::of::<Machine>(),
            Kind::of::<ButlerMachine>(),
        ]
    }

    /// Takes in an object as the API server shows it. What does not matter, or cannot be read, is passed over.
    pub fn see(&mut self, object: Value) {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let facts = Facts::of(&object);
        let name = facts.key.name;
        let is = |wanted: &str| kind == wanted;
        if is(&Namespace::kind(&())) {
            self.namespace = Some(NamespaceSight {
                owner: facts.owner,
                uid: facts.uid,
                deleted_at: deleted_at(&object),
            });
        } else if is(&Secret::kind(&())) {
            self.see_secret(&name);
        } else if is(&Cluster::kind(&())) {
            let cluster = ClusterFacts::project(object).ok();
            self.cluster = cluster.map(|facts_of| Seen {
                kind,
                uid: facts.uid,
                facts: facts_of,
            });
        } else if is(&TenantControlPlane::kind(&())) {
            self.hosted = HostedFacts::project(object).ok();
        } else if is(&LoadBalancerRequest::kind(&())) {
            let request = serde_json::from_value::<LoadBalancerRequest>(object).ok();
            self.balancer = request.map(|request| request.status.unwrap_or_default());
        } else if is(&MachineDeployment::kind(&())) {
            let deployment = DeploymentFacts::project(object).ok();
            let seen = deployment.map(|facts_of| Seen {
                kind,
                uid: facts.uid,
                facts: facts_of,
            });
            self.deployments.extend(seen.map(|seen| (name, seen)));
        } else if is(&MachineSet::kind(&())) {
            let set = MachineSetFacts::project(object).ok();
            self.sets.extend(set.map(|set| (name, set)));
        } else if is(&Machine::kind(&())) {
            let machine = MachineFacts::project(object).ok();
            self.machines.extend(machine.map(|machine| (name, machine)));
        } else if is(&ButlerMachine::kind(&())) {
            let said = Said::by(&object, &[types::READY]).into_iter().next();
            self.machine_words.extend(said.map(|said| (name, said)));
        } else if kind.ends_with("ControlPlane") {
            self.control_plane = Some(Seen {
                facts: ControlPlaneFacts::of(&object),
                kind,
                uid: facts.uid,
            });
        } else if kind.ends_with("Cluster") {
            self.infrastructure = Some(Seen {
                facts: InfrastructureFacts::of(&object),
                kind,
                uid: facts.uid,
            });
        }
    }

    /// Takes in the name of a Secret. That of a hosted control plane is the administrator's own, and counts before the one that
    /// was made for Cluster API.
    pub(super) fn see_secret(&mut self, name: &str) {
        let is_administrators = name.ends_with(names::ADMIN_KUBECONFIG_SUFFIX);
        let is_kubeconfig = name.ends_with(names::KUBECONFIG_SUFFIX);
        if is_administrators || (is_kubeconfig && self.kubeconfig.is_none()) {
            self.kubeconfig = Some(name.to_owned());
        }
    }

    /// The image that machines of a `MachineDeployment` are made from, if that is known.
    pub(super) fn image_of(&self, deployment: &str) -> Option<&Option<String>> {
        let template = self.deployments.get(deployment)?.facts.template.as_ref()?;
        self.images.get(template)
    }

    /// The image that machines of the control plane are made from, if it has machines and that is known.
    pub(super) fn image_of_control_plane(&self) -> Option<&Option<String>> {
        let template = self.control_plane.as_ref()?.facts.template.as_ref()?;
        self.images.get(template)
    }

    /// Machines of workers, by name.
    pub(super) fn workers(&self) -> impl Iterator<Item = (&String, &MachineFacts)> {
        let machines = self.machines.iter();
        machines.filter(|(_, machine)| !machine.control_plane)
    }

    /// Addresses at which the API servers of a control plane on machines of its own are reached.
    pub(super) fn control_plane_addresses(&self) -> impl Iterator<Item = &str> {
        let machines = self.machines.values();
        let machines = machines.filter(|machine| machine.control_plane && !machine.deleting);
        machines.filter_map(|machine| machine.addresses.first().map(String::as_str))
    }
}
