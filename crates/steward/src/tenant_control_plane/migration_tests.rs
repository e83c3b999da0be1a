//! A control plane whose state is in `default` shall move it to `silver`.

use butler_api::steward::tenant_control_plane::status::{MigrationStage, MigrationState};
use butler_runtime::conditions::Answer;
use pretty_assertions::assert_eq;
use steward_tenant::TenantPart;

use super::*;
use crate::{
    move_port::{Arrival, ErrandState, ErrandTask, Progress, Remains, Stillness},
    tenant_port::TenantState,
};

type Planned = Plan<TenantControlPlaneStatus, Effect>;

/// A control plane that serves from `default` and was told to go to `silver`.
fn told_to_move() -> (TenantControlPlane, World, Memory) {
    let (mut control_plane, mut world, memory) = ready(control_plane("LoadBalancer"));
    control_plane.spec.data_store = Some("default".to_owned());
    world.tenant = Some(TenantState::default());
    in_step(&control_plane, &mut world);
    control_plane.spec.data_store = Some("silver".to_owned());
    world.other_store = StoreView::Known(store_facts("silver"));
    in_step(&control_plane, &mut world);
    (control_plane, world, memory)
}

/// The same once the move is on record.
fn moving() -> (TenantControlPlane, World, Memory) {
    let (control_plane, world, memory) = told_to_move();
    let plan = look(&control_plane, &world);
    (after(control_plane, &plan), world, memory)
}

/// The same once the copy is under way.
fn copying() -> (TenantControlPlane, World, Memory) {
    let (control_plane, mut world, memory) = moving();
    in_step(&control_plane, &mut world);
    run_errand(&control_plane, &mut world, Progress::Working);
    (control_plane, world, memory)
}

/// The same once everything is in `silver`, and that is on record.
fn switching() -> (TenantControlPlane, World, Memory) {
    let (control_plane, mut world, memory) = copying();
    progress(&mut world, arrived(42, 0));
    let plan = look(&control_plane, &world);
    std::mem::swap(&mut world.store, &mut world.other_store);
    (after(control_plane, &plan), world, memory)
}

/// Does to the tenant what the plan asks for.
fn in_step(control_plane: &TenantControlPlane, world: &mut World) {
    for effect in look(control_plane, world).effects {
        if let Effect::ConfigureTenant { fingerprint } = effect {
            world.tenant = Some(TenantState {
                configured: Some(fingerprint),
                ..TenantState::default()
            });
        }
    }
}

fn errand(plan: &Planned) -> Option<ErrandTask> {
    plan.effects.iter().find_map(|effect| match effect {
        Effect::RunErrand(order) => Some(order.errand.task.clone()),
        _ => None,
    })
}

/// Begins the errand that the plan asks for.
fn run_errand(control_plane: &TenantControlPlane, world: &mut World, progress: Progress) {
    let plan = look(control_plane, world);
    let order = plan.effects.iter().find_map(|effect| match effect {
        Effect::RunErrand(order) => Some(order.clone()),
        _ => None,
    });
    let errand = order.unwrap_or_else(|| panic!("{:?}", plan.effects)).errand;
    world.errand = Some(ErrandState { errand, progress });
}

fn progress(world: &mut World, progress: Progress) {
    world.errand.as_mut().unwrap().progress = progress;
}

fn arrived(entries: u64, behind: u64) -> Progress {
    Progress::Done(Some(Arrival { entries, behind }))
}

fn recorded(plan: &Planned) -> Option<MigrationState> {
    plan.status.storage.clone().unwrap().migration
}

fn stage(plan: &Planned) -> Option<MigrationStage> {
    recorded(plan).map(|migration| migration.stage)
}

fn home(plan: &Planned) -> String {
    let storage = plan.status.storage.clone().unwrap();
    storage.data_store_name.unwrap()
}

