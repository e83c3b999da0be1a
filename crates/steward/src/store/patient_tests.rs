use std::{
    collections::BTreeSet,
    future::pending,
    sync::atomic::{AtomicUsize, Ordering},
};

use butler_api::steward::data_store::DataStoreDriver;
use futures::future::join_all;

use super::*;

/// What a driver waits for an answer.
const DRIVERS_PATIENCE: Duration = Duration::from_secs(20);

/// Some stores that swallow what they are asked, and some that take their time to do it.
#[derive(Default)]
struct Stores {
    silent: Mutex<BTreeSet<String>>,
    slow: BTreeSet<String>,
    asked: AtomicUsize,
}

impl Stores {
    async fn answer(&self, store: &StoreAccess) -> Result<(), StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let is_silent = self.silent.lock().unwrap().contains(&store.name);
        if !is_silent {
            return Ok(());
        }
        // A call that never ends, as it looks to who makes it through a driver.
        timeout(DRIVERS_PATIENCE, pending::<()>())
            .await
            .unwrap_err();
        Err(StoreError {
            kind: StoreErrorKind::Unreachable,
            message: "nobody answers".to_owned(),
        })
    }

    async fn work(&self, store: &StoreAccess) -> Result<(), StoreError> {
        if self.slow.contains(&store.name) {
            tokio::time::sleep(2 * SOON).await;
        }
        self.answer(store).await
    }
}

impl StorePort for Stores {
    fn check<'a>(&'a self, store: &'a StoreAccess) -> StoreAnswer<'a> {
        Box::pin(self.answer(store))
    }

    fn ensure<'a>(&'a self, store: &'a StoreAccess, _: &'a StoreGrant) -> StoreAnswer<'a> {
        Box::pin(self.work(store))
    }

    fn discard<'a>(&'a self, store: &'a StoreAccess, _: &'a StoreGrant) -> StoreAnswer<'a> {
        Box::pin(self.work(store))
    }
}

fn access(name: &str) -> StoreAccess {
    StoreAccess {
        name: name.to_owned(),
        driver: DataStoreDriver::Etcd,
        endpoints: vec!["etcd:2379".to_owned()],
        authority_pem: None,
        authority_key: None,
        client: None,
        username: None,
        password: None,
    }
}

fn grant() -> StoreGrant {
    StoreGrant {
        uid: "6f9619ff-8b86-4011-b42d-00c04fc964ff".to_owned(),
        schema: "shop".to_owned(),
        user: "shop".to_owned(),
        password: None,
        established: false,
    }
}

/// Sets somebody up; says how long that took, and what was told.
async fn ensure(patient: &Patient, store: &str) -> (Duration, Option<String>) {
    let begun = Instant::now();
    let outcome = patient.ensure(&access(store), &grant()).await;
    (begun.elapsed(), outcome.err().map(|error| error.message))
}

fn with(silent: &[&str], slow: &[&str], places: usize) -> (Arc<Stores>, Patient) {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let stores = Arc::new(Stores {
        silent: Mutex::new(names(silent)),
        slow: names(slow),
        ..Stores::default()
    });
    (Arc::clone(&stores), Patient::new(stores, places))
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time_waits_for_a_store_that_does_not_answer() {
    let (stores, patient) = with(&["hole"], &[], 2);
    let mut told = join_all((0..20).map(|_| ensure(&patient, "hole"))).await;
    told.sort();
    let (longest, why) = told.pop().unwrap();
    assert_eq!(longest, DRIVERS_PATIENCE);
    assert_eq!(why.as_deref(), Some("nobody answers"));
    for (took, why) in told {
        assert!(took <= MOMENT, "{took:?}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(why.unwrap(), @"it was asked a moment ago, and will be again: it has not answered yet");
        }
    }
    // Nobody asks again for a while, and all are told why.
    let (took, why) = ensure(&patient, "hole").await;
    assert_eq!(took, Duration::ZERO);
    insta::assert_snapshot!(why.unwrap(), @"it was asked a moment ago, and will be again: nobody answers");
    assert_eq!(stores.asked.load(Ordering::Relaxed), 1);
    assert_eq!(ensure(&patient, "sound").await, (Duration::ZERO, None));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_answers_again_is_used_as_soon_as_anybody_hears_it() {
    let (stores, patient) = with(&["hole"], &[], 2);
    ensure(&patient, "hole").await;
    stores.silent.lock().unwrap().clear();
    assert!(ensure(&patient, "hole").await.1.is_some());
    // The controller of stores asks whatever is known.
    patient.check(&access("hole")).await.unwrap();
    assert_eq!(ensure(&patient, "hole").await.1, None);
    // Without it, somebody tries after a while.
    stores.silent.lock().unwrap().insert("hole".to_owned());
    patient.check(&access("hole")).await.unwrap_err();
    stores.silent.lock().unwrap().clear();
    tokio::time::advance(REST).await;
    assert_eq!(ensure(&patient, "hole").await.1, None);
}

#[tokio::test(start_paused = true)]
async fn many_stores_that_do_not_answer_take_no_more_workers_than_there_are_places() {
    let names: Vec<String> = (0..6).map(|number| format!("hole{number}")).collect();
    let silent: Vec<&str> = names.iter().map(String::as_str).collect();
    let (_, patient) = with(&silent, &[], 2);
    let told = join_all(silent.iter().map(|store| ensure(&patient, store))).await;
    let waited = told.iter().filter(|(took, _)| *took > Duration::ZERO);
    assert_eq!(waited.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_takes_long_is_done_all_the_same_some_at_a_time() {
    let (_, patient) = with(&[], &["busy"], 2);
    let told = join_all((0..5).map(|_| ensure(&patient, "busy"))).await;
    let done = told.iter().filter(|(_, why)| why.is_none());
    assert_eq!(done.count(), 2);
    let refused = told.iter().filter(|(_, why)| why.is_some());
    assert!(refused.clone().all(|(took, _)| *took == SOON));
    assert!(
        refused
            .clone()
            .all(|(_, why)| why.as_ref().unwrap().contains("in its turn"))
    );
    // The places are free again, and the store is no worse for it.
    assert_eq!(ensure(&patient, "busy").await, (2 * SOON, None));
}
