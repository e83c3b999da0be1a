//! Logs that do not grow without limit: nobody else in a machine looks after them, and its disk is the host's.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{Console, pause};

/// How often it is looked.
const PERIOD: Duration = Duration::from_secs(2);
/// What a service wrote longer ago than this and as much again is forgotten.
const LARGEST_LOG: u64 = 16 * 1024 * 1024;
/// The console is for people, and what happens there is rare.
const LARGEST_CONSOLE: u64 = 1024 * 1024;
const KEPT_OF_CONSOLE: u64 = 256 * 1024;
/// The console, whatever it is: a file on the host that has no path in here.
const CONSOLE: &str = "/proc/self/fd/1";

/// Keeps logs small until the machine goes down.
pub(super) async fn keep_small(logs: &[PathBuf], console: &Console, stop: &CancellationToken) {
    while pause(PERIOD, stop).await {
        for log in logs {
            if let Err(error) = rotate(log, LARGEST_LOG) {
                console.say(format!("{} could not be cut: {error}", log.display()));
            }
        }
        // One that is no file has no size, and nobody could be told that it cannot be cut.
        let _ = keep_end(Path::new(CONSOLE), LARGEST_CONSOLE, KEPT_OF_CONSOLE);
    }
}

/// Moves what is in a log to a second file. It is emptied and not replaced, since its writer has it open.
fn rotate(log: &Path, largest: u64) -> io::Result<()> {
    let size = match fs::metadata(log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?.len(),
    };
    if size <= largest {
        return Ok(());
    }
    let mut name = log.file_name().unwrap_or_default().to_owned();
    name.push(".1");
    fs::copy(log, log.with_file_name(name))?;
    OpenOptions::new().write(true).open(log)?.set_len(0)
}

/// Forgets the beginning of a log. All of its writers append, so they go on behind what is kept.
fn keep_end(log: &Path, largest: u64, kept: u64) -> io::Result<()> {
    if fs::metadata(log)?.len() <= largest {
        return Ok(());
    }
    let mut file = OpenOptions::new().read(true).append(true).open(log)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(end.saturating_sub(kept)))?;
    let mut text = Vec::new();
    (&mut file).take(kept).read_to_end(&mut text)?;
    let line = text.iter().position(|byte| *byte == b'\n');
    file.set_len(0)?;
    file.write_all(b"[...]\n")?;
    file.write_all(line.map_or(text.as_slice(), |line| &text[line + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_writes_much_keeps_what_it_wrote_last() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("kubelet.log");
        rotate(&log, 4).unwrap();
        let mut writer = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        writer.write_all(b"one\n").unwrap();
        rotate(&log, 4).unwrap();
        writer.write_all(b"two\n").unwrap();
        rotate(&log, 4).unwrap();
        writer.write_all(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "three\n");
        let old = directory.path().join("kubelet.log.1");
        assert_eq!(fs::read_to_string(old).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_console_keeps_whole_lines_of_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("console.log");
        fs::write(&log, "first line\nsecond line\nthird line\n").unwrap();
        keep_end(&log, 100, 15).unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 3);
        keep_end(&log, 20, 15).unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "[...]\nthird line\n");
    }
}
