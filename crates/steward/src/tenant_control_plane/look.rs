//! One look at a control plane: everything that is found out about it, the objects and effects that follow, and its status.

use std::collections::BTreeMap;

use butler_api::{
    conditions::{reasons, types},
    steward::tenant_control_plane::{
        ControlPlanePhase, TenantControlPlane, TenantControlPlaneStatus,
        status::{KubernetesResources, MigrationStage, StorageState, resources::VersionState},
    },
    version::{KubernetesVersion, rules::VersionRefusal},
};
use butler_runtime::{conditions::Finding, object::Manifest};
use jiff::Timestamp;
use steward_tenant::TenantPart;

use super::{
    Effect,
    migration::{self, Migration, Obstacle, Situation},
    observe::World,
    part::{held_overrides, is_frozen},
    phase::phase,
    stages::passed,
    status,
    storage::{self, Storage},
};
use crate::{
    addresses::{Addresses, addresses},
    build::{self, PodInputs, StoreConnection},
    move_port::Stillness,
    names::{Names, SecretRole},
    projections::DeploymentFacts,
    secrets::{Moment, Review, Seen, leftovers, review, wanted},
    settings::Settings,
};

/// The version that all pods have run last: that of the data.
pub(super) fn installed(control_plane: &TenantControlPlane) -> Option<&str> {
    let status = control_plane.status.as_ref()?;
    let version = status.kubernetes_resources.as_ref()?.version.as_ref()?;
    version
        .version
        .as_deref()
        .filter(|version| !version.is_empty())
}

/// Whether pods have served, and it is known of which version.
fn has_served(control_plane: &TenantControlPlane) -> bool {
    let status = control_plane.status.as_ref();
    let mut stages = status.iter().flat_map(|status| &status.stages);
    installed(control_plane).is_some() && stages.any(|stage| stage.name == types::AVAILABLE)
}

/// All that one look at a control plane finds.
pub(super) struct Look<'a> {
    pub(super) control_plane: &'a TenantControlPlane,
    pub(super) world: &'a World,
    pub(super) version: &'a KubernetesVersion,
    pub(super) settings: &'a Settings,
    pub(super) now: Timestamp,
    pub(super) names: Names,
    pub(super) addresses: Addresses,
    pub(super) review: Review,
    /// The Secrets that are ours and not wanted any more.
    leftovers: Vec<(SecretRole, &'a Seen)>,
    pub(super) storage: Storage,
    pub(super) migration: Migration,
}

impl<'a> Look<'a> {
    pub(super) fn new(
        control_plane: &'a TenantControlPlane,
        world: &'a World,
        version: &'a KubernetesVersion,
        settings: &'a Settings,
        now: Timestamp,
    ) -> Self {
        let service = world.service.as_ref();
        let wanted = wanted(control_plane, version, service, settings);
        let moment = Moment {
            now,
            deadline: settings.certificate_deadline,
        };
        let names = Names::of(control_plane);
        let mut look = Self {
            control_plane,
            world,
            version,
            settings,
            now,
            leftovers: leftovers(&names, &wanted, &world.secrets),
            names,
            addresses: addresses(control_plane, service),
            review: Review::default(),
            storage: storage::look(control_plane, world, moment),
            migration: Migration::default(),
        };
        // What must not be written into the tenant now is not waited for in it either.
        let is_settled = look.is_settled() && !is_frozen(control_plane);
        look.review = review(&wanted, &world.secrets, is_settled, moment);
        look.migration = migration::look(&look.situation());
        let held = held_overrides(control_plane);
        let held = held.map(|message| Finding::new(false, reasons::UNSUPPORTED, message));
        look.migration.finding = look.migration.finding.or(held);
        look
    }

