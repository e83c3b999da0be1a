//! A pool as a picture of letters, for the command line and the console.
//!
//! Owns: how many addresses a cell stands for, which symbol it shows, and the legend.
//!
//! Must not: be read by programs. The picture may change from release to release.

use std::collections::BTreeMap;

use crate::number::Span;
use crate::pool::Pool;
use crate::request::Owner;
use crate::spans::SpanSet;

/// Most rows before cells stand for more addresses.
const ROWS: u128 = 16;
/// Most owners the legend names.
const LEGEND: usize = 10;
/// So many equal rows are folded into two lines.
const FOLD: usize = 3;

const FREE: char = '.';
const CLOSED: char = '#';
const BLOCKED: char = '!';
const UNMANAGED: char = '-';
const SEVERAL: char = '*';
const SMALL_OWNER: char = '+';

/// The letters of owners, from the biggest on.
fn letters() -> impl Iterator<Item = char> {
    ('A'..='Z').chain('a'..='z')
}

/// A picture of the pool: each line `width` cells, each cell an equal number of addresses. What is used shows, however
/// little of the cell it is.
pub fn map(pool: &Pool, width: usize) -> String {
    let picture = Picture::new(pool, width);
    let rows = picture.rows();
    let mut text = picture.header();
    let label_width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    for equals in rows.chunk_by(|one, next| one.1 == next.1) {
        let shown = if equals.len() < FOLD { equals.len() } else { 1 };
        for (label, cells) in &equals[..shown] {
            line(&mut text, &format!("{label:<label_width$}  {cells}"));
        }
        if shown < equals.len() {
            line(&mut text, "…");
        }
    }
    picture.legend(&rows, &mut text);
    text
}

fn line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

struct Picture<'a> {
    pool: &'a Pool,
    network: Span,
    unmanaged: SpanSet,
    /// Addresses in a cell.
    cell: u128,
    /// Addresses in a row.
    row: u128,
    owners: Vec<(&'a Owner, u128)>,
    symbols: BTreeMap<&'a Owner, char>,
}

impl<'a> Picture<'a> {
    fn new(pool: &'a Pool, width: usize) -> Self {
        let network = Span::of(&pool.layout().cidr().range());
        let width = u128::try_from(width.clamp(1, 1024)).unwrap_or(1);
        let cell = network.length().div_ceil(width * ROWS).next_power_of_two();
        let owners = pool.owners();
        let symbols = owners
            .iter()
            .map(|&(owner, _)| owner)
            .zip(letters())
            .collect();
        Self {
            pool,
            network,
            unmanaged: pool.layout().unmanaged_spans(),
            cell,
            row: cell.saturating_mul(width),
            owners,
            symbols,
        }
    }

    fn header(&self) -> String {
        let numbers = self.pool.numbers();
        let mut text = String::new();
        line(
            &mut text,
            &format!(
                "{}: gives {}, {} free in runs of up to {}, {} in {} allocation{}; a cell is {}",
                self.pool.layout().cidr(),
                addresses(numbers.total),
                amount(numbers.available),
                amount(numbers.largest_free),
                amount(numbers.allocated),
                numbers.allocations,
                if numbers.allocations == 1 { "" } else { "s" },
                addresses(self.cell),
            ),
        );
        text
    }

    /// The first address of each row, and its cells.
    fn rows(&self) -> Vec<(String, String)> {
        pieces(self.network, self.row)
            .map(|row| {
                let label = self.pool.layout().family().address(row.first).to_string();
                let cells = pieces(row, self.cell).map(|cell| self.symbol(cell));
                (label, cells.collect())
            })
            .collect()
    }

    fn symbol(&self, cell: Span) -> char {
        let range = self.pool.layout().family().range(cell);
        let mut owners = self
            .pool
            .held_within(range)
            .map(|(_, holder)| &holder.owner);
        if let Some(owner) = owners.next() {
            return if owners.all(|other| other == owner) {
                self.symbols.get(owner).copied().unwrap_or(SMALL_OWNER)
            } else {
                SEVERAL
            };
        }
        if self.pool.blocked().overlaps(cell) {
            BLOCKED
        } else if self.pool.free_runs().overlaps(cell) {
            FREE
        } else if self.unmanaged.count_within(cell) > cell.length() / 2 {
            UNMANAGED
        } else {
            CLOSED
        }
    }

    fn legend(&self, rows: &[(String, String)], text: &mut String) {
        let shown = |symbol: char| rows.iter().any(|(_, cells)| cells.contains(symbol));
        let symbols = [
            (FREE, "free"),
            (CLOSED, "reserved or never given"),
            (BLOCKED, "in use by others than allocations"),
            (UNMANAGED, "not managed"),
            (SEVERAL, "several owners"),
            (SMALL_OWNER, "a smaller owner"),
        ];
        let symbols: Vec<_> = symbols
            .iter()
            .filter(|(symbol, _)| shown(*symbol))
            .map(|(symbol, meaning)| format!("{symbol} {meaning}"))
            .collect();
        line(text, &symbols.join("   "));
        for (letter, (owner, held)) in letters().zip(&self.owners).take(LEGEND) {
            line(text, &format!("{letter} {owner}: {}", addresses(*held)));
        }
        if let Some(more) = self
            .owners
            .len()
            .checked_sub(LEGEND)
            .filter(|&more| more > 0)
        {
            line(text, &format!("and {more} more"));
        }
        let outside = self.pool.numbers().outside;
        if outside > 0 {
            let ranges = if outside == 1 {
                "range is"
            } else {
                "ranges are"
            };
            line(
                text,
                &format!("{outside} {ranges} held that the pool does not give out now"),
            );
        }
    }
}

/// A span in pieces of so many numbers; the last may be shorter.
fn pieces(span: Span, size: u128) -> impl Iterator<Item = Span> {
    let mut next = Some(span.first);
    std::iter::from_fn(move || {
        let first = next?;
        let last = first.saturating_add(size - 1).min(span.last);
        next = last.checked_add(1).filter(|&first| first <= span.last);
        Some(Span { first, last })
    })
}

fn addresses(count: u128) -> String {
    format!(
        "{} address{}",
        amount(count),
        if count == 1 { "" } else { "es" }
    )
}

/// A number as people say it: large powers of two by their exponent.
fn amount(count: u128) -> String {
    if count.is_power_of_two() && count.ilog2() >= 32 {
        format!("2^{}", count.ilog2())
    } else {
        count.to_string()
    }
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
