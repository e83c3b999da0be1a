//! A new certificate authority for a control plane that has a node: nothing on the node is touched, and it stays.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::Scope,
    time::{Duration, Instant},
};

use butler_api::keys::annotations;
use jiff::Timestamp;

use super::{NAMESPACE, NEW, tenant::Tenant, worker};
use crate::kit::{Installation, eventually, note};

/// Between two looks at a node.
const GLANCE: Duration = Duration::from_millis(500);
/// Nobody has to ask longer than this for an answer: as long as a request of a user may take in the other chapters.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);
/// What is said by who does not trust the other. All know both authorities before the new one signs, so nobody says it.
const DISTRUST: [&str; 3] = ["x509", "certificate", "Unauthorized"];
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

pub(super) fn rotation(installation: &Installation) {
    let tenant = Tenant::shop(installation);
    let node = "shop-worker-0";
    let before = authorities(&tenant).unwrap();
    assert_eq!(before.len(), 1, "{before:?}");
    let seen = std::thread::scope(|scope| {
        let watch = Watch::begin(scope, tenant, node);
        annotate(&tenant, "");
        let mut words = Vec::new();
        eventually("the new authority signs, beside the old one", || {
            let status = tenant.status();
            let word = &status["kubernetesResources"]["version"]["status"];
            let word = word.as_str().unwrap_or("unreadable").to_owned();
            if words.last() != Some(&word) {
                words.push(word);
            }
            let now = authorities(&tenant)?;
            // The one that signs comes first.
            let promoted = now.len() == 2 && now[0] != before[0] && now[1] == before[0];
            if promoted && words.last().is_some_and(|word| word == "Ready") {
                tenant.reached("Ready", NEW, 2)
            } else {
                Err(format!(
                    "{} authorities; states so far: {words:?}\n{}",
                    now.len(),
                    tenant.troubles()
                ))
            }
        });
        note(&format!("states on the way: {words:?}"));
        // A node that cannot speak to API servers of the new authority looks well for another 40 seconds: its lease tells sooner.
        let promoted_at = Timestamp::now();
        tenant.fetch_kubeconfig();
        eventually(
            "the node speaks to API servers of the new authority",
            || renewed_after(&tenant, node, promoted_at),
        );
        watch.seen()
    });
    seen.assert_all_went_on();
    // The API server speaks to the kubelet as a client of the new authority.
    let logs = eventually("logs of a pod after the change", || {
        tenant.kubectl(&["logs", "deployment/echo"])
    });
    assert!(logs.contains("serves on port 8080"), "{logs}");
}

pub(super) fn retirement(installation: &Installation) {
    let tenant = Tenant::shop(installation);
    // What the old authority issued ends with it: the node is replaced first, by one with a certificate of the new one.
    worker::remove(&tenant);
    let node = worker::join(&tenant, 1);
    let seen = std::thread::scope(|scope| {
        let watch = Watch::begin(scope, tenant, node);
        annotate(&tenant, "retire");
        eventually("one authority is left, and all pods know it", || {
            let now = authorities(&tenant)?;
            if now.len() == 1 {
                tenant.reached("Ready", NEW, 2)
            } else {
                Err(format!("{} authorities\n{}", now.len(), tenant.troubles()))
            }
        });
        tenant.fetch_kubeconfig();
        let retired_at = Timestamp::now();
        eventually("the node goes on", || {
            renewed_after(&tenant, node, retired_at)
        });
        watch.seen()
    });
    seen.assert_all_went_on();
    let kubeconfig = std::fs::read_to_string(tenant.kubeconfig()).unwrap();
    assert!(
        kubeconfig.contains("certificate-authority-data"),
        "a kubeconfig without authority"
    );
    tenant.kubectl(&["get", "nodes"]).unwrap();
}

/// The certificates in the Secret of the authority, the one that signs first.
fn authorities(tenant: &Tenant<'_>) -> Result<Vec<String>, String> {
    let bundle = tenant.secret("ca", r"ca\.crt")?;
    let certificates = bundle.split(CERTIFICATE).skip(1);
    Ok(certificates.map(|text| text.trim().to_owned()).collect())
}

