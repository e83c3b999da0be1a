//! Which versions go together.

use butler_api::version::KubernetesVersion;

/// The release of `CoreDNS` that each minor version of Kubernetes is tested with, oldest first.
const CORE_DNS: [(u64, &str); 4] = [
    (33, "v1.12.0"),
    (34, "v1.12.1"),
    (35, "v1.13.1"),
    (36, "v1.14.2"),
];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_minor_has_its_core_dns() {
        for (version, tag) in [
            ("v1.32.9", "v1.12.0"),
            ("v1.33.6", "v1.12.0"),
            ("v1.34.4", "v1.12.1"),
            ("v1.35.4", "v1.13.1"),
            ("v1.36.3", "v1.14.2"),
            ("v1.37.0", "v1.14.2"),
        ] {
            assert_eq!(core_dns_tag(&version.parse().unwrap()), tag, "{version}");
        }
    }
}
