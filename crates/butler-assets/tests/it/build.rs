//! Builds with the real Go toolchain.

use std::fs;
use std::path::PathBuf;

use butler_assets::{Source, Sources};
use pretty_assertions::assert_eq;

use crate::fixture::{Fixture, Recorder, apiserver, printed_by};
use crate::mirror::Mirror;

#[tokio::test]
async fn unreachable_mirror_falls_through_to_a_build() {
    let fixture = Fixture::new(&Source::ALL)
        .with_modules()
        .with_mirror(&Mirror::nowhere());
    let recorder = Recorder::default();
    let path = fixture
        .resolver()
        .resolve_with(&apiserver("1.0.0"), &recorder)
        .await
        .unwrap();
    assert_eq!(printed_by(&path), "1.0.0");
    assert_eq!(
        recorder.events(),
        ["skipped download", "started build", "finished build"]
    );
}

#[tokio::test]
async fn closed_network_is_told_once() {
    let fixture = Fixture::new(&[Source::Download]).with_mirror(&Mirror::nowhere());
    let recorder = Recorder::default();
    for version in ["1.0.0", "2.0.0"] {
        let error = fixture
            .resolver()
            .resolve_with(&apiserver(version), &recorder)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("cannot be reached"), "{error}");
    }
    assert_eq!(recorder.events(), ["skipped download"]);
}

#[tokio::test]
async fn version_the_mirror_does_not_have_is_built() {
    let mirror = Mirror::start();
    let fixture = Fixture::new(&Source::ALL)
        .with_modules()
        .with_mirror(&mirror.base);
    let path = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap();
    assert_eq!(printed_by(&path), "1.0.0");
}

#[tokio::test]
async fn two_versions_live_side_by_side() {
    let fixture = Fixture::new(&[Source::Cache, Source::Build]).with_modules();
    let assets = [apiserver("1.0.0"), apiserver("2.0.0")];
    let recorder = Recorder::default();
    let found = fixture
        .resolver()
        .resolve_all(&assets, &recorder)
        .await
        .unwrap();
    let printed: Vec<String> = found.values().map(|path| printed_by(path)).collect();
    assert_eq!(printed, ["1.0.0", "2.0.0"]);
}

#[tokio::test]
async fn two_at_once_build_it_once() {
    let fixture = Fixture::new(&[Source::Cache, Source::Build]).with_modules();
    let recorder = Recorder::default();
    let asset = apiserver("1.0.0");
    let (one, other) = (fixture.resolver(), fixture.resolver());
    let (first, second) = tokio::join!(
        one.resolve_with(&asset, &recorder),
        other.resolve_with(&asset, &recorder)
    );
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(
        recorder.events(),
        [
            "started build",
            "waiting",
            "finished build",
            "finished cache"
        ]
    );
}

#[tokio::test]
async fn changed_pin_builds_anew_and_an_unchanged_one_does_not() {
    let fixture = Fixture::new(&[Source::Cache, Source::Build]).with_modules();
    let recorder = Recorder::default();
    let resolver = fixture.resolver();
    resolver
        .resolve_with(&apiserver("1.0.0"), &recorder)
        .await
        .unwrap();
    resolver
        .resolve_with(&apiserver("1.0.0"), &recorder)
        .await
        .unwrap();
    let module = fixture.deps("1.0.0").join("go.mod");
    fs::write(&module, "module hello.example\n\ngo 1.24.1\n").unwrap();
    resolver
        .resolve_with(&apiserver("1.0.0"), &recorder)
        .await
        .unwrap();
    assert_eq!(
        recorder.events(),
        [
            "started build",
            "finished build",
            "finished cache",
            "started build",
            "finished build",
        ]
    );
}

#[tokio::test]
async fn without_go_the_ways_out_are_named() {
    let mut fixture = Fixture::new(&Source::ALL)
        .with_modules()
        .with_mirror(&Mirror::nowhere());
    fixture.settings.go = PathBuf::from("go-that-is-not-installed");
    let error = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap_err()
        .to_string();
    for part in [
        "kube-apiserver 1.0.0 could not be had",
        "directory: none is given; BUTLER_ASSETS_DIR can name one",
        "cache: nothing yet",
        "cannot be reached",
        "BUTLER_ASSET_MIRROR",
        "there is no Go toolchain: go-that-is-not-installed was not found. Install Go 1.24 or newer",
    ] {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[tokio::test]
async fn version_without_a_pin_is_told_the_known_ones() {
    let fixture = Fixture::new(&[Source::Cache, Source::Build]).with_modules();
    let error = fixture
        .resolver()
        .resolve(&apiserver("3.0.0"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("3.0.0") && error.contains("1.0.0, 2.0.0"),
        "{error}"
    );
}

#[tokio::test]
async fn program_that_does_not_compile_shows_what_the_compiler_said() {
    let fixture = Fixture::new(&[Source::Cache, Source::Build]).with_modules();
    fs::write(
        fixture.deps("1.0.0").join("main.go"),
        "package main\n\nfunc main() { nonsense() }\n",
    )
    .unwrap();
    let error = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("undefined: nonsense"), "{error}");
    // Nothing half-made is left to be found.
    let mut cached_only = Fixture::new(&[]);
    cached_only.settings = fixture.settings.clone();
    cached_only.settings.sources = [Source::Cache].into_iter().collect::<Sources>();
    assert!(
        cached_only
            .resolver()
            .resolve(&apiserver("1.0.0"))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn offline_no_mirror_is_asked() {
    let mirror = Mirror::start();
    mirror.publish(crate::fixture::RAW_PATH, b"binary");
    let mut fixture = Fixture::new(&Source::ALL)
        .with_modules()
        .with_mirror(&mirror.base);
    fixture.settings.offline = true;
    let path = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap();
    assert_eq!(printed_by(&path), "1.0.0");
    assert_eq!(mirror.requests(), []);
}
