//! What went wrong while a plan was carried out, what may still be done then, and how it is told.

use std::collections::BTreeSet;

use crate::{
    failure::{Class, Failure},
    object::{Kind, Manifest, ObjectKey},
    plan::Next,
    reconciler::Needs,
};

/// The failures of one pass, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Setbacks {
    failures: Vec<Failure>,
    /// What could not be applied, or was not because of something it needs.
    missing: BTreeSet<(Kind, ObjectKey)>,
    /// Whether an effect failed, or was left out.
    of_effects: bool,
}

impl Setbacks {
    pub(super) fn is_empty(&self) -> bool {
        self.failures.is_empty()
    }

    /// Whether an object is not to be applied, since something that it needs is missing. That is no failure of its own.
    pub(super) fn hold_back(&mut self, manifest: &Manifest) -> bool {
        let mut missing = self.missing.iter();
        let is_held_back = missing.any(|(kind, key)| {
            let is_its_namespace = kind.group.is_empty()
                && kind.kind == "Namespace"
                && manifest.key.namespace.as_ref() == Some(&key.name);
            let mut needs = manifest.needs.iter();
            is_its_namespace || needs.any(|(of, needed)| of == kind && needed == key)
        });
        if is_held_back {
            self.miss(manifest);
        }
        is_held_back
    }

    /// Notes that an object could not be applied.
    pub(super) fn not_applied(&mut self, manifest: &Manifest, failure: Failure) {
        self.miss(manifest);
        self.failures.push(failure);
    }

    fn miss(&mut self, manifest: &Manifest) {
        let missed = (manifest.kind.clone(), manifest.key.clone());
        self.missing.insert(missed);
    }

    /// Whether an effect may be carried out that builds upon this.
    pub(super) fn allow(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::EarlierEffects => !self.of_effects,
            Needs::Everything => self.is_empty(),
        }
    }

    /// Notes that an effect failed.
    pub(super) fn failed(&mut self, failure: Failure) {
        self.of_effects = true;
        self.failures.push(failure);
    }

    /// Notes that an effect was left out.
    pub(super) fn not_done(&mut self) {
        self.of_effects = true;
    }

    /// What remains of the time at which the plan wants another look. What has been done is not forgotten for the sake of an
    /// object that is refused; what is still to be done waits for the next try.
    pub(super) fn next(&self, planned: Next) -> Next {
        if self.of_effects {
            Next::AwaitChange
        } else {
            planned
        }
    }

    /// All of it in one: in the words of the first that somebody can do something about, and at the pace of the most hopeful.
    pub(super) fn failure(&self) -> Option<Failure> {
        let told = |failure: &&Failure| failure.class != Class::Stale;
        let mut failures = self.failures.iter();
        let first = failures.find(told).or_else(|| self.failures.first())?;
        let is_alike = |failure: &Failure| failure.class == first.class;
        let class = if self.failures.iter().all(is_alike) {
            first.class
        } else {
            Class::Retry
        };
        let message = match self.failures.len().saturating_sub(1) {
            0 => first.message.clone(),
            more => format!("{}; and {more} more", first.message),
        };
        for failure in self.failures.iter().filter(|failure| *failure != first) {
            tracing::warn!(%failure, "this failed as well");
        }
        Some(Failure {
            class,
            reason: first.reason,
            message,
        })
    }
}

#[cfg(test)]
mod tests {
    use butler_api::conditions::reasons;
    use serde_json::json;

    use super::*;

    fn kind(name: &str) -> Kind {
        Kind {
            group: String::new(),
            version: "v1".to_owned(),
            kind: name.to_owned(),
            plural: format!("{}s", name.to_lowercase()),
            namespaced: name != "Namespace",
        }
    }

    fn object(name: &str) -> Manifest {
        let metadata = json!({ "namespace": "here", "name": name });
        Manifest::new(kind("ConfigMap"), json!({ "metadata": metadata }))
    }

    fn refused(message: &str) -> Failure {
        Failure::terminal(reasons::APPLY_FAILED, message)
    }

    #[test]
    fn what_needs_a_refused_object_is_held_back_and_so_is_what_needs_that() {
        let template = object("template");
        let machines = object("machines").needing(&template);
        let watch = object("watch").needing(&machines);
        let mut setbacks = Setbacks::default();
        setbacks.not_applied(&template, refused("no"));
        assert!(setbacks.hold_back(&machines));
        assert!(setbacks.hold_back(&watch));
        assert!(!setbacks.hold_back(&object("bystander")));
        assert_eq!(setbacks.failure(), Some(refused("no")), "one thing failed");
    }

    #[test]
    fn nothing_is_tried_in_a_namespace_that_could_not_be_made() {
        let namespace = json!({ "metadata": { "name": "here" } });
        let namespace = Manifest::new(kind("Namespace"), namespace);
        let mut setbacks = Setbacks::default();
        setbacks.not_applied(&namespace, refused("no"));
        assert!(setbacks.hold_back(&object("inside")));
        let elsewhere = json!({ "metadata": { "namespace": "there", "name": "outside" } });
        assert!(!setbacks.hold_back(&Manifest::new(kind("ConfigMap"), elsewhere)));
    }

    #[test]
    fn effects_go_on_as_far_as_they_do_not_build_on_what_failed() {
        let mut setbacks = Setbacks::default();
        let allowed = |setbacks: &Setbacks| {
            [Needs::Nothing, Needs::EarlierEffects, Needs::Everything]
                .map(|needs| setbacks.allow(needs))
        };
        assert_eq!(allowed(&setbacks), [true, true, true]);
        setbacks.not_applied(&object("refused"), refused("no"));
        assert_eq!(allowed(&setbacks), [true, true, false]);
        setbacks.not_done();
        assert_eq!(allowed(&setbacks), [true, false, false]);
    }

    #[test]
    fn several_failures_are_told_by_the_first_and_tried_again_like_the_most_hopeful() {
        let mut setbacks = Setbacks::default();
        setbacks.not_applied(&object("one"), refused("could not apply one"));
        setbacks.failed(Failure::retry(reasons::FAILED, "the store did not answer"));
        let message = "could not apply one; and 1 more";
        let expected = Failure::retry(reasons::APPLY_FAILED, message);
        assert_eq!(setbacks.failure(), Some(expected));
    }

    #[test]
    fn a_conflict_is_not_told_if_there_is_something_to_tell() {
        let stale = Failure {
            class: Class::Stale,
            ..refused("conflict")
        };
        let mut setbacks = Setbacks::default();
        setbacks.failed(stale.clone());
        assert_eq!(setbacks.failure(), Some(stale));
        setbacks.failed(refused("no"));
        let expected = Failure::retry(reasons::APPLY_FAILED, "no; and 1 more");
        assert_eq!(setbacks.failure(), Some(expected));
    }

    #[test]
    fn the_planned_look_is_kept_unless_an_effect_waits_for_another_try() {
        let due = Next::After(std::time::Duration::from_secs(7));
        let mut setbacks = Setbacks::default();
        setbacks.not_applied(&object("refused"), refused("no"));
        assert_eq!(setbacks.next(due), due);
        setbacks.not_done();
        assert_eq!(setbacks.next(due), Next::AwaitChange);
    }
}
