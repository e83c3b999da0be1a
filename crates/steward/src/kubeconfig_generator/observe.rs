//! The control planes that a generator selects, and what is there for each. All from caches.

use std::collections::BTreeMap;

use butler_api::steward::{
    kubeconfig_generator::{CompoundValue, KubeconfigGenerator},
    tenant_control_plane::TenantControlPlane,
};
use butler_runtime::{cache::Whole, object::ObjectKey, reconciler::Context};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};
use serde_json::{Value, json};

use super::secret_of;
use crate::{
    names::{Names, SecretRole},
    projections::NamespaceLabels,
    secrets::{Content, KeptSecret, KubeconfigWish, Pair, Seen},
};

/// A control plane that a generator selects.
#[derive(Clone, Debug)]
pub struct Target {
    /// Which.
    pub control_plane: ObjectKey,
    /// For whom a kubeconfig is to be made and by which server, or what is in the way.
    pub wish: Result<KubeconfigWish, String>,
    /// The authority it must trust, or what is in the way.
    pub authority: Result<Pair, String>,
    /// The Secret as it is.
    pub secret: Option<Seen>,
}

/// The world around a generator.
#[derive(Clone, Debug)]
pub struct World {
    /// The control planes it selects; none if a selector cannot be read, which the error says.
    pub targets: Result<Vec<Target>, String>,
    /// Secrets it made for others.
    pub leftovers: Vec<Seen>,
}

pub(super) fn observe(generator: &KubeconfigGenerator, context: &Context) -> World {
    let secrets = context.cache::<KeptSecret>();
    let name = generator.name_any();
    let targets = selected(generator, context).map(|selected| {
        let targets = selected
            .iter()
            .map(|control_plane| target(generator, control_plane, context));
        targets.collect::<Vec<_>>()
    });
    let wanted: Vec<_> = targets
        .iter()
        .flatten()
        .map(|target| secret_of(&target.control_plane, &name))
        .collect();
    let made = secrets.list();
    let leftovers = made.into_iter().filter(|seen| {
        seen.value.generator.as_ref() == Some(&name) && !wanted.contains(&seen.facts.key)
    });
    World {
        leftovers: leftovers.collect(),
        targets,
    }
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

fn target(
    generator: &KubeconfigGenerator,
    control_plane: &TenantControlPlane,
    context: &Context,
) -> Target {
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
    let wish = server.and_then(|server| wish(generator, control_plane, server));
    Target {
        control_plane: names.itself(),
        wish,
        authority,
        secret: secrets.get(&secret_of(&names.itself(), &generator.name_any())),
    }
}

fn wish(
    generator: &KubeconfigGenerator,
    control_plane: &TenantControlPlane,
    server: String,
) -> Result<KubeconfigWish, String> {
    let object = json!(control_plane);
    let groups = generator.spec.groups.iter();
    Ok(KubeconfigWish {
        user: value("user", &generator.spec.user, &object)?,
        groups: groups
            .map(|group| value("groups", group, &object))
            .collect::<Result<_, _>>()?,
        servers: vec![(butler_api::keys::secret_keys::VALUE.to_owned(), server)],
    })
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
}
