//! Control planes of Cluster API follow the rules of versions. What else can be wrong with them, the `TenantControlPlane` that is made
//! of them is told.

use butler_api::cluster_api::steward_control_plane::StewardControlPlane;
use butler_runtime::admission::{Denial, Review, Validate, Verdict};

use super::versions::refusal;

/// Refuses versions that a control plane cannot become: else its `TenantControlPlane` would refuse them, where nobody looks.
pub(super) struct ClusterApiRules;

impl Validate<StewardControlPlane> for ClusterApiRules {
    fn validate(&self, review: &Review<'_, StewardControlPlane>) -> Verdict {
        let (control_plane, old) = (review.object, review.old);
        let wanted = &control_plane.spec.version;
        let asked = old.map(|old| old.spec.version.as_str());
        // Whoever changes something else must not be held up by what an older release let through.
        if asked == Some(wanted.as_str()) || control_plane.metadata.deletion_timestamp.is_some() {
            return Ok(Vec::new());
        }
        let running = old.and_then(|old| old.status.as_ref()?.version.as_deref());
        match refusal(wanted, asked, running) {
            Some(refusal) => Err(vec![Denial::new("spec.version", refusal.to_string())]),
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use butler_runtime::admission::Operation;
    use serde_json::json;

    use super::*;
    use crate::testing::now;

    fn at(version: &str, running: Option<&str>) -> StewardControlPlane {
        let status = running.map(|version| json!({ "version": version }));
        serde_json::from_value(json!({
            "metadata": { "name": "shop", "namespace": "payments" },
            "spec": { "version": version }, "status": status,
        }))
        .unwrap()
    }

    fn verdict(object: &StewardControlPlane, old: Option<&StewardControlPlane>) -> String {
        let verdict = ClusterApiRules.validate(&Review {
            operation: old.map_or(Operation::Create, |_| Operation::Update),
            object,
            old,
            user: "alice",
            groups: &[],
            dry_run: false,
            now: now(),
        });
        verdict.map_or_else(|denials| denials[0].to_string(), |_| "fine".to_owned())
    }

    #[test]
    fn versions_go_up_by_one_minor_at_a_time() {
        let old = at("v1.34.2", Some("v1.34.2"));
        let told = [
            verdict(&at("1.36.3", None), None),
            verdict(&at("v1.37.0", None), None),
            verdict(&at("v1.35.4", None), Some(&old)),
            verdict(&at("v1.36.3", None), Some(&old)),
            verdict(&at("v1.33.0", None), Some(&old)),
            verdict(&at("v1.36.3", None), Some(&at("v1.35.4", Some("v1.34.2")))),
        ];
        insta::assert_snapshot!(told.join("\n"), @"
        fine
        spec.version: v1.37.0 is not hosted by this release: choose a version from v1.29 to v1.36
        fine
        spec.version: cannot go from v1.34.2 to v1.36.3 in one step: upgrade one minor version at a time, first to v1.35.x
        spec.version: cannot go from v1.34.2 back to v1.33.0: Kubernetes does not support going back to an older minor version
        spec.version: cannot go from v1.34.2 to v1.36.3 in one step: v1.35.4 must have served between them; wait until it has, and if the control plane sleeps, wake it first
        ");
    }

    #[test]
    fn what_slipped_through_may_be_labelled_and_set_right() {
        let slipped = at("v1.99.0", Some("v1.35.4"));
        assert_eq!(verdict(&slipped.clone(), Some(&slipped)), "fine");
        assert_eq!(verdict(&at("v1.35.4", None), Some(&slipped)), "fine");
        assert_eq!(verdict(&at("v1.36.3", None), Some(&slipped)), "fine");
    }
}