fn said(plan: &Planned) -> String {
    let mut conditions = plan.status.conditions.iter();
    let found = conditions.find(|condition| condition.type_ == types::DATA_STORE_MIGRATED);
    found.map_or_else(String::new, |found| {
        assert_eq!(found.status, Answer::False.as_str());
        format!("{}: {}", found.reason, found.message)
    })
}

fn look_later(control_plane: &TenantControlPlane, world: &World, minutes: i64) -> Planned {
    let then = now()
        .checked_add(SignedDuration::from_mins(minutes))
        .unwrap();
    plan(control_plane, world, &Settings::default(), then)
}

fn set_up_in(control_plane: &TenantControlPlane, world: &mut World, memory: &Memory) {
    let plan = look(control_plane, world);
    assert!(
        matches!(plan.effects.as_slice(), [Effect::EnsureStore(_)]),
        "{:?}",
        plan.effects
    );
    set_up(control_plane, &plan, memory);
    world.secrets = memory.seen();
}

fn pods_use(world: &mut World, store: &str) {
    world.deployment.as_mut().unwrap().store = Some(store.to_owned());
}

/// The tenant is told to refuse writes. That is a write itself, so that the store must take it: an earlier copy may have
/// closed it.
fn assert_refuses_writes(plan: &Planned) {
    let open = ErrandTask::Open {
        store: "default".to_owned(),
    };
    assert_eq!(errand(plan), Some(open));
    assert!(
        matches!(
            plan.effects.as_slice(),
            [Effect::ConfigureTenant { .. }, Effect::RunErrand(_)]
        ),
        "{:?}",
        plan.effects
    );
}

#[test]
fn a_move_is_on_record_before_anything_is_done_for_it() {
    let (control_plane, mut world, _) = told_to_move();
    let plan = look(&control_plane, &world);
    assert_eq!(plan.effects, []);
    assert_eq!(stage(&plan), Some(MigrationStage::Copying));
    assert_eq!(home(&plan), "default");
    assert_eq!(word(&plan), ControlPlanePhase::Migrating);
    let control_plane = after(control_plane, &plan);

    // First writes are refused, then the copy begins.
    let plan = look(&control_plane, &world);
    assert_refuses_writes(&plan);
    in_step(&control_plane, &mut world);
    assert_eq!(
        errand(&look(&control_plane, &world)),
        Some(ErrandTask::Copy {
            from: "default".to_owned(),
            to: "silver".to_owned(),
            stillness: Stillness::Frozen,
            remains: Remains::Go,
        })
    );
    run_errand(&control_plane, &mut world, Progress::Working);
    let plan = look(&control_plane, &world);
    assert_eq!(plan.effects, []);
    assert!(
        matches!(plan.next, Next::After(_)),
        "patience ends: {:?}",
        plan.next
    );
    assert_eq!(
        said(&plan),
        "Migrating: the state is copied from default to silver, and writes are refused"
    );
}

