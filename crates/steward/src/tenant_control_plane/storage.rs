//! Whether a control plane's part of its store is set up, and what is to be done if not. Pure.

use butler_api::{
    conditions::reasons,
    steward::{
        data_store::DataStoreDriver,
        tenant_control_plane::{
            TenantControlPlane,
            status::{StorageConfigState, StorageSetupState, StorageState},
        },
    },
};
use butler_pki::is_issued_by;
use butler_runtime::conditions::{Answer, Finding};
use jiff::Timestamp;
use serde_json::json;
use steward_datastore::decide;

use super::{
    observe::{StoreView, World},
    part::{claim, part_of_store, storage_of, was_set_up},
    status::secret_state,
};
use crate::{
    build::StoreConnection,
    names::SecretRole,
    secrets::{Content, Guard, KeptSecret, Moment, Seen, bytes, checksum},
    store::{Shows, StoreFacts, StoreOrder, setup_fingerprint},
};

/// What a look at the store found.
pub(super) struct Storage {
    /// Whether the control plane's part is set up.
    pub(super) finding: Finding,
    /// How pods reach it, once it is.
    pub(super) connection: Option<StoreConnection>,
    /// What is to be done.
    pub(super) order: Option<StoreOrder>,
    /// What the status says.
    pub(super) state: Option<StorageState>,
    /// When the certificate is to be renewed.
    pub(super) renewal: Option<Timestamp>,
}

pub(super) fn look(control_plane: &TenantControlPlane, world: &World, moment: Moment) -> Storage {
    match usable(control_plane, world) {
        Err(finding) => Storage {
            finding,
            connection: None,
            order: None,
            state: storage_of(control_plane).cloned(),
            renewal: None,
        },
        Ok(facts) => look_at(control_plane, world, facts, moment),
    }
}

/// The facts of a store that can be used, or why none can.
fn usable<'a>(
    control_plane: &TenantControlPlane,
    world: &'a World,
) -> Result<&'a StoreFacts, Finding> {
    let not_found = |message: String| Finding::new(false, reasons::DATA_STORE_NOT_FOUND, message);
    let facts = known(&world.store)?;
    claim(control_plane)
        .and_then(|claim| decide(facts.driver, &claim, None, []))
        .map_err(|refusal| Finding::new(false, reasons::VALIDATION_FAILED, refusal.to_string()))?;
    if let Some((store, rival)) = world.rivals.first_key_value() {
        let message = format!(
            "the part of the DataStore {store} that this control plane wants is that of {rival}; choose another dataStore, dataStoreSchema or dataStoreUsername"
        );
        return Err(Finding::new(false, reasons::SCHEMA_TAKEN, message));
    }
    for (resource, view) in &world.overrides {
        let other = known(view)?;
        let is_etcd = |facts: &StoreFacts| facts.driver == DataStoreDriver::Etcd;
        if !is_etcd(facts) || !is_etcd(other) || facts.authority_pem != other.authority_pem {
            let message = format!(
                "spec.dataStoreOverrides: {resource} cannot be kept in {}: both stores must be etcd with the same certificate authority",
                other.name
            );
            return Err(Finding::new(false, reasons::VALIDATION_FAILED, message));
        }
    }
    let has_its_state = storage_of(control_plane).is_some_and(|storage| storage.setup.is_some());
    if facts.deleting && !has_its_state {
        let message = format!(
            "the DataStore {} is being deleted; name another one",
            facts.name
        );
        return Err(not_found(message));
    }
    Ok(facts)
}

fn known(view: &StoreView) -> Result<&StoreFacts, Finding> {
    let not_found = |message: String| Finding::new(false, reasons::DATA_STORE_NOT_FOUND, message);
    match view {
        StoreView::Known(facts) => Ok(facts),
        StoreView::Unnamed => Err(not_found(
            "spec.dataStore: no DataStore is named, and there is no default; name one".to_owned(),
        )),
        StoreView::Missing(name) => Err(not_found(format!(
            "the DataStore {name} does not exist; create it"
        ))),
        StoreView::Broken { name, problem } => Err(Finding::new(
            false,
            reasons::CREDENTIALS_INVALID,
            format!("the DataStore {name} cannot be used: {problem}"),
        )),
    }
}

