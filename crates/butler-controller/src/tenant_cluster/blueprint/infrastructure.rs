//! Where machines come from: the place at the provider, and the image.
//!
//! Nothing is guessed: a network or an image that nobody names is said to be missing.

use butler_api::{
    butler::{
        provider_config::{
            ClusterApiProvider, HarvesterProvider, NutanixProvider, Provider, ProviderConfigSpec,
        },
        tenant_cluster::{
            ControlPlaneMode, HarvesterOverride, InfrastructureOverride, NutanixOverride,
            OperatingSystem,
        },
    },
    reference::{NamespacedReference, SecretReference},
};
use kube::ResourceExt;

use super::{
    Infrastructure, KubevirtPlace, NutanixPlace,
    machines::Role,
    resolve::{Case, Refused},
};

pub(super) fn resolve(case: &mut Case<'_>) -> Option<Infrastructure> {
    let wish = override_of(case);
    matches_provider(case, &wish)?;
    let provider = &case.surroundings.provider;
    match provider.spec.cluster_api_provider {
        ClusterApiProvider::Butler => {
            let config = NamespacedReference {
                name: provider.name_any(),
                namespace: provider.namespace(),
            };
            beyond_butler(case, &wish);
            Some(Infrastructure::Butler {
                provider: case.provider(),
                config,
            })
        }
        ClusterApiProvider::Capx => {
            hosted_alone(case, "CAPX");
            nutanix(case, wish.nutanix.unwrap_or_default()).map(Infrastructure::Nutanix)
        }
        ClusterApiProvider::Capk => {
            hosted_alone(case, "CAPK");
            kubevirt(case, wish.harvester.unwrap_or_default()).map(Infrastructure::Kubevirt)
        }
    }
}

fn override_of(case: &Case<'_>) -> InfrastructureOverride {
    let written = case.cluster.spec.infrastructure_override.clone();
    written.unwrap_or_default()
}

/// An override for another provider would be read by nobody.
fn matches_provider(case: &mut Case<'_>, wish: &InfrastructureOverride) -> Option<()> {
    let provider = case.provider();
    let given = [
        (Provider::Gcp, wish.gcp.is_some()),
        (Provider::Harvester, wish.harvester.is_some()),
        (Provider::Nutanix, wish.nutanix.is_some()),
        (Provider::Proxmox, wish.proxmox.is_some()),
    ];
    let foreign = given
        .into_iter()
        .find(|(candidate, given)| *given && *candidate != provider);
    let Some((foreign, _)) = foreign else {
        return Some(());
    };
    case.refuse(format!(
        "spec.infrastructureOverride.{}: the cluster runs on {}; remove it, or name a ProviderConfig of {}",
        foreign.as_str(),
        provider.as_str(),
        foreign.as_str()
    ));
    None
}

/// What machines of Butler's own providers have no words for.
fn beyond_butler(case: &mut Case<'_>, wish: &InfrastructureOverride) {
    let (gcp, harvester) = (wish.gcp.as_ref(), wish.harvester.as_ref());
    let (nutanix, proxmox) = (wish.nutanix.as_ref(), wish.proxmox.as_ref());
    let given = [
        (
            "gcp.machineType",
            gcp.is_some_and(|gcp| gcp.machine_type.is_some()),
        ),
        (
            "gcp.imageFamily",
            gcp.is_some_and(|gcp| gcp.image_family.is_some()),
        ),
        (
            "gcp.subnetwork",
            gcp.is_some_and(|gcp| gcp.subnetwork.is_some()),
        ),
        ("gcp.zone", gcp.is_some_and(|gcp| gcp.zone.is_some())),
        (
            "harvester.namespace",
            harvester.is_some_and(|place| place.namespace.is_some()),
        ),
        (
            "harvester.networkName",
            harvester.is_some_and(|place| place.network_name.is_some()),
        ),
        (
            "nutanix.clusterUUID",
            nutanix.is_some_and(|place| place.cluster_uuid.is_some()),
        ),
        (
            "nutanix.subnetUUID",
            nutanix.is_some_and(|place| place.subnet_uuid.is_some()),
        ),
        (
            "nutanix.storageContainerUUID",
            nutanix.is_some_and(|place| place.storage_container_uuid.is_some()),
        ),
        (
            "proxmox.node",
            proxmox.is_some_and(|place| place.node.is_some()),
        ),
        (
            "proxmox.storage",
            proxmox.is_some_and(|place| place.storage.is_some()),
        ),
    ];
    for (field, _) in given.into_iter().filter(|(_, given)| *given) {
        case.not_yet(format!(
            "spec.infrastructureOverride.{field}: machines of Butler's own providers are where their ProviderConfig says, in \
             this version; make a ProviderConfig for this cluster and name it in spec.providerConfigRef"
        ));
    }
}

/// The endpoint of a standalone control plane is a load balancer that a provider of Butler makes.
fn hosted_alone(case: &mut Case<'_>, provider: &str) {
    if case.reading.control_plane_mode == ControlPlaneMode::Standalone {
        case.not_yet(format!(
            "spec.controlPlane.mode: Standalone needs a load balancer of Butler's own provider, and the ProviderConfig has \
             clusterAPIProvider {provider}; use Hosted, or a ProviderConfig without it"
        ));
    }
}

