//! The engine's hands: every write of a pass goes through here, and is counted.

use std::sync::Arc;

use butler_api::{
    conditions::reasons,
    keys::{labels, values},
};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::{Engine, memory::Applied, setbacks::Setbacks, status_body, status_of};
use crate::{
    api_server::{ApiError, ApiServer, Cause, Part, Preconditions},
    cache::{AnyStore, Cached, Facts, Whole},
    failure::{Class, Failure},
    fields::hash_of_intent,
    object::{Kind, Manifest, ObjectKey, text},
    plan::{Note, Plan, Prune},
    reconciler::{Context, Reconciler},
    recorder::Recorder,
};

/// The writes of one pass over one object.
pub(super) struct Hands<'a, R: Reconciler> {
    engine: &'a Engine<R>,
    cached: &'a Cached<Whole<R::Object>>,
    recorder: Arc<Recorder>,
    /// What there was for the object before it was observed: a plan cannot speak of what came later, so none of that is pruned.
    owned: Vec<(Kind, Vec<Facts>)>,
    writes: usize,
    told: Vec<Note>,
}

/// What is applied, and in whose name.
struct Target<'a> {
    kind: &'a Kind,
    key: &'a ObjectKey,
    part: Part,
    manager: &'a str,
}

impl<'a, R: Reconciler> Hands<'a, R> {
    pub(super) fn new(
        engine: &'a Engine<R>,
        cached: &'a Cached<Whole<R::Object>>,
        recorder: &Arc<Recorder>,
    ) -> Self {
        Self {
            engine,
            cached,
            recorder: Arc::clone(recorder),
            owned: Vec::new(),
            writes: 0,
            told: Vec::new(),
        }
    }

    /// Notes what there is for the object. Comes before the observation.
    pub(super) fn note_owned(&mut self) {
        let stores = self.engine.owned.iter();
        let owned = stores.map(|store| (store.kind(), store.owned_by(&self.cached.facts.uid)));
        self.owned = owned.collect();
    }

    pub(super) fn key(&self) -> &ObjectKey {
        &self.cached.facts.key
    }

    pub(super) fn uid(&self) -> &str {
        &self.cached.facts.uid
    }

    pub(super) fn writes(&self) -> usize {
        self.writes
    }

    pub(super) fn told(&self) -> &[Note] {
        &self.told
    }

    pub(super) fn has_told(&mut self, notes: Vec<Note>) {
        self.told.extend(notes);
    }

    pub(super) fn recorder(&self) -> Arc<dyn ApiServer> {
        let recorder: Arc<Recorder> = Arc::clone(&self.recorder);
        recorder
    }

    pub(super) fn generation(&self) -> Option<i64> {
        self.object().meta().generation
    }

    /// The object's status as it stands.
    pub(super) fn status(&self) -> Value {
        status_of(self.object())
    }

