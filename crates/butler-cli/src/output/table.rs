//! Columns as wide as they need to be.

/// Lines of a table: titles, then rows; every cell is padded but the last.
pub fn table<const COLUMNS: usize>(
    titles: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut lines = vec![titles.map(ToOwned::to_owned)];
    lines.extend(rows);
    let mut widths = [0; COLUMNS];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(console::measure_text_width(cell));
        }
    }
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(widths).map(|(cell, width)| {
            console::pad_str(cell, width, console::Alignment::Left, None).into_owned()
        });
        text.push_str(cells.collect::<Vec<_>>().join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["worker-0".to_owned(), "Running".to_owned()]];
        assert_eq!(
            table(["NAME", "STATE"], rows),
            "NAME       STATE\nworker-0   Running\n"
        );
    }
}