fn nutanix(case: &mut Case<'_>, wish: NutanixOverride) -> Option<NutanixPlace> {
    let spec = &case.surroundings.provider.spec;
    let Some(NutanixProvider {
        endpoint,
        port,
        insecure,
        cluster_uuid,
        subnet_uuid,
        image_uuid: _,
        storage_container_uuid,
    }) = spec.nutanix.clone()
    else {
        missing_section(case, "nutanix");
        return None;
    };
    if wish
        .storage_container_uuid
        .or(storage_container_uuid)
        .is_some()
    {
        case.refuse(
            "storageContainerUUID: CAPX puts the first disk of a machine where its image is; remove it from \
             spec.infrastructureOverride.nutanix and from the ProviderConfig",
        );
    }
    let cluster = wish.cluster_uuid.unwrap_or(cluster_uuid);
    let subnet = wish.subnet_uuid.unwrap_or(subnet_uuid);
    named(case, "nutanix.clusterUUID", &cluster)?;
    named(case, "nutanix.subnetUUID", &subnet)?;
    Some(NutanixPlace {
        address: host_of(&endpoint).to_owned(),
        port,
        insecure,
        trust_bundle: case.surroundings.trust_bundle.clone(),
        cluster,
        subnet,
        credentials: credentials(case)?,
    })
}

fn kubevirt(case: &mut Case<'_>, wish: HarvesterOverride) -> Option<KubevirtPlace> {
    let spec = &case.surroundings.provider.spec;
    let Some(HarvesterProvider {
        endpoint: _,
        namespace,
        network_name,
        image_name: _,
        storage_class_name,
    }) = spec.harvester.clone()
    else {
        missing_section(case, "harvester");
        return None;
    };
    let network = wish.network_name.unwrap_or(network_name);
    named(case, "harvester.networkName", &network)?;
    Some(KubevirtPlace {
        namespace: wish.namespace.unwrap_or(namespace),
        network,
        storage_class: storage_class_name,
        credentials: credentials(case)?,
    })
}

/// The image of a machine; `None` leaves it to the provider. What is closest to the machine wins.
pub(super) fn image_of(
    case: &mut Case<'_>,
    os: Option<&OperatingSystem>,
    role: &Role,
) -> Result<Option<String>, Refused> {
    let own = os.and_then(|os| os.image_ref.clone());
    let of_cluster = override_image(&override_of(case));
    if case.provider() == Provider::Local {
        let schematic = os.and_then(|os| os.schematic_id.as_ref());
        if own.is_some() || schematic.is_some() {
            case.refuse(format!(
                "{}.os: machines of the provider local run the system of their host; leave imageRef and schematicID out",
                role.field()
            ));
            return Err(Refused);
        }
        return Ok(None);
    }
    let spec = &case.surroundings.provider.spec;
    let brought = case.surroundings.images.get(&role.field());
    let found = own
        .or_else(|| brought.cloned().flatten())
        .or(of_cluster)
        .or_else(|| of_provider(spec));
    let found = found.filter(|image| !image.is_empty());
    let is_needed = spec.cluster_api_provider != ClusterApiProvider::Butler;
    if found.is_none() && is_needed && brought.is_none() {
        let (section, field) = match spec.cluster_api_provider {
            ClusterApiProvider::Capx => ("nutanix", "imageUUID"),
            _ => ("harvester", "imageName"),
        };
        case.refuse(format!(
            "{}.os.imageRef: no image is named for the machines; set it, or spec.{section}.{field} of the ProviderConfig",
            role.field()
        ));
        return Err(Refused);
    }
    Ok(found)
}

fn override_image(wish: &InfrastructureOverride) -> Option<String> {
    let gcp = wish.gcp.as_ref().and_then(|gcp| gcp.image.clone());
    let harvester = wish
        .harvester
        .as_ref()
        .and_then(|place| place.image_name.clone());
    let nutanix = wish
        .nutanix
        .as_ref()
        .and_then(|place| place.image_uuid.clone());
    let proxmox = wish.proxmox.as_ref().and_then(|place| place.template_id);
    gcp.or(harvester)
        .or(nutanix)
        .or_else(|| proxmox.map(|template| template.to_string()))
}

/// The image of the `ProviderConfig`, where Butler's own provider does not look it up by itself.
fn of_provider(spec: &ProviderConfigSpec) -> Option<String> {
    match spec.cluster_api_provider {
        ClusterApiProvider::Butler => None,
        ClusterApiProvider::Capx => spec.nutanix.as_ref()?.image_uuid.clone(),
        ClusterApiProvider::Capk => spec.harvester.as_ref()?.image_name.clone(),
    }
}

fn credentials(case: &mut Case<'_>) -> Option<SecretReference> {
    let Some(mut reference) = case.surroundings.provider.spec.credentials_ref.clone() else {
        case.refuse(format!(
            "spec.credentialsRef of the ProviderConfig {} is not set: name a Secret with the keys {}",
            case.surroundings.provider.name_any(),
            case.provider().credential_keys().join(", ")
        ));
        return None;
    };
    // As whoever checks the credentials reads it.
    let own = case.surroundings.provider.namespace();
    reference.namespace = reference.namespace.or(own);
    Some(reference)
}

fn missing_section(case: &mut Case<'_>, section: &str) {
    case.refuse(format!(
        "spec.{section} of the ProviderConfig {} is not set: without it nobody knows where machines shall be",
        case.surroundings.provider.name_any()
    ));
}

fn named(case: &mut Case<'_>, field: &str, value: &str) -> Option<()> {
    if !value.is_empty() {
        return Some(());
    }
    case.refuse(format!(
        "spec.{field} of the ProviderConfig {} is empty: name one there, or in spec.infrastructureOverride",
        case.surroundings.provider.name_any()
    ));
    None
}

/// The host in an address such as `https://prism.example.com:9440/`.
fn host_of(endpoint: &str) -> &str {
    let rest = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    match authority.rsplit_once(':') {
        // An IPv6 address in brackets has colons of its own.
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}
