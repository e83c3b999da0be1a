//! Which versions go together, and what a version of Kubernetes has.

use butler_api::version::KubernetesVersion;

/// The release of `CoreDNS` that each minor version of Kubernetes ships in its `kubeadm`, oldest first; where patch releases
/// differ, that of the last ones.
const CORE_DNS: [(u64, &str); 8] = [
    (29, "v1.11.1"),
    (30, "v1.11.3"),
    (31, "v1.11.3"),
    (32, "v1.11.3"),
    (33, "v1.12.0"),
    (34, "v1.12.1"),
    (35, "v1.13.1"),
    (36, "v1.14.2"),
];

/// The first minor version whose API servers have `ValidatingAdmissionPolicy` without being asked to.
pub(crate) const POLICIES_SINCE: u64 = 30;
/// The first minor version whose `kubeadm` reads its configuration as v1beta4.
const V1BETA4_SINCE: u64 = 31;

/// The tag of the `CoreDNS` image that goes with a version of Kubernetes. For versions outside of the table it is the nearest in
/// it: `CoreDNS` works with many versions of Kubernetes, and whether a version is supported at all is decided elsewhere.
pub fn core_dns_tag(version: &KubernetesVersion) -> &'static str {
    let [(_, oldest), ..] = CORE_DNS;
    CORE_DNS
        .iter()
        .rev()
        .find(|(minor, _)| *minor <= version.minor())
        .map_or(oldest, |(_, tag)| tag)
}

/// Whether API servers of this version have policies, by which they can be told to refuse writes.
pub(crate) fn has_policies(version: &KubernetesVersion) -> bool {
    version.minor() >= POLICIES_SINCE
}

/// Whether `kubeadm` of this version reads its configuration as v1beta4; else it is v1beta3, which has fewer fields.
pub(crate) fn reads_v1beta4(version: &KubernetesVersion) -> bool {
    version.minor() >= V1BETA4_SINCE
}

#[cfg(test)]
mod tests {
    use butler_api::version::rules::{NEWEST_MINOR, OLDEST_MINOR};

    use super::*;

    #[test]
    fn each_minor_has_its_core_dns() {
        for (version, tag) in [
            ("v1.28.9", "v1.11.1"),
            ("v1.29.15", "v1.11.1"),
            ("v1.30.14", "v1.11.3"),
            ("v1.31.9", "v1.11.3"),
            ("v1.32.9", "v1.11.3"),
            ("v1.33.6", "v1.12.0"),
            ("v1.34.4", "v1.12.1"),
            ("v1.35.4", "v1.13.1"),
            ("v1.36.3", "v1.14.2"),
            ("v1.37.0", "v1.14.2"),
        ] {
            assert_eq!(core_dns_tag(&version.parse().unwrap()), tag, "{version}");
        }
    }

    #[test]
    fn every_version_that_is_hosted_is_in_the_table() {
        let minors = CORE_DNS.map(|(minor, _)| minor);
        assert!(minors.into_iter().eq(OLDEST_MINOR..=NEWEST_MINOR));
    }
}
