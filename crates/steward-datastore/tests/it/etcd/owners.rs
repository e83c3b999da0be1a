//! Whose a schema is, where several who know nothing of each other use one etcd.

use butler_proto::etcd::Permission;
use butler_proto::etcd::permission::Type;
use futures::future::join_all;
use pretty_assertions::assert_eq;
use steward_datastore::{KeyRange, Store as _, Tenant};

use super::{add_role, everything, grant_role, key, put_as, value};
use crate::servers::etcd::Etcd;
use crate::servers::{
    COMPLETE, assert_names_have_one_holder, established, named, namesake, renamed,
};

/// The keys below a path.
fn below(path: &str) -> Permission {
    Permission {
        perm_type: Type::Readwrite.into(),
        key: format!("{path}/").into(),
        range_end: format!("{path}0").into(),
    }
}

#[tokio::test]
async fn a_schema_within_that_of_another_data_store_is_refused() {
    let etcd = Etcd::start().await;
    let (gold, silver) = (etcd.store(), renamed(etcd.connection_as("root")));
    let (outer, inner) = (named("fleet", "one"), named("fleet/blue", "two"));
    for (first, second) in [(&outer, &inner), (&inner, &outer)] {
        gold.ensure_tenant(first).await.unwrap();
        let error = silver.ensure_tenant(second).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the prefix /{}/ of etcd exists already and does not belong to this control plane: \
                 the role \"{}\" reaches keys of it; choose another name, or remove it",
                second.schema, first.schema
            )
        );
        assert!(!error.may_pass());
        // Also while its keys are closed to the first one, whose state moves elsewhere.
        gold.revoke(first).await.unwrap();
        let error = silver.ensure_tenant(second).await.unwrap_err();
        assert!(
            error.to_string().contains(&format!(
                "it touches /{}/, which is that of the control plane with the UID {}",
                first.schema, first.owner
            )),
            "{error}"
        );
        gold.ensure_tenant(first).await.unwrap();
        // Nothing is taken away with what was refused.
        silver.drop_tenant(second).await.unwrap();
        assert_eq!(gold.tenant_state(first).await.unwrap(), COMPLETE);
        assert!(silver.tenant_state(second).await.unwrap().is_gone());
        gold.drop_tenant(first).await.unwrap();
        silver.ensure_tenant(second).await.unwrap();
        silver.drop_tenant(second).await.unwrap();
    }
    assert_eq!(
        value(&etcd, b"steward.butlerlabs.dev/owner/fleet".to_vec()).await,
        None
    );
}

#[tokio::test]
async fn of_many_who_come_at_once_and_touch_each_other_one_is_let_in() {
    let etcd = Etcd::shared().await;
    let stores = [etcd.store(), renamed(etcd.connection_as("root"))];
    for round in 0..8 {
        let schemas = [
            format!("crowd{round}"),
            format!("crowd{round}/a"),
            format!("crowd{round}/a/b"),
        ];
        let tenants: Vec<Tenant> = (0..6)
            .map(|number| {
                named(
                    &schemas[number % 3],
                    &format!("crowd{round}-{}", number % 3),
                )
            })
            .collect();
        let outcomes = join_all(tenants.iter().enumerate().map(|(number, tenant)| {
            let store = &stores[number % 2];
            store.ensure_tenant(tenant)
        }))
        .await;
        let mut admitted: Vec<&Tenant> = Vec::new();
        for (tenant, outcome) in tenants.iter().zip(outcomes) {
            match outcome {
                Ok(()) => admitted.push(tenant),
                // Or the mark that was in its way went just then, and it has to come again.
                Err(error) => assert!(
                    error.reason() == "DataStoreNameTaken" || error.may_pass(),
                    "{error}"
                ),
            }
        }
        assert!(!admitted.is_empty(), "somebody is let in");
        for (place, one) in admitted.iter().enumerate() {
            for other in &admitted[place + 1..] {
                let (range, others) = (KeyRange::of(&one.schema), KeyRange::of(&other.schema));
                assert!(!range.touches(&others), "{} {}", one.schema, other.schema);
            }
            assert_eq!(stores[0].tenant_state(one).await.unwrap(), COMPLETE);
        }
    }
}

