//! What must be known of a tenant to furnish it.
//!
//! Owns: the typed facts, and how they are read from a `TenantControlPlane`. What is wrong in a manifest is said here, once,
//! with the name of the field; what follows works on parsed values.

use std::net::IpAddr;
use std::str::FromStr;

use butler_api::name::{LabelValue, ObjectName};
use butler_api::net::{Cidr, HostPort, parse_address};
use butler_api::steward::addons::AddonImage;
use butler_api::steward::kubernetes::{CgroupDriver, JsonPatch};
use butler_api::steward::tenant_control_plane::{TenantControlPlane, WritePermissions};
use butler_api::version::KubernetesVersion;
use butler_runtime::object::Manifest;
use thiserror::Error;

/// Where the images of the Kubernetes project are.
pub(crate) const KUBERNETES_REGISTRY: &str = "registry.k8s.io";

/// Where the DNS Service is within an IPv4 network of Services, unless somebody says otherwise.
const DNS_OFFSET_IPV4: u32 = 10;
/// The same for IPv6.
const DNS_OFFSET_IPV6: u128 = 0x10;

/// Which field cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct FactsError {
    /// The field.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

/// Everything the tenant side depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantFacts {
    /// Name of the control plane, which is also that of the cluster.
    pub name: LabelValue,
    /// Version of Kubernetes: what joining nodes are told, and whose rights are granted, before the API servers have it.
    pub version: KubernetesVersion,
    /// Version that all API servers have. Addons follow it: a kube-proxy may not be newer than they are.
    pub serving_version: KubernetesVersion,
    /// Where nodes and pods reach the API server.
    pub endpoint: HostPort,
    /// Networks of Services: one, or one of each family with the main one first.
    pub service_cidrs: Vec<Cidr>,
    /// Networks of pods: one, or one of each family with the main one first.
    pub pod_cidrs: Vec<Cidr>,
    /// DNS domain of Services and pods.
    pub cluster_domain: ObjectName,
    /// Addresses of the DNS Service; see [`TenantFacts::dns_addresses`] if empty.
    pub dns_service_addresses: Vec<IpAddr>,
    /// Authority, or bundle of authorities, that the API server's certificate comes from.
    pub authority_pem: String,
    /// Further names in the API server's certificate.
    pub certificate_names: Vec<String>,
    /// Registry of the control plane's images, which `kubeadm` is told of. Addons have their own.
    pub image_registry: String,
    /// Cgroup driver of kubelets; Kubernetes' default if absent.
    pub cgroup_driver: Option<CgroupDriver>,
    /// Patches of what kubelets are configured with.
    pub kubelet_patches: Vec<JsonPatch>,
    /// `CoreDNS`; absent if it is not wanted.
    pub core_dns: Option<ImageOverride>,
    /// kube-proxy; absent if it is not wanted.
    pub kube_proxy: Option<KubeProxyFacts>,
    /// What the reverse tunnel needs in the tenant; nothing if there is none.
    pub tunnel: Vec<Manifest>,
    /// What the proxy needs through which pods reach their API server; nothing if there is none.
    pub tcp_proxy: Vec<Manifest>,
    /// Kinds of writes to refuse.
    pub write_permissions: WritePermissions,
    /// Whether every write is refused because the data moves to another store. Nothing else is then looked after.
    pub frozen: bool,
}

/// An image other than the usual one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageOverride {
    /// Registry and path before the image's name.
    pub repository: Option<String>,
    /// Tag.
    pub tag: Option<String>,
}

impl From<&AddonImage> for ImageOverride {
    fn from(image: &AddonImage) -> Self {
        Self {
            repository: image.image_repository.clone(),
            tag: image.image_tag.clone(),
        }
    }
}

/// What kube-proxy shall be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeProxyFacts {
    /// Its image.
    pub image: ImageOverride,
    /// Patches of its configuration.
    pub configuration_patches: Vec<JsonPatch>,
}