#[test]
fn a_copy_that_arrived_is_switched_to_and_the_old_store_is_emptied() {
    let (control_plane, mut world, _) = copying();
    progress(&mut world, arrived(42, 0));
    let plan = look(&control_plane, &world);
    assert_eq!(stage(&plan), Some(MigrationStage::Switching));
    assert_eq!(
        (home(&plan).as_str(), recorded(&plan).unwrap().entries),
        ("silver", Some(42))
    );
    assert_eq!(plan.effects, [], "before that is on record");

    // Its part of the new store is set up, and the pods follow.
    let (control_plane, mut world, memory) = switching();
    set_up_in(&control_plane, &mut world, &memory);
    let plan = look(&control_plane, &world);
    assert_eq!(stage(&plan), Some(MigrationStage::Switching));
    assert!(
        plan.apply
            .iter()
            .any(|manifest| manifest.kind.kind == "Deployment")
    );
    pods_use(&mut world, "silver");
    let plan = look(&control_plane, &world);
    assert_eq!(stage(&plan), Some(MigrationStage::Sealing));
    let control_plane = after(control_plane, &plan);

    // The old store is closed before writes are accepted.
    let old = || "default".to_owned();
    let plan = look(&control_plane, &world);
    assert_eq!(errand(&plan), Some(ErrandTask::Seal { store: old() }));
    assert_eq!(plan.effects.len(), 1, "{:?}", plan.effects);
    run_errand(&control_plane, &mut world, Progress::Done(None));
    let plan = look(&control_plane, &world);
    assert_eq!(stage(&plan), Some(MigrationStage::Finishing));
    let control_plane = after(control_plane, &plan);
    let plan = look(&control_plane, &world);
    let clear = ErrandTask::Clear {
        store: old(),
        leaving: false,
    };
    assert_eq!(errand(&plan), Some(clear));
    assert!(
        matches!(plan.effects.as_slice(), [Effect::ConfigureTenant { .. }, Effect::RunErrand(order)] if order.established),
        "{:?}",
        plan.effects
    );
    run_errand(&control_plane, &mut world, Progress::Done(None));
    assert_eq!(
        stage(&look(&control_plane, &world)),
        Some(MigrationStage::Finishing),
        "writes are still refused"
    );
    in_step(&control_plane, &mut world);
    let plan = look(&control_plane, &world);
    assert_eq!((stage(&plan), home(&plan).as_str()), (None, "silver"));
    assert_eq!(
        (word(&plan), said(&plan).as_str()),
        (ControlPlanePhase::Ready, "")
    );

    // And at rest.
    let control_plane = after(control_plane, &plan);
    world.other_store = StoreView::Unnamed;
    let again = look(&control_plane, &world);
    assert_eq!((again.effects, again.status), (Vec::new(), plan.status));
}

#[test]
fn a_move_ends_when_writes_are_accepted_whatever_is_in_the_way_of_an_addon() {
    let (control_plane, mut world, memory) = switching();
    set_up_in(&control_plane, &mut world, &memory);
    pods_use(&mut world, "silver");
    let mut control_plane = after(control_plane.clone(), &look(&control_plane, &world));
    for _ in [MigrationStage::Sealing, MigrationStage::Finishing] {
        run_errand(&control_plane, &mut world, Progress::Done(None));
        control_plane = after(control_plane.clone(), &look(&control_plane, &world));
    }
    in_step(&control_plane, &mut world);
    let hindered = |part: TenantPart| {
        let mut world = world.clone();
        let obstacle = (part, "it is somebody else's".to_owned());
        world.tenant.as_mut().unwrap().obstacles = [obstacle].into();
        stage(&look(&control_plane, &world))
    };
    assert_eq!(
        hindered(TenantPart::Freeze),
        Some(MigrationStage::Finishing)
    );
    assert_eq!(hindered(TenantPart::KubeProxy), None);
}

#[test]
fn a_new_process_copies_anew_and_not_before_writes_are_refused() {
    let (control_plane, mut world, _) = copying();
    world.errand = None;
    world.tenant = Some(TenantState::default());
    assert_refuses_writes(&look(&control_plane, &world));
    in_step(&control_plane, &mut world);
    assert!(matches!(
        errand(&look(&control_plane, &world)),
        Some(ErrandTask::Copy { .. })
    ));
}

