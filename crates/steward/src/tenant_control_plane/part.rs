//! Which part of which store a control plane has or asks for, and who has it if two do. Pure; what is a name, and what touches
//! what, is decided by `steward-datastore`.

use butler_api::{
    keys::annotations,
    steward::{
        data_store::DataStoreDriver,
        tenant_control_plane::{
            DataStoreOverride, TenantControlPlane,
            status::{MigrationStage, MigrationState, StorageState},
        },
    },
};
use butler_runtime::object::ObjectKey;
use kube::ResourceExt;
use steward_datastore::{Claim, Refusal, Schema, TenantUid, User, decide};

use crate::{move_port::Remains, settings::Settings};

/// What the status says of the state.
pub(super) fn storage_of(control_plane: &TenantControlPlane) -> Option<&StorageState> {
    control_plane.status.as_ref()?.storage.as_ref()
}

/// The store of a control plane: the one that has its state, else the one it wishes, else the operator's.
pub(crate) fn chosen_store(
    control_plane: &TenantControlPlane,
    settings: &Settings,
) -> Option<String> {
    let has = storage_of(control_plane).and_then(|storage| storage.data_store_name.clone());
    let wishes = || control_plane.spec.data_store.clone();
    has.or_else(wishes)
        .or_else(|| settings.default_data_store.clone())
}

/// The move of a control plane's state that is on record.
pub(super) fn migration_of(control_plane: &TenantControlPlane) -> Option<&MigrationState> {
    storage_of(control_plane)?.migration.as_ref()
}

/// Whether writes inside of the tenant must be refused, by what is on record.
pub(crate) fn is_frozen(control_plane: &TenantControlPlane) -> bool {
    migration_of(control_plane).is_some_and(|migration| match migration.stage {
        MigrationStage::Copying
        | MigrationStage::Switching
        | MigrationStage::Sealing
        | MigrationStage::RollingBack => true,
        MigrationStage::Finishing | MigrationStage::Returning | MigrationStage::Failed => false,
    })
}

/// What becomes of a control plane's state in a store to which it moves. Only what is known to be its own can be there, so it
/// goes, unless somebody says that it must not.
pub(super) fn remains(control_plane: &TenantControlPlane) -> Remains {
    let annotations = control_plane.annotations();
    let asked = annotations.get(annotations::STEWARD_CLEANUP_PRIOR_MIGRATION);
    match asked.map(|text| text.to_ascii_lowercase()).as_deref() {
        Some("false" | "f" | "0") => Remains::Stay,
        _ => Remains::Go,
    }
}

/// The store that the spec names, if the state is in another one.
pub(super) fn wished_store(control_plane: &TenantControlPlane) -> Option<&str> {
    let has = storage_of(control_plane)?.data_store_name.as_ref()?;
    let wished = control_plane.spec.data_store.as_ref()?;
    (wished != has).then_some(wished.as_str())
}

/// The store beside that with the state in which a move has, or may have, left something.
pub(super) fn second_store(control_plane: &TenantControlPlane) -> Option<&str> {
    let migration = migration_of(control_plane)?;
    match migration.stage {
        MigrationStage::Copying | MigrationStage::RollingBack | MigrationStage::Returning => {
            Some(&migration.to)
        }
        MigrationStage::Switching | MigrationStage::Sealing | MigrationStage::Finishing => {
            Some(&migration.from)
        }
        MigrationStage::Failed => None,
    }
}

/// The store, beside that with the state, that a control plane is concerned with: that of a move, else the one it wishes.
pub(super) fn other_store(control_plane: &TenantControlPlane) -> Option<&str> {
    second_store(control_plane).or_else(|| wished_store(control_plane))
}

/// The resources that are on record as kept in other stores.
fn placed_overrides(control_plane: &TenantControlPlane) -> Option<&[DataStoreOverride]> {
    storage_of(control_plane)?.overrides.as_deref()
}

/// The resources that are kept in other stores: those on record, which stay where they are, else those that the spec names.
pub(crate) fn overrides_of(control_plane: &TenantControlPlane) -> &[DataStoreOverride] {
    placed_overrides(control_plane).unwrap_or(&control_plane.spec.data_store_overrides)
}

