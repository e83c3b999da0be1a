//! What machines are told whose systems cannot read what the kubeadm provider writes. The fixtures are what it really writes, for
//! the templates of tenant clusters.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

const CLOUD_CONFIG_OF_A_WORKER: &str = include_str!("fixtures/worker.cloud-config.yaml");
const IGNITION_OF_A_WORKER: &str = include_str!("fixtures/worker.ignition.json");

const TOKEN: &str = "abcdef.0123456789abcdef";

const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

const IDENTITY: Identity<'static> = Identity {
    host_name: "shop-1",
    instance: "machine-uid",
    cluster: "shop",
};

fn data(format: &str, value: impl Into<String>) -> BootstrapData {
    BootstrapData {
        format: format.to_owned(),
        value: SensitiveText(value.into()),
        authority: Some(AUTHORITY.to_owned()),
    }
}

fn bottlerocket(value: impl Into<String>) -> Result<SensitiveText, String> {
    let data = data(CLOUD_CONFIG, value);
    translate(UserDataFormat::Bottlerocket, &data, IDENTITY)
}

fn ignition(value: impl Into<String>) -> Result<SensitiveText, String> {
    let data = data(IGNITION, value);
    translate(UserDataFormat::Ignition, &data, IDENTITY)
}

/// The cloud-config of a worker that says something else in one place.
fn with(text: &str, instead: &str) -> String {
    assert!(CLOUD_CONFIG_OF_A_WORKER.contains(text), "{text}");
    CLOUD_CONFIG_OF_A_WORKER.replace(text, instead)
}

/// The same with a further line at its end.
fn and(line: &str) -> String {
    format!("{CLOUD_CONFIG_OF_A_WORKER}{line}\n")
}