/// Asks for a step of a change of authority.
fn annotate(tenant: &Tenant<'_>, value: &str) {
    let asked = tenant.installation.kubectl(&[
        "annotate",
        "--overwrite",
        "secret",
        "--namespace",
        NAMESPACE,
        &format!("{}-ca", tenant.name),
        &format!("{}={value}", annotations::STEWARD_ROTATE),
    ]);
    asked.unwrap();
}

/// Whether a kubelet has said that it lives, after a moment.
fn renewed_after(tenant: &Tenant<'_>, node: &str, moment: Timestamp) -> Result<(), String> {
    let lease = tenant.get(&["lease", "--namespace", "kube-node-lease", node])?;
    let renewed = lease["spec"]["renewTime"].as_str().unwrap_or_default();
    match renewed.parse::<Timestamp>() {
        Ok(renewed) if renewed > moment => Ok(()),
        _ => Err(format!(
            "renewed at {renewed:?}, not after {moment}; now it is {}",
            Timestamp::now()
        )),
    }
}

/// What was seen of a node.
#[derive(Default)]
struct Seen {
    looks: u32,
    not_ready: Vec<String>,
    unanswered: Vec<String>,
    /// Since when nobody has answered.
    silent_since: Option<Instant>,
    longest_silence: Duration,
}

impl Seen {
    fn answered(&mut self) {
        if let Some(since) = self.silent_since.take() {
            self.longest_silence = self.longest_silence.max(since.elapsed());
        }
    }

    /// The node stayed, and whoever asked for it with the kubeconfig of that moment was trusted and soon had an answer. A single look
    /// may come to an API server that is about to end.
    fn assert_all_went_on(mut self) {
        self.answered();
        note(&format!(
            "{} looks at the node, {} of them without an answer; the longest silence was {:.1}s",
            self.looks,
            self.unanswered.len(),
            self.longest_silence.as_secs_f32()
        ));
        let unanswered = self.unanswered.join("\n");
        note(&unanswered);
        assert!(self.looks > 0, "nobody has looked at the node");
        let not_ready = self.not_ready.join("\n");
        assert!(not_ready.is_empty(), "the node was not Ready:\n{not_ready}");
        let distrusted = DISTRUST.iter().any(|words| unanswered.contains(words));
        assert!(!distrusted, "somebody was not trusted:\n{unanswered}");
        assert!(
            self.longest_silence <= LONGEST_SILENCE,
            "for {:.1}s nobody answered:\n{unanswered}",
            self.longest_silence.as_secs_f32()
        );
    }
}

/// Somebody who looks at a node as long as this lives.
struct Watch {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
}

impl Watch {
    fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        tenant: Tenant<'scope>,
        node: &'static str,
    ) -> Self {
        let watch = Self {
            stop: Arc::default(),
            seen: Arc::default(),
        };
        let (stop, seen) = (Arc::clone(&watch.stop), Arc::clone(&watch.seen));
        let began = Instant::now();
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                look(&tenant, node, began, &seen);
                std::thread::sleep(GLANCE);
            }
        });
        watch
    }

    fn seen(&self) -> Seen {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Also when the chapter failed: its thread is waited for.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One look, with the kubeconfig of that moment.
fn look(tenant: &Tenant<'_>, node: &str, began: Instant, seen: &Mutex<Seen>) {
    let asked = Instant::now();
    let after = asked.duration_since(began).as_secs_f32();
    let found = tenant
        .try_fetch_kubeconfig()
        .and_then(|()| tenant.get(&["node", node]));
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.looks += 1;
    match found {
        Err(words) => {
            seen.silent_since.get_or_insert(asked);
            seen.unanswered.push(format!("after {after:.1}s: {words}"));
        }
        Ok(found) => {
            seen.answered();
            if let Err(words) = worker::readiness(&found) {
                seen.not_ready.push(format!("after {after:.1}s: {words}"));
            }
        }
    }
}
