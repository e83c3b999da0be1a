//! What the user of a cluster types: `butlerctl cluster …`, how it ends, and what it says.
//!
//! Clusters that belong to no team need no namespace on their command lines.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use super::{OLD, cluster::Cluster, elastic};
use crate::kit::{Installation, butler, eventually, note, words};

/// As long as a command that waits may take. The longest replaces every machine, one after the other.
const TIMEOUT: [&str; 2] = ["--timeout", "10m"];

impl Cluster<'_> {
    /// Types a command about this cluster.
    pub(super) fn typed(&self, verb: &str, flags: &[&str]) -> Output {
        typed(self.installation, &[&[verb, self.name], flags].concat())
    }

    /// The same, for one that must end well. Gives what it prints; it is noted, with how it came to it.
    pub(super) fn does(&self, verb: &str, flags: &[&str]) -> String {
        let output = self.typed(verb, flags);
        note(&words(&output));
        let code = output.status.code();
        assert_eq!(code, Some(0), "{verb} {flags:?}\n{}", self.troubles());
        printed(output)
    }

    /// The same, for one that waits until it is done.
    pub(super) fn does_and_waits(&self, verb: &str, flags: &[&str]) -> String {
        self.does(verb, &[flags, &TIMEOUT].concat())
    }

    /// The same, for one that must be refused with this exit code. Gives all that was said.
    pub(super) fn is_refused(&self, verb: &str, flags: &[&str], code: i32) -> String {
        let output = self.typed(verb, flags);
        let said = words(&output);
        assert_eq!(output.status.code(), Some(code), "{verb} {flags:?}: {said}");
        said
    }

    /// Asks again until a command says all of this: a node that is not ready for a moment is nobody's concern here.
    pub(super) fn comes_to_say(&self, verb: &str, expected: &[&str]) {
        let what = format!("{verb} says {expected:?}");
        eventually(&what, || says(&self.typed(verb, &[]), expected));
    }
}

/// Types a command about clusters.
fn typed(installation: &Installation, arguments: &[&str]) -> Output {
    let program = Path::new(&butler()).with_file_name("butlerctl");
    let mut command: Command = installation.command(program);
    command
        .arg("cluster")
        .args(arguments)
        .arg("--kubeconfig")
        .arg(installation.kubeconfig())
        .env("HOME", installation.home())
        // Whoever runs this story may have clusters elsewhere.
        .env_remove("BUTLER_NAMESPACE");
    command.output().unwrap()
}

fn printed(output: Output) -> String {
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a command ended well and said all of this, however wide its columns are.
fn says(output: &Output, expected: &[&str]) -> Result<(), String> {
    let said = words(output);
    let columns: Vec<_> = said.split_whitespace().collect();
    let text = columns.join(" ");
    let mut expected = expected.iter();
    if output.status.success() && expected.all(|part| text.contains(part)) {
        Ok(())
    } else {
        Err(said)
    }
}

/// A cluster is asked for, followed until it is ready, and its kubeconfig taken.
pub(super) fn create(shop: &Cluster<'_>) {
    let version = format!("v{OLD}");
    let flags = [
        "--kubernetes-version",
        &version,
        "--provider",
        elastic::PROVIDER,
        "--workers",
        "2",
        "--cpu",
        "1",
        "--memory",
        "1Gi",
        "--disk",
        "10Gi",
        "--wait",
    ];
    let output = shop.typed("create", &[&flags[..], &TIMEOUT].concat());
    let said = words(&output);
    note(&said);
    assert_eq!(output.status.code(), Some(0), "{}", shop.troubles());
    for step in [
        "✓ Limits, access and addresses",
        "✓ Infrastructure",
        "✓ Control plane",
        "✓ Workers",
        "✓ Addons",
    ] {
        assert!(said.contains(step), "{step:?} is missing in {said}");
    }
    let printed = printed(output);
    assert!(
        printed
            .starts_with("shop is ready. Use it:\n\n  butlerctl cluster kubeconfig shop --merge\n"),
        "{printed}"
    );
    // What it prints is nobody else's to read, the log of this story included.
    let kubeconfig = shop.typed("kubeconfig", &[]);
    assert_eq!(kubeconfig.status.code(), Some(0));
    fs::write(shop.kubeconfig(), kubeconfig.stdout).unwrap();
}

/// What is there is shown: in the list, alone, and with what it waits for.
pub(super) fn is_shown(shop: &Cluster<'_>) {
    let version = format!("v{OLD}");
    let row = format!("shop Ready {version} 2/2 ");
    let header = "NAME PHASE VERSION WORKERS ENDPOINT AGE";
    eventually("the list shows the cluster", || {
        says(&typed(shop.installation, &["list"]), &[header, &row])
    });
    let version = format!("Version: {version}");
    let facts = [
        "Name: shop",
        "Namespace: butler-tenants",
        "Phase: Ready",
        &version,
        "Workers: 2/2 ready",
        "Provider: sparing",
        "ControlPlaneReady True",
        "WorkersReady True",
    ];
    shop.comes_to_say("get", &facts);
    shop.comes_to_say("why", &["shop is Ready and waits for nothing."]);
    let twice = shop.is_refused("create", &["--no-wait"], 1);
    let exists = "there is a cluster shop in the namespace butler-tenants already";
    assert!(twice.contains(exists), "{twice}");
}

/// Nobody remembers it.
pub(super) fn is_forgotten(shop: &Cluster<'_>) {
    let missing = shop.is_refused("get", &[], 1);
    let none = "there is no cluster shop in the namespace butler-tenants";
    assert!(missing.contains(none), "{missing}");
    let list = typed(shop.installation, &["list"]);
    let none = "There are no clusters in the namespace butler-tenants.";
    says(&list, &[none]).unwrap();
}
