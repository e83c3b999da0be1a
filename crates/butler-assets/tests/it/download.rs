//! Downloads: verified, refused, continued.

use std::fs;
use std::io::Write;

use butler_assets::{Asset, Component, Digest, Error, Source};
use flate2::Compression;
use flate2::write::GzEncoder;
use pretty_assertions::assert_eq;

use crate::fixture::{ARCHIVE_PATH, Fixture, RAW_PATH, Recorder, apiserver};
use crate::mirror::{Mirror, Request};

/// More than a connection's buffers hold, and different everywhere.
fn large() -> Vec<u8> {
    (0_u32..500_000).flat_map(u32::to_le_bytes).collect()
}

fn downloads_only(mirror: &Mirror) -> Fixture {
    Fixture::new(&[Source::Cache, Source::Download]).with_mirror(&mirror.base)
}

fn request(from: Option<usize>, sent: usize) -> Request {
    Request {
        path: format!("/{RAW_PATH}"),
        from,
        sent,
    }
}

#[tokio::test]
async fn published_binary_is_verified_and_then_comes_from_the_cache() {
    let mirror = Mirror::start();
    mirror.publish(RAW_PATH, b"binary");
    let fixture = downloads_only(&mirror);
    let recorder = Recorder::default();
    let first = fixture
        .resolver()
        .resolve_with(&apiserver("1.0.0"), &recorder)
        .await
        .unwrap();
    let second = fixture
        .resolver()
        .resolve_with(&apiserver("1.0.0"), &recorder)
        .await
        .unwrap();
    assert_eq!(first, second);
    assert_eq!(first.file_name().unwrap(), "kube-apiserver");
    assert_eq!(fs::read(&first).unwrap(), b"binary");
    assert_eq!(
        recorder.events(),
        ["started download", "finished download", "finished cache"]
    );
    assert_eq!(mirror.requests(), [request(None, 6)]);
    fixture
        .resolver()
        .verify(&apiserver("1.0.0"))
        .await
        .unwrap();
}

#[tokio::test]
async fn binary_that_is_not_what_was_promised_is_refused_with_the_way_out() {
    let mirror = Mirror::start();
    mirror.publish(RAW_PATH, b"binary");
    mirror.serve(RAW_PATH, b"tampered");
    // A build could help, but a wrong checksum is for a person to look at.
    let fixture = Fixture::new(&[Source::Cache, Source::Download, Source::Build])
        .with_modules()
        .with_mirror(&mirror.base);
    let error = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::ChecksumMismatch { .. }), "{text}");
    for part in [
        Digest::of(b"binary").as_hex(),
        Digest::of(b"tampered").as_hex(),
        &format!("{}/{RAW_PATH}", mirror.base),
        "BUTLER_ASSET_MIRROR",
        "BUTLER_ASSETS_DIR",
    ] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
    // Nothing of it stays, so the repaired mirror works.
    mirror.serve(RAW_PATH, b"binary");
    let path = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap();
    assert_eq!(fs::read(path).unwrap(), b"binary");
}

#[tokio::test]
async fn broken_download_continues_where_it_was() {
    let mirror = Mirror::start();
    let content = large();
    mirror.publish(RAW_PATH, &content);
    mirror.break_off(600_000, 2);
    let path = downloads_only(&mirror)
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await;
    // The directory of the fixture is gone by now; the requests tell the story.
    assert!(path.is_ok(), "{path:?}");
    assert_eq!(
        mirror.requests(),
        [
            request(None, 600_000),
            request(Some(600_000), 600_000),
            request(Some(1_200_000), 800_000),
        ]
    );
}

#[tokio::test]
async fn download_of_an_earlier_run_is_continued() {
    let mirror = Mirror::start();
    let content = large();
    mirror.publish(RAW_PATH, &content);
    mirror.break_off(100_000, 5);
    let fixture = downloads_only(&mirror);
    let error = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is kept and continued next time"),
        "{error}"
    );
    let path = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap();
    assert_eq!(fs::read(path).unwrap(), content);
    assert_eq!(
        mirror.requests().last(),
        Some(&request(Some(500_000), 1_500_000))
    );
    let sent: usize = mirror.requests().iter().map(|request| request.sent).sum();
    assert_eq!(sent, content.len());
}

#[tokio::test]
async fn damaged_beginning_of_an_earlier_run_is_thrown_away() {
    let mirror = Mirror::start();
    let content = large();
    mirror.publish(RAW_PATH, &content);
    let fixture = downloads_only(&mirror);
    let partial = fixture.settings.cache.join("assets/partial");
    fs::create_dir_all(&partial).unwrap();
    fs::write(
        partial.join(Digest::of(&content).as_hex()),
        b"something else",
    )
    .unwrap();
    let path = fixture
        .resolver()
        .resolve(&apiserver("1.0.0"))
        .await
        .unwrap();
    assert_eq!(fs::read(path).unwrap(), content);
}

#[tokio::test]
async fn binaries_of_one_archive_share_its_download() {
    let mirror = Mirror::start();
    let archive = archive(&[("./bin/containerd", "daemon"), ("./bin/ctr", "client")]);
    mirror.serve(ARCHIVE_PATH, &archive);
    let sums = format!(
        "{}  other.tar.gz\n{}  containerd-1.0.0.tar.gz\n",
        Digest::of(b""),
        Digest::of(&archive)
    );
    mirror.serve("containerd/v1.0.0/SHA256SUMS", sums.as_bytes());
    let fixture = downloads_only(&mirror);
    let assets = [Component::Containerd, Component::Ctr]
        .map(|component| Asset::new(component, "1.0.0".parse().unwrap()));
    let recorder = Recorder::default();
    let found = fixture
        .resolver()
        .resolve_all(&assets, &recorder)
        .await
        .unwrap();
    let contents: Vec<String> = found
        .values()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(contents, ["daemon", "client"]);
    assert_eq!(mirror.requests().len(), 1);
}

#[tokio::test]
async fn archive_without_the_binary_is_no_download() {
    let mirror = Mirror::start();
    let archive = archive(&[("bin/other", "other")]);
    mirror.serve(ARCHIVE_PATH, &archive);
    mirror.serve(
        "containerd/v1.0.0/SHA256SUMS",
        format!("{}  containerd-1.0.0.tar.gz", Digest::of(&archive)).as_bytes(),
    );
    let asset = Asset::new(Component::Ctr, "1.0.0".parse().unwrap());
    let error = downloads_only(&mirror)
        .resolver()
        .resolve(&asset)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no member bin/ctr"), "{error}");
}

fn archive(members: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len().try_into().unwrap());
        header.set_mode(0o755);
        builder
            .append_data(&mut header, name, content.as_bytes())
            .unwrap();
    }
    let mut encoder = builder.into_inner().unwrap();
    encoder.flush().unwrap();
    encoder.finish().unwrap()
}
