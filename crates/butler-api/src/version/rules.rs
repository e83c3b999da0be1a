//! Which versions of Kubernetes this release runs for tenants, and which may follow which.
//!
//! Pure: admission refuses by these rules, and controllers hold what slipped through by the same.

use super::{KubernetesVersion, VersionError, VersionStepError};

/// The oldest minor version that is hosted.
pub const OLDEST_MINOR: u64 = 29;
/// The newest minor version that is hosted.
pub const NEWEST_MINOR: u64 = 36;

/// Why a version cannot be hosted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionRefusal {
    /// The text is no version.
    #[error(transparent)]
    Unreadable(#[from] VersionError),
    /// It is too old or too new.
    #[error(
        "{version} is not hosted by this release: choose a version from v1.{OLDEST_MINOR} to v1.{NEWEST_MINOR}"
    )]
    Unsupported {
        /// The version.
        version: KubernetesVersion,
    },
    /// It cannot follow the one that runs.
    #[error(transparent)]
    Step(#[from] VersionStepError),
}

/// Whether a control plane that runs `installed` (nothing, if it is new) may become `wanted`.
///
/// A version that runs already stays, even if a later release of ours no longer hosts it.
pub fn check(installed: Option<&str>, wanted: &str) -> Result<KubernetesVersion, VersionRefusal> {
    let version: KubernetesVersion = wanted.parse()?;
    let installed = installed.map(str::parse).transpose()?;
    if installed.as_ref() == Some(&version) {
        return Ok(version);
    }
    if version.major() != 1 || !(OLDEST_MINOR..=NEWEST_MINOR).contains(&version.minor()) {
        return Err(VersionRefusal::Unsupported { version });
    }
    if let Some(installed) = installed {
        KubernetesVersion::check_step_to(&installed, &version)?;
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(installed: Option<&str>, wanted: &str) -> String {
        check(installed, wanted).map_or_else(|refusal| refusal.to_string(), |_| "fine".to_owned())
    }

    #[test]
    fn the_rules_say_what_to_do() {
        let told = [
            told(None, "v1.36.3"),
            told(None, "1.29.0"),
            told(None, "v1.28.9"),
            told(None, "v1.37.0"),
            told(None, "v2.30.0"),
            told(None, "new"),
            told(Some("v1.34.2"), "v1.35.4"),
            told(Some("v1.34.2"), "v1.34.0"),
            told(Some("v1.34.2"), "v1.33.9"),
            told(Some("v1.34.2"), "v1.36.3"),
            told(Some("v1.20.0"), "v1.20.0"),
        ];
        insta::assert_snapshot!(told.join("\n"), @r#"
        fine
        fine
        v1.28.9 is not hosted by this release: choose a version from v1.29 to v1.36
        v1.37.0 is not hosted by this release: choose a version from v1.29 to v1.36
        v2.30.0 is not hosted by this release: choose a version from v1.29 to v1.36
        Kubernetes version "new" is not valid: write major, minor and patch version, for example v1.31.0
        fine
        fine
        cannot go from v1.34.2 back to v1.33.9: Kubernetes does not support going back to an older minor version
        cannot go from v1.34.2 to v1.36.3 in one step: upgrade one minor version at a time, first to v1.35.x
        fine
        "#);
    }

    proptest! {
        #[test]
        fn no_step_leads_back_or_over_a_minor(from in OLDEST_MINOR..=NEWEST_MINOR, to in 0..50_u64, patch in 0..9_u64) {
            let allowed = check(Some(&format!("v1.{from}.0")), &format!("v1.{to}.{patch}")).is_ok();
            let expected = (to == from || to == from + 1) && to <= NEWEST_MINOR;
            prop_assert_eq!(allowed, expected);
        }
    }
}
