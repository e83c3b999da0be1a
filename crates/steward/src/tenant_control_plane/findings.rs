//! What a look at a control plane says: conditions with their reasons, and what people should hear of.

use butler_api::{
    conditions::{reasons, types},
    keys::annotations,
    steward::tenant_control_plane::TenantControlPlaneStatus,
    version::{VersionStepError, rules::VersionRefusal},
};
use butler_runtime::{
    conditions::{Answer, Conditions, Finding},
    plan::Note,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{look::Look, part::is_frozen};
use crate::{
    addresses::problem_of_public_host, build::shortfalls, names::SecretRole,
    projections::DeploymentFacts, secrets::RETIRE, tenant_port::TenantState,
};

impl Look<'_> {
    pub(super) fn conditions(
        &self,
        before: &TenantControlPlaneStatus,
        refusal: Option<&VersionRefusal>,
    ) -> Vec<Condition> {
        let certificates = self.certificates();
        let endpoint = self.endpoint();
        let available = self.available();
        let ready = self.ready(
            refusal,
            &[&self.storage.finding, &certificates, &endpoint, &available],
        );
        let generation = self.control_plane.metadata.generation;
        let mut said = Conditions::since(&before.conditions, generation, self.now)
            .tell(types::CERTIFICATES_READY, certificates)
            .tell(types::DATA_STORE_READY, self.storage.finding.clone())
            .tell(types::ENDPOINT_READY, endpoint)
            .tell(types::AVAILABLE, available)
            .tell(types::ROLLING_OUT, self.rolling_out());
        if let Some(migrated) = &self.migration.finding {
            said = said.tell(types::DATA_STORE_MIGRATED, migrated.clone());
        }
        if let Some(tenant) = self.tenant(before) {
            said = said.tell(types::TENANT_CONFIGURED, tenant);
        }
        if let Some(features) = self.features() {
            said = said.tell(types::FEATURES_AVAILABLE, features);
        }
        said.tell(types::READY, ready).finish()
    }

    /// What the spec says without effect, if it does.
    fn features(&self) -> Option<Finding> {
        let service = self.world.service.as_ref();
        let missing = shortfalls(self.control_plane, self.version, service, self.settings);
        let reason = if self.control_plane.spec.addons.worker_bootstrap.is_some() {
            reasons::NOT_YET_IMPLEMENTED
        } else {
            reasons::UNSUPPORTED
        };
        (!missing.is_empty()).then(|| Finding::new(false, reason, missing.join("; ")))
    }

    fn certificates(&self) -> Finding {
        if let Some(refused) = self.review.refused.first() {
            return Finding::new(false, reasons::AUTHORITY_INVALID, refused.clone());
        }
        let orders = self.review.orders.iter();
        let missing: Vec<_> = orders
            .map(|order| format!("{} {}", self.names.secret_name(order.role), order.reason))
            .collect();
        if !missing.is_empty() {
            return Finding::new(false, reasons::ISSUING, missing.join("; "));
        }
        if !self.review.paused.is_empty() {
            let told = self.review.paused.join("; ");
            return Finding::new(false, reasons::PAUSED, told);
        }
        let has = |role| self.world.secrets.contains_key(&role);
        if has(SecretRole::ApiServer) && has(SecretRole::AdminKubeconfig) {
            let ending = &self.review.ending;
            let reason = if ending.is_empty() {
                reasons::READY
            } else {
                reasons::AUTHORITY_ENDS
            };
            let told = std::iter::once(self.validity()).chain(ending.iter().cloned());
            return Finding::new(true, reason, told.collect::<Vec<_>>().join("; "));
        }
        let message = "the API server's certificate is made when its address is known";
        Finding::new(false, reasons::WAITING_FOR_ADDRESS, message)
    }

    fn validity(&self) -> String {
        let authority = self.world.secrets.get(&SecretRole::Authority);
        let rotation = authority
            .map(|seen| seen.value.rotation.clone())
            .unwrap_or_default();
        match rotation.retirement() {
            _ if rotation.has_next => {
                "every certificate is valid; a new authority signs when all pods trust it"
                    .to_owned()
            }
            Some(end) => format!(
                "every certificate is valid; the old authority is trusted until {end}, or until {} of the Secret {} is set to {RETIRE}",
                annotations::STEWARD_ROTATE,
                self.names.secret(SecretRole::Authority),
            ),
            None => "every certificate is valid".to_owned(),
        }
    }

    fn endpoint(&self) -> Finding {
        if let Some((field, rule)) = problem_of_public_host(self.control_plane) {
            let message = format!("{field}: {rule}");
            return Finding::new(false, reasons::VALIDATION_FAILED, message);
        }
        if let Some(missing) = self.missing_definition() {
            return Finding::new(false, reasons::WAITING_FOR_DEPENDENCIES, missing);
        }
        if let (Some(endpoint), Some(_)) = (&self.addresses.endpoint, self.addresses.advertised) {
            Finding::new(
                true,
                reasons::READY,
                format!("the API server is reached at {endpoint}"),
            )
        } else {
            let message = format!(
                "the Service {} has no address yet; a load balancer of the management cluster must give it one",
                self.names.itself()
            );
            Finding::new(false, reasons::WAITING_FOR_ADDRESS, message)
        }
    }

    fn available(&self) -> Finding {
        let deployment = self.world.deployment.as_ref();
        let serving = deployment.map_or(0, DeploymentFacts::ready);
        if self.is_asleep() {
            return Finding::new(
                false,
                reasons::SLEEPING,
                "it is scaled to zero; scale it up to wake it",
            );
        }
        match deployment {
            None => Finding::new(
                false,
                reasons::CREATING,
                "the pods are made when all that they need is there",
            ),
            Some(_) if serving == 0 => {
                let message = format!(
                    "no pod of the Deployment {} is ready; `kubectl describe pods -l {}` tells why",
                    self.names.itself(),
                    self.names.selector_text(),
                );
                Finding::new(false, reasons::PODS_NOT_READY, message)
            }
            Some(_) => Finding::new(true, reasons::READY, "the API server serves"),
        }
    }

    fn rolling_out(&self) -> Finding {
        match &self.world.deployment {
            Some(found) if !found.is_rolled_out() => {
                let updated = found.status.updated_replicas.unwrap_or_default();
                let message = format!("{updated} of {} pods are of the newest kind", found.wanted);
                Finding::new(true, reasons::ROLLING_OUT, message)
            }
            Some(_) => Finding::new(false, reasons::READY, "every pod is of the newest kind"),
            None => Finding::new(false, reasons::CREATING, "there are no pods yet"),
        }
    }

    fn tenant(&self, before: &TenantControlPlaneStatus) -> Option<Finding> {
        let state = self.world.tenant.as_ref()?;
        let wanted = self.tenant_fingerprint();
        let in_place = || Finding::new(true, reasons::READY, "the tenant has what its nodes need");
        // Before a new process has looked, what was said last of the same spec still holds.
        let generation = self.control_plane.metadata.generation;
        let held = before.conditions.iter().any(|condition| {
            condition.type_ == types::TENANT_CONFIGURED
                && condition.status == "True"
                && condition.observed_generation == generation
        });
        Some(match (state.told(), wanted) {
            (None, Some(_)) if is_frozen(self.control_plane) => {
                let message = "the tenant refuses writes, ours included, while its state moves";
                Finding::new(false, reasons::MIGRATING, message)
            }
            (Some(problem), Some(_)) => Finding::new(false, reasons::FAILED, problem),
            (_, None) => {
                let message = "the inside of the tenant is looked after when its API server serves";
                Finding::new(Answer::Unknown, reasons::WAITING_FOR_DEPENDENCIES, message)
            }
            (None, Some(wanted)) if state.configured.as_ref() == Some(&wanted) => in_place(),
            (None, Some(_)) if held && *state == TenantState::default() => in_place(),
            (None, Some(_)) => Finding::new(
                false,
                reasons::RECONCILING,
                "the tenant is being brought in step",
            ),
        })
    }

    fn ready(&self, refusal: Option<&VersionRefusal>, stages: &[&Finding]) -> Finding {
        if let Some(refusal) = refusal {
            return Finding::new(
                false,
                reasons::VERSION_SKEW,
                format!("spec.kubernetes.version: {}", self.skew(refusal)),
            );
        }
        let is_serving = stages
            .last()
            .is_some_and(|available| available.answer == Answer::True);
        if is_serving {
            let endpoint = self
                .addresses
                .endpoint
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            return Finding::new(
                true,
                reasons::READY,
                format!("the API server serves at {endpoint}"),
            );
        }
        let mut obstacles = stages
            .iter()
            .filter(|finding| finding.answer != Answer::True);
        obstacles.next().map_or_else(
            || Finding::new(false, reasons::RECONCILING, ""),
            |obstacle| Finding::new(false, obstacle.reason, obstacle.message.clone()),
        )
    }

    /// Why a version cannot follow. What sleeps does not come any further.
    fn skew(&self, refusal: &VersionRefusal) -> String {
        let skips = matches!(
            refusal,
            VersionRefusal::Step(VersionStepError::SkipsMinor { .. })
        );
        if skips && self.is_asleep() {
            format!("{refusal}, and wake it there before the next step")
        } else {
            refusal.to_string()
        }
    }

    pub(super) fn notes(&self, refusal: Option<&VersionRefusal>) -> Vec<Note> {
        let mut notes: Vec<_> = self
            .review
            .refused
            .iter()
            .map(|refused| Note::warning(reasons::AUTHORITY_INVALID, refused))
            .collect();
        let ending = self.review.ending.iter();
        notes.extend(ending.map(|told| Note::warning(reasons::AUTHORITY_ENDS, told)));
        if let Some(refusal) = refusal {
            notes.push(Note::warning(reasons::VERSION_SKEW, self.skew(refusal)));
        }
        if let Some(migrated) = &self.migration.finding {
            notes.push(match migrated.reason {
                reasons::MIGRATING => Note::normal(migrated.reason, &migrated.message),
                reason => Note::warning(reason, &migrated.message),
            });
        }
        let missing = self.missing_definition();
        notes.extend(
            missing.map(|missing| Note::warning(reasons::WAITING_FOR_DEPENDENCIES, missing)),
        );
        let store = &self.storage.finding;
        if store.answer != Answer::True && store.reason != reasons::CREATING {
            notes.push(Note::warning(store.reason, &store.message));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::{
        settings::Settings,
        tenant_control_plane::{observe::World, plan::plan},
        testing::{control_plane_with, now},
    };

    #[test]
    fn what_has_no_effect_is_told_until_it_is_taken_back() {
        let conditions = |control_plane: &_| {
            let plan = plan(
                control_plane,
                &World::default(),
                &Settings::default(),
                now(),
            );
            plan.status.conditions
        };
        let is_of_features = |condition: &Condition| condition.type_ == types::FEATURES_AVAILABLE;
        let wishing = control_plane_with(json!({ "addons": { "tcpProxy": {} } }));
        let before = conditions(&wishing);
        let told = before.iter().find(|told| is_of_features(told)).unwrap();
        assert_eq!(
            (told.status.as_str(), told.reason.as_str()),
            ("False", reasons::UNSUPPORTED)
        );
        assert!(told.message.contains("--tunnel-image"), "{}", told.message);
        let mut plain = control_plane_with(json!({}));
        plain.status = Some(TenantControlPlaneStatus {
            conditions: before,
            ..TenantControlPlaneStatus::default()
        });
        assert!(!conditions(&plain).iter().any(is_of_features));
    }
}
