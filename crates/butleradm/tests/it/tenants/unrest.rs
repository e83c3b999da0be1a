//! A controller that is killed again and again, in the midst of whatever it does.

use std::{
    fs,
    process::Command,
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use serde_json::{Value, json};

use crate::kit::{Installation, eventually, note};

const NAMESPACE: &str = "butler-system";
const CONTROLLER: &str = "butler-controller";
/// How long a controller lives once it works. One that dies while it starts has done nothing that could be half done.
const LIFE: Duration = Duration::from_secs(4);
/// How often somebody looks whether it works.
const GLANCE: Duration = Duration::from_millis(300);
/// Fewer deaths would not be worth the name.
const MANY: usize = 3;

/// Has something done while the controller is killed with -9 every few seconds.
pub(super) fn during(installation: &Installation, work: impl FnOnce()) {
    let killed = std::thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        let killer = scope.spawn(move || {
            let goes_on = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            let mut killed = 0;
            while goes_on(GLANCE) {
                // Not a wait for something to happen: the life of one controller.
                if works(installation) && goes_on(LIFE) {
                    killed += kill(installation);
                }
            }
            killed
        });
        work();
        drop(end);
        killer.join().unwrap()
    });
    note(&format!("the controller was killed {killed} times"));
    assert!(
        killed >= MANY,
        "the controller was killed {killed} times only"
    );
}

/// Lets the only controller work as soon as it is there. A lease that a killed one has left would keep the next one from work
/// for longer than it lives.
pub(super) fn without_a_lease(installation: &Installation) {
    let deployment = installation.get(&["deployment", CONTROLLER, "--namespace", NAMESPACE]);
    let place = "/spec/template/spec/containers/0/args";
    let arguments = deployment.pointer(place).and_then(Value::as_array).unwrap();
    let changed = arguments.iter().map(|argument| {
        if argument == "--leader-elect=true" {
            json!("--leader-elect=false")
        } else {
            argument.clone()
        }
    });
    let arguments: Vec<_> = changed.collect();
    let patch = json!([{ "op": "replace", "path": place, "value": arguments }]).to_string();
    let name = format!("deployment/{CONTROLLER}");
    let patched = installation.kubectl(&[
        "patch",
        "--namespace",
        NAMESPACE,
        &name,
        "--type",
        "json",
        "--patch",
        &patch,
    ]);
    patched.unwrap();
    eventually("the controller is rolled out", || {
        installation.kubectl(&[
            "rollout",
            "status",
            "--namespace",
            NAMESPACE,
            &name,
            "--timeout=60s",
        ])
    });
}

/// Whether the controller that is there is ready: its caches are filled, and its webhooks answer.
fn works(installation: &Installation) -> bool {
    let selector = format!("app.kubernetes.io/name={CONTROLLER}");
    let ready = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
    let pods = ["get", "pods", "--namespace", NAMESPACE];
    let look = [&pods[..], &["--selector", &selector, "-o", ready]].concat();
    installation.kubectl(&look).is_ok_and(|said| said == "True")
}

/// Kills the controllers that are there, and says how many these were. What is left of their pods goes at once: Kubernetes would
/// start a container that dies so often later and later.
fn kill(installation: &Installation) -> usize {
    let pods = installation.kubectl(&[
        "get",
        "pods",
        "--namespace",
        NAMESPACE,
        "--selector",
        &format!("app.kubernetes.io/name={CONTROLLER}"),
        "-o",
        "name",
    ]);
    // Who cannot be asked now is asked later.
    let pods = pods.unwrap_or_default();
    let mut killed = 0;
    for pod in pods.lines() {
        let name = pod.trim_start_matches("pod/");
        let Some(process) = process_of(name) else {
            continue;
        };
        let ended = Command::new("sh")
            .args(["-c", &format!("kill -9 {process}")])
            .status();
        killed += usize::from(ended.is_ok_and(|status| status.success()));
        drop(installation.kubectl(&[
            "delete",
            pod,
            "--namespace",
            NAMESPACE,
            "--force",
            "--grace-period=0",
            "--wait=false",
        ]));
    }
    killed
}

/// The process of the controller in a pod: it is told the name of its pod.
fn process_of(pod: &str) -> Option<String> {
    let told = format!("POD_NAME={pod}");
    let mut processes = fs::read_dir("/proc").unwrap().flatten();
    let process = processes.find(|process| {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == told.as_bytes())
    })?;
    process.file_name().into_string().ok()
}