/// What stays where it is although the spec says otherwise, in a sentence.
pub(super) fn held_overrides(control_plane: &TenantControlPlane) -> Option<String> {
    let placed = placed_overrides(control_plane)?;
    let wished = &control_plane.spec.data_store_overrides;
    if placed == wished {
        return None;
    }
    let told = |overrides: &[DataStoreOverride]| {
        let each: Vec<_> = overrides
            .iter()
            .map(|wish| format!("{} in {}", wish.resource, wish.data_store))
            .collect();
        if each.is_empty() {
            "nothing elsewhere".to_owned()
        } else {
            each.join(", ")
        }
    };
    Some(format!(
        "spec.dataStoreOverrides wants {}, but what was set up stays: {}; what is kept in a store would be left behind in it, so set the field back",
        told(wished),
        told(placed)
    ))
}

/// The stores of single resources of which it is on record that they were set up for the control plane. What has its names in
/// others may be somebody else's.
pub(super) fn settled_override_stores(
    control_plane: &TenantControlPlane,
) -> impl Iterator<Item = &String> {
    let placed = placed_overrides(control_plane).filter(|_| was_set_up(control_plane));
    let placed = placed.into_iter().flatten();
    placed.map(|wish| &wish.data_store)
}

fn override_stores(control_plane: &TenantControlPlane) -> impl Iterator<Item = String> + '_ {
    let overrides = overrides_of(control_plane).iter();
    overrides.map(|wish| wish.data_store.clone())
}

/// The stores that have, or get, the whole state of a control plane.
fn claimed_stores(
    control_plane: &TenantControlPlane,
    settings: &Settings,
) -> impl Iterator<Item = String> {
    let second = second_store(control_plane).map(str::to_owned);
    chosen_store(control_plane, settings)
        .into_iter()
        .chain(second)
}

/// All stores of a control plane.
pub(crate) fn used_stores(control_plane: &TenantControlPlane, settings: &Settings) -> Vec<String> {
    claimed_stores(control_plane, settings)
        .chain(override_stores(control_plane))
        .collect()
}

/// The stores of a control plane that go with it, without those of a move.
pub(super) fn own_stores(control_plane: &TenantControlPlane, settings: &Settings) -> Vec<String> {
    chosen_store(control_plane, settings)
        .into_iter()
        .chain(override_stores(control_plane))
        .collect()
}

/// All stores that matter to a control plane: its own, and the one it wishes to move to.
pub(crate) fn watched_stores(
    control_plane: &TenantControlPlane,
    settings: &Settings,
) -> Vec<String> {
    let wished = wished_store(control_plane).map(str::to_owned);
    used_stores(control_plane, settings)
        .into_iter()
        .chain(wished)
        .collect()
}

/// The schema and the user of a control plane within its store: those it has, else those it wishes, else its own.
pub(crate) fn part_of_store(control_plane: &TenantControlPlane) -> (String, String) {
    let setup = storage_of(control_plane)
        .and_then(|storage| storage.setup.clone())
        .unwrap_or_default();
    let uid: Option<TenantUid> = control_plane.uid().and_then(|uid| uid.parse().ok());
    // Who has no UID has no name either, and an empty one is refused.
    let own_schema = || {
        uid.as_ref()
            .map(|uid| Schema::of(uid).to_string())
            .unwrap_or_default()
    };
    let own_user = || {
        uid.as_ref()
            .map(|uid| User::of(uid).to_string())
            .unwrap_or_default()
    };
    let spec = &control_plane.spec;
    let schema = setup.schema.or_else(|| spec.data_store_schema.clone());
    let user = setup.user.or_else(|| spec.data_store_username.clone());
    (
        schema.unwrap_or_else(own_schema),
        user.unwrap_or_else(own_user),
    )
}

/// What a control plane holds or asks for in its store; the error says which name is none.
pub(super) fn claim(control_plane: &TenantControlPlane) -> Result<Claim, Refusal> {
    let (schema, user) = part_of_store(control_plane);
    Ok(Claim {
        tenant: ObjectKey::of(control_plane).to_string(),
        schema: schema.parse().map_err(Refusal::Name)?,
        user: user.parse().map_err(Refusal::Name)?,
    })
}

