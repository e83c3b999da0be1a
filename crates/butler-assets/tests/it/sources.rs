//! The user's directory, and what is said when nothing helps.

use std::fs;

use butler_assets::{Error, Source};
use pretty_assertions::assert_eq;

use crate::fixture::{Fixture, RAW_PATH, Recorder, apiserver, write_executable};
use crate::mirror::Mirror;

#[tokio::test]
async fn directory_of_the_user_wins_and_a_versioned_file_in_it_first() {
    let mirror = Mirror::start();
    mirror.publish(RAW_PATH, b"published");
    let mut fixture = Fixture::new(&Source::ALL).with_mirror(&mirror.base);
    // It is in the cache already, and still the directory wins.
    fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap();
    let directory = fixture.directory.path().join("mine");
    write_executable(&directory.join("kube-apiserver"), "any version");
    write_executable(&directory.join("2.0.0/kube-apiserver"), "second version");
    fixture.settings.directory = Some(directory.clone());
    let recorder = Recorder::default();
    let assets = [apiserver("1.0.0"), apiserver("2.0.0")];
    let found = fixture
        .resolver()
        .resolve_all(&assets, &recorder)
        .await
        .unwrap();
    let paths: Vec<_> = found.into_values().collect();
    assert_eq!(
        paths,
        [
            directory.join("kube-apiserver"),
            directory.join("2.0.0/kube-apiserver")
        ]
    );
    assert_eq!(
        recorder.events(),
        ["finished directory", "finished directory"]
    );
}

#[tokio::test]
async fn file_in_the_directory_that_cannot_run_is_not_passed_over_in_silence() {
    let mut fixture = Fixture::new(&Source::ALL);
    let directory = fixture.directory.path().join("mine");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("kube-apiserver"), "no mode").unwrap();
    fixture.settings.directory = Some(directory);
    let error = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotExecutable { .. }), "{error}");
    assert!(error.to_string().contains("chmod +x"), "{error}");
}

#[tokio::test]
async fn sources_that_are_not_allowed_are_not_used() {
    let mirror = Mirror::start();
    mirror.publish(RAW_PATH, b"published");
    let fixture = Fixture::new(&[Source::Cache])
        .with_modules()
        .with_mirror(&mirror.base);
    let error = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap_err();
    let Error::Unavailable { attempts, .. } = error else {
        panic!("{error}");
    };
    let sources: Vec<Source> = attempts.iter().map(|attempt| attempt.source).collect();
    assert_eq!(sources, [Source::Cache]);
    assert_eq!(mirror.requests(), []);
}

#[tokio::test]
async fn without_the_folder_of_modules_the_variable_is_named() {
    let fixture = Fixture::new(&[Source::Build]);
    let error = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("BUTLER_DEPS"), "{error}");
}
