//! The image of the operating system that machines boot from, where an image factory makes it: brought to the provider by an
//! `ImageSync` of the cluster's own. The image itself stays at the provider, and clusters share it there.

use std::collections::BTreeMap;

use butler_api::{
    butler::{
        butler_config::{ButlerConfig, ImageFactory},
        image_sync::{
            Architecture, ImageFactoryReference, ImageSync, ImageSyncPhase, ImageSyncSpec,
            ImageSyncStatus, TransferMode,
        },
        provider_config::{Provider, ProviderConfig},
        tenant_cluster::{OperatingSystem, OperatingSystemType, TenantCluster},
    },
    conditions::{reasons, types},
    keys::labels,
    normalize::tenant_cluster::pools,
    reference::NamespacedReference,
};
use butler_runtime::object::Manifest;
use kube::ResourceExt;
use sha2::{Digest as _, Sha256};

use super::{addresses::hex, observe::ImageSight, why::Waiting};

/// Rocky Linux of clusters that name no version.
const USUAL_ROCKY: &str = "9.5";
/// The longest value of a label, and of a name that becomes one.
const LABEL_LENGTH: usize = 63;

/// How many bytes of a hash are in a name that is too long.
const HASH_BYTES: usize = 4;

/// What becomes of the image.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// No image is brought: the provider has one, or needs none.
    NotRequired,
    /// It is asked for.
    Wanted {
        /// The wish.
        manifest: Box<Manifest>,
        /// The image as the provider names it, once it is there.
        image: Option<String>,
        /// What is waited for.
        waiting: Option<Waiting>,
    },
    /// It cannot be asked for.
    Refused(Waiting),
}

/// Decides what image the workers of a cluster need beside what their provider has.
pub(super) fn plan(
    cluster: &TenantCluster,
    config: Option<&ButlerConfig>,
    provider: &ProviderConfig,
    found: &BTreeMap<String, ImageSight>,
) -> Decision {
    if provider.spec.provider == Provider::Local {
        return Decision::NotRequired;
    }
    let workers = pools(&cluster.spec).into_iter().next().unwrap_or_default();
    let os = workers.os.unwrap_or_default();
    let factory = config.and_then(|config| config.spec.image_factory.as_ref());
    let Some(schematic) = schematic(&os, factory) else {
        return Decision::NotRequired;
    };
    let Some(factory) = factory else {
        let why = "spec.workers.machineTemplate.os.schematicID: the platform has no image factory";
        return refused(why, "set spec.imageFactory of the ButlerConfig");
    };
    if !factory.auto_sync {
        return Decision::NotRequired;
    }
    let Some(version) = version(&os, workers.talos_version.as_deref()) else {
        let why =
            "spec.workers.machineTemplate.os.version: an image of a schematic needs a version";
        return refused(why, "name the version of the operating system");
    };
    let sync = sync(cluster, provider, &schematic, &version);
    let name = sync.name_any();
    let found = found.get(&name).map(|found| &found.status);
    Decision::Wanted {
        manifest: Box::new(Manifest::of(&sync)),
        image: found.and_then(|found| {
            let ready = found.phase == Some(ImageSyncPhase::Ready);
            found.provider_image_ref.clone().filter(|_| ready)
        }),
        waiting: waiting(&name, found),
    }
}

/// What the image of workers with this system is made by, if a factory makes it. An image that is named needs no factory, unless
/// one is asked for as well.
pub(super) fn schematic(
    workers: &OperatingSystem,
    factory: Option<&ImageFactory>,
) -> Option<String> {
    let usual = factory.and_then(|factory| factory.default_schematic_id.clone());
    let usual = usual.filter(|_| workers.image_ref.is_none());
    workers.schematic_id.clone().or(usual)
}

fn refused(why: &str, what_to_do: &str) -> Decision {
    let waiting = Waiting::new(types::IMAGE_READY, reasons::VALIDATION_FAILED, why);
    Decision::Refused(waiting.advise(what_to_do).needs_somebody())
}

/// The version of a system; `None` if it has no usual one.
pub(super) fn version(os: &OperatingSystem, talos: Option<&str>) -> Option<String> {
    let stated = os.version.clone().filter(|version| !version.is_empty());
    let usual = || match os.os_type {
        None | Some(OperatingSystemType::Rocky) => Some(USUAL_ROCKY.to_owned()),
        Some(OperatingSystemType::Talos) => talos.map(str::to_owned),
        Some(
            OperatingSystemType::Flatcar
            | OperatingSystemType::Kairos
            | OperatingSystemType::Bottlerocket,
        ) => None,
    };
    stated.or_else(usual)
}

