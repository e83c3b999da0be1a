//! The Secrets that Cluster API reads: the administrator's kubeconfig and the certificate authority, copied from those that the
//! `TenantControlPlane` has.
//!
//! Plans know where a copy comes from and the fingerprint of that, never what is in it.

use std::collections::BTreeMap;

use butler_api::{
    cluster_api::steward_control_plane::StewardControlPlane,
    conditions::reasons,
    keys::{annotations, labels, names, secret_keys, values},
};
use butler_runtime::{
    api_server::{ApiServer, Cause},
    cache::{Cached, Caches, Projection},
    conditions::Finding,
    failure::{Class, Failure},
    object::{Kind, ObjectKey},
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Effect, build,
    tenant::{SecretSource, TenantSight},
};
use crate::secrets::{Data, Guard, checksum, replace, secret_kind};

/// A Secret that Cluster API looks for by the name of the Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ClusterSecret {
    /// The administrator's kubeconfig.
    Kubeconfig,
    /// The certificate authority.
    Authority,
}

impl ClusterSecret {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Kubeconfig, Self::Authority];

    /// Its key for a Cluster.
    pub fn key(self, cluster: &ObjectKey) -> ObjectKey {
        let suffix = match self {
            Self::Kubeconfig => names::KUBECONFIG_SUFFIX,
            Self::Authority => names::CERTIFICATE_AUTHORITY_SUFFIX,
        };
        ObjectKey {
            namespace: cluster.namespace.clone(),
            name: format!("{}{suffix}", cluster.name),
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Kubeconfig => "kubeconfig",
            Self::Authority => "ca",
        }
    }
}

/// What is remembered of a Secret that was made for Cluster API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedSecret {
    /// UID of the control plane it was made for.
    pub owner: Option<String>,
    /// What it was copied from.
    pub copy_of: Option<String>,
    /// Whether its content is as it was written.
    pub is_intact: bool,
}

impl Projection for CopiedSecret {
    const LABELS: Option<&'static str> = Some(labels::STEWARD_SECRET);

    fn kind() -> Kind {
        Kind::of::<Secret>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let secret: Secret = serde_json::from_value(object)?;
        let owners = secret.metadata.owner_references.unwrap_or_default();
        let mut owners = owners.into_iter();
        let notes = secret.metadata.annotations.unwrap_or_default();
        let written = notes.get(annotations::STEWARD_CHECKSUM);
        Ok(Self {
            owner: owners
                .find(|owner| owner.kind == "StewardControlPlane")
                .map(|owner| owner.uid),
            copy_of: notes.get(annotations::STEWARD_COPY_OF).cloned(),
            is_intact: written == Some(&checksum(&secret.data.unwrap_or_default())),
        })
    }
}

/// What is seen of a Secret that was made for Cluster API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySight {
    /// What is remembered of it.
    pub copy: CopiedSecret,
    /// The very version.
    pub guard: Guard,
}

/// The Secrets of a Cluster that were made for Cluster API.
pub(super) fn sights(cluster: &ObjectKey, caches: &Caches) -> BTreeMap<ClusterSecret, CopySight> {
    let store = caches.store::<CopiedSecret>();
    let sight = |found: &Cached<CopiedSecret>| CopySight {
        copy: found.value.clone(),
        guard: Guard::Version {
            uid: found.facts.uid.clone(),
            resource_version: found.facts.resource_version.clone(),
        },
    };
    let seen = ClusterSecret::ALL.into_iter().filter_map(|secret| {
        let found = store.get(&secret.key(cluster))?;
        Some((secret, sight(&found)))
    });
    seen.collect()
}

/// Where a copy comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The Secret.
    pub secret: ObjectKey,
    /// What is taken of it.
    pub entry: String,
    /// Fingerprint of its content.
    pub checksum: String,
}

impl Origin {
    /// In one word, to be left on the copy.
    fn text(&self) -> String {
        format!("{}/{}@{}", self.secret, self.entry, self.checksum)
    }
}