/// Whether the part of a store was set up completely once.
pub(crate) fn was_set_up(control_plane: &TenantControlPlane) -> bool {
    let setup = storage_of(control_plane).and_then(|storage| storage.setup.as_ref());
    setup.is_some_and(|setup| setup.checksum.is_some())
}

/// Whether two control planes want the same of one store, which the first has or wishes, for everything or for some
/// resources.
pub(crate) fn touches(
    one: &TenantControlPlane,
    other: &TenantControlPlane,
    settings: &Settings,
) -> bool {
    let mut stores = watched_stores(one, settings).into_iter();
    stores.any(|store| touches_in(&store, one, other, settings))
}

/// Whether what a control plane wants of a store is, or touches, what another one has or gets there. A resource that is kept
/// elsewhere is kept under the same names.
pub(super) fn touches_in(
    store: &str,
    one: &TenantControlPlane,
    other: &TenantControlPlane,
    settings: &Settings,
) -> bool {
    if !used_stores(other, settings)
        .iter()
        .any(|used| used == store)
    {
        return false;
    }
    let driver = |control_plane: &TenantControlPlane| {
        let driver = storage_of(control_plane).and_then(|storage| storage.driver.clone());
        driver.and_then(|driver| serde_json::from_value::<DataStoreDriver>(driver.into()).ok())
    };
    // Before either has announced itself: the kind of store in which most touches.
    let driver = driver(one)
        .or_else(|| driver(other))
        .unwrap_or(DataStoreDriver::Etcd);
    // Who has no valid name gets nothing.
    let (Ok(claim), Ok(held)) = (claim(one), claim(other)) else {
        return false;
    };
    matches!(
        decide(driver, &claim, None, [&held]),
        Err(Refusal::SchemaTaken { .. } | Refusal::UserTaken { .. } | Refusal::StoreTaken { .. })
    )
}

/// Whether a control plane is known to have its part of a store: it was set up there, for all of the state or for single
/// resources, and was not left yet.
pub(super) fn is_settled_in(store: &str, control_plane: &TenantControlPlane) -> bool {
    let has = storage_of(control_plane).and_then(|storage| storage.data_store_name.as_deref());
    let leaves = migration_of(control_plane).map(|migration| migration.from.as_str());
    let leaves = leaves.filter(|from| second_store(control_plane) == Some(*from));
    let mut stores = settled_override_stores(control_plane).map(String::as_str);
    let is_home = was_set_up(control_plane) && [has, leaves].contains(&Some(store));
    is_home || stores.any(|settled| settled == store)
}

