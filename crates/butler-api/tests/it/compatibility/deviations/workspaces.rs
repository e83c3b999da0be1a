//! Differences of the kinds for developer workspaces.

use super::{BOUNDED, Deviation};
use crate::compatibility::compare::What;

pub(super) const DEVIATIONS: &[Deviation] = &[
    Deviation {
        kind: "Workspace",
        what: What::Bounds,
        reason: "must be a length of time, so that a wrong one is refused here and not when the time has come",
        paths: &["spec.autoStopAfter", "spec.idleTimeout"],
    },
    Deviation {
        kind: "Workspace",
        what: What::Bounds,
        reason: "must be one word that cannot be read as an option of git",
        paths: &[
            "spec.dotfiles.url",
            "spec.editorConfig.neovimConfigRepo",
            "spec.repositories[].branch",
            "spec.repositories[].url",
            "spec.repository.branch",
            "spec.repository.url",
        ],
    },
    Deviation {
        kind: "Workspace",
        what: What::Bounds,
        reason: BOUNDED,
        paths: &[
            "spec.envFrom.container",
            "spec.envFrom.name",
            "spec.envFrom.namespace",
            "spec.image",
            "spec.owner",
            "spec.repositories",
            "spec.sshPublicKeys",
        ],
    },
    Deviation {
        kind: "Workspace",
        what: What::Bounds,
        reason: "must be a name that stays below its directory",
        paths: &["spec.repositories[].name", "spec.repository.name"],
    },
    Deviation {
        kind: "Workspace",
        what: What::Bounds,
        reason: "must be a quantity, so that a wrong one is refused here and not in the pod",
        paths: &["spec.resources.cpu", "spec.resources.memory"],
    },
    Deviation {
        kind: "Workspace",
        what: What::Bounds,
        reason: "must be one line, as authorized_keys has it",
        paths: &["spec.sshPublicKeys[]"],
    },
    Deviation {
        kind: "WorkspaceTemplate",
        what: What::Bounds,
        reason: "must be one word that cannot be read as an option of git",
        paths: &[
            "spec.template.dotfiles.url",
            "spec.template.repositories[].branch",
            "spec.template.repositories[].url",
            "spec.template.repository.branch",
            "spec.template.repository.url",
        ],
    },
    Deviation {
        kind: "WorkspaceTemplate",
        what: What::Bounds,
        reason: BOUNDED,
        paths: &[
            "spec.displayName",
            "spec.template.envFrom.container",
            "spec.template.envFrom.name",
            "spec.template.envFrom.namespace",
            "spec.template.image",
            "spec.template.repositories",
        ],
    },
    Deviation {
        kind: "WorkspaceTemplate",
        what: What::Bounds,
        reason: "must be a name that stays below its directory",
        paths: &[
            "spec.template.repositories[].name",
            "spec.template.repository.name",
        ],
    },
    Deviation {
        kind: "WorkspaceTemplate",
        what: What::Bounds,
        reason: "must be a quantity, so that a wrong one is refused here and not in the pod",
        paths: &[
            "spec.template.resources.cpu",
            "spec.template.resources.memory",
        ],
    },
];