fn origin(
    secret: ClusterSecret,
    source: &SecretSource,
    control_plane: &StewardControlPlane,
) -> Origin {
    let chosen = annotations::STEWARD_KUBECONFIG_SECRET_KEY;
    let chosen = control_plane.annotations().get(chosen);
    let entry = match secret {
        ClusterSecret::Kubeconfig => chosen.map_or(secret_keys::ADMIN_CONF, String::as_str),
        ClusterSecret::Authority => secret_keys::TLS_CERTIFICATE,
    };
    Origin {
        secret: source.key.clone(),
        entry: entry.to_owned(),
        checksum: source.checksum.clone(),
    }
}

/// How the Secrets of a Cluster stand.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settled {
    /// What is told of them.
    pub(super) finding: Finding,
    /// What is to be written.
    pub(super) effects: Vec<Effect>,
    /// Whether the kubeconfig is there and right.
    pub(super) has_kubeconfig: bool,
}

/// Which Secrets are to be written, and whether all are there.
pub(super) fn settle(
    control_plane: &StewardControlPlane,
    cluster: &ObjectKey,
    tenant: &TenantSight,
    is_here: bool,
    seen: &BTreeMap<ClusterSecret, CopySight>,
) -> Settled {
    let mut settled = Settled {
        finding: Finding::new(true, reasons::SUCCEEDED, ""),
        effects: Vec::new(),
        has_kubeconfig: false,
    };
    for secret in ClusterSecret::ALL {
        let target = secret.key(cluster);
        let source = match secret {
            ClusterSecret::Kubeconfig => &tenant.kubeconfig,
            ClusterSecret::Authority => &tenant.authority,
        };
        let Some(source) = source else {
            let message = format!(
                "the Secret {target} is made when the TenantControlPlane {} has what it is copied from",
                tenant.key()
            );
            settled.finding = Finding::new(false, reasons::PENDING, message);
            continue;
        };
        // A control plane that is named like its Cluster has an authority of that name, which is what Cluster API looks for.
        let is_itself = is_here && source.key == target;
        let origin = origin(secret, source, control_plane);
        let found = seen.get(&secret);
        let is_good = is_itself
            || found.is_some_and(|found| {
                found.copy.is_intact && found.copy.copy_of == Some(origin.text())
            });
        if is_good {
            settled.has_kubeconfig |= secret == ClusterSecret::Kubeconfig;
            continue;
        }
        if found.is_some_and(|found| found.copy.owner != control_plane.uid()) {
            settled.finding = Finding::new(false, reasons::NAME_TAKEN, taken(&target));
            continue;
        }
        if settled.finding.reason != reasons::NAME_TAKEN {
            let message = format!("the Secret {target} is being written");
            settled.finding = Finding::new(false, reasons::PENDING, message);
        }
        settled.effects.push(Effect::CopySecret {
            secret,
            cluster: cluster.clone(),
            tenant: tenant.name.clone(),
            origin,
            guard: found.map_or(Guard::Absent, |found| found.guard.clone()),
        });
    }
    settled
}

fn taken(key: &ObjectKey) -> String {
    format!(
        "the Secret {key} exists and was not made for this control plane; delete it if nobody needs it"
    )
}

/// What to write, and over what.
pub(super) struct CopyWish<'a> {
    pub(super) secret: ClusterSecret,
    pub(super) cluster: &'a ObjectKey,
    pub(super) tenant: &'a str,
    pub(super) origin: &'a Origin,
    pub(super) guard: &'a Guard,
}

