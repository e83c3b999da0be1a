//! What is told about assets while they are found. The library reports events; these types show them.

mod lines;
mod terminal;

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::BinaryBytes;

pub use lines::LineProgress;
pub use terminal::TerminalProgress;

use crate::asset::Asset;
use crate::settings::Source;

/// Something that happened to an asset on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Somebody else does what is needed here.
    Waiting {
        /// What is waited for.
        reason: &'a str,
    },
    /// A source did not help, and the next one is tried.
    Skipped {
        /// The source.
        source: Source,
        /// Why.
        reason: &'a str,
    },
    /// A download or a build begins, or a download continues.
    Started {
        /// The source.
        source: Source,
        /// The address, or the Go package.
        from: &'a str,
        /// How many bytes it will be, if that is known.
        size: Option<u64>,
    },
    /// The download grew.
    Advanced {
        /// How many bytes are there now.
        bytes: u64,
    },
    /// The build took a step.
    Step {
        /// What it works on, usually a Go package.
        text: &'a str,
    },
    /// Some time passed in a build; linking a large binary takes long without a step.
    Ticked,
    /// The asset is there.
    Finished {
        /// Where it came from.
        source: Source,
        /// How large it is.
        size: u64,
        /// How long it took.
        elapsed: Duration,
    },
}

/// Something that happened to an image archive on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageEvent {
    /// Another process makes the same one.
    Waiting,
    /// It is being made.
    Started,
    /// It was there already.
    Found,
    /// It was made.
    Made {
        /// How large it is.
        size: u64,
        /// How long it took.
        elapsed: Duration,
    },
}

/// Somebody who wants to know what happens.
pub trait Progress: Send + Sync {
    /// Takes note of an event. It is called often and must not wait.
    fn report(&self, asset: &Asset, event: Event<'_>);

    /// Takes note of what happened to the archive of an image. It must not wait.
    fn report_image(&self, _reference: &str, _event: ImageEvent) {}
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _asset: &Asset, _event: Event<'_>) {}
}

/// Bars on standard error if that is a terminal, lines otherwise.
pub fn stderr_progress() -> Box<dyn Progress> {
    if io::stderr().is_terminal() {
        Box::new(TerminalProgress::new())
    } else {
        Box::new(LineProgress::new(io::stderr()))
    }
}

/// The one line for an event that deserves one in every kind of display.
fn line(asset: &Asset, event: Event<'_>) -> Option<String> {
    match event {
        Event::Waiting { reason } => Some(format!("{asset}: waiting for {reason}")),
        Event::Skipped { source, reason } => Some(format!("{asset}: no {source}: {reason}")),
        Event::Started { source, from, size } => {
            let size = size.map_or_else(String::new, |size| format!(" ({})", BinaryBytes(size)));
            Some(format!("{asset}: {source} of {from}{size}"))
        }
        Event::Finished {
            source,
            size,
            elapsed,
        } => {
            let size = BinaryBytes(size);
            match source {
                Source::Directory | Source::Cache => {
                    Some(format!("{asset}: from the {source}, {size}"))
                }
                Source::Download | Source::Build => Some(format!(
                    "{asset}: {source} finished, {size} in {}",
                    duration(elapsed)
                )),
            }
        }
        Event::Advanced { .. } | Event::Step { .. } | Event::Ticked => None,
    }
}

/// The one line for what happened to an image, if it deserves one.
fn image_line(reference: &str, event: ImageEvent) -> Option<String> {
    match event {
        ImageEvent::Waiting => Some(format!(
            "{reference}: waiting for another process that makes it"
        )),
        ImageEvent::Made { size, elapsed } => Some(format!(
            "{reference}: image made, {} in {}",
            BinaryBytes(size),
            duration(elapsed)
        )),
        // Seconds at most, and not worth a word when it is simply there.
        ImageEvent::Started | ImageEvent::Found => None,
    }
}

/// A time as people read it off a build: `4.2s`, `3m07s`.
fn duration(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    if seconds < 60 {
        format!("{:.1}s", elapsed.as_secs_f32())
    } else {
        format!("{}m{:02}s", seconds / 60, seconds % 60)
    }
}
