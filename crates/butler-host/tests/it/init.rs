//! A machine with our first process, from its boot to its end.

use std::{path::Path, time::Duration};

use butler_host::{
    cloud_config::MetaData,
    host::{Host, Seed},
    machine::{Bind, MachineSpec},
};
use pretty_assertions::assert_eq;

use crate::scene::{Scene, TOOL, needs_a_host, output};

const GRACE: Duration = Duration::from_secs(30);

/// Stands for kubeadm: leaves what kubeadm leaves, the flags last.
const USER_DATA: &str = r#"## template: jinja
#cloud-config
bootcmd:
- echo booted >> /var/lib/boots
write_files:
- path: /run/kubeadm/join.yaml
  owner: root:root
  permissions: '0640'
  content: |
    name: {{ ds.meta_data.local_hostname }}
- path: /etc/hosts
  append: true
  encoding: b64
  content: IyBhcHBlbmRlZAo=
- path: /run/cluster-api/placeholder
  owner: daemon:daemon
  content: x
runcmd:
- echo joined >> /var/lib/joins
- [ sh, -c, 'echo "said by a command"; exit 3' ]
- [ /no/such/program ]
- touch /var/lib/kubelet/config.yaml
- echo 'KUBELET_KUBEADM_ARGS="--node-ip=10.213.7.10 --v=1"' > /var/lib/kubelet/kubeadm-flags.env
- echo success > /run/cluster-api/bootstrap-success.complete
ntp: {enabled: true}
"#;

/// Until a condition of the shell holds inside of the machine.
async fn until(host: &Host, spec: &MachineSpec, condition: &str) {
    let line = format!("timeout 30 sh -c 'until {condition}; do sleep 0.02; done'");
    let output = host
        .exec(&spec.name, &["sh", "-c", &line])
        .await
        .expect("a running machine");
    if !output.success() {
        let console = host.logs(&spec.name, None).await.expect("a console");
        assert_eq!(console, "", "not seen within 30 seconds: {condition}");
    }
}

/// What the console says, without the times.
async fn console(host: &Host, spec: &MachineSpec) -> Vec<String> {
    let text = host.logs(&spec.name, None).await.expect("a console");
    text.lines()
        .map(|line| line.split_once("] ").map_or(line, |(_, words)| words))
        .map(|line| line.split(" as process ").next().unwrap_or(line).to_owned())
        .collect()
}

fn node(scene: &Scene) -> MachineSpec {
    let mut spec = scene.machine("node", 10, "");
    spec.init = vec![TOOL.to_owned(), "init".to_owned()];
    let tool = spec.binds[0].source.clone();
    spec.binds
        .extend(["containerd", "kubelet"].map(|program| Bind {
            source: tool.clone(),
            destination: Path::new("/opt/butler/bin").join(program),
            writable: false,
        }));
    spec
}