    pub(super) fn object(&self) -> &'a R::Object {
        &self.cached.value.0
    }

    /// Carries a plan out, in order: apply, effects, prune. What fails keeps nothing else from being done but what needs it, and
    /// the pruning: what is listed in the place of something older may be what failed.
    pub(super) async fn perform(
        &mut self,
        plan: &Plan<R::Status, R::Effect>,
        context: &Context,
    ) -> Setbacks {
        let mut setbacks = Setbacks::default();
        for manifest in &plan.apply {
            if setbacks.hold_back(manifest) {
                continue;
            }
            if let Err(failure) = self.apply(manifest).await {
                // Of an object that has changed since it was looked at, the whole plan is out of date.
                let is_outdated = self.is_itself(manifest) && failure.class == Class::Stale;
                setbacks.not_applied(manifest, failure);
                if is_outdated {
                    return setbacks;
                }
            }
        }
        self.carry_out(&plan.effects, context, &mut setbacks).await;
        let kept = match &plan.prune {
            Prune::UnlistedBut(kept) => kept.as_slice(),
            Prune::Unlisted | Prune::Keep => &[],
        };
        if plan.prune != Prune::Keep
            && setbacks.is_empty()
            && let Err(failure) = self.prune(&plan.apply, kept).await
        {
            setbacks.failed(failure);
        }
        setbacks
    }

    /// Carries effects out, in order, as far as what they need went well.
    pub(super) async fn carry_out(
        &mut self,
        effects: &[R::Effect],
        context: &Context,
        setbacks: &mut Setbacks,
    ) {
        let reconciler = &self.engine.reconciler;
        for effect in effects {
            if !setbacks.allow(reconciler.needs(effect)) {
                setbacks.not_done();
                continue;
            }
            self.writes += usize::from(reconciler.leaves_a_mark(effect));
            let performed = reconciler.perform(self.object(), effect, context).await;
            if let Err(failure) = performed {
                setbacks.failed(failure);
            }
        }
    }

    fn is_itself(&self, manifest: &Manifest) -> bool {
        manifest.kind == self.engine.kind && manifest.key == *self.key()
    }

    async fn apply(&mut self, manifest: &Manifest) -> Result<(), Failure> {
        let mut body = manifest.body.clone();
        let facts = if self.is_itself(manifest) {
            // Without the UID, an object deleted a moment ago would come back.
            body["metadata"]["uid"] = self.uid().into();
            Some(self.cached.facts.clone())
        } else {
            self.label_as_owned(&mut body);
            self.store_of(&manifest.kind)?.facts(&manifest.key)
        };
        let engine = self.engine;
        let target = Target {
            kind: &manifest.kind,
            key: &manifest.key,
            part: Part::Object,
            manager: &engine.manager,
        };
        self.apply_unless_unchanged(target, body, facts).await
    }

    /// Writes what `manager` has to say in the status, unless it says so already. The recorder sees to it that it is written to
    /// the version we looked at.
    pub(super) async fn write_status(
        &mut self,
        manager: &str,
        status: &Value,
    ) -> Result<(), Failure> {
        if R::FOREIGN {
            return Ok(());
        }
        let engine = self.engine;
        let key = self.key().clone();
        let body = status_body(&engine.kind, &key, self.uid(), status);
        let facts = Some(self.cached.facts.clone());
        let target = Target {
            kind: &engine.kind,
            key: &key,
            part: Part::Status,
            manager,
        };
        self.apply_unless_unchanged(target, body, facts).await
    }

    /// The skip rule: what we applied last to this very version, or what our managed fields say already, is not applied again.
    async fn apply_unless_unchanged(
        &mut self,
        target: Target<'_>,
        body: Value,
        facts: Option<Facts>,
    ) -> Result<(), Failure> {
        let engine = self.engine;
        let Target {
            kind,
            key,
            part,
            manager,
        } = target;
        let intent = hash_of_intent(&body);
        let slot = (kind.clone(), key.clone(), part);
        if let Some(facts) = facts {
            let applied = Applied {
                manager: manager.to_owned(),
                intent,
                resource_version: facts.resource_version.clone(),
            };
            let remembered = engine.remember(self.key(), |memory| {
                memory.applied.get(&slot) == Some(&applied)
            });
            if remembered || facts.applied(manager, part) == Some(intent) {
                return Ok(());
            }
        }
        self.writes += 1;
        let written = self.recorder.apply(kind, key, part, manager, body).await;
        let written = written.map_err(|error| self.understood(kind, key, error))?;
        let resource_version = text(&written, "/metadata/resourceVersion")
            .unwrap_or_default()
            .to_owned();
        let applied = Applied {
            manager: manager.to_owned(),
            intent,
            resource_version,
        };
        engine.remember(self.key(), |memory| memory.applied.insert(slot, applied));
        Ok(())
    }

    /// Deletes what we applied for this object earlier and do not list any more: it must carry our owner label and be applied
    /// by our field manager, since labels are copied by others, and have been there before the observation. The kinds declared
    /// last go first.
    async fn prune(
        &mut self,
        listed: &[Manifest],
        kept: &[(Kind, ObjectKey)],
    ) -> Result<(), Failure> {
        let engine = self.engine;
        let owned = std::mem::take(&mut self.owned);
        for (kind, found) in owned.into_iter().rev() {
            for facts in found {
                let wanted = listed
                    .iter()
                    .any(|manifest| manifest.kind == kind && manifest.key == facts.key)
                    || kept
                        .iter()
                        .any(|(of, key)| *of == kind && *key == facts.key);
                let ours = facts.applied(&engine.manager, Part::Object).is_some();
                let asked =
                    engine.remember(self.key(), |memory| memory.deleted.contains(&facts.uid));
                if wanted || !ours || asked || facts.deleting {
                    continue;
                }
                self.writes += 1;
                let preconditions = Preconditions {
                    uid: Some(facts.uid.clone()),
                    resource_version: None,
                };
                self.recorder
                    .delete(&kind, &facts.key, preconditions)
                    .await?;
                engine.remember(self.key(), |memory| memory.deleted.insert(facts.uid));
            }
        }
        Ok(())
    }

    pub(super) async fn add_finalizer(&mut self, finalizer: &str) -> Result<(), Failure> {
        let mut finalizers = self.object().finalizers().to_vec();
        finalizers.push(finalizer.to_owned());
        self.set_finalizers(&finalizers).await
    }

    pub(super) async fn remove_finalizer(&mut self) -> Result<(), Failure> {
        let held = self.object().finalizers().iter();
        let finalizers: Vec<_> = held
            .filter(|held| Some(held.as_str()) != R::FINALIZER)
            .cloned()
            .collect();
        self.set_finalizers(&finalizers).await
    }

    /// Guarded by the version the list is of: finalizers of others must not be lost to a stale one.
    async fn set_finalizers(&mut self, finalizers: &[String]) -> Result<(), Failure> {
        let patch = json!({ "metadata": {
            "uid": self.uid(),
            "resourceVersion": self.cached.facts.resource_version,
            "finalizers": finalizers,
        } });
        self.writes += 1;
        let merged = self
            .recorder
            .merge(&self.engine.kind, self.key(), patch)
            .await;
        merged.map_err(|error| self.understood(&self.engine.kind, self.key(), error))?;
        Ok(())
    }

    /// That the object itself is not there is not a failure: the watch is about to tell.
    fn understood(&self, kind: &Kind, key: &ObjectKey, error: ApiError) -> Failure {
        let itself = *kind == self.engine.kind && key == self.key();
        if itself && error.cause == Cause::NotFound {
            self.gone()
        } else {
            error.into()
        }
    }

    fn gone(&self) -> Failure {
        let message = format!("{} {} is gone", self.engine.kind, self.key());
        Failure {
            class: Class::Stale,
            reason: reasons::OBSERVE_FAILED,
            message,
        }
    }

    fn label_as_owned(&self, body: &mut Value) {
        let labels = &mut body["metadata"]["labels"];
        if !labels.is_object() {
            *labels = json!({});
        }
        labels[labels::MANAGED_BY] = values::MANAGED_BY_BUTLER.into();
        labels[labels::OWNER_UID] = self.uid().into();
        labels[labels::OWNER_KIND] = self.engine.kind.kind.clone().into();
    }

    fn store_of(&self, kind: &Kind) -> Result<&Arc<dyn AnyStore>, Failure> {
        self.engine.owned.iter().find(|store| store.kind() == *kind).ok_or_else(|| {
            let message = format!(
                "the controller {} plans a {kind} but does not declare that it owns any; this is a mistake in Butler, please report it",
                R::NAME,
            );
            Failure::terminal(reasons::TERMINAL, message)
        })
    }
}
