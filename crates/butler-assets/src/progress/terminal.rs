//! Progress as moving bars, for people at a terminal.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{Event, ImageEvent, Progress, image_line, line};
use crate::asset::Asset;
use crate::settings::Source;

const TICK: Duration = Duration::from_millis(120);
const BAR: &str =
    "{prefix}  {bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {msg}";
const SPINNER: &str = "{prefix}  {spinner} {elapsed} {wide_msg}";

/// A bar for each asset under way, and a line above them for each that is finished.
pub struct TerminalProgress {
    all: MultiProgress,
    bars: Mutex<BTreeMap<Asset, ProgressBar>>,
}

impl TerminalProgress {
    /// Draws on standard error.
    pub fn new() -> Self {
        Self {
            all: MultiProgress::new(),
            bars: Mutex::default(),
        }
    }

    fn bar(&self, asset: &Asset) -> ProgressBar {
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        bars.entry(asset.clone())
            .or_insert_with(|| {
                let bar = self.all.add(ProgressBar::new_spinner());
                bar.set_style(style(SPINNER));
                bar.set_prefix(asset.to_string());
                bar.enable_steady_tick(TICK);
                bar
            })
            .clone()
    }

    fn finish(&self, asset: &Asset) {
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = bars.remove(asset) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
    }

    fn print(&self, asset: &Asset, event: Event<'_>) {
        if let Some(text) = line(asset, event) {
            // A terminal that went away is no reason to stop a build.
            drop(self.all.println(text));
        }
    }
}

impl Drop for TerminalProgress {
    /// Takes the bars of what failed or was given up off the screen.
    fn drop(&mut self) {
        drop(self.all.clear());
    }
}

impl Default for TerminalProgress {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TerminalProgress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TerminalProgress")
            .finish_non_exhaustive()
    }
}

impl Progress for TerminalProgress {
    fn report(&self, asset: &Asset, event: Event<'_>) {
        match event {
            Event::Waiting { reason } => {
                self.bar(asset).set_message(format!("waiting for {reason}"));
            }
            Event::Skipped { .. } => self.print(asset, event),
            Event::Started { source, from, size } => {
                let bar = self.bar(asset);
                if let Some(size) = size {
                    bar.set_style(style(BAR));
                    bar.set_length(size);
                } else {
                    bar.set_style(style(SPINNER));
                }
                bar.set_message(format!("{source} of {from}"));
            }
            Event::Advanced { bytes } => self.bar(asset).set_position(bytes),
            Event::Step { text } => self.bar(asset).set_message(text.to_owned()),
            // The spinner turns by itself.
            Event::Ticked => {}
            Event::Finished { source, .. } => {
                self.finish(asset);
                // What is simply there needs no line on a terminal.
                if matches!(source, Source::Download | Source::Build) {
                    self.print(asset, event);
                }
            }
        }
    }

    fn report_image(&self, reference: &str, event: ImageEvent) {
        if let Some(text) = image_line(reference, event) {
            drop(self.all.println(text));
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        ProgressStyle::with_template(BAR).unwrap();
        ProgressStyle::with_template(SPINNER).unwrap();
    }
}