#[test]
fn what_cannot_be_moved_stays_and_says_why() {
    let refused = |change: &dyn Fn(&mut TenantControlPlane, &mut World)| {
        let (mut control_plane, mut world, _) = told_to_move();
        change(&mut control_plane, &mut world);
        let plan = look(&control_plane, &world);
        assert_eq!((stage(&plan), home(&plan).as_str()), (None, "default"));
        assert_eq!(errand(&plan), None);
        assert_eq!(word(&plan), ControlPlanePhase::Ready);
        said(&plan)
    };
    let silver = |change: &dyn Fn(&mut StoreFacts)| {
        let mut facts = store_facts("silver");
        change(&mut facts);
        StoreView::Known(facts)
    };
    let told = [
        refused(&|_, world| world.other_store = StoreView::Missing("silver".to_owned())),
        refused(&|_, world| world.other_store = silver(&|facts| facts.deleting = true)),
        refused(&|_, world| {
            world.other_store = silver(&|facts| facts.driver = DataStoreDriver::MySql);
        }),
        refused(&|_, world| world.other_rival = Some(ObjectKey::namespaced("a", "b"))),
        refused(&|_, world| world.tenant = None),
    ];
    let reason = |said: &String| said.split_once(':').unwrap().0.to_owned();
    assert_eq!(
        told.iter().map(reason).collect::<Vec<_>>(),
        [
            "DataStoreNotFound",
            "DataStoreNotFound",
            "Unsupported",
            "SchemaTaken",
            "Unsupported",
        ]
    );
    for said in &told {
        assert!(
            said.contains("set spec.dataStore back to default"),
            "{said}"
        );
    }
}

#[test]
fn a_control_plane_that_nobody_serves_waits_until_somebody_does() {
    let (control_plane, mut world, _) = told_to_move();
    world.deployment.as_mut().unwrap().status.ready_replicas = None;
    let plan = look(&control_plane, &world);
    assert_eq!(stage(&plan), None);
    assert!(said(&plan).starts_with("PodsNotReady: "), "{}", said(&plan));
}

fn asleep(control_plane: &mut TenantControlPlane, world: &mut World, generation: i64) {
    control_plane.spec.control_plane.deployment.replicas = 0;
    let mut found = serving("", 0);
    found
        .image
        .clone_from(&world.deployment.as_ref().unwrap().image);
    found.generation = Some(generation);
    found.status.observed_generation = Some(generation);
    world.deployment = Some(found);
}

#[test]
fn one_that_sleeps_is_moved_without_waking_it_and_copied_anew_if_it_was_awake_meanwhile() {
    let (mut control_plane, mut world, _) = told_to_move();
    asleep(&mut control_plane, &mut world, 2);
    let control_plane = {
        let plan = look(&control_plane, &world);
        after(control_plane, &plan)
    };
    let copied = |generation| ErrandTask::Copy {
        from: "default".to_owned(),
        to: "silver".to_owned(),
        stillness: Stillness::Asleep(Some(generation)),
        remains: Remains::Go,
    };
    assert_eq!(errand(&look(&control_plane, &world)), Some(copied(2)));
    run_errand(&control_plane, &mut world, arrived(1, 0));
    let plan = look(&control_plane, &world);
    assert_eq!(
        (stage(&plan), home(&plan).as_str()),
        (Some(MigrationStage::Sealing), "silver"),
        "no pods are waited for"
    );
    // It was woken and put to sleep again.
    asleep(&mut control_plane.clone(), &mut world, 4);
    let plan = look(&control_plane, &world);
    assert_eq!(stage(&plan), Some(MigrationStage::Copying));
    assert_eq!(errand(&plan), Some(copied(4)));
}

#[test]
fn one_that_is_woken_during_the_copy_is_told_to_refuse_writes_and_copied_anew() {
    let (mut control_plane, mut world, _) = told_to_move();
    let awake = world.deployment.clone();
    let replicas = control_plane.spec.control_plane.deployment.replicas;
    asleep(&mut control_plane, &mut world, 2);
    let plan = look(&control_plane, &world);
    let mut control_plane = after(control_plane, &plan);
    run_errand(&control_plane, &mut world, Progress::Working);

    control_plane.spec.control_plane.deployment.replicas = replicas;
    world.deployment = awake;
    world.tenant = Some(TenantState::default());
    let open = ErrandTask::Open {
        store: "default".to_owned(),
    };
    let plan = look(&control_plane, &world);
    assert_eq!(errand(&plan), Some(open), "that is a write too");
    run_errand(&control_plane, &mut world, Progress::Done(None));
    in_step(&control_plane, &mut world);
    assert!(matches!(
        errand(&look(&control_plane, &world)),
        Some(ErrandTask::Copy {
            stillness: Stillness::Frozen,
            ..
        })
    ));
}

