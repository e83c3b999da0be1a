//! Tenant clusters on machines of this host: made, used, scaled, upgraded, hurt and deleted, alone and beside each other.
//!
//! One story in chapters, as [`crate::story`]: each stands on the one before. What has nothing to do with each other happens at once.

mod books;
mod cluster;
mod crowd;
mod day_two;
mod elastic;
mod person;
mod typed;
mod unrest;
mod visitors;
mod workload;

use std::{panic::resume_unwind, thread::ScopedJoinHandle, time::Instant};

use butler_testkit::{requires, skip::Requirement};
use serde_json::{Value, json};

use self::{books::Books, cluster::Cluster};
use crate::{
    kit::{Installation, alone, butler, eventually, note},
    network::echo_image,
    story::unfit,
    traces::Traces,
};

/// What the cluster begins with.
const OLD: &str = "1.35.4";
/// What it becomes.
const NEW: &str = "1.36.3";

type Chapter = fn(&Installation);

/// Asks for the story that takes long.
const WHOLE_STORY: &str = "BUTLER_WHOLE_STORY";

#[test]
fn a_tenant_cluster_is_made_used_changed_and_deleted() {
    let _alone = alone();
    let unfit = unfit();
    requires!(Requirement::new(unfit.is_none(), unfit.unwrap_or_default()));
    on_a_platform(&BEFORE, |installation| {
        first_days(installation);
        tell(installation, &[VISIT, LOSS, ELASTIC]);
        tell(installation, &[END]);
    });
}

#[test]
fn three_tenants_come_change_and_go_while_the_controller_is_killed() {
    let is_asked_for = std::env::var_os(WHOLE_STORY).is_some();
    let told = format!("it takes long; {WHOLE_STORY}=1 asks for it");
    requires!(Requirement::new(is_asked_for, told));
    let _alone = alone();
    let unfit = unfit();
    requires!(Requirement::new(unfit.is_none(), unfit.unwrap_or_default()));
    on_a_platform(&BEFORE, |installation| {
        let chapters: [(&str, Chapter); 4] = [
            ("a controller without a lease", unrest::without_a_lease),
            (
                "three come while the controller is killed again and again",
                crowd::comes,
            ),
            (
                "neighbours have addresses of their own",
                crowd::has_addresses,
            ),
            (
                "three change and go while the controller is killed again and again",
                crowd::changes_and_goes,
            ),
        ];
        for chapter in chapters {
            tell(installation, &[chapter]);
        }
    });
}

/// What is there before the first cluster.
const BEFORE: [(&str, Chapter); 3] = [
    ("up", up),
    ("a team", crowd::team_is_there),
    (
        "a provider that gives few addresses",
        elastic::provider_is_there,
    ),
];
const VISIT: (&str, Chapter) = ("somebody is let in until her time is over", person::visits);
const LOSS: (&str, Chapter) = (
    "a worker that is lost for good is replaced",
    day_two::replaces_a_lost_worker,
);
const ELASTIC: (&str, Chapter) = (
    "addresses are more when they are needed, and fewer when not",
    elastic::grows_and_shrinks,
);
const END: (&str, Chapter) = ("the cluster goes, and all of it", goes);

/// A cluster comes, is used, and becomes another.
fn first_days(installation: &Installation) {
    let chapters: [(&str, Chapter); 4] = [
        ("a cluster with two workers becomes Ready", becomes_ready),
        ("pods, names and addresses work in it", workload::works),
        ("workers come and go: two, four, one, two", day_two::scale),
        (
            "another version, and the Service answers all the time",
            day_two::upgrade_among_visitors,
        ),
    ];
    for chapter in chapters {
        tell(installation, &[chapter]);
    }
}

