//! Differences of the kinds for addons.

use super::{BOUNDED, Deviation};
use crate::compatibility::compare::What;

pub(super) const DEVIATIONS: &[Deviation] = &[
    Deviation {
        kind: "AddonDefinition",
        what: What::Bounds,
        reason: BOUNDED,
        paths: &[
            "spec.chart.availableVersions",
            "spec.chart.availableVersions[]",
            "spec.chart.defaultVersion",
            "spec.chart.name",
            "spec.defaults.namespace",
            "spec.defaults.releaseName",
            "spec.dependsOn",
            "spec.dependsOn[]",
        ],
    },
    Deviation {
        kind: "AddonDefinition",
        what: What::Bounds,
        reason: "charts may also come from an OCI registry",
        paths: &["spec.chart.repository"],
    },
    Deviation {
        kind: "AddonDefinition",
        what: What::Bounds,
        reason: "must be a length of time, so that a wrong one is refused here and not during an installation",
        paths: &["spec.defaults.timeout"],
    },
    Deviation {
        kind: "ManagementAddon",
        what: What::Bounds,
        reason: BOUNDED,
        paths: &["spec.addon", "spec.version"],
    },
    Deviation {
        kind: "ManagementAddon",
        what: What::List,
        reason: "several writers each own their conditions, as on every other kind",
        paths: &["status.conditions"],
    },
    Deviation {
        kind: "ManagementAddon",
        what: What::Bounds,
        reason: "says how large the integer may be",
        paths: &["status.helmRelease.revision"],
    },
    Deviation {
        kind: "TenantAddon",
        what: What::Bounds,
        reason: BOUNDED,
        paths: &[
            "spec.addon",
            "spec.dependsOn",
            "spec.helm.chart",
            "spec.helm.namespace",
            "spec.helm.releaseName",
            "spec.version",
        ],
    },
    Deviation {
        kind: "TenantAddon",
        what: What::Bounds,
        reason: "must be an address that Helm can fetch from",
        paths: &["spec.helm.repository"],
    },
    Deviation {
        kind: "TenantAddon",
        what: What::Required,
        reason: "an addon of the catalogue has a default version; a rule asks for one with a chart of one's own",
        paths: &["spec.version"],
    },
    Deviation {
        kind: "TenantAddon",
        what: What::Bounds,
        reason: "says how large the integer may be",
        paths: &["status.helmRelease.revision"],
    },
];