#[test]
fn a_new_store_that_is_far_behind_is_told_of_until_the_end() {
    let (control_plane, mut world, _) = copying();
    progress(&mut world, arrived(42, 7_000_000));
    let plan = look(&control_plane, &world);
    assert_eq!(
        said(&plan),
        "Migrating: the state is in silver, and pods that use it take the place of the others; writes are refused; \
         the revisions of silver are 7000000 behind those of default, so that whoever watched there may hear nothing: \
         restart kubelets, and what else watches, after the move"
    );
    let mut finishing = after(control_plane, &plan);
    let migration = &mut finishing
        .status
        .as_mut()
        .unwrap()
        .storage
        .as_mut()
        .unwrap()
        .migration;
    migration.as_mut().unwrap().stage = MigrationStage::Finishing;
    std::mem::swap(&mut world.store, &mut world.other_store);
    assert!(said(&look(&finishing, &world)).contains("restart kubelets"));
}

/// The store that the state stays in takes writes again, before anything else is done in stores.
fn assert_opens(control_plane: &TenantControlPlane, world: &mut World) {
    let open = ErrandTask::Open {
        store: "default".to_owned(),
    };
    assert_eq!(errand(&look(control_plane, world)), Some(open));
    run_errand(
        control_plane,
        world,
        Progress::Failing("no answer".to_owned()),
    );
    let plan = look(control_plane, world);
    assert_eq!(errand(&plan), None);
    assert!(said(&plan).contains("no answer"), "{}", said(&plan));
    progress(world, Progress::Done(None));
}

/// From the way back to its end.
fn assert_returns(control_plane: TenantControlPlane, mut world: World, why: &str) {
    let clear = ErrandTask::Clear {
        store: "silver".to_owned(),
        leaving: false,
    };
    assert_opens(&control_plane, &mut world);
    let plan = look(&control_plane, &world);
    assert_eq!(errand(&plan), Some(clear));
    assert!(
        plan.effects
            .iter()
            .any(|effect| matches!(effect, Effect::ConfigureTenant { .. })),
        "writes are accepted again: {:?}",
        plan.effects
    );
    assert_ne!(word(&plan), ControlPlanePhase::Migrating);
    run_errand(
        &control_plane,
        &mut world,
        Progress::Failing("no answer".to_owned()),
    );
    let plan = look(&control_plane, &world);
    assert_eq!(stage(&plan), Some(MigrationStage::Returning));
    assert!(said(&plan).contains("no answer"), "{}", said(&plan));
    progress(&mut world, Progress::Done(None));
    let plan = look(&control_plane, &world);
    assert_eq!(
        (stage(&plan), home(&plan).as_str()),
        (Some(MigrationStage::Failed), "default")
    );
    assert!(
        said(&plan).starts_with("MigrationFailed: "),
        "{}",
        said(&plan)
    );
    assert!(said(&plan).contains(why), "{}", said(&plan));
    let mut control_plane = after(control_plane, &plan);
    in_step(&control_plane, &mut world);

    // It stays at that, until somebody thinks of something.
    let plan = look(&control_plane, &world);
    assert_eq!(plan.effects, []);
    assert_eq!(stage(&plan), Some(MigrationStage::Failed));
    let mut content = control_plane.clone();
    content.spec.data_store = Some("default".to_owned());
    let plan = look(&content, &world);
    assert_eq!((stage(&plan), said(&plan).as_str()), (None, ""));
    control_plane.spec.data_store = Some("gold".to_owned());
    world.other_store = StoreView::Known(store_facts("gold"));
    in_step(&control_plane, &mut world);
    let plan = look(&control_plane, &world);
    assert_eq!(stage(&plan), Some(MigrationStage::Copying));
    assert_eq!(recorded(&plan).unwrap().to, "gold");
}