    fn situation(&self) -> Situation<'_> {
        let (world, deployment) = (self.world, self.world.deployment.as_ref());
        let is_set_up = self.storage.connection.is_some();
        let connection = self.storage.connection.as_ref();
        let uses_store = |found: &DeploymentFacts| {
            let store = connection.map(|connection| &connection.name);
            store.is_some() && found.store.as_ref() == store && found.has_only_new_pods()
        };
        Situation {
            control_plane: self.control_plane,
            store: &world.store,
            other: &world.other_store,
            other_rival: world.other_rival.as_ref(),
            overrides: world.overrides.iter().map(|(_, view)| view).collect(),
            stillness: self.stillness(),
            is_set_up,
            has_pods: deployment.is_some(),
            is_rolled_out: deployment.is_some_and(uses_store),
            is_thawed: self.is_in_place(TenantPart::Freeze).unwrap_or(true),
            errand: world.errand.as_ref(),
            now: self.now,
        }
    }

    /// Why nobody can write into the state, or what that waits for.
    fn stillness(&self) -> Result<Stillness, Obstacle> {
        let deployment = self.world.deployment.as_ref();
        let pods = deployment.and_then(|found| found.status.replicas);
        if self.is_asleep() && deployment.is_some_and(|found| found.wanted == 0) {
            let is_seen = deployment
                .is_some_and(|found| found.status.observed_generation == found.generation);
            if is_seen && pods.unwrap_or_default() == 0 {
                return Ok(Stillness::Asleep(
                    deployment.and_then(|found| found.generation),
                ));
            }
            let message = "the pods have not ended yet".to_owned();
            return Err((reasons::MIGRATING, message));
        }
        if self.world.tenant.is_none() {
            let message = "nobody here can have the tenant refuse writes; scale it to zero first";
            return Err((reasons::UNSUPPORTED, message.to_owned()));
        }
        match self.is_in_step() {
            None => {
                let message = "no API server of it serves, so that none can be told to refuse writes; have it serve, or scale it to zero";
                Err((reasons::PODS_NOT_READY, message.to_owned()))
            }
            Some(true) if is_frozen(self.control_plane) => Ok(Stillness::Frozen),
            Some(_) => {
                let tenant = self.world.tenant.as_ref();
                let problem = tenant.and_then(|tenant| tenant.problem.clone());
                let message = problem
                    .unwrap_or_else(|| "the API servers do not refuse writes yet".to_owned());
                Err((reasons::MIGRATING, message))
            }
        }
    }

    /// What depends on nothing.
    pub(super) fn always(&self) -> Vec<Manifest> {
        let (control_plane, names) = (self.control_plane, &self.names);
        let mut all = vec![build::service(control_plane, names, self.is_first_start())];
        all.extend(build::egress_configuration(
            control_plane,
            names,
            self.settings,
        ));
        all.extend(self.ways_in());
        all
    }

    /// Whether no pod has ever served.
    fn is_first_start(&self) -> bool {
        let serves = |found: &DeploymentFacts| found.ready() > 0;
        installed(self.control_plane).is_none()
            && !self.world.deployment.as_ref().is_some_and(serves)
    }

    /// The pods, once everything that they mount is there.
    pub(super) fn pods(&self) -> Option<Vec<Manifest>> {
        let connection = self.storage.connection.as_ref()?;
        let advertised = self.addresses.advertised?;
        let checksums = self.checksums(connection)?;
        let inputs = PodInputs {
            control_plane: self.control_plane,
            names: &self.names,
            version: self.version,
            advertised,
            connection,
            checksums: &checksums,
            settings: self.settings,
        };
        let egress = build::egress_configuration(self.control_plane, &self.names, self.settings);
        // Pods would never start with a file to mount that is not there.
        let deployment = build::deployment(&inputs);
        let mut all = vec![match &egress {
            Some(egress) => deployment.needing(egress),
            None => deployment,
        }];
        all.extend(build::budget(self.control_plane, &self.names));
        Some(all)
    }

    fn checksums(&self, connection: &StoreConnection) -> Option<BTreeMap<SecretRole, String>> {
        let mounted = build::mounted(self.control_plane, connection).into_iter();
        mounted
            .map(|role| {
                // Pods that start with what is replaced in a moment would have to be replaced themselves right after.
                let is_ordered = self.review.orders.iter().any(|order| order.role == role);
                let seen = self.world.secrets.get(&role).filter(|_| !is_ordered)?;
                Some((role, seen.value.checksum.clone()))
            })
            .collect()
    }

    pub(super) fn effects(&self) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !self.review.orders.is_empty() {
            effects.push(Effect::Issue {
                orders: self.review.orders.clone(),
                at: self.now,
            });
        }
        // Where the state changes its home, what is left to be done at the old one does not matter any more.
        let setup = self.storage.order.clone();
        let setup = setup.filter(|_| self.migration.home.is_none());
        effects.extend(setup.map(Effect::EnsureStore));
        effects.extend(self.tenant_effect());
        effects.extend(self.migration.order.clone().map(Effect::RunErrand));
        effects.extend(self.removals());
        effects
    }

    /// What is left over goes when no pod mounts it any more.
    fn removals(&self) -> impl Iterator<Item = Effect> {
        let unmounted = self.leftovers.iter().filter(|(role, _)| {
            let pods = self.world.deployment.as_ref();
            pods.is_none_or(|pods| pods.is_rolled_out() && !pods.mounts.contains(role))
        });
        unmounted.map(|(role, seen)| Effect::RemoveSecret {
            role: *role,
            uid: seen.facts.uid.clone(),
            resource_version: seen.facts.resource_version.clone(),
        })
    }

    fn tenant_effect(&self) -> Option<Effect> {
        let state = self.world.tenant.as_ref()?;
        match self.tenant_fingerprint() {
            Some(fingerprint) if state.configured.as_ref() != Some(&fingerprint) => {
                Some(Effect::ConfigureTenant { fingerprint })
            }
            None if self.is_asleep() && state.configured.is_some() => Some(Effect::ReleaseTenant),
            _ => None,
        }
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.control_plane.spec.control_plane.deployment.replicas == 0
    }

    pub(super) fn status(&self, refusal: Option<&VersionRefusal>) -> TenantControlPlaneStatus {
        let before = self.control_plane.status.clone().unwrap_or_default();
        let conditions = self.conditions(&before, refusal);
        let resources = self.resources(before.kubernetes_resources.as_ref());
        let inside = self.inside();
        TenantControlPlaneStatus {
            control_plane_endpoint: self.addresses.endpoint.as_ref().map(ToString::to_string),
            kubernetes_resources: Some(resources),
            storage: self.storage_state(),
            certificates: Some(status::certificates(
                self.world,
                before.certificates.as_ref(),
                self.now,
            )),
            kubeconfig: Some(status::kubeconfigs(
                self.world,
                before.kubeconfig.as_ref(),
                self.now,
            )),
            addons: self.addons(inside.as_ref(), before.addons.as_ref()),
            kubeadm_config: self.kubeadm_config(inside.as_ref(), before.kubeadm_config),
            kubeadm_phase: self.kubeadm_phase(inside.as_ref(), before.kubeadm_phase),
            stages: passed(self.control_plane, before.stages, &conditions, self.now),
            observed_generation: None,
            conditions,
        }
    }

    /// Where the state is from now on.
    fn storage_state(&self) -> Option<StorageState> {
        let state = self.storage.state.clone()?;
        let home = self.migration.home.clone();
        Some(StorageState {
            data_store_name: home.or(state.data_store_name),
            migration: self.migration.state.clone(),
            ..state
        })
    }

    /// Whether the state moves to another store, in a way that whoever writes notices.
    fn is_migrating(&self) -> bool {
        let state = self.migration.state.as_ref();
        state.is_some_and(|state| {
            !matches!(
                state.stage,
                MigrationStage::Returning | MigrationStage::Failed
            )
        })
    }

    /// Whether the authority is being replaced: until all pods run with the new one.
    fn is_rotating(&self) -> bool {
        let seen = self.world.secrets.get(&SecretRole::Authority);
        let Some(rotation) = seen
            .map(|seen| &seen.value.rotation)
            .filter(|_| !self.is_asleep())
        else {
            return false;
        };
        rotation.has_next || (rotation.is_under_way() && !self.is_settled())
    }

    fn resources(&self, before: Option<&KubernetesResources>) -> KubernetesResources {
        let found = self.world.deployment.as_ref();
        let pods_before = before.and_then(|before| before.deployment.as_ref());
        let image = build::api_server_image(self.control_plane, self.version);
        // Asleep, the data is of the version that served last, whatever pods will wake with. What never served has no data.
        let is_done = found.is_some_and(|found| {
            let is_there = if self.is_asleep() {
                !has_served(self.control_plane)
            } else {
                // A Deployment that has not heard yet that it is woken has all the pods that it wants, and none serves.
                found.is_rolled_out() && found.ready() > 0
            };
            found.image.as_ref() == Some(&image) && is_there
        });
        let now_installed = is_done.then(|| self.version.to_string());
        let installed = now_installed.or_else(|| installed(self.control_plane).map(str::to_owned));
        let word = if self.is_migrating() {
            ControlPlanePhase::Migrating
        } else if self.is_rotating() {
            ControlPlanePhase::CertificateAuthorityRotating
        } else {
            let version = self.version.to_string();
            phase(self.control_plane, found, installed.as_deref(), &version)
        };
        KubernetesResources {
            version: Some(VersionState {
                version: installed,
                status: word,
            }),
            deployment: found
                .map(|found| status::deployment(&self.names, found, pods_before, self.now)),
            service: status::service(self.control_plane, &self.names, self.world),
            ingress: status::ingress(&self.names, self.world),
            gateway: status::gateway(self.control_plane, &self.names, self.world),
        }
    }
}
