//! Many writers, and controllers that die at any moment.

use std::{cell::Cell, collections::BTreeSet};

use butler_testkit::{ApiServer, Options};
use futures::future::join_all;
use kube::Client;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    orders::{self, Writer},
    record::{Record, Recorder},
    replay::Numbers,
    rest,
    truth::Truth,
};
use crate::{fleet::USER_AGENT, replica::Replica};

const WRITERS: usize = 8;

/// A pool, those who ask it, and what is heard of it.
struct Scene {
    server: ApiServer,
    client: Client,
    recorder: Recorder,
    writers: Vec<Writer>,
}

impl Scene {
    /// A pool that is asked this often in all.
    async fn new(seed: u64, allocations: usize) -> Self {
        let server = ApiServer::start(Options::default()).await.unwrap();
        let client = server.client_as(USER_AGENT);
        let recorder = Recorder::start(&client).await;
        orders::create_pool(&client).await;
        let mut writers = Vec::new();
        for number in 0..WRITERS {
            let share = allocations / WRITERS;
            writers.push(Writer::new(&client, seed, number, share).await);
        }
        Self {
            server,
            client,
            recorder,
            writers,
        }
    }

    async fn write(&self) {
        let writers = self.writers.iter();
        join_all(writers.map(|writer| writer.write(&self.recorder))).await;
    }

    /// Waits until every allocation that stays is granted or refused and the others are gone, and nobody has anything to do.
    async fn rests(&self, replicas: &[&Replica]) -> Truth {
        let stay: BTreeSet<_> = self.writers.iter().flat_map(Writer::stay).collect();
        let what = "all allocations are granted, refused or gone";
        let settled = |record: &Record| record.settled == stay && record.waiting.is_empty();
        self.recorder.until(what, settled).await;
        rest::come_to_rest(&self.server, replicas).await;
        let truth = Truth::read(&self.client).await;
        let present = truth.present();
        let heard = |record: &Record| record.present == present;
        self.recorder.until("all is heard of", heard).await;
        truth.check(&stay);
        truth
    }
}

/// A controller that is killed at moments drawn from a seed, by the progress of the work, and started again.
struct Mortal<'a> {
    scene: &'a Scene,
    name: &'a str,
    replica: Replica,
    random: SmallRng,
    deaths: Cell<usize>,
}

/// The kinds after whose writes a controller dies.
const MOMENTS: [&str; 3] = ["IPAllocation", "NetworkPoolLedger", "NetworkPool"];

impl<'a> Mortal<'a> {
    fn start(scene: &'a Scene, name: &'a str, seed: u64) -> Self {
        Self {
            scene,
            name,
            replica: Replica::start_without_election(&scene.server, name),
            random: SmallRng::seed_from_u64(seed),
            deaths: Cell::new(0),
        }
    }

    /// Dies each time when about this many more allocations were served, for as long as there is work.
    async fn keep_dying(&mut self, every: usize) {
        let recorder = &self.scene.recorder;
        loop {
            let more = self.random.random_range(every / 2..=every * 3 / 2);
            let target = recorder.read(|record| record.served.len()) + more;
            let served = |record: &Record| record.served.len() >= target;
            recorder.until("more allocations are served", served).await;
            let kind = MOMENTS[self.random.random_range(0..MOMENTS.len())];
            let heard = |record: &Record| record.heard.get(kind).copied();
            let before = recorder.read(heard);
            let what = format!("a {kind} is written");
            recorder.until(&what, |record| heard(record) > before).await;
            self.replica.kill();
            self.replica = Replica::start_without_election(&self.scene.server, self.name);
            self.deaths.set(self.deaths.get() + 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_writers_and_a_controller_that_keeps_dying_never_double_book() {
    let scene = Scene::new(1, 2000).await;
    let mut controller = Mortal::start(&scene, "only", 1);
    tokio::select! {
        () = scene.write() => {}
        () = controller.keep_dying(140) => {}
    }
    assert!(controller.deaths.get() >= 8, "{:?}", controller.deaths);
    scene.rests(&[&controller.replica]).await;
    rest::stays_at_rest(&scene.server).await;
    scene.recorder.replay(Numbers::Exact);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_controllers_at_once_without_election_never_double_book() {
    let scene = Scene::new(2, 400).await;
    let mut first = Mortal::start(&scene, "first", 2);
    let mut second = Mortal::start(&scene, "second", 3);
    tokio::select! {
        () = scene.write() => {}
        () = first.keep_dying(60) => {}
        () = second.keep_dying(60) => {}
    }
    assert!(first.deaths.get() >= 2, "{:?}", first.deaths);
    assert!(second.deaths.get() >= 2, "{:?}", second.deaths);
    scene.rests(&[&first.replica, &second.replica]).await;
    scene.recorder.replay(Numbers::Loose);
}
