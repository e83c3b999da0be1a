//! The control planes that a generator selects, and what is there for each. All from caches, but for Secrets that are about to be
//! made.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use butler_api::{
    conditions::reasons,
    steward::{
        kubeconfig_generator::{
            CompoundValue, KubeconfigGenerator, LONGEST_EXPIRATION_SECONDS,
            SHORTEST_EXPIRATION_SECONDS,
        },
        tenant_control_plane::TenantControlPlane,
    },
};
use butler_runtime::{
    cache::{Cached, Facts, Projection as _, Whole},
    failure::Failure,
    object::ObjectKey,
    reconciler::Context,
};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};
use serde_json::{Value, json};

use super::{ownership, secret_of};
use crate::{
    names::{Names, SecretRole},
    projections::NamespaceLabels,
    secrets::{Borrower, Content, KeptSecret, LEAF_LIFE, Pair, Seen, secret_kind},
};

// An authority that was replaced is trusted until all certificates of the usual life have ended: none may live longer.
const _: () = assert!(LONGEST_EXPIRATION_SECONDS == LEAF_LIFE.as_secs());

/// A control plane that a generator selects.
#[derive(Clone, Debug)]
pub struct Target {
    /// Which.
    pub control_plane: ObjectKey,
    /// For whom a kubeconfig is to be made, for how long and by which server, or what is in the way.
    pub borrower: Result<Borrower, String>,
    /// The authority it must trust, or what is in the way.
    pub authority: Result<Pair, String>,
    /// The control plane, this or another, that keeps a Secret of its own under the name of the kubeconfig's.
    pub reserved_by: Option<ObjectKey>,
    /// The Secret of that name as it is, whosever it is.
    pub secret: Option<Seen>,
}

/// The world around a generator.
#[derive(Clone, Debug)]
pub struct World {
    /// The control planes it selects; none if a selector cannot be read, which the error says.
    pub targets: Result<Vec<Target>, String>,
    /// Secrets it made for control planes that it does not select.
    pub leftovers: Vec<Seen>,
}

pub(super) async fn observe(
    generator: &KubeconfigGenerator,
    context: &Context,
) -> Result<World, Failure> {
    let secrets = context.cache::<KeptSecret>();
    let name = generator.name_any();
    let targets = match selected(generator, context) {
        Err(problem) => Err(problem),
        Ok(selected) => {
            let mut targets = Vec::with_capacity(selected.len());
            for control_plane in &selected {
                targets.push(target(generator, control_plane, context).await?);
            }
            Ok(targets)
        }
    };
    let wanted: BTreeSet<_> = targets
        .iter()
        .flatten()
        .map(|target| &target.control_plane)
        .collect();
    let mut leftovers = secrets.list();
    leftovers.retain(|seen| {
        let made_for = ownership::made_for(seen, &name);
        made_for.is_some_and(|control_plane| !wanted.contains(&control_plane))
    });
    Ok(World { targets, leftovers })
}

fn selected(
    generator: &KubeconfigGenerator,
    context: &Context,
) -> Result<Vec<TenantControlPlane>, String> {
    let namespaces = selector(
        "namespaceSelector",
        generator.spec.namespace_selector.as_ref(),
    )?;
    let names = "tenantControlPlaneSelector";
    let control_planes = selector(names, generator.spec.tenant_control_plane_selector.as_ref())?;
    let known = context.cache::<NamespaceLabels>();
    let none = BTreeMap::new();
    let all = context.cache::<Whole<TenantControlPlane>>().list();
    let all = all.iter().map(|found| &found.value.0);
    let matching = all.filter(|control_plane| {
        let namespace = ObjectKey::cluster(control_plane.namespace().unwrap_or_default());
        let namespace = known.get(&namespace);
        let labels = namespace
            .as_ref()
            .map_or(&none, |namespace| &namespace.value.0);
        control_plane.metadata.deletion_timestamp.is_none()
            && namespaces.matches(labels)
            && control_planes.matches(control_plane.labels())
    });
    Ok(matching.cloned().collect())
}

fn selector(field: &str, selector: Option<&LabelSelector>) -> Result<Selector, String> {
    let read = selector.cloned().unwrap_or_default().try_into();
    read.map_err(|error| format!("spec.{field}: {error}; correct it"))
}

