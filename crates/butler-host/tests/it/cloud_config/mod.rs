//! Bootstrap documents as a machine receives them.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use butler_host::cloud_config::{Command, Ignored, MetaData, Owner, UserData, parse, parse_bytes};
use flate2::{Compression, write::GzEncoder};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

const WORKER: &str = include_str!("worker.yaml");
const CONTROL_PLANE: &str = include_str!("control-plane.yaml");

fn machine() -> MetaData {
    MetaData::new("f00d", "cellar-md-0-x7k2p").with("hostname", "cellar-md-0-x7k2p")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

fn text(content: &[u8]) -> &str {
    std::str::from_utf8(content).expect("text")
}

fn ignored_keys(user_data: &UserData) -> Vec<&str> {
    user_data
        .ignored
        .iter()
        .map(|ignored| ignored.key.as_str())
        .collect()
}

#[test]
fn a_worker_joins_under_its_own_name() {
    let user_data = parse(WORKER, &machine()).unwrap();

    let [join, placeholder] = user_data.write_files.as_slice() else {
        panic!("two files: {user_data:?}");
    };
    assert_eq!(join.path, "/run/kubeadm/kubeadm-join-config.yaml");
    assert_eq!(join.permissions, 0o640);
    assert_eq!(join.owner, Owner::default());
    assert!(!join.append);
    assert!(text(&join.content).contains("name: 'cellar-md-0-x7k2p'\n"));
    assert!(text(&join.content).contains("value: 'butler://cellar/f00d'\n"));
    assert!(text(&join.content).starts_with("---\napiVersion: kubeadm.k8s.io/v1beta4\n"));
    assert_eq!(placeholder.path, "/run/cluster-api/placeholder");

    assert_eq!(user_data.boot_commands, []);
    assert_eq!(
        user_data.run_commands,
        [
            "hostname \"cellar-md-0-x7k2p\"",
            "echo \"127.0.0.1 cellar-md-0-x7k2p\" >>/etc/hosts",
            "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml && echo success > /run/cluster-api/bootstrap-success.complete",
        ]
        .map(|line| Command::Shell(line.to_owned()))
    );
    assert_eq!(ignored_keys(&user_data), ["mounts", "ntp", "users"]);
}

#[test]
fn a_control_plane_gets_its_keys_and_starts() {
    let policy = b"apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    let document = CONTROL_PLANE.replace("AUDIT_POLICY", &STANDARD.encode(gzip(policy)));
    let user_data = parse_bytes(document.as_bytes(), &machine()).unwrap();

    assert_eq!(user_data.hostname.as_deref(), Some("cellar-md-0-x7k2p"));
    assert_eq!(
        user_data.boot_commands,
        [Command::Arguments(
            ["mkdir", "-p", "/var/lib/etcd"].map(str::to_owned).to_vec()
        )]
    );
    let files: Vec<(&str, u32, bool)> = user_data
        .write_files
        .iter()
        .map(|file| (file.path.as_str(), file.permissions, file.append))
        .collect();
    assert_eq!(
        files,
        [
            ("/etc/kubernetes/pki/ca.crt", 0o640, false),
            ("/etc/kubernetes/pki/ca.key", 0o600, false),
            ("/etc/kubernetes/audit-policy.yaml", 0o600, false),
            ("/etc/hosts", 0o644, true),
            ("/run/kubeadm/kubeadm.yaml", 0o640, false),
        ]
    );
    assert_eq!(user_data.write_files[2].content, policy);
    assert_eq!(user_data.write_files[2].owner.user, "root");
    assert_eq!(user_data.write_files[2].owner.group, None);
    assert_eq!(text(&user_data.write_files[3].content), "10.213.7.10 api\n");
    assert_eq!(
        user_data.run_commands[1].arguments(),
        ["sleep", "0"],
        "a number is an argument as any other"
    );
    assert_eq!(
        user_data.ignored,
        [Ignored {
            key: "disk_setup".to_owned(),
            reason: "a machine's disk is a directory of the host",
        }]
    );
}

#[test]
fn nobody_sees_the_contents_of_files_in_a_log() {
    let user_data = parse(
        "#cloud-config\nwrite_files: [{path: /etc/key, content: hunter2-secret}]",
        &machine(),
    )
    .unwrap();
    let debug = format!("{user_data:?}");
    assert!(!debug.contains("hunter2"), "{debug}");
    assert!(debug.contains("14 bytes"), "{debug}");

    for broken in [
        "#cloud-config\nwrite_files: [{path: /etc/key, content: [hunter2]}]",
        "#cloud-config\nwrite_files: [{path: /etc/key, encoding: b64, content: \"hunter2!\"}]",
        "#cloud-config\nwrite_files:\n- content: hunter2\n  path: /a\n bad: hunter2\n",
        "#cloud-config\nwrite_files: \"hunter2",
    ] {
        let error = parse(broken, &machine()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

#[test]
fn without_the_template_header_braces_are_text() {
    let user_data = parse(
        "#cloud-config\nruncmd: ['echo {{ x }} {% y %}']\n",
        &machine(),
    )
    .unwrap();
    assert_eq!(
        user_data.run_commands,
        [Command::Shell("echo {{ x }} {% y %}".to_owned())]
    );
}

#[test]
fn a_document_may_be_empty_and_lines_may_end_as_on_windows() {
    for document in [
        "#cloud-config",
        "\n#cloud-config\n",
        "##template:jinja\r\n#cloud-config\r\nruncmd:\r\n",
        "#cloud-config\nwrite_files: []\nbootcmd: ~\n",
    ] {
        assert_eq!(parse(document, &machine()).unwrap(), UserData::default());
    }
}

#[test]
fn what_is_unknown_is_ignored_and_said() {
    let user_data = parse(
        "#cloud-config\nsomething: 1\nwrite_files: [{path: /a, defer: true, colour: red}, {path: /b}]\n",
        &machine(),
    )
    .unwrap();
    assert_eq!(
        ignored_keys(&user_data),
        ["something", "write_files[0].colour"]
    );
    let paths: Vec<&str> = user_data
        .write_files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(paths, ["/b", "/a"], "what is deferred comes last");
}

#[test]
fn bad_input_is_told_its_place_and_its_rule() {
    let permissions = "write the permissions as octal digits in quotes, such as \"0640\": as a number they would be read as decimal";
    let command = "a command is a text for the shell, or a list of a program and its arguments; quote a text that contains \": \" or begins with \"[\"";
    for (document, place, rule) in [
        (
            "[]",
            "the top",
            "it must be a mapping of keys such as write_files",
        ),
        ("write_files: 1", "write_files", "it must be a list"),
        (
            "write_files: [x]",
            "write_files[0]",
            "it must be a mapping with a path",
        ),
        (
            "write_files: [{content: x}]",
            "write_files[0].path",
            "it is missing",
        ),
        (
            "write_files: [{path: etc/x}]",
            "write_files[0].path",
            "it must be the absolute path of a file",
        ),
        (
            "write_files: [{path: /etc/}]",
            "write_files[0].path",
            "it must be the absolute path of a file",
        ),
        (
            "write_files: [{path: /etc/../x}]",
            "write_files[0].path",
            "it must not climb with \"..\"",
        ),
        (
            "write_files: [{path: /a}, {path: /b, permissions: 0640}]",
            "write_files[1].permissions",
            permissions,
        ),
        (
            "write_files: [{path: /a, permissions: '0648'}]",
            "write_files[0].permissions",
            permissions,
        ),
        (
            "write_files: [{path: /a, permissions: '+644'}]",
            "write_files[0].permissions",
            permissions,
        ),
        (
            "write_files: [{path: /a, permissions: '77777'}]",
            "write_files[0].permissions",
            permissions,
        ),
        (
            "write_files: [{path: /a, permissions: ''}]",
            "write_files[0].permissions",
            permissions,
        ),
        (
            "write_files: [{path: /a, owner: 'a:b:c'}]",
            "write_files[0].owner",
            "write it as user:group",
        ),
        (
            "write_files: [{path: /a, owner: ':root'}]",
            "write_files[0].owner",
            "write it as user:group",
        ),
        (
            "write_files: [{path: /a, append: perhaps}]",
            "write_files[0].append",
            "it must be true or false",
        ),
        (
            "write_files: [{path: /a, content: 5}]",
            "write_files[0].content",
            "it must be a text; put it in quotes",
        ),
        (
            "write_files: [{path: /a, source: {uri: 'http://x'}}]",
            "write_files[0].source",
            "a machine fetches no files; give the content",
        ),
        (
            "write_files: [{path: /a, encoding: rot13, content: x}]",
            "write_files[0].encoding",
            "use text/plain, b64, base64, gz, gzip, gz+b64, gz+base64, gzip+b64 or gzip+base64",
        ),
        (
            "write_files: [{path: /a, encoding: b64, content: '#'}]",
            "write_files[0].content",
            "the encoding says base64, and it is not (standard alphabet, padded)",
        ),
        (
            "write_files: [{path: /a, encoding: gz+b64, content: QUJD}]",
            "write_files[0].content",
            "the encoding says gzip, and it is not, or it is cut off",
        ),
        (
            "write_files: [{path: /a, encoding: gz, content: ABC}]",
            "write_files[0].content",
            "the encoding says gzip, and it is not, or it is cut off; compressed bytes are no text: write them as gz+b64",
        ),
        ("runcmd: ls", "runcmd", "it must be a list"),
        ("runcmd: [ls, {a: b}]", "runcmd[1]", command),
        ("runcmd: [~]", "runcmd[0]", command),
        (
            "bootcmd: [[]]",
            "bootcmd[0]",
            "the list is empty; name a program",
        ),
        (
            "runcmd: [[ls, [x]]]",
            "runcmd[0][1]",
            "an argument is a text or a number",
        ),
        (
            "hostname: ''",
            "hostname",
            "it must be a text that is not empty",
        ),
    ] {
        let error = parse(&format!("#cloud-config\n{document}\n"), &machine()).expect_err(document);
        assert_eq!(
            error.to_string(),
            format!("{place} of user data is not valid: {rule}"),
            "{document}"
        );
    }
}

#[test]
fn other_kinds_of_user_data_are_refused_by_name() {
    for (text, found) in [
        ("", "nothing"),
        ("#!/bin/sh\necho", "a script"),
        ("{\"ignition\": {}}", "JSON (Ignition, perhaps)"),
        (
            "Content-Type: multipart/mixed; boundary=x",
            "a multipart message",
        ),
        ("#include\nhttp://x", "another header"),
        ("runcmd: []", "no header"),
        (
            "## template: jinja\n## template: jinja\n#cloud-config",
            "a second template header",
        ),
    ] {
        let words = parse(text, &machine()).expect_err(text).to_string();
        assert!(
            words.starts_with(&format!("user data begins with {found},")),
            "{words}"
        );
    }
    let compressed = parse_bytes(&gzip(b"#cloud-config"), &machine()).unwrap_err();
    assert!(
        compressed.to_string().contains("not compressed"),
        "{compressed}"
    );
}

proptest! {
    #[test]
    fn what_was_encoded_is_written_byte_for_byte(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        compressed in any::<bool>(),
        wrapped in any::<bool>(),
    ) {
        let (encoding, payload) = if compressed {
            ("gzip+base64", gzip(&bytes))
        } else {
            ("b64", bytes.clone())
        };
        let encoded = STANDARD.encode(payload);
        let lines: Vec<&str> = if wrapped && !encoded.is_empty() {
            encoded.as_bytes().chunks(76).map(text).collect()
        } else {
            vec![&encoded]
        };
        let document = format!(
            "#cloud-config\nwrite_files:\n- path: /a\n  encoding: {encoding}\n  content: |\n    {}\n",
            lines.join("\n    ")
        );
        let user_data = parse(&document, &machine()).unwrap();
        prop_assert_eq!(&user_data.write_files[0].content, &bytes);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,200}") {
        let _ = parse(&format!("## template: jinja\n#cloud-config\n{text}"), &machine());
    }
}
