//! A Secret that a store needs is not deleted by mistake.

use std::sync::Arc;

use butler_api::steward::data_store::DataStore;
use butler_runtime::{
    admission::{Denial, Operation, Review, Unanswered, Validate, Verdict},
    cache::{Caches, Whole},
    object::ObjectKey,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{ResourceExt, core::PartialObjectMeta};

use crate::{
    data_store::plan::some, projections::NamespaceLabels, settings::Settings, store::Resolver,
};

/// Who empties a namespace that is being deleted.
const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";

/// Refuses the deletion of a Secret that a `DataStore` refers to. Every deletion of a Secret in the cluster comes by: so nothing but
/// metadata and caches is looked at, and if nobody answers, it is allowed. What somebody deletes on purpose, a store that is being
/// deleted or the namespace of the Secret, is not held up.
pub(super) struct SecretRules {
    caches: Arc<Caches>,
    resolver: Resolver,
}

impl SecretRules {
    pub(super) fn new(caches: &Arc<Caches>, settings: &Settings) -> Self {
        Self {
            caches: Arc::clone(caches),
            resolver: Resolver::new(&settings.namespace),
        }
    }

    fn is_emptied(&self, namespace: Option<&String>) -> bool {
        let known = self.caches.store::<NamespaceLabels>();
        let found = namespace.and_then(|name| known.get(&ObjectKey::cluster(name)));
        found.is_some_and(|found| found.facts.deleting)
    }

    /// The stores that are there to stay and refer to a Secret.
    fn referring(&self, secret: &ObjectKey) -> Vec<ObjectKey> {
        let stores = self.caches.store::<Whole<DataStore>>().list();
        let staying = stores
            .iter()
            .filter(|store| !store.facts.deleting)
            .filter(|store| self.resolver.secrets(&store.value.0).contains(secret));
        staying.map(|store| store.facts.key.clone()).collect()
    }
}

impl Validate<PartialObjectMeta<Secret>> for SecretRules {
    const OPERATIONS: &'static [Operation] = &[Operation::Delete];
    const UNANSWERED: Unanswered = Unanswered::Allowed;

    fn validate(&self, review: &Review<'_, PartialObjectMeta<Secret>>) -> Verdict {
        let secret = review.object;
        let is_going = secret.metadata.deletion_timestamp.is_some();
        if is_going
            || review.user == NAMESPACE_CONTROLLER
            || self.is_emptied(secret.namespace().as_ref())
        {
            return Ok(Vec::new());
        }
        let stores = self.referring(&ObjectKey::of(secret));
        if stores.is_empty() {
            return Ok(Vec::new());
        }
        let rule = format!(
            "referred to by DataStores that could not be used without it: {}; have them refer to another Secret, or delete them first",
            some(&stores)
        );
        Err(vec![Denial::new("metadata.name", rule)])
    }
}

#[cfg(test)]
mod tests {
    use butler_runtime::cache::{AnyStore, Delta};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::now;

    const SOMEBODY: &str = "alice";

    fn store(name: &str) -> Value {
        let named = |key: &str| {
            let named = json!({ "name": "certs", "namespace": "stores", "keyPath": key });
            json!({ "secretReference": named })
        };
        json!({
            "metadata": { "name": name, "uid": name, "resourceVersion": "1" },
            "spec": {
                "driver": "etcd", "endpoints": ["etcd:2379"],
                "tlsConfig": {
                    "certificateAuthority": { "certificate": named("ca.crt"), "privateKey": named("ca.key") },
                },
            },
        })
    }

    fn leaving(mut object: Value) -> Value {
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        object
    }

    fn namespace() -> Value {
        json!({ "metadata": { "name": "stores", "uid": "n", "resourceVersion": "1" } })
    }

    fn deletion(stores: Vec<Value>, namespace: Value, secret: &str, user: &str) -> String {
        let caches = Arc::<Caches>::default();
        caches
            .store::<Whole<DataStore>>()
            .ingest(Delta::Reset(stores));
        caches
            .store::<NamespaceLabels>()
            .ingest(Delta::Reset(vec![namespace]));
        let secret: PartialObjectMeta<Secret> = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": secret, "namespace": "stores" }, "data": { "ca.key": "c2VjcmV0" },
        }))
        .unwrap();
        let rules = SecretRules::new(&caches, &Settings::default());
        let verdict = rules.validate(&Review {
            operation: Operation::Delete,
            object: &secret,
            old: None,
            user,
            groups: &[],
            dry_run: false,
            now: now(),
        });
        verdict.map_or_else(|denials| denials[0].to_string(), |_| "fine".to_owned())
    }

    #[test]
    fn what_a_store_refers_to_is_not_deleted() {
        let told = deletion(
            vec![store("gold"), store("silver")],
            namespace(),
            "certs",
            SOMEBODY,
        );
        insta::assert_snapshot!(told, @"metadata.name: referred to by DataStores that could not be used without it: gold, silver; have them refer to another Secret, or delete them first");
        let other = deletion(vec![store("gold")], namespace(), "others", SOMEBODY);
        assert_eq!(other, "fine");
        assert_eq!(deletion(Vec::new(), namespace(), "certs", SOMEBODY), "fine");
    }

    #[test]
    fn a_store_or_a_namespace_that_goes_takes_its_secrets_along() {
        let going = vec![leaving(store("gold"))];
        assert_eq!(deletion(going, namespace(), "certs", SOMEBODY), "fine");
        let stays = || vec![store("gold")];
        let going = leaving(namespace());
        assert_eq!(deletion(stays(), going, "certs", SOMEBODY), "fine");
        let emptied = deletion(stays(), namespace(), "certs", NAMESPACE_CONTROLLER);
        assert_eq!(emptied, "fine", "whatever the cache shows");
    }
}