/// Tells something between `up`, with what follows it, and `down`. Nothing may be left of it, in the books of the platform and on
/// the host.
fn on_a_platform(up: &[(&'static str, Chapter)], story: impl FnOnce(&Installation)) {
    let before = Traces::look();
    let installation = Installation::new("tenants", "10.213.95.0/24");
    for chapter in up {
        tell(&installation, &[*chapter]);
    }
    let books = Books::read(&installation).unwrap();
    story(&installation);
    books.are_balanced(&installation);
    let said = installation.well(&["down"]);
    assert!(said.contains("nothing of it is left"), "{said}");
    before.assert_unchanged();
}

/// Tells chapters that happen at once, and waits for the end of all.
fn tell(installation: &Installation, chapters: &[(&'static str, Chapter)]) {
    let failed = std::thread::scope(|scope| {
        let told = chapters.iter().map(|&(title, chapter)| {
            scope.spawn(move || {
                let telling = Telling::begin(installation, title);
                chapter(installation);
                drop(telling);
            })
        });
        // All of them begin before one is waited for.
        let told: Vec<_> = told.collect();
        let ended = told.into_iter().map(ScopedJoinHandle::join);
        ended.filter_map(Result::err).collect::<Vec<_>>()
    });
    if let Some(first) = failed.into_iter().next() {
        resume_unwind(first);
    }
}

/// A chapter that is told. Its end is noted; if it is a bad one, with what all clusters say of themselves then.
struct Telling<'a> {
    installation: &'a Installation,
    title: &'static str,
    began: Instant,
}

impl<'a> Telling<'a> {
    fn begin(installation: &'a Installation, title: &'static str) -> Self {
        note(&format!("=== {title}"));
        Self {
            installation,
            title,
            began: Instant::now(),
        }
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        let took = self.began.elapsed().as_secs_f32();
        if std::thread::panicking() {
            note(&format!("=== {}: FAILED after {took:.1}s", self.title));
            note(&conditions(self.installation));
        } else {
            note(&format!("=== {}: {took:.1}s", self.title));
        }
    }
}

/// What every cluster says of itself.
fn conditions(installation: &Installation) -> String {
    let format = "jsonpath={range .items[*]}{.metadata.name}: {.status.phase}{\"\\n\"}{range .status.conditions[*]}\
        {\"  \"}{.type}={.status} {.reason}: {.message}{\"\\n\"}{end}{end}";
    let shown = installation.kubectl(&["get", "tenantclusters", "-A", "-o", format]);
    shown.unwrap_or_else(|words| words)
}

fn up(installation: &Installation) {
    installation.well(&[
        "up",
        "--range",
        installation.range,
        "--memory",
        "8Gi",
        "--butler-binary",
        &butler(),
    ]);
    let archive = echo_image();
    installation.well(&["image", "add", archive.to_str().unwrap()]);
    installation.well(&["image", "kubernetes", OLD]);
}

/// What a cluster of this story is like that nobody else describes.
fn small(version: &str, workers: usize) -> Value {
    json!({
        "kubernetesVersion": format!("v{version}"),
        "workers": {
            "replicas": workers,
            "machineTemplate": { "cpu": 1, "memory": "1Gi", "diskSize": "10Gi" },
        },
    })
}

fn becomes_ready(installation: &Installation) {
    let shop = Cluster::shop(installation);
    typed::create(&shop);
    eventually("shop is Ready", || shop.is_ready(2));
    typed::is_shown(&shop);
    let status = shop.object().unwrap()["status"].take();
    note(&format!("{status:#}"));
    assert!(status["controlPlaneEndpoint"].is_string(), "{status}");
    // Older tooling looks for this word.
    let conditions = status["conditions"].as_array().unwrap();
    let running = conditions.iter().find(|one| one["type"] == "Running");
    assert_eq!(running.unwrap()["status"], "True", "{status}");
}

fn goes(installation: &Installation) {
    let shop = Cluster::shop(installation);
    let namespace = shop.namespace().unwrap();
    shop.protects_nothing();
    let unconfirmed = shop.is_refused("destroy", &[], 2);
    let how = "nobody is there to confirm that shop is to be destroyed; pass --yes";
    assert!(unconfirmed.contains(how), "{unconfirmed}");
    let said = shop.does("destroy", &["--yes", "--no-wait"]);
    assert!(said.starts_with("shop is being destroyed; "), "{said}");
    let why = shop.does("why", &[]);
    for expected in [
        "shop is Deleting and waits for:\n",
        "waiting until its machines are gone: shop-workers-",
    ] {
        assert!(why.contains(expected), "{expected:?} is missing in {why}");
    }
    let said = shop.does_and_waits("destroy", &["--yes"]);
    assert_eq!(said, "shop is gone.\n");
    typed::is_forgotten(&shop);
    let left = installation.kubectl(&["get", "namespace", &namespace]);
    assert!(left.is_err(), "{left:?}");
    let ranges = workload::ranges(&shop);
    assert!(ranges.is_empty(), "{ranges:?}");
}