/// Whether the first of two that want the same of a store has it: who was set up there, else whose whole state shall be there,
/// else who announced it, else who is older. Age says nothing about whose the data is.
pub(super) fn has_precedence(
    store: &str,
    one: &TenantControlPlane,
    other: &TenantControlPlane,
    settings: &Settings,
) -> bool {
    let rank = |control_plane: &TenantControlPlane| {
        let announced = storage_of(control_plane).is_some_and(|storage| storage.setup.is_some());
        let at_home =
            announced && claimed_stores(control_plane, settings).any(|claimed| claimed == store);
        let born = control_plane.creation_timestamp().map(|time| time.0);
        (
            !is_settled_in(store, control_plane),
            !at_home,
            !announced,
            born,
            control_plane.uid(),
        )
    };
    rank(one) < rank(other)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;
    use crate::testing::control_plane_with;

    /// A control plane that has its state under this name in one store, and its events in another.
    fn hosted(uid: &str, home: &str, events: Option<&str>) -> TenantControlPlane {
        let overrides = events.map(|store| json!({ "resource": "/events", "dataStore": store }));
        let mut control_plane = control_plane_with(json!({
            "dataStore": home, "dataStoreSchema": "shop",
            "dataStoreOverrides": overrides.into_iter().collect::<Vec<_>>(),
        }));
        control_plane.metadata.uid = Some(uid.to_owned());
        control_plane.metadata.name = Some(uid.to_owned());
        let storage = json!({ "storage": {
            "driver": "etcd", "dataStoreName": home,
            "setup": { "schema": "shop", "user": format!("user_{uid}") },
        } });
        control_plane.status = serde_json::from_value(storage).unwrap();
        control_plane
    }

    #[test]
    fn what_is_kept_elsewhere_does_not_touch_what_another_one_has_there() {
        let settings = Settings::default();
        let (at_home, visitor) = (
            hosted("b", "gold", None),
            hosted("a", "silver", Some("gold")),
        );
        assert!(touches(&visitor, &at_home, &settings));
        assert!(touches(&at_home, &visitor, &settings));
        assert!(!touches_in("silver", &visitor, &at_home, &settings));
        // Although the visitor is no younger.
        assert!(has_precedence("gold", &at_home, &visitor, &settings));
        assert!(!has_precedence("gold", &visitor, &at_home, &settings));
        assert!(!touches(&hosted("c", "silver", None), &at_home, &settings));
    }

    fn set_up(mut control_plane: TenantControlPlane) -> TenantControlPlane {
        let storage = control_plane.status.as_mut().unwrap().storage.as_mut();
        let storage = storage.unwrap();
        storage.setup.as_mut().unwrap().checksum = Some("done".to_owned());
        storage.overrides = Some(control_plane.spec.data_store_overrides.clone());
        control_plane
    }

    fn born(mut control_plane: TenantControlPlane, time: &str) -> TenantControlPlane {
        control_plane.metadata.creation_timestamp = Some(Time(time.parse().unwrap()));
        control_plane
    }

    #[test]
    fn who_was_set_up_in_a_store_has_it_whoever_is_older() {
        let settings = Settings::default();
        let first = |one: &TenantControlPlane, other: &TenantControlPlane| {
            let order = has_precedence("gold", one, other, &settings);
            assert_ne!(order, has_precedence("gold", other, one, &settings));
            order
        };
        let older = born(hosted("b", "gold", None), "2026-01-01T00:00:00Z");
        let younger = born(hosted("a", "gold", None), "2026-02-01T00:00:00Z");
        assert!(first(&older, &younger), "neither was set up: age decides");
        let settled = set_up(younger);
        assert!(first(&settled, &older));
        assert!(
            first(&set_up(older.clone()), &settled),
            "both were: age decides"
        );
        // What was set up for single resources is there too.
        let visitor = hosted("c", "silver", Some("gold"));
        assert!(first(&older, &visitor));
        assert!(first(&set_up(visitor), &older));
    }

    #[test]
    fn what_was_placed_in_another_store_stays_there_whatever_the_spec_says() {
        let mut control_plane = set_up(hosted("a", "silver", Some("gold")));
        assert_eq!(held_overrides(&control_plane), None);
        control_plane.spec.data_store_overrides[0].data_store = "bronze".to_owned();
        assert_eq!(overrides_of(&control_plane)[0].data_store, "gold");
        insta::assert_snapshot!(held_overrides(&control_plane).unwrap(), @"spec.dataStoreOverrides wants /events in bronze, but what was set up stays: /events in gold; what is kept in a store would be left behind in it, so set the field back");
        control_plane.spec.data_store_overrides.clear();
        assert!(held_overrides(&control_plane).is_some());
        assert_eq!(
            used_stores(&control_plane, &Settings::default()),
            ["silver", "gold"]
        );
    }

    #[test]
    fn what_a_control_plane_left_in_a_store_goes_unless_somebody_says_otherwise() {
        let mut control_plane = hosted("a", "silver", None);
        assert_eq!(remains(&control_plane), Remains::Go);
        for (text, expected) in [
            ("true", Remains::Go),
            ("false", Remains::Stay),
            ("False", Remains::Stay),
            ("0", Remains::Stay),
        ] {
            let annotation = annotations::STEWARD_CLEANUP_PRIOR_MIGRATION.to_owned();
            let annotations = control_plane.annotations_mut();
            annotations.insert(annotation, text.to_owned());
            assert_eq!(remains(&control_plane), expected, "{text}");
        }
    }
}
