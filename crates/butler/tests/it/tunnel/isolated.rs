//! Two networks of a test's own: that of the control plane, in which the test itself runs, and that of the tenant. They are
//! joined by one pair of interfaces, and joined with nothing else. Both are gone when their processes are.

use std::{
    fs,
    future::Future,
    process::{Child, Command, Stdio},
    time::Duration,
};

use butler_testkit::process::until;

/// Where the control plane is, as the tenant sees it.
pub(crate) const CONTROL_PLANE: &str = "192.0.2.1";
/// An address in the tenant that the control plane has no route to.
pub(crate) const POD: &str = "10.111.0.10";
/// An address of a Service, in a range that the control plane's own network could use as well.
pub(crate) const SERVICE: &str = "10.0.0.50";
/// The address of a node in the tenant.
pub(crate) const NODE: &str = "10.112.0.10";

/// Tells the test that it runs in the control plane's network.
const INSIDE: &str = "BUTLER_TUNNEL_TEST_INSIDE";

/// The networks, as the control plane's sees them.
pub(crate) struct Networks {
    /// Its network is the tenant's. It ends when nobody holds its input any more, which is when we have ended.
    tenant: Child,
}

/// Tells a story in two networks. The test is run again, as a process of its own in the control plane's.
pub(crate) fn tell<Story: Future<Output = ()>>(test: &str, story: impl FnOnce(Networks) -> Story) {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let networks = Networks::new().await;
            story(networks).await;
        });
        return;
    }
    let status = Command::new("unshare")
        .arg("--net")
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare");
    assert!(status.success(), "see above for what failed in {test}");
}

impl Networks {
    async fn new() -> Self {
        let tenant = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a tenant");
        let networks = Self { tenant };
        let ours = fs::read_link("/proc/self/ns/net").unwrap();
        let apart = until(Duration::from_secs(10), async || {
            let theirs = fs::read_link(networks.path()).ok()?;
            (theirs != ours).then_some(())
        });
        apart.await.expect("a network of the tenant's own");
        let tenant = networks.tenant.id();
        run(&format!(
            "ip link add tunnel type veth peer name tunnel netns {tenant}"
        ));
        run("ip link set lo up");
        run(&format!("ip address add {CONTROL_PLANE}/24 dev tunnel"));
        run("ip link set tunnel up");
        for line in [
            "ip link set lo up".to_owned(),
            "ip address add 192.0.2.2/24 dev tunnel".to_owned(),
            "ip link set tunnel up".to_owned(),
            format!("ip address add {POD}/32 dev lo"),
            format!("ip address add {SERVICE}/32 dev lo"),
            format!("ip address add {NODE}/32 dev lo"),
        ] {
            run(&format!("nsenter {} {line}", networks.enter()));
        }
        networks
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.tenant.id())
    }

    /// The flag of nsenter that leads into the tenant's network.
    pub(crate) fn enter(&self) -> String {
        format!("--net={}", self.path())
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        let _ = self.tenant.kill();
        let _ = self.tenant.wait();
    }
}

fn run(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .expect("output");
    assert!(output.status.success(), "{line}: {output:?}");
}
