//! Which part of which store a control plane has or asks for, and who has it if two do. Pure; what is a name, and what touches
//! what, is decided by `steward-datastore`.

use butler_api::steward::{
    data_store::DataStoreDriver,
    tenant_control_plane::{
        TenantControlPlane,
        status::{MigrationStage, MigrationState, StorageState},
    },
};
use butler_runtime::object::ObjectKey;
use kube::ResourceExt;
use steward_datastore::{Claim, Refusal, Schema, TenantUid, User, decide};

use crate::settings::Settings;

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

fn override_stores(control_plane: &TenantControlPlane) -> impl Iterator<Item = String> + '_ {
    let overrides = control_plane.spec.data_store_overrides.iter();
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

/// Whether the first of two that want the same of a store has it: whose whole state is there, else who announced it, else who
/// is older. Which resources are kept elsewhere can change at any time, and takes nothing from anybody.
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
        (!at_home, !announced, born, control_plane.uid())
    };
    rank(one) < rank(other)
}

#[cfg(test)]
mod tests {
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
}