async fn target(
    generator: &KubeconfigGenerator,
    control_plane: &TenantControlPlane,
    context: &Context,
) -> Result<Target, Failure> {
    let secrets = context.cache::<KeptSecret>();
    let names = Names::of(control_plane);
    let seen = |role| secrets.get(&names.secret(role));
    let authority = match seen(SecretRole::Authority).map(|seen| seen.value.content.clone()) {
        Some(Content::Pair(pair)) => pair,
        _ => Err("its certificate authority is not there yet".to_owned()),
    };
    let server = match seen(SecretRole::AdminKubeconfig).map(|seen| seen.value.content.clone()) {
        Some(Content::Kubeconfigs(found)) => {
            let key = &generator.spec.control_plane_endpoint_from;
            let missing = || {
                Err(format!(
                    "spec.controlPlaneEndpointFrom: its admin kubeconfig has no key {key}"
                ))
            };
            let facts = found.get(key).cloned().unwrap_or_else(missing);
            facts.map(|facts| facts.server)
        }
        _ => Err("its admin kubeconfig is not there yet".to_owned()),
    };
    let borrower = server.and_then(|server| borrower(generator, control_plane, server));
    let key = secret_of(&names.itself(), &generator.name_any());
    let control_planes = context.cache::<Whole<TenantControlPlane>>();
    let reserved_by = ownership::reserved_by(&key, |owner| control_planes.get(owner).is_some());
    let about_to_be_made = generator.metadata.deletion_timestamp.is_none()
        && borrower.is_ok()
        && authority.is_ok()
        && reserved_by.is_none();
    let secret = match secrets.get(&key) {
        None if about_to_be_made => live(&key, context).await?,
        known => known,
    };
    Ok(Target {
        control_plane: names.itself(),
        borrower,
        authority,
        reserved_by,
        secret,
    })
}

/// A Secret that the cache does not know: it knows those alone that carry Steward's label.
async fn live(key: &ObjectKey, context: &Context) -> Result<Option<Seen>, Failure> {
    let Some(body) = context.api().get(&secret_kind(), key).await? else {
        return Ok(None);
    };
    let facts = Facts::of(&body);
    let value = KeptSecret::project(body).map_err(|_| {
        let message = format!("the API server's answer about the Secret {key} cannot be read");
        Failure::retry(reasons::OBSERVE_FAILED, message)
    })?;
    Ok(Some(Arc::new(Cached { facts, value })))
}

fn borrower(
    generator: &KubeconfigGenerator,
    control_plane: &TenantControlPlane,
    server: String,
) -> Result<Borrower, String> {
    let object = json!(control_plane);
    let groups = generator.spec.groups.iter();
    Ok(Borrower {
        entry: generator.name_any(),
        user: value("user", &generator.spec.user, &object)?,
        groups: groups
            .map(|group| value("groups", group, &object))
            .collect::<Result<_, _>>()?,
        life: life(generator.spec.expiration_seconds)?,
        server,
    })
}

fn life(seconds: i64) -> Result<SignedDuration, String> {
    let allowed = SHORTEST_EXPIRATION_SECONDS..=LONGEST_EXPIRATION_SECONDS;
    if allowed.contains(&seconds) {
        return Ok(SignedDuration::from_secs(seconds));
    }
    Err(format!(
        "spec.expirationSeconds: {seconds} is not between {SHORTEST_EXPIRATION_SECONDS} (ten minutes) and {LONGEST_EXPIRATION_SECONDS} (a year); correct it"
    ))
}

/// A text that is given, or found in the control plane by a dotted path.
fn value(field: &str, compound: &CompoundValue, object: &Value) -> Result<String, String> {
    if let Some(text) = &compound.string_value {
        return Ok(text.clone());
    }
    let path = compound.from_definition.as_deref().unwrap_or_default();
    let mut steps = path.split('.').filter(|step| !step.is_empty());
    let found = steps.try_fold(object, |value, step| value.get(step));
    let text = found.and_then(Value::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| format!("spec.{field}: {path:?} is no text in the control plane"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::control_plane;

    #[test]
    fn a_value_is_given_or_found_in_the_control_plane() {
        let object = json!(control_plane("LoadBalancer"));
        let told =
            |compound: Value| value("user", &serde_json::from_value(compound).unwrap(), &object);
        assert_eq!(
            told(json!({ "stringValue": "alice" })),
            Ok("alice".to_owned())
        );
        assert_eq!(
            told(json!({ "fromDefinition": "metadata.name" })),
            Ok("shop".to_owned())
        );
        assert_eq!(
            told(json!({ "fromDefinition": ".spec.kubernetes.version" })),
            Ok("v1.36.3".to_owned())
        );
        let missing = told(json!({ "fromDefinition": "metadata.labels" })).unwrap_err();
        assert_eq!(
            missing,
            "spec.user: \"metadata.labels\" is no text in the control plane"
        );
    }

    #[test]
    fn a_life_is_neither_too_short_to_be_renewed_nor_longer_than_authorities_are_trusted() {
        assert_eq!(life(600), Ok(SignedDuration::from_mins(10)));
        assert_eq!(life(31_536_000), Ok(LEAF_LIFE));
        assert_eq!(
            life(599).unwrap_err(),
            "spec.expirationSeconds: 599 is not between 600 (ten minutes) and 31536000 (a year); correct it"
        );
        assert!(life(31_536_001).is_err());
    }
}