#[tokio::test]
async fn a_machine_becomes_a_node_and_stays_one() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let spec = node(&scene);
    host.create(spec.clone()).await.unwrap();
    host.start(&spec.name).await.unwrap();

    // It boots first and is told what to do later.
    until(host, &spec, "test -S /run/containerd/containerd.sock").await;
    let propagation = "grep -cE '^([^ ]+ ){4}/ .* shared:' /proc/1/mountinfo";
    assert_eq!(output(host, "node", propagation).await, "1");
    let seed = Seed {
        user_data: USER_DATA.as_bytes().to_vec(),
        meta_data: MetaData::new(spec.id.as_str(), "node"),
    };
    host.deliver(&spec.name, &seed).await.unwrap();
    until(
        host,
        &spec,
        "test -e /run/cluster-api/bootstrap-success.complete && pidof kubelet",
    )
    .await;

    assert_eq!(
        output(
            host,
            "node",
            "cat /run/kubeadm/join.yaml; stat -c %a:%U /run/kubeadm/join.yaml"
        )
        .await,
        "name: node\n640:root"
    );
    assert_eq!(
        output(
            host,
            "node",
            "stat -c %a:%U:%G /run/cluster-api/placeholder; tail -n 1 /etc/hosts"
        )
        .await,
        "644:daemon:daemon\n# appended"
    );
    assert_eq!(
        output(
            host,
            "node",
            "tr '\\0' ' ' < /proc/$(pidof kubelet)/cmdline"
        )
        .await,
        "kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
         --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml --node-ip=10.213.7.10 --v=1"
    );

    // What dies comes back.
    for service in ["kubelet", "containerd"] {
        let first = output(host, "node", &format!("pidof {service}")).await;
        output(host, "node", &format!("kill -9 {first}")).await;
        until(
            host,
            &spec,
            &format!("pidof {service} && test $(pidof {service}) != {first}"),
        )
        .await;
    }
    // What nobody waits for is waited for.
    output(host, "node", "for i in 1 2 3 4 5; do (true &) ; done").await;
    until(host, &spec, "! grep -q \"^State:.Z\" /proc/[0-9]*/status").await;

    host.stop(&spec.name, GRACE).await.unwrap();
    let told = console(host, &spec).await;
    assert_eq!(told[0], "the machine is up");
    for expected in [
        "containerd answers",
        "user data: ntp is ignored: a machine's clock is the host's",
        "user data: /run/kubeadm/join.yaml is written",
        "said by a command",
        "user data: runcmd[1] has ended with status 3",
        "user data has failed",
    ] {
        assert!(
            told.iter().any(|line| line == expected),
            "{expected}: {told:#?}"
        );
    }
    assert!(
        told.iter()
            .any(|line| line.starts_with("user data: runcmd[2] could not be started: ")),
        "{told:#?}"
    );
    assert_eq!(
        told[told.len() - 4..],
        [
            "the machine goes down",
            "kubelet is stopped, with signal 15",
            "containerd is stopped, with signal 15",
            "the machine is down",
        ]
    );

    // Started again it is the same node, and joins no second time.
    host.start(&spec.name).await.unwrap();
    until(
        host,
        &spec,
        "pidof kubelet && test $(wc -l < /var/lib/boots) = 2",
    )
    .await;
    assert_eq!(output(host, "node", "cat /var/lib/joins").await, "joined");
    scene.finish().await;
}

#[tokio::test]
async fn a_machine_that_goes_down_while_it_joins_does_not_join_twice() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let spec = node(&scene);
    host.create(spec.clone()).await.unwrap();
    let seed = Seed {
        user_data: b"#cloud-config\nruncmd: ['echo joined >> /var/lib/joins; exec sleep 1000', 'echo never >> /var/lib/joins']\n"
            .to_vec(),
        meta_data: MetaData::new(spec.id.as_str(), "node"),
    };
    host.deliver(&spec.name, &seed).await.unwrap();
    host.start(&spec.name).await.unwrap();
    until(host, &spec, "test -e /var/lib/joins").await;
    host.stop(&spec.name, GRACE).await.unwrap();

    host.start(&spec.name).await.unwrap();
    let interrupted = "user data was interrupted at an earlier boot and is not begun again; make the machine anew";
    while !console(host, &spec)
        .await
        .iter()
        .any(|line| line == interrupted)
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(output(host, "node", "cat /var/lib/joins").await, "joined");
    scene.finish().await;
}

#[test]
fn the_first_process_refuses_to_run_on_the_host() {
    let refused = std::process::Command::new(env!("CARGO_BIN_EXE_butler-host-test-machine"))
        .arg("init")
        .output()
        .unwrap();
    assert!(!refused.status.success());
    assert_eq!(
        String::from_utf8_lossy(&refused.stderr),
        "this is not the first process of a machine; machines start it, people do not\n"
    );
}

#[tokio::test]
async fn a_console_does_not_grow_without_limit() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let spec = node(&scene);
    host.create(spec.clone()).await.unwrap();
    host.start(&spec.name).await.unwrap();
    let much = "{ yes 'a command says much' | head -c 3000000; echo; echo its last words; } >> /proc/1/fd/1";
    output(host, "node", much).await;
    until(host, &spec, "test $(stat -Lc %s /proc/1/fd/1) -lt 1000000").await;
    let console = host.logs(&spec.name, None).await.unwrap();
    assert!(console.starts_with("[...]\n"), "{}", &console[..40]);
    assert!(console.contains("its last words\n"), "it keeps its end");
    scene.finish().await;
}
