//! What a tenant shall hold, and of which parts that speaks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use butler_api::version::KubernetesVersion;
use butler_runtime::object::Manifest;
use thiserror::Error;

use crate::build::patch::PatchError;
use crate::build::versions::{POLICIES_SINCE, has_policies};
use crate::build::{
    Workbench, access, bootstrap, core_dns, freeze, kube_proxy, kubeadm_config, kubelet_config,
    write_permissions,
};
use crate::checksum::checksum;
use crate::facts::TenantFacts;
use crate::object::ObjectId;
use crate::part::TenantPart;
use crate::places::{self, Place, places};

/// Whether an object that somebody else made under our name is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Yes: nodes, and Kubernetes itself, look for this very name.
    Always,
    /// No: somebody runs an addon of their own.
    IfFree,
}

/// An object that shall exist. Its `Debug` says which, not what is in it.
#[derive(Clone, PartialEq)]
pub struct DesiredObject {
    /// The part it belongs to.
    pub part: TenantPart,
    /// What to apply.
    pub manifest: Manifest,
}

impl DesiredObject {
    /// Which object it is.
    pub fn id(&self) -> ObjectId {
        ObjectId {
            kind: self.manifest.kind.clone(),
            key: self.manifest.key.clone(),
        }
    }

    /// Whether it takes the place of somebody else's.
    pub const fn claim(&self) -> Claim {
        match self.part {
            TenantPart::CoreDns | TenantPart::KubeProxy => Claim::IfFree,
            TenantPart::Freeze
            | TenantPart::WritePermissions
            | TenantPart::Access
            | TenantPart::KubeadmConfig
            | TenantPart::KubeletConfig
            | TenantPart::Bootstrap
            | TenantPart::Tunnel
            | TenantPart::TcpProxy => Claim::Always,
        }
    }

    /// Whether it is written when all else is there: by it, nodes find the cluster, and then need the rest.
    pub fn is_last(&self) -> bool {
        self.manifest.key.name == bootstrap::CLUSTER_INFO
    }
}

impl fmt::Debug for DesiredObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DesiredObject({} of {})", self.id(), self.part)
    }
}

/// Why a part cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// A patch does not fit.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// There is no address for DNS.
    #[error(
        "the networks of Services have no address for DNS: choose a larger serviceCidr, or name one in dnsServiceIPs"
    )]
    NoDnsAddress,
    /// The API servers are too old to be told which writes to refuse.
    #[error(
        "API servers of Kubernetes {0} cannot be told to refuse writes, so that all are accepted: upgrade to v1.{POLICIES_SINCE} or newer"
    )]
    CannotRefuse(KubernetesVersion),
    /// The same, while the state moves.
    #[error(
        "API servers of Kubernetes {0} cannot be told to refuse writes while the state moves: scale the control plane to zero until it has moved, or upgrade to v1.{POLICIES_SINCE} or newer first"
    )]
    CannotFreeze(KubernetesVersion),
}

/// What a tenant shall hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The objects, in the order in which they are applied.
    pub objects: Vec<DesiredObject>,
    /// The parts this speaks of. What exists of them and is not among the objects shall go; other parts stay as they are.
    pub governed: BTreeSet<TenantPart>,
    /// The parts that cannot be built, and why. They stay as they are.
    pub problems: BTreeMap<TenantPart, Problem>,
    /// Where objects of ours can be, of all kinds that the tenant serves.
    pub places: Vec<Place>,
}

impl Desired {
    /// Whether there is something of this part.
    pub fn has(&self, part: TenantPart) -> bool {
        self.objects.iter().any(|object| object.part == part)
    }

    /// Where what is taken away or changed shall be put right at once, and not at the next look.
    pub fn watched(&self) -> Vec<Place> {
        places::watched(&self.places, &self.objects)
    }

    /// A fingerprint of each part.
    pub fn checksums(&self) -> BTreeMap<TenantPart, String> {
        let parts: BTreeSet<_> = self.objects.iter().map(|object| object.part).collect();
        let texts = |part| {
            let objects = self
                .objects
                .iter()
                .filter(move |object| object.part == part);
            objects.map(|object| object.manifest.body.to_string())
        };
        parts
            .into_iter()
            .map(|part| {
                let texts: Vec<String> = texts(part).collect();
                (part, checksum(texts.iter().map(String::as_str)))
            })
            .collect()
    }
}

/// What a tenant of these facts shall hold.
///
/// While it is frozen, that is the freeze alone: every other write would be refused, or be lost.
pub fn desired(facts: &TenantFacts) -> Desired {
    let mut desired = Desired {
        objects: Vec::new(),
        governed: BTreeSet::new(),
        problems: BTreeMap::new(),
        places: places(&facts.serving_version),
    };
    let parts: &[TenantPart] = if facts.frozen {
        &[TenantPart::Freeze]
    } else {
        &TenantPart::ALL
    };
    for part in parts.iter().copied() {
        match build(facts, part) {
            Ok(objects) => {
                desired.objects.extend(objects);
                desired.governed.insert(part);
            }
            Err(problem) => {
                desired.problems.insert(part, problem);
            }
        }
    }
    desired
}

fn build(facts: &TenantFacts, part: TenantPart) -> Result<Vec<DesiredObject>, Problem> {
    let workbench = Workbench { facts, part };
    let permissions = facts.write_permissions;
    let serving = &facts.serving_version;
    Ok(match part {
        TenantPart::Freeze if facts.frozen && !has_policies(serving) => {
            return Err(Problem::CannotFreeze(serving.clone()));
        }
        TenantPart::Freeze if facts.frozen => freeze::objects(workbench),
        TenantPart::WritePermissions if !permissions.allows_all() && !has_policies(serving) => {
            return Err(Problem::CannotRefuse(serving.clone()));
        }
        TenantPart::WritePermissions if !permissions.allows_all() => {
            write_permissions::objects(workbench, permissions)
        }
        TenantPart::Freeze | TenantPart::WritePermissions => Vec::new(),
        TenantPart::Access => access::objects(workbench),
        TenantPart::KubeadmConfig => kubeadm_config::objects(workbench),
        TenantPart::KubeletConfig => kubelet_config::objects(workbench)?,
        TenantPart::Bootstrap => bootstrap::objects(workbench),
        TenantPart::CoreDns => match &facts.core_dns {
            Some(addon) => core_dns::objects(workbench, addon)?,
            None => Vec::new(),
        },
        TenantPart::KubeProxy => match &facts.kube_proxy {
            Some(addon) => kube_proxy::objects(workbench, addon)?,
            None => Vec::new(),
        },
        TenantPart::Tunnel => labelled(workbench, &facts.tunnel),
        TenantPart::TcpProxy => labelled(workbench, &facts.tcp_proxy),
    })
}

/// Objects that somebody else has built.
fn labelled(workbench: Workbench<'_>, objects: &[Manifest]) -> Vec<DesiredObject> {
    let objects = objects.iter().cloned();
    objects.map(|object| workbench.labelled(object)).collect()
}
