//! A management cluster with a way out, in a network of its own: one namespace for the host, one for the world beyond it.
//! Nothing that is sent here leaves these namespaces.

use std::process::{Child, Command, Stdio};

use butler_testkit::{requires, skip::Requirement};

use crate::{
    kit::{Installation, alone, butler, eventually},
    network::{ECHO, ECHO_IMAGE, echo_image},
    story::unfit,
    traces::Traces,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_butleradm-test-echo");
/// Addresses of the world: one that anybody may reach, one that nobody behind a host may.
const PUBLIC: &str = "198.51.100.1";
const PRIVATE: &str = "10.99.0.1";

/// Two namespaces with a line between them; removed also when the story fails.
pub(crate) struct World {
    pub(crate) host: String,
    beyond: String,
    children: Vec<Child>,
}

impl World {
    pub(crate) fn new() -> Self {
        let name = |role| format!("butleradm-test-{}-{role}", std::process::id());
        let world = Self {
            host: name("host"),
            beyond: name("beyond"),
            children: Vec::new(),
        };
        let Self { host, beyond, .. } = &world;
        for line in [
            format!("ip netns add {host}"),
            format!("ip netns add {beyond}"),
            format!("ip -n {host} link set lo up"),
            format!("ip -n {beyond} link set lo up"),
            format!("ip -n {host} link add up0 type veth peer name up0 netns {beyond}"),
            format!("ip -n {host} address add 198.51.100.2/24 dev up0"),
            format!("ip -n {host} address add 10.99.0.2/24 dev up0"),
            format!("ip -n {beyond} address add {PUBLIC}/24 dev up0"),
            format!("ip -n {beyond} address add {PRIVATE}/24 dev up0"),
            format!("ip -n {host} link set up0 up"),
            format!("ip -n {beyond} link set up0 up"),
            format!("ip -n {host} route add default via {PUBLIC}"),
            // The world knows the way back: what gets out would be answered.
            format!("ip -n {beyond} route add 10.213.0.0/16 via 10.99.0.2"),
            format!("ip -n {beyond} route add 10.244.0.0/16 via 10.99.0.2"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let status = Command::new(words[0]).args(&words[1..]).status().unwrap();
            assert!(status.success(), "{line}");
        }
        world
    }

    /// Lets the tests' program listen beyond the host.
    fn serve_beyond(&mut self, port: &str) {
        self.serve(&self.beyond.clone(), port);
    }

    /// Lets the tests' program listen on every address of the host.
    pub(crate) fn serve_on_host(&mut self, port: &str) {
        self.serve(&self.host.clone(), port);
    }

    fn serve(&mut self, namespace: &str, port: &str) {
        let child = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{namespace}"))
            .args([PROGRAM, "serve", port])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.children.push(child);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for child in &mut self.children {
            drop(child.kill());
            drop(child.wait());
        }
        for name in [&self.host, &self.beyond] {
            drop(Command::new("ip").args(["netns", "delete", name]).status());
        }
    }
}

#[test]
fn with_egress_a_pod_reaches_the_world_and_never_a_private_address() {
    let _alone = alone();
    let unfit = unfit();
    requires!(Requirement::new(unfit.is_none(), unfit.unwrap_or_default()));
    let before = Traces::look();
    let mut world = World::new();
    world.serve_beyond("7000");
    let installation = Installation::new("egress", "10.213.92.0/24").within(&world.host);
    installation.well(&[
        "up",
        "--range",
        installation.range,
        "--egress",
        "nat",
        "--cpus",
        "2",
        "--memory",
        "4Gi",
        "--butler-binary",
        &butler(),
    ]);
    let archive = echo_image();
    installation.well(&["image", "add", archive.to_str().unwrap()]);
    installation.apply(&format!(
        "
apiVersion: v1
kind: Pod
metadata: {{ name: echo }}
spec:
  tolerations: [{{ operator: Exists }}]
  containers: [{{ name: echo, image: {ECHO_IMAGE}, args: [serve, \"8080\"] }}]
"
    ));
    installation
        .kubectl(&[
            "wait",
            "--for=condition=Ready",
            "pod/echo",
            "--timeout=120s",
        ])
        .unwrap();
    let pod =
        |verb: &str, place: &str| installation.kubectl(&["exec", "echo", "--", ECHO, verb, place]);
    // The host itself reaches both, so that a refusal below is the firewall's.
    for address in [PUBLIC, PRIVATE] {
        eventually("the host reaches the world", || {
            let output = installation
                .command(PROGRAM)
                .args(["fetch", &format!("{address}:7000")])
                .output()
                .unwrap();
            if output.status.success() {
                Ok(())
            } else {
                Err(format!("{output:?}"))
            }
        });
    }
    let answer = pod("fetch", &format!("{PUBLIC}:7000")).unwrap();
    assert!(!answer.trim().is_empty(), "the world answers with its name");
    let words = pod("reach", &format!("{PRIVATE}:7000")).unwrap_err();
    assert!(words.contains("exit code 1"), "{words}");
    installation.well(&["down"]);
    drop(installation);
    drop(world);
    before.assert_unchanged();
}