#[tokio::test]
async fn names_that_two_choose_are_those_of_the_first_by_whatever_store_they_come() {
    let etcd = Etcd::shared().await;
    let (store, other) = (etcd.store(), renamed(etcd.connection_as("root")));
    let first = named("shared_name", "shared_name");
    Box::pin(assert_names_have_one_holder([&store, &other], &first)).await;
}

#[tokio::test]
async fn what_is_on_record_is_not_enough_where_somebody_elses_mark_is() {
    let etcd = Etcd::shared().await;
    let (store, first) = (etcd.store(), named("workshop", "workshop"));
    let second = namesake(&first);
    store.ensure_tenant(&first).await.unwrap();
    put_as(etcd, "workshop", key(&first, "a"), b"1".to_vec())
        .await
        .unwrap();
    let error = store
        .ensure_tenant(&established(&second))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the prefix /workshop/ of etcd exists already and does not belong to this control plane: its key \
             steward.butlerlabs.dev/owner/workshop names the control plane with the UID {}; \
             choose another name, or remove it",
            first.owner
        )
    );
    store.revoke(&established(&second)).await.unwrap();
    store.drop_tenant(&established(&second)).await.unwrap();
    assert_eq!(store.tenant_state(&first).await.unwrap(), COMPLETE);
    assert_eq!(value(etcd, key(&first, "a")).await, Some(b"1".to_vec()));
    // Whoever runs the etcd hands it over by the mark.
    let mark = b"steward.butlerlabs.dev/owner/workshop".to_vec();
    put_as(etcd, "root", mark, second.owner.to_string().into_bytes())
        .await
        .unwrap();
    store.ensure_tenant(&second).await.unwrap();
    store.ensure_tenant(&established(&first)).await.unwrap_err();
    assert_eq!(value(etcd, key(&second, "a")).await, Some(b"1".to_vec()));
}

#[tokio::test]
async fn a_tenant_of_an_older_release_is_its_own_and_nobody_elses() {
    let etcd = Etcd::shared().await;
    let (store, first) = (etcd.store(), named("heirloom", "heirloom"));
    store.ensure_tenant(&first).await.unwrap();
    let mark = b"steward.butlerlabs.dev/owner/heirloom".to_vec();
    let forget = async || etcd.delete(mark.clone()).await;
    forget().await;
    let second = namesake(&first);
    let error = store.ensure_tenant(&second).await.unwrap_err();
    assert!(error.to_string().contains("says whose both are"), "{error}");
    store.drop_tenant(&second).await.unwrap();
    assert_eq!(store.tenant_state(&first).await.unwrap(), COMPLETE);
    // Its next set-up leaves the mark.
    store.ensure_tenant(&established(&first)).await.unwrap();
    assert_eq!(
        value(etcd, mark.clone()).await,
        Some(first.owner.to_string().into_bytes())
    );
    forget().await;
    store.drop_tenant(&established(&first)).await.unwrap();
    assert!(store.tenant_state(&first).await.unwrap().is_gone());
}

#[tokio::test]
async fn roles_of_operators_keep_tenants_away_from_their_keys_and_from_nothing_else() {
    let etcd = Etcd::shared().await;
    let store = etcd.store();
    add_role(etcd, "billing-operators", Some(below("/billing/reports"))).await;
    for schema in ["billing", "billing/reports", "billing/reports/2026"] {
        let error = store
            .ensure_tenant(&named(schema, "billing-user"))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "DataStoreNameTaken", "{schema}: {error}");
    }
    // Who copies everything somewhere is in nobody's way.
    add_role(etcd, "archivists", Some(everything())).await;
    grant_role(etcd, "root", "archivists").await;
    let neighbour = named("billing2", "billing2");
    store.ensure_tenant(&neighbour).await.unwrap();
    assert_eq!(store.tenant_state(&neighbour).await.unwrap(), COMPLETE);
}