/// Name of the `ImageSync` of a cluster.
pub(super) fn name(cluster: &TenantCluster, schematic: &str, version: &str) -> String {
    let schematic: String = schematic.chars().take(8).collect();
    let version = version.strip_prefix('v').unwrap_or(version);
    let name = format!("{}-{schematic}-{version}", cluster.name_any());
    let name = name.to_lowercase().replace(['.', '_', '+'], "-");
    if name.len() <= LABEL_LENGTH {
        return name.trim_end_matches('-').to_owned();
    }
    // What is cut off tells schematics and versions apart.
    let hash = hex(&Sha256::digest(name.as_bytes())[..HASH_BYTES]);
    let kept: String = name.chars().take(LABEL_LENGTH - 1 - hash.len()).collect();
    format!("{kept}-{hash}")
}

fn sync(
    cluster: &TenantCluster,
    provider: &ProviderConfig,
    schematic: &str,
    version: &str,
) -> ImageSync {
    let spec = ImageSyncSpec {
        factory_ref: ImageFactoryReference {
            schematic_id: schematic.to_owned(),
            version: version.to_owned(),
            arch: Architecture::default(),
            platform: None,
        },
        provider_config_ref: NamespacedReference {
            name: provider.name_any(),
            namespace: provider.namespace(),
        },
        format: None,
        transfer_mode: TransferMode::default(),
        display_name: None,
    };
    let mut sync = ImageSync::new(&name(cluster, schematic, version), spec);
    sync.metadata.namespace = cluster.namespace();
    let cut = |text: &str| text.chars().take(LABEL_LENGTH).collect::<String>();
    let found = [
        (labels::TENANT, cluster.name_any()),
        (labels::SCHEMATIC_ID, cut(schematic)),
        (labels::IMAGE_VERSION, cut(&version.replace('+', "-"))),
        (labels::IMAGE_ARCHITECTURE, "amd64".to_owned()),
        (labels::PROVIDER_CONFIG, cut(&provider.name_any())),
    ];
    sync.metadata.labels = Some(
        found
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    );
    sync
}

fn waiting(name: &str, found: Option<&ImageSyncStatus>) -> Option<Waiting> {
    let said = |reason: &str, why: String| Waiting::new(types::IMAGE_READY, reason, why);
    let Some(found) = found else {
        let why = format!("the ImageSync {name} is being made");
        return Some(said(reasons::IMAGE_SYNC_PENDING, why));
    };
    match found.phase {
        Some(ImageSyncPhase::Ready) => None,
        Some(ImageSyncPhase::Failed) => {
            let words = found.failure_message.as_deref();
            let words = words.unwrap_or("the image did not arrive");
            let waiting = said(
                reasons::IMAGE_SYNC_FAILED,
                format!("the ImageSync {name}: {words}"),
            );
            let advice = "correct what it says and delete the ImageSync, so that it is tried again";
            Some(waiting.advise(advice).needs_somebody())
        }
        None | Some(ImageSyncPhase::Pending) => {
            let why = format!("the ImageSync {name} has not begun");
            Some(said(reasons::IMAGE_SYNC_PENDING, why))
        }
        Some(
            ImageSyncPhase::Building | ImageSyncPhase::Downloading | ImageSyncPhase::Uploading,
        ) => {
            let why = format!("the ImageSync {name} brings the image to the provider");
            Some(said(reasons::IMAGE_SYNC_IN_PROGRESS, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant_cluster::blueprint::testing::plain_shop;

    #[test]
    fn a_name_that_is_too_long_still_tells_versions_apart() {
        let mut cluster = plain_shop(&serde_json::json!({}));
        assert_eq!(
            name(&cluster, "376567988ad370", "v9.5"),
            "shop-37656798-9-5"
        );
        cluster.metadata.name = Some("a".repeat(60));
        let names = ["9.5", "9.6"].map(|version| name(&cluster, "376567988ad370", version));
        assert_ne!(names[0], names[1]);
        for name in names {
            assert_eq!(name.len(), LABEL_LENGTH, "{name}");
        }
    }
}
