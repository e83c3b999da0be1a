//! The wish for an image: an `ImageSync`, and its name.

use butler_api::{
    butler::{
        image_sync::{Architecture, ImageFactoryReference, ImageSync, ImageSyncSpec, TransferMode},
        provider_config::ProviderConfig,
        tenant_cluster::TenantCluster,
    },
    keys::labels,
    reference::NamespacedReference,
};
use kube::ResourceExt;
use sha2::{Digest as _, Sha256};

use crate::tenant_cluster::addresses::hex;

/// The longest value of a label, and of a name that becomes one.
pub(super) const LABEL_LENGTH: usize = 63;

/// How many bytes of a hash are in a name that is too long.
const HASH_BYTES: usize = 4;

/// An image as a factory knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// What it contains beside the plain system.
    pub(super) schematic: String,
    /// Version of that system.
    pub(super) version: String,
}

/// Names of the `ImageSyncs` of a cluster. Where what is in a name does not tell two images apart, a hash does.
pub(super) fn names<'a>(
    cluster: &TenantCluster,
    requests: impl Iterator<Item = &'a Request> + Clone,
) -> Vec<String> {
    let plain = requests.clone().map(|request| name(cluster, request));
    let plain: Vec<_> = plain.collect();
    let named = plain.iter().zip(requests);
    let named = named.map(|(name, Request { schematic, version })| {
        if plain.iter().filter(|other| *other == name).count() == 1 {
            return name.clone();
        }
        with_hash(name, &format!("{schematic} {version}"))
    });
    named.collect()
}

/// The name of one.
pub(super) fn name(cluster: &TenantCluster, Request { schematic, version }: &Request) -> String {
    let schematic: String = schematic.chars().take(8).collect();
    let version = version.strip_prefix('v').unwrap_or(version);
    let name = format!("{}-{schematic}-{version}", cluster.name_any());
    let name = name.to_lowercase().replace(['.', '_', '+'], "-");
    if name.len() <= LABEL_LENGTH {
        return name.trim_end_matches('-').to_owned();
    }
    // What is cut off tells schematics and versions apart.
    with_hash(&name, &name)
}

/// A name that ends with the hash of something.
fn with_hash(name: &str, of: &str) -> String {
    let hash = hex(&Sha256::digest(of.as_bytes())[..HASH_BYTES]);
    let kept: String = name.chars().take(LABEL_LENGTH - 1 - hash.len()).collect();
    format!("{kept}-{hash}")
}

/// The wish itself.
pub(super) fn sync(
    cluster: &TenantCluster,
    provider: &ProviderConfig,
    name: &str,
    Request { schematic, version }: &Request,
) -> ImageSync {
    let spec = ImageSyncSpec {
        factory_ref: ImageFactoryReference {
            schematic_id: schematic.clone(),
            version: version.clone(),
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
    let mut sync = ImageSync::new(name, spec);
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