fn look_at(
    control_plane: &TenantControlPlane,
    world: &World,
    facts: &StoreFacts,
    moment: Moment,
) -> Storage {
    let now = moment.now;
    let (schema, user) = part_of_store(control_plane);
    let config = world.secrets.get(&SecretRole::StoreConfig);
    let certificate = world.secrets.get(&SecretRole::StoreCertificate);
    let base = base(facts, world, &schema, &user);
    let judged = judge_certificate(facts, &user, certificate, moment);
    let setup = judge_setup(&base, config);
    // What was set up before is on record only if it is what the spec says now.
    let overrides = storage_of(control_plane)
        .and_then(|storage| storage.overrides.clone())
        .or_else(|| {
            let is_theirs = setup.is_ok() || !was_set_up(control_plane);
            is_theirs.then(|| control_plane.spec.data_store_overrides.clone())
        });
    let is_announced = storage_of(control_plane).is_some_and(|storage| {
        let announced = storage.setup.as_ref();
        let same = |setup: &StorageSetupState| {
            setup.schema.as_deref() == Some(&schema) && setup.user.as_deref() == Some(&user)
        };
        announced.is_some_and(same) && storage.data_store_name.as_deref() == Some(&facts.name)
    });
    let problem = setup.err().or_else(|| judged.as_ref().err().cloned());
    // A set-up writes the settings, and the certificate if there is something wrong with it.
    let mut written = config
        .into_iter()
        .chain(certificate.filter(|_| judged.is_err()));
    let held = written.find(|seen| seen.value.is_paused);
    let creating = |message: String| Finding::new(Answer::False, reasons::CREATING, message);
    let (finding, order) = match (problem, held) {
        (None, _) => {
            let message = format!("its part of the DataStore {} is set up", facts.name);
            (Finding::new(true, reasons::READY, message), None)
        }
        (Some(reason), Some(seen)) => {
            let why = format!(
                "belongs to its part of the DataStore {}, which {reason}",
                facts.name
            );
            let message = KeptSecret::told_paused(&seen.facts.key, &why);
            (Finding::new(false, reasons::PAUSED, message), None)
        }
        // The status says where the state will be before anything is there.
        (Some(reason), None) if !is_announced => (
            creating(format!("its part of the DataStore {} {reason}", facts.name)),
            None,
        ),
        (Some(reason), None) => {
            let order = StoreOrder {
                reason: reason.clone(),
                store: facts.name.clone(),
                overrides: world
                    .overrides
                    .iter()
                    .filter_map(|(_, view)| known(view).ok())
                    .map(|other| other.name.clone())
                    .collect(),
                schema: schema.clone(),
                user: user.clone(),
                established: was_set_up(control_plane),
                base,
                config: config.map_or(Guard::Absent, Guard::from),
                certificate: judged
                    .is_err()
                    .then(|| certificate.map_or(Guard::Absent, Guard::from)),
                at: now,
            };
            (
                creating(format!("its part of the DataStore {} {reason}", facts.name)),
                Some(order),
            )
        }
    };
    let connection = order
        .is_none()
        .then(|| connect(facts, world, &schema))
        .filter(|_| finding.answer == Answer::True);
    Storage {
        connection,
        state: Some(StorageState {
            overrides,
            ..state(control_plane, world, facts, (&schema, &user), now)
        }),
        finding,
        order,
        renewal: judged.ok().flatten(),
    }
}

/// Fingerprint of all that a set-up depends on, but for the settings themselves.
fn base(facts: &StoreFacts, world: &World, schema: &str, user: &str) -> String {
    let others = world
        .overrides
        .iter()
        .filter_map(|(_, view)| known(view).ok());
    let others = others.map(|other| format!("{}:{}", other.name, other.fingerprint));
    let parts = [
        ("store", facts.name.clone()),
        ("access", facts.fingerprint.clone()),
        ("schema", schema.to_owned()),
        ("user", user.to_owned()),
        ("overrides", others.collect::<Vec<_>>().join(",")),
    ];
    checksum(
        &parts
            .map(|(name, text)| (name.to_owned(), bytes(&text)))
            .into(),
    )
}

