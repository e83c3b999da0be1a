//! What can be asked for: one component at one version, for the platform of this machine.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::catalog::{Catalog, KUBERNETES_GROUP};
use crate::component::Component;
use crate::error::Error;

/// A released version, without the leading `v`. It is also a part of file names, so it never holds a separator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Version(String);

impl Version {
    /// The version as text, like `1.36.3`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first number.
    pub(crate) fn major(&self) -> &str {
        self.0.split('.').next().unwrap_or_default()
    }

    /// The second number, empty if there is none.
    pub(crate) fn minor(&self) -> &str {
        self.0.split('.').nth(1).unwrap_or_default()
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let starts_with_digit = bare.starts_with(|first: char| first.is_ascii_digit());
        let safe = bare
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '+'));
        if starts_with_digit && safe && !bare.contains("..") {
            Ok(Self(bare.to_owned()))
        } else {
            Err(Error::InvalidVersion {
                text: text.to_owned(),
            })
        }
    }
}

impl TryFrom<String> for Version {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// One component at one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asset {
    /// Which binary.
    pub component: Component,
    /// Which release of it.
    pub version: Version,
}

impl Asset {
    /// The component at a given version.
    pub fn new(component: Component, version: Version) -> Self {
        Self { component, version }
    }

    /// The component at the version Butler is tested with.
    pub fn default_of(component: Component) -> Self {
        Self::new(component, Catalog::builtin_default(component))
    }

    /// A Kubernetes component at a Kubernetes version, like `1.35.4` or `v1.35.4`.
    ///
    /// Any version can come from a directory, the cache or a download; the ones that can be built are in the catalogue.
    pub fn kubernetes(component: Component, version: &str) -> Result<Self, Error> {
        if Catalog::builtin().group_of(component)? == KUBERNETES_GROUP {
            Ok(Self::new(component, version.parse()?))
        } else {
            Err(Error::NotKubernetes { component })
        }
    }
}

impl fmt::Display for Asset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.component, self.version)
    }
}

/// The operating system and processor an asset is for. Machines are Linux, so only the processor varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The processor as Go and OCI spell it, like `amd64`.
    pub architecture: &'static str,
}

impl Platform {
    /// The operating system of every asset.
    pub const OPERATING_SYSTEM: &'static str = "linux";

    /// The platform of this machine.
    pub const fn host() -> Self {
        let architecture = match std::env::consts::ARCH.as_bytes() {
            b"x86_64" => "amd64",
            b"aarch64" => "arm64",
            _ => std::env::consts::ARCH,
        };
        Self { architecture }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}-{}",
            Self::OPERATING_SYSTEM,
            self.architecture
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_same_with_or_without_v() {
        assert_eq!(
            "v1.36.3".parse::<Version>().unwrap(),
            "1.36.3".parse().unwrap()
        );
    }

    #[test]
    fn version_that_would_leave_the_cache_is_refused() {
        for text in ["../../etc", "1/2", "", "v", "latest", "1..2"] {
            let error = text.parse::<Version>().unwrap_err().to_string();
            assert!(error.contains("like 1.36.3"), "{text}: {error}");
        }
    }

    #[test]
    fn etcd_is_not_a_kubernetes_component() {
        let error = Asset::kubernetes(Component::Etcd, "1.36.3").unwrap_err();
        assert!(matches!(error, Error::NotKubernetes { .. }), "{error}");
    }

    #[test]
    fn defaults_are_the_pinned_versions() {
        assert_eq!(
            Asset::default_of(Component::Kubelet).to_string(),
            "kubelet 1.36.3"
        );
    }
}