#[test]
fn a_copy_that_cannot_succeed_leads_back() {
    let (control_plane, mut world, _) = copying();
    progress(
        &mut world,
        Progress::Refused("the schema is another's".to_owned()),
    );
    let plan = look(&control_plane, &world);
    assert_eq!(stage(&plan), Some(MigrationStage::Returning));
    assert_eq!(home(&plan), "default");
    assert_eq!(plan.effects, [], "before that is on record");
    assert_returns(
        after(control_plane, &plan),
        world,
        "the schema is another's",
    );
}

#[test]
fn a_copy_that_fails_is_tried_until_patience_is_over() {
    let (control_plane, mut world, _) = copying();
    progress(&mut world, Progress::Failing("no answer".to_owned()));
    let plan = look_later(&control_plane, &world, 4);
    assert_eq!(stage(&plan), Some(MigrationStage::Copying));
    assert!(said(&plan).contains("no answer"), "{}", said(&plan));
    let plan = look_later(&control_plane, &world, 5);
    assert_eq!(stage(&plan), Some(MigrationStage::Returning));
    assert_returns(after(control_plane.clone(), &plan), world.clone(), "5m");

    // Unless somebody has more of it.
    let mut patient = control_plane;
    let timeout = "steward.butlerlabs.dev/migration-timeout".to_owned();
    patient.metadata.annotations = Some([(timeout, "1h30m".to_owned())].into());
    let plan = look_later(&patient, &world, 89);
    assert_eq!(stage(&plan), Some(MigrationStage::Copying));
    assert_eq!(
        stage(&look_later(&patient, &world, 90)),
        Some(MigrationStage::Returning)
    );
}

#[test]
fn writes_that_cannot_be_refused_are_not_waited_for_without_end() {
    let (control_plane, mut world, _) = moving();
    world.tenant = Some(TenantState {
        problem: Some("the tenant's API server cannot be reached".to_owned()),
        ..TenantState::default()
    });
    let plan = look_later(&control_plane, &world, 5);
    assert_eq!(stage(&plan), Some(MigrationStage::Returning));
    assert!(said(&plan).contains("cannot be reached"), "{}", said(&plan));
}

#[test]
fn whoever_changes_their_mind_during_the_copy_is_heard() {
    let (control_plane, world, _) = copying();
    for wish in ["default", "gold"] {
        let mut control_plane = control_plane.clone();
        control_plane.spec.data_store = Some(wish.to_owned());
        let plan = look(&control_plane, &world);
        assert_eq!(stage(&plan), Some(MigrationStage::Returning), "{wish}");
    }
    let mut leaving = store_facts("silver");
    leaving.deleting = true;
    let world = World {
        other_store: StoreView::Known(leaving),
        ..world
    };
    let plan = look(&control_plane, &world);
    assert_eq!(stage(&plan), Some(MigrationStage::Returning));
}