fn judge_setup(base: &str, config: Option<&Seen>) -> Result<(), String> {
    let Some(config) = config else {
        return Err("is not set up yet".to_owned());
    };
    let secret = &config.value;
    if secret.written.as_deref() != Some(&secret.checksum) {
        return Err("has settings that somebody changed".to_owned());
    }
    if secret.setup != Some(setup_fingerprint(base, &secret.checksum)) {
        return Err("is not set up with these settings yet".to_owned());
    }
    Ok(())
}

/// Until when the certificate stays, or why it does not.
fn judge_certificate(
    facts: &StoreFacts,
    user: &str,
    seen: Option<&Seen>,
    moment: Moment,
) -> Result<Option<Timestamp>, String> {
    let Some(authority) = &facts.authority_pem else {
        return Ok(None);
    };
    let Some(seen) = seen else {
        return Err("has no certificate for this control plane yet".to_owned());
    };
    let Content::StoreCertificate {
        authority_pem,
        pair,
    } = &seen.value.content
    else {
        return Err("has an unusable certificate".to_owned());
    };
    if authority_pem.as_ref() != Some(authority) {
        return Err("has another authority now".to_owned());
    }
    match facts.shows {
        Shows::Nothing if facts.driver != DataStoreDriver::Etcd => return Ok(None),
        Shows::Shared => return pair.as_ref().map(|_| None).map_err(Clone::clone),
        Shows::Own | Shows::Nothing => {}
    }
    let pair = pair
        .as_ref()
        .map_err(|defect| format!("has an unusable certificate: {defect}"))?;
    let genuine = is_issued_by(&pair.certificate_pem, authority).unwrap_or(false);
    if !genuine || pair.facts.common_name != user {
        return Err("has a certificate that is not this control plane's".to_owned());
    }
    if seen.value.is_paused {
        return Ok(None);
    }
    if seen.value.rotate || moment.is_due(&pair.facts) {
        return Err("has a certificate that is due for renewal".to_owned());
    }
    Ok(Some(moment.renewal_of(&pair.facts)))
}

fn connect(facts: &StoreFacts, world: &World, schema: &str) -> StoreConnection {
    let overrides = world.overrides.iter().filter_map(|(resource, view)| {
        Some((resource.clone(), known(view).ok()?.endpoints.clone()))
    });
    StoreConnection {
        name: facts.name.clone(),
        driver: facts.driver,
        endpoints: facts.endpoints.clone(),
        schema: schema.to_owned(),
        encrypted: facts.authority_pem.is_some(),
        client_certificate: facts.shows != Shows::Nothing,
        overrides: overrides.collect(),
    }
}

fn state(
    control_plane: &TenantControlPlane,
    world: &World,
    facts: &StoreFacts,
    (schema, user): (&str, &str),
    now: Timestamp,
) -> StorageState {
    let before = storage_of(control_plane).cloned().unwrap_or_default();
    let config = world.secrets.get(&SecretRole::StoreConfig);
    let done = config.and_then(|config| config.value.setup.clone());
    let setup_before = before.setup.unwrap_or_default();
    let setup = StorageSetupState {
        schema: Some(schema.to_owned()),
        user: Some(user.to_owned()),
        last_update: if setup_before.checksum == done {
            setup_before.last_update
        } else {
            Some(super::status::time(now))
        },
        checksum: done,
    };
    StorageState {
        driver: json!(facts.driver).as_str().map(str::to_owned),
        data_store_name: Some(facts.name.clone()),
        config: config.map(|config| StorageConfigState {
            secret_name: Some(config.facts.key.name.clone()),
            checksum: Some(config.value.checksum.clone()),
        }),
        setup: Some(setup),
        certificate: secret_state(
            world,
            SecretRole::StoreCertificate,
            before.certificate.as_ref(),
            now,
        ),
        overrides: before.overrides,
        migration: before.migration,
    }
}
