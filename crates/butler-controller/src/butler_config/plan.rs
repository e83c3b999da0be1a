//! Decides what the platform's settings mean: a namespace, counts, and which of them have an effect.

use butler_api::{
    butler::butler_config::{ButlerConfig, ButlerConfigStatus, ExposureMode, MultiTenancyMode},
    conditions::{reasons, types},
    keys::{annotations, names},
    name::{NamespaceName, is_reserved_namespace},
};
use butler_runtime::{
    conditions::{Answer, Conditions, Finding},
    object::Manifest,
    plan::{Note, Plan},
    reconciler::NoEffect,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, api::ObjectMeta};

use super::observe::{NamespaceState, World};

pub(super) fn plan(
    config: &ButlerConfig,
    world: &World,
    now: Timestamp,
) -> Plan<ButlerConfigStatus, NoEffect> {
    let namespace = namespace(config, world);
    let configured = configured(config, world, &namespace.finding);
    let features = features(config);
    let mut notes = Vec::new();
    for finding in [&namespace.finding, &configured] {
        // Being made is how every platform starts; it needs nobody's hand. The namespace's trouble is told once.
        let told = notes
            .iter()
            .any(|note: &Note| note.message == finding.message);
        if finding.answer == Answer::False && finding.reason != reasons::CREATING && !told {
            notes.push(Note::warning(finding.reason, &finding.message));
        }
    }

    let previous = config
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let mut conditions = Conditions::since(previous, config.metadata.generation, now);
    for (type_, finding) in [
        (types::NAMESPACE_READY, namespace.finding),
        (types::CONFIGURED, configured),
        (types::FEATURES_AVAILABLE, features),
    ] {
        conditions = conditions.tell(type_, finding);
    }

    let exposure = config
        .spec
        .control_plane_exposure
        .as_ref()
        .map(|exposure| exposure.mode)
        .unwrap_or_default();
    let status = ButlerConfigStatus {
        conditions: conditions.finish(),
        team_count: Some(count(world.teams)),
        cluster_count: Some(count(world.clusters)),
        control_plane_exposure_mode: Some(exposure),
        // Behind an ingress or a gateway, workers reach the API server by name only; the proxy gives them an address.
        tcp_proxy_required: Some(exposure != ExposureMode::LoadBalancer),
        ..ButlerConfigStatus::default()
    };
    Plan {
        apply: namespace.apply.into_iter().collect(),
        notes,
        ..Plan::status(status)
    }
}

/// The namespace to apply, and how it stands.
struct NamespacePlan {
    apply: Option<Manifest>,
    finding: Finding,
}

fn namespace(config: &ButlerConfig, world: &World) -> NamespacePlan {
    let name = &config.spec.default_namespace;
    let only = |finding| NamespacePlan {
        apply: None,
        finding,
    };
    if config.name_any() != names::BUTLER_CONFIG {
        return only(Finding::new(
            Answer::Unknown,
            reasons::INVALID_NAME,
            "only the platform's own settings have a namespace",
        ));
    }
    if mode(config) == MultiTenancyMode::Enforced {
        let message = "every cluster belongs to a team and lives in its namespace";
        return only(Finding::new(true, reasons::NOT_REQUIRED, message));
    }
    if let Err(rule) = name.parse::<NamespaceName>() {
        return only(Finding::new(
            false,
            reasons::VALIDATION_FAILED,
            format!("spec.defaultNamespace: {rule}"),
        ));
    }
    if is_reserved(name) {
        let message = format!(
            "spec.defaultNamespace: {name} belongs to the system; choose a namespace of its own"
        );
        return only(Finding::new(false, reasons::NAME_RESERVED, message));
    }
    let finding = match world.namespace {
        NamespaceState::Present => Finding::new(true, reasons::READY, ""),
        NamespaceState::Absent => Finding::new(
            false,
            reasons::CREATING,
            format!("the namespace {name} is being made"),
        ),
        NamespaceState::Terminating => {
            let message =
                format!("the namespace {name} is being deleted; it is made anew when it is gone");
            return only(Finding::new(false, reasons::NAMESPACE_TERMINATING, message));
        }
    };
    NamespacePlan {
        apply: Some(namespace_manifest(name)),
        finding,
    }
}

/// Namespaces that no tenant may share. The default one is kept from teams, but it is what this field is for.
fn is_reserved(namespace: &str) -> bool {
    is_reserved_namespace(namespace) && namespace != names::DEFAULT_TENANT_NAMESPACE
}

fn namespace_manifest(name: &str) -> Manifest {
    let description = "Tenant clusters that belong to no team".to_owned();
    Manifest::of(&Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            annotations: Some([(annotations::DESCRIPTION.to_owned(), description)].into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    })
}

fn configured(config: &ButlerConfig, world: &World, namespace: &Finding) -> Finding {
    if config.name_any() != names::BUTLER_CONFIG {
        let message = format!(
            "metadata.name: there is one ButlerConfig, named {}; this one has no effect",
            names::BUTLER_CONFIG
        );
        return Finding::new(false, reasons::INVALID_NAME, message);
    }
    if let Some((field, key)) = world.missing.first() {
        let message = format!("{field}: {key} does not exist; create it or correct the reference");
        return Finding::new(false, reasons::CONFIG_ERROR, message);
    }
    match namespace.answer {
        Answer::True => Finding::new(true, reasons::CONFIG_VALID, ""),
        _ if namespace.reason == reasons::CREATING => Finding::new(true, reasons::CONFIG_VALID, ""),
        _ => Finding::new(false, reasons::NAMESPACE_ERROR, &namespace.message),
    }
}

/// Settings of features that are not there yet are kept and named, not ignored in silence.
fn features(config: &ButlerConfig) -> Finding {
    let spec = &config.spec;
    let waiting: Vec<_> = [
        (
            spec.default_addon_versions.is_some(),
            "spec.defaultAddonVersions",
        ),
        (spec.git_provider.is_some(), "spec.gitProvider"),
        (spec.audit.is_some(), "spec.audit"),
        (spec.notifications.is_some(), "spec.notifications"),
        (spec.observability.is_some(), "spec.observability"),
    ]
    .into_iter()
    .filter_map(|(set, field)| set.then_some(field))
    .collect();
    let mut said = Vec::new();
    if !waiting.is_empty() {
        said.push(format!(
            "{}: kept, but without effect in this version",
            waiting.join(", ")
        ));
    }
    // What is asked of the factory is carried out by somebody else, and no such controller is part of this version.
    let factory = spec.image_factory.as_ref();
    said.extend(factory.map(|factory| {
        if factory.auto_sync {
            "spec.imageFactory: clusters ask for its images by ImageSyncs and wait for them; to bring images to a provider, that \
             provider's image controller must be installed, which is no part of this version"
                .to_owned()
        } else {
            "spec.imageFactory: without effect while autoSync is false; machines boot the images that os.imageRef or their \
             ProviderConfig name"
                .to_owned()
        }
    }));
    if said.is_empty() {
        return Finding::new(true, reasons::READY, "");
    }
    Finding::new(false, reasons::NOT_YET_IMPLEMENTED, said.join("; "))
}

fn mode(config: &ButlerConfig) -> MultiTenancyMode {
    config
        .spec
        .multi_tenancy
        .as_ref()
        .map(|tenancy| tenancy.mode)
        .unwrap_or_default()
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