#[test]
fn bottlerocket_is_told_by_its_settings_all_that_a_worker_of_a_tenant_is_told() {
    let settings = bottlerocket(CLOUD_CONFIG_OF_A_WORKER).unwrap();
    insta::assert_snapshot!(settings.0, @r#"
    [settings.kubernetes]
    cluster-name = "shop"
    api-server = "https://shop.shop-0a1b2c3d.k8s.example.com:443"
    cluster-certificate = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
    bootstrap-token = "abcdef.0123456789abcdef"
    authentication-mode = "tls"
    server-tls-bootstrap = false
    cloud-provider = ""
    cluster-dns-ip = ["10.96.0.10"]
    cluster-domain = "cluster.local"
    hostname-override = "shop-1"
    provider-id = "butler-proxmox://machine-uid"

    [settings.kubernetes.node-labels]
    "example.com/card" = "a100"
    "example.com/dear" = ""

    [settings.kubernetes.node-taints]
    "example.com/card" = ["a100:NoSchedule"]
    "example.com/dear" = [":PreferNoSchedule"]

    [settings.network]
    hostname = "shop-1"
    hosts = [["192.0.2.10", ["shop.shop-0a1b2c3d.k8s.example.com", "shop.shop-0a1b2c3d.konnectivity.example.com"]]]

    [settings.ntp]
    time-servers = ["time.example.com"]

    [settings.host-containers.admin]
    enabled = true
    user-data = "eyJzc2giOnsiYXV0aG9yaXplZC1rZXlzIjpbInNzaC1lZDI1NTE5IEFBQUEgYWRhIl19fQ=="
    "#);
    let read: Value = toml::from_str(&settings.0).unwrap();
    let settings = &read["settings"];
    let decoded = |value: &Value| {
        let bytes = STANDARD.decode(value.as_str().unwrap()).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(
        decoded(&settings["kubernetes"]["cluster-certificate"]),
        AUTHORITY
    );
    let login = decoded(&settings["host-containers"]["admin"]["user-data"]);
    assert_eq!(
        login,
        json!({ "ssh": { "authorized-keys": ["ssh-ed25519 AAAA ada"] } }).to_string()
    );
}

#[test]
fn arguments_of_kubelet_are_read_as_older_versions_of_kubeadm_have_them() {
    let list = "        - name: cluster-dns
          value: 10.96.0.10
        - name: cluster-domain
          value: cluster.local
        - name: provider-id
          value: butler-proxmox://{{ ds.meta_data.instance_id }}
        - name: node-labels
          value: example.com/card=a100,example.com/dear=
";
    let object = "          cluster-dns: 10.96.0.10
          cluster-domain: cluster.local
          node-labels: example.com/card=a100,example.com/dear=
          provider-id: butler-proxmox://{{ ds.meta_data.instance_id }}
";
    let older = bottlerocket(with(list, object)).unwrap();
    assert!(older == bottlerocket(CLOUD_CONFIG_OF_A_WORKER).unwrap());
}

#[test]
fn what_bottlerocket_has_no_setting_for_is_named_and_never_left_out() {
    let argument = "- name: cluster-domain\n          value: cluster.local";
    let said = [
        and("bootcmd: [modprobe br_netfilter]"),
        and("mounts: [[/dev/vdb, /var/lib]]"),
        with("/opt/butler/hosts", "/etc/motd"),
        with("runcmd:\n", "runcmd:\n  - \"swapoff --all\"\n"),
        with(argument, "- name: max-pods\n          value: \"200\""),
        with(
            "  - name: butler\n",
            "  - name: butler\n    passwd: hidden\n",
        ),
        with(
            "/run/kubeadm/kubeadm-join-config.yaml\n",
            "/run/kubeadm/kubeadm.yaml\n",
        ),
    ]
    .map(|text| bottlerocket(text).unwrap_err());
    insta::assert_snapshot!(said.join("\n"), @"
    it has the part bootcmd, for which bottlerocket has no setting; leave that out of the KubeadmConfigTemplate
    it has the part mounts, for which bottlerocket has no setting; leave that out of the KubeadmConfigTemplate
    it has the file /etc/motd, for which bottlerocket has no setting; leave that out of the KubeadmConfigTemplate
    it has commands, for which bottlerocket has no setting; leave that out of the KubeadmConfigTemplate
    it has the argument max-pods of kubelet, for which bottlerocket has no setting; leave that out of the KubeadmConfigTemplate
    it has a password, for which bottlerocket has no setting; leave that out of the KubeadmConfigTemplate
    it has the file /run/kubeadm/kubeadm.yaml, for which bottlerocket has no setting; leave that out of the KubeadmConfigTemplate
    ");
}

#[test]
fn without_a_token_or_an_identity_nothing_can_join() {
    let discovery = "        bootstrapToken:
          apiServerEndpoint: shop.shop-0a1b2c3d.k8s.example.com:443
          caCertHashes:
          - sha256:2222222222222222222222222222222222222222222222222222222222222222
          token: abcdef.0123456789abcdef
";
    let file = "        file:\n          kubeConfigPath: /etc/join.conf\n";
    let identity = "butler-proxmox://{{ ds.meta_data.instance_id }}";
    let name = "'{{ ds.meta_data.local_hostname }}'";
    let said = [
        with(TOKEN, "''"),
        with(discovery, file),
        with("kind: JoinConfiguration", "kind: [Join"),
        with(
            "nodeRegistration:",
            "controlPlane: {}\n      nodeRegistration:",
        ),
        with(identity, "proxmox://shop"),
        with("provider-id", "node-labels"),
        with(name, "a-name-of-ours"),
        with(name, "'{{ ds.meta_data.zone }}'"),
        "no: [cloud-config machine-uid".to_owned(),
    ]
    .map(|text| bottlerocket(text).unwrap_err());
    insta::assert_snapshot!(said.join("\n"), @"
    there is no token in it yet to join with; let its provider make it again
    it has no discovery.bootstrapToken, by which alone bottlerocket can join; leave discovery out of the KubeadmConfigTemplate
    /run/kubeadm/kubeadm-join-config.yaml in it is no JoinConfiguration that can be read
    it makes a machine of a control plane, which bottlerocket cannot be
    its node would not be recognised; add provider-id with butler-<provider>://{{ ds.meta_data.instance_id }} to nodeRegistration.kubeletExtraArgs
    its node would not be recognised; add provider-id with butler-<provider>://{{ ds.meta_data.instance_id }} to nodeRegistration.kubeletExtraArgs
    its node would not have the name of the machine; set nodeRegistration.name to {{ ds.meta_data.local_hostname }}, or leave it out
    it asks for more than {{ ds.meta_data.local_hostname }} and {{ ds.meta_data.instance_id }}, which is all that is known of a machine before it is made; take the rest out
    it is no cloud-config that can be read; let its provider make it again
    ");
    let mut nobody = data(CLOUD_CONFIG, CLOUD_CONFIG_OF_A_WORKER);
    nobody.authority = Some("a key, perhaps".to_owned());
    let said = translate(UserDataFormat::Bottlerocket, &nobody, IDENTITY);
    insta::assert_snapshot!(said.unwrap_err(), @"the authority of its cluster has no certificate in PEM");
}

/// The content of a file of an Ignition document.
fn content(document: &Value, path: &str) -> String {
    let files = document["storage"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path).unwrap();
    let source = file["contents"]["source"].as_str().unwrap();
    let mut bytes = Vec::new();
    let mut rest = source.strip_prefix("data:,").unwrap().bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap(), rest.next().unwrap()];
            let digits = std::str::from_utf8(&digits).unwrap().to_owned();
            bytes.push(u8::from_str_radix(&digits, 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn flatcar_is_told_its_name_and_its_identity_and_all_else_as_it_was_written() {
    let told = ignition(IGNITION_OF_A_WORKER).unwrap();
    let document: Value = serde_json::from_str(&told.0).unwrap();
    assert_eq!(content(&document, "/etc/hostname"), "shop-1\n");
    insta::assert_snapshot!(content(&document, "/etc/kubeadm.yml"), @"
    ---
    apiVersion: kubeadm.k8s.io/v1beta4
    discovery:
      bootstrapToken:
        apiServerEndpoint: 192.0.2.10:6443
        caCertHashes:
        - sha256:2222222222222222222222222222222222222222222222222222222222222222
        token: abcdef.0123456789abcdef
    kind: JoinConfiguration
    nodeRegistration:
      imagePullPolicy: IfNotPresent
      kubeletExtraArgs:
      - name: volume-plugin-dir
        value: /opt/libexec/kubernetes/kubelet-plugins/volume/exec/
      - name: provider-id
        value: butler-proxmox://machine-uid
      name: 'shop-1'
      taints: null
    ");
    let before: Value = serde_json::from_str(IGNITION_OF_A_WORKER).unwrap();
    for same in ["ignition", "passwd", "systemd"] {
        assert_eq!(document[same], before[same]);
    }
    let script = "/etc/kubeadm.sh";
    assert_eq!(content(&document, script), content(&before, script));
}

#[test]
fn a_document_that_flatcar_could_not_use_is_refused() {
    let said = [
        "butler://machine-uid".to_owned(),
        json!({ "storage": { "files": ["machine-uid"] } }).to_string(),
        IGNITION_OF_A_WORKER.replace("instance_id", "region"),
        IGNITION_OF_A_WORKER.replace("%7B%7B%20ds.meta_data.instance_id%20%7D%7D", "none"),
    ]
    .map(|text| ignition(text).unwrap_err());
    insta::assert_snapshot!(said.join("\n"), @"
    it is no Ignition: it must be JSON with ignition.version; let its provider make it again
    it is no Ignition: it must be JSON with ignition.version; let its provider make it again
    it asks for more than {{ ds.meta_data.local_hostname }} and {{ ds.meta_data.instance_id }}, which is all that is known of a machine before it is made; take the rest out
    its node would not be recognised; add provider-id with butler-<provider>://{{ ds.meta_data.instance_id }} to nodeRegistration.kubeletExtraArgs
    ");
}

#[test]
fn bootstrap_data_in_another_format_is_refused_and_its_format_told_only_if_it_is_one() {
    let said = [
        (UserDataFormat::Bottlerocket, IGNITION),
        (UserDataFormat::Ignition, CLOUD_CONFIG),
        (UserDataFormat::Ignition, TOKEN),
    ]
    .map(|(format, found)| translate(format, &data(found, ""), IDENTITY).unwrap_err());
    insta::assert_snapshot!(said.join("\n"), @"
    its format is ignition; set spec.template.spec.format of the KubeadmConfigTemplate to cloud-config
    its format is cloud-config; set spec.template.spec.format of the KubeadmConfigTemplate to ignition
    its format is unknown; set spec.template.spec.format of the KubeadmConfigTemplate to ignition
    ");
}

#[test]
fn no_token_is_seen_in_a_log_or_in_the_words_of_a_failure() {
    let texts = [
        CLOUD_CONFIG_OF_A_WORKER.to_owned(),
        and("bootcmd: [abcdef.0123456789abcdef]"),
        with("token: abcdef", "token: [abcdef"),
        with(
            "kind: JoinConfiguration",
            "controlPlane: abcdef.0123456789abcdef",
        ),
        CLOUD_CONFIG_OF_A_WORKER.replace("ntp:", "ntp: abcdef.0123456789abcdef\nnot:"),
    ];
    for text in texts {
        let data = data(CLOUD_CONFIG, text);
        let made = translate(UserDataFormat::Bottlerocket, &data, IDENTITY);
        let seen = format!("{data:?} {made:?}");
        assert!(!seen.contains("0123456789abcdef"), "{seen}");
    }
}