#[test]
fn pods_that_do_not_come_up_with_the_new_store_get_the_old_one_back() {
    let (control_plane, mut world, memory) = switching();
    set_up_in(&control_plane, &mut world, &memory);
    assert_eq!(
        stage(&look_later(&control_plane, &world, 4)),
        Some(MigrationStage::Switching)
    );
    let plan = look_later(&control_plane, &world, 5);
    assert_eq!(stage(&plan), Some(MigrationStage::RollingBack));
    assert_eq!(home(&plan), "default");
    assert_eq!(word(&plan), ControlPlanePhase::Migrating);
    let control_plane = after(control_plane, &plan);

    // Both stores hold the same: the old one is set up again, and the new one is closed.
    std::mem::swap(&mut world.store, &mut world.other_store);
    pods_use(&mut world, "silver");
    let plan = look(&control_plane, &world);
    assert!(
        matches!(plan.effects.as_slice(), [Effect::EnsureStore(order), Effect::RunErrand(_)] if order.store == "default"),
        "{:?}",
        plan.effects
    );
    set_up(&control_plane, &plan, &memory);
    world.secrets = memory.seen();
    assert_opens(&control_plane, &mut world);
    let seal = ErrandTask::Seal {
        store: "silver".to_owned(),
    };
    assert_eq!(errand(&look(&control_plane, &world)), Some(seal));
    run_errand(
        &control_plane,
        &mut world,
        Progress::Failing("no answer".to_owned()),
    );
    assert_eq!(
        stage(&look(&control_plane, &world)),
        Some(MigrationStage::RollingBack),
        "pods of the new store are left"
    );
    pods_use(&mut world, "default");
    let plan = look(&control_plane, &world);
    assert_eq!(stage(&plan), Some(MigrationStage::Returning));
    assert_returns(after(control_plane, &plan), world, "kubectl logs");
}

#[test]
fn a_store_that_was_never_used_is_left_without_a_copy() {
    let mut control_plane = control_plane("LoadBalancer");
    control_plane.spec.data_store = Some("default".to_owned());
    let first = look(&control_plane, &world());
    let mut control_plane = after(control_plane, &first);
    control_plane.spec.data_store = Some("silver".to_owned());
    let mut world = World {
        other_store: StoreView::Known(store_facts("silver")),
        ..world()
    };
    let plan = look(&control_plane, &world);
    assert_eq!(
        (stage(&plan), home(&plan).as_str()),
        (Some(MigrationStage::Finishing), "silver")
    );
    assert_eq!(errand(&plan), None);
    let control_plane = after(control_plane, &plan);
    std::mem::swap(&mut world.store, &mut world.other_store);
    let plan = look(&control_plane, &world);
    let order = plan.effects.iter().find_map(|effect| match effect {
        Effect::RunErrand(order) => Some(order),
        _ => None,
    });
    assert!(
        !order.unwrap().established,
        "what has its names there may be somebody else's"
    );
    run_errand(&control_plane, &mut world, Progress::Done(None));
    assert_eq!(stage(&look(&control_plane, &world)), None);
}

#[test]
fn a_control_plane_that_is_deleted_on_the_way_leaves_nothing_in_either_store() {
    let discarded = |control_plane: TenantControlPlane, world: &World| {
        let world = World {
            deployment: None,
            ..world.clone()
        };
        let plan = look(&deleted(control_plane, 1), &world);
        assert_eq!(plan.next, Next::Done);
        let discards = plan.effects.iter().filter_map(|effect| match effect {
            Effect::DiscardStore(order) => Some((order.stores.clone(), order.established)),
            _ => None,
        });
        discards.collect::<Vec<_>>()
    };
    let of = |store: &str, established| (vec![store.to_owned()], established);
    let (control_plane, world, _) = copying();
    assert_eq!(
        discarded(control_plane, &world),
        [of("default", true), of("silver", false)]
    );
    let (control_plane, world, _) = switching();
    assert_eq!(
        discarded(control_plane, &world),
        [of("silver", true), of("default", true)]
    );
}

#[test]
fn a_store_that_is_gone_is_not_emptied() {
    let (control_plane, mut world, memory) = switching();
    set_up_in(&control_plane, &mut world, &memory);
    pods_use(&mut world, "silver");
    world.other_store = StoreView::Missing("default".to_owned());
    let mut control_plane = control_plane;
    for expected in [
        Some(MigrationStage::Sealing),
        Some(MigrationStage::Finishing),
    ] {
        let plan = look(&control_plane, &world);
        assert_eq!(stage(&plan), expected);
        control_plane = after(control_plane, &plan);
    }
    in_step(&control_plane, &mut world);
    assert_eq!(stage(&look(&control_plane, &world)), None);
}
