//! What a pass over a tenant did, and how each part is.

use std::collections::BTreeMap;

use butler_api::conditions::reasons;
use butler_runtime::conditions::{Answer, Finding};
use butler_runtime::failure::{Class, Failure};

use crate::desired::Desired;
use crate::object::ObjectId;
use crate::part::TenantPart;
use crate::plan::Plan;

/// What a pass over a tenant did, and how each part is.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Objects that were written.
    pub applied: Vec<ObjectId>,
    /// Objects that were deleted.
    pub deleted: Vec<ObjectId>,
    /// How many objects were as they should be.
    pub unchanged: usize,
    /// How each part is: `True` if it is as it should be, which for an addon that is not wanted means gone.
    pub parts: BTreeMap<TenantPart, Finding>,
    /// A fingerprint of each part that shall exist.
    pub checksums: BTreeMap<TenantPart, String>,
    /// What went wrong, by part; the first thing of each.
    pub failures: BTreeMap<TenantPart, Failure>,
}

impl Report {
    /// The report on a pass.
    pub(crate) fn of(desired: &Desired, plan: &Plan, done: Done) -> Self {
        let parts = TenantPart::ALL
            .into_iter()
            .map(|part| (part, finding(part, desired, plan, &done.failures)))
            .collect();
        Self {
            applied: done.applied,
            deleted: done.deleted,
            unchanged: plan.unchanged.len(),
            parts,
            checksums: desired.checksums(),
            failures: done.failures,
        }
    }

    /// Whether every part is as it should be.
    pub fn is_complete(&self) -> bool {
        self.parts
            .values()
            .all(|finding| finding.answer == Answer::True)
    }

    /// The first part that is not as it should be.
    pub fn obstacle(&self) -> Option<(TenantPart, &Finding)> {
        self.parts
            .iter()
            .find(|(_, finding)| finding.answer != Answer::True)
            .map(|(part, finding)| (*part, finding))
    }

    /// A part, if it is not as it should be.
    pub fn obstacle_of(&self, part: TenantPart) -> Option<(TenantPart, &Finding)> {
        let finding = self.parts.get(&part)?;
        (finding.answer != Answer::True).then_some((part, finding))
    }

    /// What to do about what went wrong: try again if that may help with anything. `None` if nothing failed.
    pub fn failure_class(&self) -> Option<Class> {
        let mut classes = self.failures.values().map(|failure| failure.class);
        let first = classes.next()?;
        Some(classes.fold(first, |worst, class| match (worst, class) {
            (Class::Terminal, other) | (other, Class::Terminal) => other,
            (Class::Retry, _) | (_, Class::Retry) => Class::Retry,
            (Class::Stale, Class::Stale) => Class::Stale,
        }))
    }
}

/// What was done in a pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) applied: Vec<ObjectId>,
    pub(crate) deleted: Vec<ObjectId>,
    pub(crate) failures: BTreeMap<TenantPart, Failure>,
}

fn finding(
    part: TenantPart,
    desired: &Desired,
    plan: &Plan,
    failures: &BTreeMap<TenantPart, Failure>,
) -> Finding {
    let of_part = |objects: &[(TenantPart, ObjectId)]| {
        let names: Vec<String> = objects
            .iter()
            .filter(|(of, _)| *of == part)
            .map(|(_, id)| id.to_string())
            .collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    if let Some(problem) = desired.problems.get(&part) {
        return Finding::new(false, reasons::VALIDATION_FAILED, problem.to_string());
    }
    if let Some(failure) = failures.get(&part) {
        return Finding::new(false, failure.reason, failure.message.clone());
    }
    if let Some(names) = of_part(&plan.foreign) {
        let message = format!(
            "somebody else made {names} in the tenant; delete it there to have ours, or switch this addon off to keep it"
        );
        return Finding::new(false, reasons::NAME_TAKEN, message);
    }
    if let Some(names) = of_part(&plan.leaving) {
        let message =
            format!("{names} is being deleted in the tenant and is made again when it is gone");
        return Finding::new(false, reasons::PENDING, message);
    }
    if !desired.governed.contains(&part) {
        let message = "not looked after while the tenant is frozen";
        return Finding::new(Answer::Unknown, reasons::PENDING, message);
    }
    if desired.has(part) {
        Finding::new(true, reasons::READY, "")
    } else {
        Finding::new(true, reasons::NOT_REQUIRED, "")
    }
}
