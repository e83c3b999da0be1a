//! Hosts that cannot become a management cluster: each is told why and what to do, and nothing is left on it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Output},
};

use butler_assets::Settings;
use butler_testkit::{requires, skip::Requirement};

use crate::{
    egress::World,
    kit::{Installation, alone, butler, words},
    story::unfit,
    traces::Traces,
};

/// Tells a bad day on a host that would be a good one otherwise, and demands that nothing is left.
fn tell(name: &'static str, range: &'static str, story: impl FnOnce(Installation)) {
    let _alone = alone();
    let unfit = unfit();
    requires!(Requirement::new(unfit.is_none(), unfit.unwrap_or_default()));
    let before = Traces::look();
    story(Installation::new(name, range));
    before.assert_unchanged();
}

fn up(installation: &Installation) -> Vec<String> {
    let arguments = ["up", "--range", installation.range, "--butler-binary"];
    let mut arguments: Vec<String> = arguments.map(ToOwned::to_owned).to_vec();
    arguments.push(butler());
    arguments
}

fn refused(installation: &Installation) -> String {
    let arguments = up(installation);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    installation.refused(&arguments)
}

/// Runs `up` behind a script of the shell, in mounts of its own.
fn behind(installation: &Installation, script: &str) -> Output {
    let up = installation.butleradm(&[]);
    Command::new("unshare")
        .args(["--mount", "sh", "-c"])
        .arg(format!("{script}\nexec \"$@\""))
        .arg("sh")
        .arg(up.get_program())
        .args(up.get_args())
        .args(self::up(installation))
        .envs(
            up.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .output()
        .unwrap()
}

#[test]
fn who_is_not_root_is_told_to_become_it() {
    tell("nobody", "10.213.93.0/24", |installation| {
        // Where anybody may run it, and nobody but root may keep state.
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = place.path().join("butleradm");
        fs::copy(env!("CARGO_BIN_EXE_butleradm"), &program).unwrap();
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args(["--name", installation.name, "--state-directory"])
            .arg(place.path().join("state"))
            .args(["up", "--range", installation.range, "--butler-binary"])
            .arg(&program)
            .env("HOME", place.path())
            .env("BUTLER_CACHE", place.path().join("cache"))
            .output()
            .unwrap();
        let said = words(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("run it as root"), "{said}");
        assert!(!place.path().join("state").exists());
    });
}

#[test]
fn without_runc_the_package_that_has_it_is_named() {
    tell("norunc", "10.213.93.0/24", |installation| {
        let hide =
            "for place in /usr/sbin/runc /usr/bin/runc /usr/local/bin/runc /usr/local/sbin/runc; do
            if [ -e $place ]; then mount --bind /dev/null $place; fi
        done";
        let output = behind(&installation, hide);
        let said = words(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("apt-get install runc"), "{said}");
    });
}

#[test]
fn without_space_nothing_is_begun() {
    tell("nospace", "10.213.93.0/24", |installation| {
        fs::create_dir_all(installation.state()).unwrap();
        let small = format!(
            "mount -t tmpfs -o size=64m tmpfs {}",
            installation.state().display()
        );
        let output = behind(&installation, &small);
        let said = words(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("5.0 GiB free where the state is kept are needed"),
            "{said}"
        );
    });
}

#[test]
fn without_what_cluster_api_needs_nothing_is_begun() {
    tell("nocapi", "10.213.93.0/24", |installation| {
        let cache = Settings::from_env().unwrap().cache;
        let hide = format!(
            "mount -t tmpfs tmpfs {}/assets/manifests && export BUTLER_GO=/bin/false",
            cache.display()
        );
        let output = behind(&installation, &hide);
        let said = words(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let cause = "the manifests of Cluster API could not be had";
        assert!(said.contains(cause), "{said}");
        assert!(!said.contains("Network"), "{said}");
    });
}

#[test]
fn a_range_that_is_in_use_is_left_to_its_users() {
    tell("range", "10.99.0.0/24", |installation| {
        let world = World::new();
        let installation = installation.within(&world.host);
        let said = refused(&installation);
        assert!(
            said.contains("used by the route 10.99.0.0/24 dev up0"),
            "{said}"
        );
        assert!(said.contains("choose another one with --range"), "{said}");
    });
}

#[test]
fn a_port_that_is_in_use_is_left_to_its_users() {
    tell("port", "10.213.93.0/24", |installation| {
        let mut world = World::new();
        world.serve_on_host("5000");
        let installation = installation.within(&world.host);
        crate::kit::eventually("somebody listens", || {
            let output = installation
                .command(env!("CARGO_BIN_EXE_butleradm-test-echo"))
                .args(["reach", "127.0.0.1:5000"])
                .output()
                .unwrap();
            if output.status.success() {
                Ok(())
            } else {
                Err(words(&output))
            }
        });
        let said = refused(&installation);
        assert!(said.contains("in use: port 5000 (TCP)"), "{said}");
        assert!(said.contains("stop what listens there"), "{said}");
    });
}

#[test]
fn an_up_that_fails_on_the_way_is_taken_down_without_a_trace() {
    tell("halfway", "10.213.93.0/24", |installation| {
        let mut arguments = up(&installation);
        arguments.extend(["--timeout", "12s"].map(ToOwned::to_owned));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = installation.refused(&arguments);
        assert!(
            said.contains("run it again, it goes on where it was"),
            "{said}"
        );
        installation.well(&["down"]);
    });
}
