//! Kubernetes versions.
//!
//! Owns: parsing, order and the rules of version skew; [`rules`] has what this release runs for tenants.
//!
//! Must not: know which patch versions exist or can be installed.

pub mod rules;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// A Kubernetes version as the schemas accept it: `1.31.0`, `v1.31.0`, `v1.36.0-rc.1`.
pub const VERSION_PATTERN: &str =
    r"^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$";

/// How many minor versions a kubelet may be behind its API server.
pub const KUBELET_SKEW: u64 = 3;

/// Says which text is no version, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Kubernetes version {value:?} is not valid: {rule}")]
pub struct VersionError {
    /// The text.
    pub value: String,
    /// The rule it breaks.
    pub rule: &'static str,
}

/// Says why a cluster cannot go from one version to another.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VersionStepError {
    /// The target is older in its major or minor version.
    #[error(
        "cannot go from {from} back to {to}: Kubernetes does not support going back to an older minor version"
    )]
    Backwards {
        /// What runs.
        from: KubernetesVersion,
        /// What was asked for.
        to: KubernetesVersion,
    },
    /// The target skips a minor version.
    #[error(
        "cannot go from {from} to {to} in one step: upgrade one minor version at a time, first to {next}.x"
    )]
    SkipsMinor {
        /// What runs.
        from: KubernetesVersion,
        /// What was asked for.
        to: KubernetesVersion,
        /// The minor version to go to first, as `v1.32`.
        next: String,
    },
}

/// A Kubernetes version. Written `v1.31.0`; read with or without the `v`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubernetesVersion(semver::Version);

impl KubernetesVersion {
    /// A released version.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self(semver::Version::new(major, minor, patch))
    }

    /// The first number.
    pub const fn major(&self) -> u64 {
        self.0.major
    }

    /// The second number.
    pub const fn minor(&self) -> u64 {
        self.0.minor
    }

    /// The third number.
    pub const fn patch(&self) -> u64 {
        self.0.patch
    }

    /// Whether this is an alpha, beta or release candidate.
    pub fn is_prerelease(&self) -> bool {
        !self.0.pre.is_empty()
    }

    /// Major and minor version, as package repositories and support tables spell them: `v1.31`.
    pub fn series(&self) -> String {
        format!("v{}.{}", self.0.major, self.0.minor)
    }

    /// The version without the leading `v`: `1.31.0`.
    pub fn bare(&self) -> String {
        self.0.to_string()
    }

    /// Whether both have the same major and minor version.
    pub fn same_minor(&self, other: &Self) -> bool {
        self.major() == other.major() && self.minor() == other.minor()
    }

    /// How many minor versions `other` is behind; `None` if it is ahead or of another major version.
    pub fn minors_ahead_of(&self, other: &Self) -> Option<u64> {
        if self.major() == other.major() {
            self.minor().checked_sub(other.minor())
        } else {
            None
        }
    }

    /// Whether an API server of this version may serve a kubelet of the other.
    pub fn supports_kubelet(&self, kubelet: &Self) -> bool {
        self.minors_ahead_of(kubelet)
            .is_some_and(|behind| behind <= KUBELET_SKEW)
    }

    /// Whether a control plane of this version may become the other in one step. Patch versions may go both ways.
    pub fn check_step_to(&self, target: &Self) -> Result<(), VersionStepError> {
        match target.minors_ahead_of(self) {
            Some(0 | 1) => Ok(()),
            Some(_) => Err(VersionStepError::SkipsMinor {
                from: self.clone(),
                to: target.clone(),
                next: Self::new(self.major(), self.minor() + 1, 0).series(),
            }),
            None => Err(VersionStepError::Backwards {
                from: self.clone(),
                to: target.clone(),
            }),
        }
    }
}

impl FromStr for KubernetesVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |rule| VersionError {
            value: text.to_owned(),
            rule,
        };
        let version = semver::Version::parse(text.strip_prefix('v').unwrap_or(text))
            .map_err(|_| refuse("write major, minor and patch version, for example v1.31.0"))?;
        if version.build.is_empty() {
            Ok(Self(version))
        } else {
            // Image tags cannot hold a plus sign, so such a version could never be pulled.
            Err(refuse(
                "leave out what follows the plus sign, for example v1.31.0",
            ))
        }
    }
}

impl TryFrom<String> for KubernetesVersion {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "v{}", self.0)
    }
}

impl Serialize for KubernetesVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KubernetesVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for KubernetesVersion {
    fn schema_name() -> Cow<'static, str> {
        "KubernetesVersion".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": VERSION_PATTERN, "maxLength": 64 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(text: &str) -> KubernetesVersion {
        text.parse().expect(text)
    }

    #[test]
    fn the_leading_v_is_optional_and_always_written() {
        assert_eq!(version("1.31.0"), version("v1.31.0"));
        assert_eq!(version("1.31.0").to_string(), "v1.31.0");
        assert_eq!(version("v1.31.4").series(), "v1.31");
        assert_eq!(version("v1.31.4").bare(), "1.31.4");
    }

    #[test]
    fn versions_are_ordered_by_number_and_not_by_text() {
        assert!(version("v1.9.0") < version("v1.31.0"));
        assert!(version("v1.36.0-rc.1") < version("v1.36.0"));
        assert!(version("v1.36.0-rc.1").is_prerelease());
    }

    #[test]
    fn what_is_no_version_is_refused_in_words() {
        for text in [
            "",
            "v",
            "1.31",
            "latest",
            "v1.31.0.0",
            "vv1.31.0",
            "v1.031.0",
            "v1.31.0+k3s1",
        ] {
            let error = text.parse::<KubernetesVersion>().expect_err(text);
            assert!(error.to_string().contains("v1.31.0"), "{error}");
        }
    }

    #[test]
    fn a_kubelet_may_be_three_minors_behind_and_never_ahead() {
        let server = version("v1.34.2");
        assert!(server.supports_kubelet(&version("v1.31.9")));
        assert!(server.supports_kubelet(&version("v1.34.9")));
        assert!(!server.supports_kubelet(&version("v1.30.0")));
        assert!(!server.supports_kubelet(&version("v1.35.0")));
        assert!(!server.supports_kubelet(&version("v2.34.0")));
    }

    #[test]
    fn a_control_plane_goes_up_one_minor_at_a_time() {
        let running = version("v1.31.4");
        assert!(running.check_step_to(&version("v1.32.0")).is_ok());
        assert!(running.check_step_to(&version("v1.31.2")).is_ok());
        assert_eq!(
            running
                .check_step_to(&version("v1.33.0"))
                .expect_err("skips")
                .to_string(),
            "cannot go from v1.31.4 to v1.33.0 in one step: upgrade one minor version at a time, first to v1.32.x"
        );
        assert!(matches!(
            running.check_step_to(&version("v1.30.0")),
            Err(VersionStepError::Backwards { .. })
        ));
    }

    proptest! {
        #[test]
        fn versions_survive_being_written_and_read(
            (major, minor, patch) in any::<(u32, u32, u32)>(),
            candidate in proptest::option::of("(alpha|beta|rc)\\.[1-9][0-9]?"),
        ) {
            let suffix = candidate.map(|text| format!("-{text}")).unwrap_or_default();
            let text = format!("v{major}.{minor}.{patch}{suffix}");
            let parsed = version(&text);
            prop_assert_eq!(parsed.to_string(), text);
            let json = serde_json::to_string(&parsed).unwrap();
            prop_assert_eq!(serde_json::from_str::<KubernetesVersion>(&json).unwrap(), parsed);
        }
    }
}
