//! Progress as plain lines, for logs and pipes.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::BinaryBytes;

use super::{Event, ImageEvent, Progress, duration, image_line, line};
use crate::asset::Asset;

/// How often a long download or build says that it goes on.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// One line for each thing worth knowing, and a sign of life from what takes long.
pub struct LineProgress<W> {
    state: Mutex<State<W>>,
}

struct State<W> {
    writer: W,
    running: BTreeMap<Asset, Running>,
}

struct Running {
    started: Instant,
    said: Instant,
    steps: u64,
}

impl<W: Write + Send> LineProgress<W> {
    /// Writes lines to a writer.
    pub fn new(writer: W) -> Self {
        Self {
            state: Mutex::new(State {
                writer,
                running: BTreeMap::new(),
            }),
        }
    }
}

impl<W> fmt::Debug for LineProgress<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LineProgress")
            .finish_non_exhaustive()
    }
}

impl<W: Write + Send> Progress for LineProgress<W> {
    fn report(&self, asset: &Asset, event: Event<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = state.text(asset, event, Instant::now()) {
            // A closed standard error is no reason to stop a build.
            drop(writeln!(state.writer, "{text}"));
        }
    }

    fn report_image(&self, reference: &str, event: ImageEvent) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = image_line(reference, event) {
            drop(writeln!(state.writer, "{text}"));
        }
    }
}

impl<W> State<W> {
    fn text(&mut self, asset: &Asset, event: Event<'_>, now: Instant) -> Option<String> {
        match event {
            Event::Started { .. } => {
                let running = Running {
                    started: now,
                    said: now,
                    steps: 0,
                };
                self.running.insert(asset.clone(), running);
            }
            Event::Finished { .. } => {
                self.running.remove(asset);
            }
            Event::Advanced { .. } | Event::Step { .. } | Event::Ticked => {
                let running = self.running.get_mut(asset)?;
                running.steps += u64::from(matches!(event, Event::Step { .. }));
                if now.duration_since(running.said) < SIGN_OF_LIFE {
                    return None;
                }
                running.said = now;
                let done = match event {
                    Event::Advanced { bytes } => format!(", {}", BinaryBytes(bytes)),
                    _ if running.steps > 0 => format!(", {} packages", running.steps),
                    _ => String::new(),
                };
                let elapsed = duration(now.duration_since(running.started));
                return Some(format!("{asset}: still going after {elapsed}{done}"));
            }
            Event::Waiting { .. } | Event::Skipped { .. } => {}
        }
        line(asset, event)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::component::Component;
    use crate::settings::Source;

    #[test]
    fn a_build_is_told_from_start_to_end() {
        let asset = Asset::default_of(Component::Etcd);
        let mut output = Vec::new();
        let progress = LineProgress::new(&mut output);
        for event in [
            Event::Skipped {
                source: Source::Download,
                reason: "https://mirror.example cannot be reached",
            },
            Event::Started {
                source: Source::Build,
                from: "go.etcd.io/etcd/server/v3",
                size: None,
            },
            Event::Step { text: "fmt" },
            Event::Finished {
                source: Source::Build,
                size: 27 * 1024 * 1024,
                elapsed: Duration::from_secs(115),
            },
        ] {
            progress.report(&asset, event);
        }
        drop(progress);
        assert_eq!(
            String::from_utf8(output).unwrap(),
            "etcd 3.6.16: no download: https://mirror.example cannot be reached\n\
             etcd 3.6.16: build of go.etcd.io/etcd/server/v3\n\
             etcd 3.6.16: build finished, 27.00 MiB in 1m55s\n"
        );
    }

    #[test]
    fn an_image_is_told_once_when_it_was_made() {
        let mut output = Vec::new();
        let progress = LineProgress::new(&mut output);
        for event in [
            ImageEvent::Started,
            ImageEvent::Made {
                size: 1024 * 1024,
                elapsed: Duration::from_millis(1500),
            },
            ImageEvent::Found,
        ] {
            progress.report_image("registry.k8s.io/pause:3.10", event);
        }
        drop(progress);
        assert_eq!(
            String::from_utf8(output).unwrap(),
            "registry.k8s.io/pause:3.10: image made, 1.00 MiB in 1.5s\n"
        );
    }

    #[test]
    fn a_long_build_gives_a_sign_of_life() {
        let asset = Asset::default_of(Component::Etcd);
        let mut state = State {
            writer: (),
            running: BTreeMap::new(),
        };
        let start = Instant::now();
        let started = Event::Started {
            source: Source::Build,
            from: "go.etcd.io/etcd/server/v3",
            size: None,
        };
        state.text(&asset, started, start);
        let step = Event::Step { text: "fmt" };
        assert_eq!(
            state.text(&asset, step, start + Duration::from_secs(1)),
            None
        );
        assert_eq!(
            state.text(&asset, step, start + Duration::from_secs(16)),
            Some("etcd 3.6.16: still going after 16.0s, 2 packages".to_owned())
        );
        let tick = |seconds| (Event::Ticked, start + Duration::from_secs(seconds));
        let (event, soon) = tick(17);
        assert_eq!(state.text(&asset, event, soon), None);
        let (event, later) = tick(40);
        assert_eq!(
            state.text(&asset, event, later),
            Some("etcd 3.6.16: still going after 40.0s, 2 packages".to_owned())
        );
    }
}
