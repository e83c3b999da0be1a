//! Which component an image is made of, and where in the image it is: pure data.

use super::Error;
use crate::asset::{Asset, Version};
use crate::component::Component;

/// An image, and the component it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The full reference.
    pub reference: String,
    /// What is in it.
    pub component: Component,
}

/// The last part of an image's name, the component, and its place in the image: pods call some by name, some by place.
const PLACES: [(&str, Component, &str); 10] = [
    (
        "kube-apiserver",
        Component::KubeApiserver,
        "/usr/local/bin/kube-apiserver",
    ),
    (
        "kube-controller-manager",
        Component::KubeControllerManager,
        "/usr/local/bin/kube-controller-manager",
    ),
    (
        "kube-scheduler",
        Component::KubeScheduler,
        "/usr/local/bin/kube-scheduler",
    ),
    (
        "kube-proxy",
        Component::KubeProxy,
        "/usr/local/bin/kube-proxy",
    ),
    ("etcd", Component::Etcd, "/usr/local/bin/etcd"),
    ("coredns", Component::Coredns, "/coredns"),
    ("pause", Component::Pause, "/pause"),
    (
        "cluster-api-controller",
        Component::ClusterApiCore,
        "/manager",
    ),
    (
        "kubeadm-bootstrap-controller",
        Component::ClusterApiKubeadmBootstrap,
        "/manager",
    ),
    (
        "kubeadm-control-plane-controller",
        Component::ClusterApiKubeadmControlPlane,
        "/manager",
    ),
];

/// Where Kubernetes publishes its images.
const KUBERNETES: &str = "registry.k8s.io";
/// Where Cluster API publishes its images.
const CLUSTER_API: &str = "registry.k8s.io/cluster-api";
/// What carries the version of Kubernetes in a control plane of pods and on its nodes.
const HOSTED: [Component; 4] = [
    Component::KubeApiserver,
    Component::KubeControllerManager,
    Component::KubeScheduler,
    Component::KubeProxy,
];

/// Reads what `kubeadm config images list` prints: one reference in each line.
pub fn parse_list(printed: &str) -> Result<Vec<Listed>, Error> {
    printed
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|reference| {
            let component = component_of(reference).ok_or_else(|| Error::Unknown {
                reference: reference.to_owned(),
            })?;
            Ok(Listed {
                reference: reference.to_owned(),
                component,
            })
        })
        .collect()
}

/// The images of Cluster API's managers, at the version Butler is tested with.
pub fn cluster_api() -> Vec<Listed> {
    PLACES
        .into_iter()
        .filter(|(_, _, place)| *place == "/manager")
        .map(|(name, component, _)| Listed {
            reference: format!(
                "{CLUSTER_API}/{name}:v{}",
                Asset::default_of(component).version
            ),
            component,
        })
        .collect()
}

/// The images of a control plane that runs as pods, and of what it puts on its nodes. Which `CoreDNS` goes with the version is
/// for the caller to say; what else kubeadm would ask for, etcd and pause, is not part of such a control plane.
pub fn hosted(kubernetes: &Version, core_dns_tag: &str) -> Vec<Listed> {
    let mut images: Vec<Listed> = HOSTED
        .into_iter()
        .map(|component| Listed {
            reference: format!("{KUBERNETES}/{component}:v{kubernetes}"),
            component,
        })
        .collect();
    images.push(Listed {
        reference: format!("{KUBERNETES}/coredns/coredns:{core_dns_tag}"),
        component: Component::Coredns,
    });
    images
}

/// Where the program of an image is in it; nothing for what has no image.
pub(super) fn place(component: Component) -> Option<&'static str> {
    PLACES
        .into_iter()
        .find(|(_, known, _)| *known == component)
        .map(|(_, _, place)| place)
}

fn component_of(reference: &str) -> Option<Component> {
    let last = reference.rsplit('/').next()?;
    let name = last.split([':', '@']).next()?;
    PLACES
        .into_iter()
        .find(|(known, _, _)| *known == name)
        .map(|(_, component, _)| component)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_kubeadm_prints_is_understood() {
        let printed = "registry.k8s.io/kube-apiserver:v1.36.3\nregistry.k8s.io/coredns/coredns:v1.14.2\n\
                       registry.k8s.io/pause:3.10.2\nregistry.k8s.io/etcd:3.6.8-0\n\n";
        let components: Vec<Component> = parse_list(printed)
            .unwrap()
            .into_iter()
            .map(|image| image.component)
            .collect();
        assert_eq!(
            components,
            [
                Component::KubeApiserver,
                Component::Coredns,
                Component::Pause,
                Component::Etcd
            ]
        );
    }

    #[test]
    fn a_hosted_control_plane_has_the_names_that_kubeadm_would_print() {
        let images = hosted(&"v1.35.4".parse().unwrap(), "v1.13.1");
        let references: Vec<&str> = images
            .iter()
            .map(|image| image.reference.as_str())
            .collect();
        assert_eq!(
            references,
            [
                "registry.k8s.io/kube-apiserver:v1.35.4",
                "registry.k8s.io/kube-controller-manager:v1.35.4",
                "registry.k8s.io/kube-scheduler:v1.35.4",
                "registry.k8s.io/kube-proxy:v1.35.4",
                "registry.k8s.io/coredns/coredns:v1.13.1",
            ]
        );
        assert_eq!(parse_list(&references.join("\n")).unwrap(), images);
    }

    #[test]
    fn image_nobody_knows_is_named() {
        let error = parse_list("registry.k8s.io/kube-dns:1.0\n").unwrap_err();
        assert!(
            error.to_string().contains("registry.k8s.io/kube-dns:1.0"),
            "{error}"
        );
    }

    #[test]
    fn cluster_api_has_its_official_names() {
        let references: Vec<String> = cluster_api()
            .into_iter()
            .map(|image| image.reference)
            .collect();
        assert_eq!(
            references,
            [
                "registry.k8s.io/cluster-api/cluster-api-controller:v1.14.2",
                "registry.k8s.io/cluster-api/kubeadm-bootstrap-controller:v1.14.2",
                "registry.k8s.io/cluster-api/kubeadm-control-plane-controller:v1.14.2",
            ]
        );
    }
}