impl TenantFacts {
    /// The facts in a control plane's spec. The tunnel, the proxy, a freeze, and API servers that are not yet at the version of
    /// the spec, are for the caller to add.
    pub fn of(
        control_plane: &TenantControlPlane,
        endpoint: HostPort,
        authority_pem: &str,
    ) -> Result<Self, FactsError> {
        let spec = &control_plane.spec;
        let network = &spec.network_profile;
        let name = control_plane.metadata.name.as_deref().unwrap_or_default();
        let dns_service_addresses = network
            .dns_service_ips
            .iter()
            .map(|text| parse_address(text))
            .collect::<Result<_, _>>()
            .map_err(refuse("spec.networkProfile.dnsServiceIPs"))?;
        let version: KubernetesVersion =
            parse("spec.kubernetes.version", &spec.kubernetes.version)?;
        Ok(Self {
            name: parse("metadata.name", name)?,
            serving_version: version.clone(),
            version,
            endpoint,
            service_cidrs: cidrs("spec.networkProfile.serviceCidr", &network.service_cidr)?,
            pod_cidrs: cidrs("spec.networkProfile.podCidr", &network.pod_cidr)?,
            cluster_domain: parse("spec.networkProfile.clusterDomain", &network.cluster_domain)?,
            dns_service_addresses,
            authority_pem: authority_pem.to_owned(),
            certificate_names: network.cert_sans.clone(),
            image_registry: spec
                .control_plane
                .deployment
                .registry_settings
                .registry
                .clone(),
            cgroup_driver: spec.kubernetes.kubelet.cgroupfs,
            kubelet_patches: spec.kubernetes.kubelet.configuration_json_patches.clone(),
            core_dns: spec.addons.core_dns.as_ref().map(ImageOverride::from),
            kube_proxy: spec.addons.kube_proxy.as_ref().map(|addon| KubeProxyFacts {
                image: (&addon.image).into(),
                configuration_patches: addon.configuration_json_patches.clone(),
            }),
            tunnel: Vec::new(),
            tcp_proxy: Vec::new(),
            write_permissions: spec.write_permissions,
            frozen: false,
        })
    }

    /// Addresses of the DNS Service: those given, else the tenth address of an IPv4 network of Services and the sixteenth of an
    /// IPv6 one. Empty only if the networks are too small to have such an address.
    pub fn dns_addresses(&self) -> Vec<IpAddr> {
        if self.dns_service_addresses.is_empty() {
            self.service_cidrs
                .iter()
                .filter_map(default_dns_address)
                .collect()
        } else {
            self.dns_service_addresses.clone()
        }
    }

    /// The URL under which nodes and pods reach the API server.
    pub(crate) fn server_url(&self) -> String {
        format!("https://{}", self.endpoint)
    }
}

fn default_dns_address(network: &Cidr) -> Option<IpAddr> {
    let address = match network.first() {
        IpAddr::V4(first) => IpAddr::V4(u32::from(first).checked_add(DNS_OFFSET_IPV4)?.into()),
        IpAddr::V6(first) => IpAddr::V6(u128::from(first).checked_add(DNS_OFFSET_IPV6)?.into()),
    };
    network.contains(address).then_some(address)
}

fn cidrs(field: &'static str, text: &str) -> Result<Vec<Cidr>, FactsError> {
    text.split(',')
        .map(|part| parse(field, part.trim()))
        .collect()
}

fn parse<T: FromStr<Err: ToString>>(field: &'static str, text: &str) -> Result<T, FactsError> {
    text.parse().map_err(refuse(field))
}

fn refuse<E: ToString>(field: &'static str) -> impl Fn(E) -> FactsError {
    move |problem| FactsError {
        field,
        problem: problem.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn control_plane(network: &Value) -> TenantControlPlane {
        serde_json::from_value(json!({
            "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "TenantControlPlane",
            "metadata": { "name": "blue", "namespace": "tenants" },
            "spec": {
                "controlPlane": { "service": { "serviceType": "LoadBalancer" } },
                "kubernetes": { "version": "v1.36.3", "kubelet": {} },
                "networkProfile": network,
                "addons": { "coreDNS": { "imageTag": "v9" } },
            },
        }))
        .unwrap()
    }

    fn facts(network: &Value) -> Result<TenantFacts, FactsError> {
        TenantFacts::of(
            &control_plane(network),
            "10.0.0.1:6443".parse().unwrap(),
            "PEM",
        )
    }

    fn texts<T: ToString>(values: &[T]) -> Vec<String> {
        values.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_small_manifest_has_its_dns_where_everybody_looks_for_it() {
        let facts = facts(&json!({})).unwrap();
        assert_eq!(texts(&facts.dns_addresses()), ["10.96.0.10"]);
        assert_eq!(facts.core_dns.unwrap().tag.as_deref(), Some("v9"));
        assert_eq!(facts.kube_proxy, None);
    }

    #[test]
    fn a_dual_stack_cluster_has_a_dns_address_of_each_family() {
        let facts = facts(&json!({ "serviceCidr": "fd00:96::/112,10.96.0.0/16" })).unwrap();
        assert_eq!(texts(&facts.dns_addresses()), ["fd00:96::10", "10.96.0.10"]);
    }

    #[test]
    fn a_network_too_small_for_dns_has_none() {
        assert!(
            facts(&json!({ "serviceCidr": "10.96.0.0/29" }))
                .unwrap()
                .dns_addresses()
                .is_empty()
        );
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let error = facts(&json!({ "podCidr": "10.244.0.0" })).unwrap_err();
        assert_eq!(error.field, "spec.networkProfile.podCidr");
        let error = facts(&json!({ "clusterDomain": "a.b\n    forward . 192.0.2.1" })).unwrap_err();
        assert_eq!(error.field, "spec.networkProfile.clusterDomain");
    }
}
