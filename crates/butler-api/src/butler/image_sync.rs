//! `ImageSync`: brings an operating system image from the image factory to a provider.
//!
//! Owns the wire form of the request and of its progress. The artifact's address and the image's name at the provider
//! are computed elsewhere.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::NamespacedReference;

/// Asks that one image of the image factory be present at one provider.
///
/// The factory's address comes from `ButlerConfig`. The image stays at the provider when this object is deleted,
/// because machines may still be made from it.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ImageSync",
    plural = "imagesyncs",
    shortname = "is",
    namespaced,
    status = "ImageSyncStatus",
    derive = "PartialEq",
    doc = "Brings an operating system image from the image factory to a provider.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Schematic",
        type_ = "string",
        json_path = ".spec.factoryRef.schematicID",
        priority = 1
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.factoryRef.version"
    ),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.providerConfigRef.name"
    ),
    printcolumn(
        name = "Image Ref",
        type_ = "string",
        json_path = ".status.providerImageRef"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.providerConfigRef == oldSelf.providerConfigRef")
        .message("providerConfigRef is immutable: make another ImageSync for another provider")
)]
pub struct ImageSyncSpec {
    /// Which image the factory is to build.
    pub factory_ref: ImageFactoryReference,
    /// The `ProviderConfig` of the provider that is to hold the image; in this object's namespace if none is given.
    /// Immutable.
    pub provider_config_ref: NamespacedReference,
    /// File format of the artifact, as the factory names it by its ending: `qcow2`, `raw.gz`, `vhd`. The format that
    /// suits the provider if absent: `qcow2` for Harvester, Nutanix and Proxmox, a raw image for clouds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^[a-z0-9]+(\.[a-z0-9]+)*$"))]
    pub format: Option<String>,
    /// How the image travels: `direct` lets the provider download it from the factory, `proxy` has Butler download it
    /// and upload it, for providers that cannot reach the factory.
    #[serde(default)]
    pub transfer_mode: TransferMode,
    /// Name of the image at the provider. Made from platform, version, architecture and schematic if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// An image of the image factory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageFactoryReference {
    /// Identity of the schematic, which says what the image contains beside the plain system; at least 8 characters.
    #[serde(rename = "schematicID")]
    #[schemars(
        length(min = 8, max = 128),
        regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")
    )]
    pub schematic_id: String,
    /// Version of the operating system, such as `v1.12.1`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._+-]*$")
    )]
    pub version: String,
    /// Processor architecture of the machines that boot the image.
    #[serde(default)]
    pub arch: Architecture,
    /// Platform the image is built for, as the factory names it: `nocloud`, `aws`, `azure`, `gcp`. The platform that
    /// suits the provider if absent: `nocloud` where virtual machines get their configuration from a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub platform: Option<String>,
}

/// A processor architecture, as Kubernetes names it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum Architecture {
    /// 64-bit x86.
    #[default]
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

/// How an image travels from the factory to the provider.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum TransferMode {
    /// The provider downloads it.
    #[default]
    Direct,
    /// Butler downloads and uploads it.
    Proxy,
}

/// How far the image has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSyncStatus {
    /// How far the image has come, for people. Programs read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ImageSyncPhase>,
    /// The image as the provider names it; this is what a `MachineRequest` gives as its image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_image_ref: Option<String>,
    /// Where the artifact is downloaded from.
    #[serde(
        default,
        rename = "artifactURL",
        skip_serializing_if = "Option::is_none"
    )]
    pub artifact_url: Option<String>,
    /// SHA-256 of the artifact in hexadecimal, once it is known.
    #[serde(
        default,
        rename = "artifactSHA256",
        skip_serializing_if = "Option::is_none"
    )]
    pub artifact_sha256: Option<String>,
    /// The provider's task that imports the image, while there is one.
    #[serde(
        default,
        rename = "providerTaskID",
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_task_id: Option<String>,
    /// Why the image did not arrive, as one word for programs. Empty while nothing failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Why the image did not arrive and what to do about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// What is known about the image, one entry for each aspect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The `metadata.generation` of the request that this status answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// How far an image has come.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "")]
pub enum ImageSyncPhase {
    /// Asked for; nothing has begun.
    Pending,
    /// The factory is building it.
    Building,
    /// It is being downloaded, by the provider or by Butler.
    Downloading,
    /// Butler is uploading it to the provider.
    Uploading,
    /// Machines can be made from it.
    Ready,
    /// It did not arrive.
    Failed,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn image_of_a_given_schematic_reads_back_as_written() {
        let manifest = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "ImageSync",
            "metadata": { "name": "talos-v1-12-1", "namespace": "butler-system" },
            "spec": {
                "factoryRef": {
                    "schematicID": "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba",
                    "version": "v1.12.1",
                    "arch": "arm64",
                    "platform": "nocloud",
                },
                "providerConfigRef": { "name": "harvester" },
                "format": "qcow2",
                "transferMode": "proxy",
            },
        });
        let sync: ImageSync = serde_json::from_value(manifest.clone()).unwrap();
        assert_eq!(serde_json::to_value(&sync).unwrap(), manifest);
    }

    #[test]
    fn architecture_and_transfer_are_filled_in_but_format_and_platform_are_left_to_the_provider() {
        let definition = ImageSync::crd();
        let schema = serde_json::to_value(&definition.spec.versions[0].schema).unwrap();
        let spec = &schema["openAPIV3Schema"]["properties"]["spec"]["properties"];
        assert_eq!(
            spec["factoryRef"]["properties"]["arch"]["default"],
            json!("amd64")
        );
        assert_eq!(
            spec["factoryRef"]["properties"]["arch"]["enum"],
            json!(["amd64", "arm64"])
        );
        assert_eq!(spec["transferMode"]["default"], json!("direct"));
        assert_eq!(spec["format"].get("default"), None);
        assert_eq!(
            spec["factoryRef"]["properties"]["platform"].get("default"),
            None
        );
    }

    #[test]
    fn schematic_is_shown_only_in_the_wide_table() {
        let definition = ImageSync::crd();
        let wide: Vec<_> = definition.spec.versions[0]
            .additional_printer_columns
            .iter()
            .flatten()
            .filter(|column| column.priority == Some(1))
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(wide, ["Schematic"]);
        assert_eq!(
            definition.spec.names.short_names,
            Some(vec!["is".to_owned()])
        );
    }
}