/// Copies a Secret from where the `TenantControlPlane` is.
pub(super) async fn copy(
    control_plane: &StewardControlPlane,
    wish: CopyWish<'_>,
    there: &dyn ApiServer,
    here: &dyn ApiServer,
) -> Result<(), Failure> {
    let CopyWish { secret, origin, .. } = wish;
    let found = there.get(&secret_kind(), &origin.secret).await?;
    let found: Option<Secret> = found.and_then(|body| serde_json::from_value(body).ok());
    let Some(found) = found else {
        return Err(stale(format!("the Secret {} is gone", origin.secret)));
    };
    let data = content(secret, origin, &found.data.unwrap_or_default())?;
    let target = secret.key(wish.cluster);
    let body = body(control_plane, &wish, &target, &data);
    match wish.guard {
        Guard::Version { .. } => replace(here, &target, wish.guard, body).await,
        Guard::Absent => {
            let created = here.create(&secret_kind(), &target, body).await;
            match created {
                Ok(_) => Ok(()),
                Err(error) if error.cause == Cause::AlreadyExists => {
                    Err(collision(control_plane, &target, here).await?)
                }
                Err(error) => Err(error.into()),
            }
        }
    }
}

/// Somebody was faster: we ourselves, which the cache is about to show, or somebody else, whose Secret stays as it is.
async fn collision(
    control_plane: &StewardControlPlane,
    target: &ObjectKey,
    here: &dyn ApiServer,
) -> Result<Failure, Failure> {
    let found = here.get(&secret_kind(), target).await?;
    let found = found.and_then(|body| CopiedSecret::project(body).ok());
    let is_foreign = found.is_some_and(|found| found.owner != control_plane.uid());
    Ok(if is_foreign {
        Failure::terminal(reasons::NAME_TAKEN, taken(target))
    } else {
        stale(format!("the Secret {target} has just been made"))
    })
}

fn stale(message: String) -> Failure {
    Failure {
        class: Class::Stale,
        reason: reasons::OBSERVE_FAILED,
        message,
    }
}

fn content(secret: ClusterSecret, origin: &Origin, found: &Data) -> Result<Data, Failure> {
    let entry = |names: &[&str]| {
        let mut names = names.iter();
        let value = names.find_map(|name| found.get(*name).cloned());
        value.ok_or_else(|| {
            let message = format!(
                "the Secret {} has no key {}; the annotation {} chooses another",
                origin.secret,
                origin.entry,
                annotations::STEWARD_KUBECONFIG_SECRET_KEY
            );
            Failure::terminal(reasons::FAILED, message)
        })
    };
    let pairs = match secret {
        ClusterSecret::Kubeconfig => vec![(secret_keys::VALUE, entry(&[origin.entry.as_str()])?)],
        // Older releases have their authority under other names.
        ClusterSecret::Authority => vec![
            (
                secret_keys::TLS_CERTIFICATE,
                entry(&[secret_keys::TLS_CERTIFICATE, "ca.crt"])?,
            ),
            (
                secret_keys::TLS_KEY,
                entry(&[secret_keys::TLS_KEY, "ca.key"])?,
            ),
        ],
    };
    let pairs = pairs.into_iter();
    Ok(pairs.map(|(key, value)| (key.to_owned(), value)).collect())
}

fn body(
    control_plane: &StewardControlPlane,
    wish: &CopyWish<'_>,
    target: &ObjectKey,
    data: &Data,
) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": values::SECRET_KIND_CLUSTER_API,
        "metadata": {
            "name": target.name,
            "namespace": target.namespace,
            "labels": {
                labels::CLUSTER_API_CLUSTER: wish.cluster.name,
                labels::STEWARD_COMPONENT: values::STEWARD_COMPONENT_CLUSTER_API,
                labels::STEWARD_SECRET: wish.secret.label(),
                labels::STEWARD_CLUSTER: wish.cluster.name,
                labels::STEWARD_TENANT_CONTROL_PLANE: wish.tenant,
            },
            "annotations": {
                annotations::STEWARD_CHECKSUM: checksum(data),
                annotations::STEWARD_COPY_OF: wish.origin.text(),
            },
            "ownerReferences": [build::owner_reference(control_plane)],
        },
        "data": data,
    })
}
