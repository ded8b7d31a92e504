//! Tables that fit the terminal. Text is broken between words only, so that an id, a name or a path can be copied in one piece; where
//! the columns do not fit beside each other, a row takes several lines, the later ones indented. Into a pipe a row is one line.

use std::io::{self, IsTerminal as _};

use super::shown;

/// Blanks before the first column, and between two.
const MARGIN: usize = 1;
const GAP: usize = 2;
/// Blanks before the later lines of a row.
const INDENT: usize = 4;

/// A table with a head; plain enough to be cut and pasted.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
    width: usize,
}

/// A cell: as it was given, with our colour codes, and as it shows without colour.
#[derive(Debug)]
struct Cell {
    given: String,
    plain: String,
}

/// A column in its place.
struct Column {
    number: usize,
    width: usize,
}

impl Table {
    /// A table as wide as the terminal.
    pub(crate) fn new(head: &[&str]) -> Self {
        let terminal = io::stdout().is_terminal().then(|| usize::from(console::Term::stdout().size().1));
        Self::of_width(head, terminal.unwrap_or(usize::MAX))
    }

    fn of_width(head: &[&str], width: usize) -> Self {
        let mut table = Self { rows: Vec::new(), width };
        table.add_row(head.iter().map(|title| title.to_uppercase()));
        table
    }

    /// Adds a row below the others.
    pub(crate) fn add_row<I>(&mut self, cells: I) -> &mut Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.rows.push(cells.into_iter().map(|cell| Cell::of(cell.into())).collect());
        self
    }

    /// The table as text, without blanks at the ends of its lines.
    pub(crate) fn lines(&self) -> String {
        let groups = self.groups();
        let mut lines: Vec<String> = Vec::new();
        for row in &self.rows {
            for (position, group) in groups.iter().enumerate() {
                let indent = if position == 0 { MARGIN } else { INDENT };
                lines.extend(side_by_side(row, group, indent));
            }
        }
        lines.join("\n")
    }

    /// The columns by line, each with its width. One group holds all of them if they fit beside each other.
    fn groups(&self) -> Vec<Vec<Column>> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |number: usize, of: fn(&Cell) -> usize| {
            self.rows.iter().filter_map(|row| row.get(number)).map(of).max().unwrap_or(0)
        };
        let mut groups: Vec<Vec<Column>> = Vec::new();
        let mut left = 0;
        for number in 0..columns {
            // A word that is wider than a whole line has to be broken.
            let needed = widest(number, Cell::longest_word).min(self.width.saturating_sub(INDENT)).max(1);
            if let Some(group) = groups.last_mut().filter(|_| left >= GAP + needed) {
                left -= GAP + needed;
                group.push(Column { number, width: needed });
            } else {
                let indent = if groups.is_empty() { MARGIN } else { INDENT };
                left = self.width.saturating_sub(indent + needed);
                groups.push(vec![Column { number, width: needed }]);
            }
        }
        for (position, group) in groups.iter_mut().enumerate() {
            let indent = if position == 0 { MARGIN } else { INDENT };
            let used: usize = group.iter().map(|column| column.width).sum::<usize>() + GAP * (group.len() - 1);
            widen(group, self.width.saturating_sub(indent + used), |number| widest(number, Cell::width));
        }
        groups
    }
}

/// Hands out the room that is left: to the columns that need the least first, so that as few as possible have to be broken.
fn widen(group: &mut [Column], mut left: usize, wanted: impl Fn(usize) -> usize) {
    let mut order: Vec<&mut Column> = group.iter_mut().collect();
    order.sort_by_key(|column| wanted(column.number).saturating_sub(column.width));
    for column in order {
        let given = wanted(column.number).saturating_sub(column.width).min(left);
        column.width += given;
        left -= given;
    }
}

fn side_by_side(row: &[Cell], group: &[Column], indent: usize) -> Vec<String> {
    let broken: Vec<Vec<String>> = group
        .iter()
        .map(|column| row.get(column.number).map(|cell| cell.broken(column.width)).unwrap_or_default())
        .collect();
    let height = broken.iter().map(Vec::len).max().unwrap_or(0);
    let line = |number: usize| {
        let mut line = " ".repeat(indent);
        for (column, pieces) in group.iter().zip(&broken) {
            let piece = pieces.get(number).map_or("", String::as_str);
            line.push_str(piece);
            let blanks = (column.width + GAP).saturating_sub(width(&shown(piece, false)));
            line.push_str(&" ".repeat(blanks));
        }
        line.trim_end().to_owned()
    };
    // A row whose cells in this line are all empty takes no line.
    (0..height).map(line).filter(|line| !line.is_empty()).collect()
}

impl Cell {
    fn of(given: String) -> Self {
        let plain = shown(&given, false);
        Self { given, plain }
    }

    fn width(&self) -> usize {
        self.plain.lines().map(width).max().unwrap_or(0)
    }

    fn longest_word(&self) -> usize {
        self.plain.split_whitespace().map(width).max().unwrap_or(0)
    }

    /// The cell in lines of that width. A cell that has to be broken loses its colour, which only repeats what its words say.
    fn broken(&self, room: usize) -> Vec<String> {
        if self.width() <= room {
            return self.given.lines().map(str::to_owned).collect();
        }
        let mut lines: Vec<String> = Vec::new();
        for paragraph in self.plain.lines() {
            let mut line = String::new();
            for word in paragraph.split_whitespace().flat_map(|word| pieces(word, room)) {
                if !line.is_empty() && width(&line) + 1 + width(&word) > room {
                    lines.push(std::mem::take(&mut line));
                }
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(&word);
            }
            lines.push(line);
        }
        lines
    }
}

/// A word in pieces of that width; almost always one.
fn pieces(word: &str, room: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for character in word.chars() {
        let wide = width(character.encode_utf8(&mut [0; 4]));
        if used + wide > room && used > 0 {
            pieces.push(String::new());
            used = 0;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(character);
        }
        used += wide;
    }
    pieces
}

fn width(text: &str) -> usize {
    console::measure_text_width(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::colour;

    const ID: &str = "eff_0193a5b2c3d4e5f60718293a4b5c6d7e";

    fn effects(width: usize) -> String {
        let mut table = Table::of_width(&["handle", "state", "class", "tool", "changed"], width);
        table.add_row([ID, "outcome_unknown", "N", "company__pay_invoice", "2026-11-17 10:04:31"]);
        table.add_row(["eff_1", "completed", "K", "a", "10:04:31"]);
        table.lines()
    }

    #[test]
    fn a_table_fits_its_width_and_breaks_no_id() {
        for width in [40, 60, 80, 100, 200] {
            let shown = effects(width);
            assert!(shown.lines().all(|line| line.chars().count() <= width), "{width}:\n{shown}");
            for whole in [ID, "outcome_unknown", "company__pay_invoice"] {
                assert!(shown.contains(whole), "{width}: {whole} is broken:\n{shown}");
            }
        }
        assert_eq!(effects(200).lines().count(), 3, "{}", effects(200));
        insta::assert_snapshot!("table_of_80_columns", effects(80));
    }

    #[test]
    fn text_is_broken_between_words_and_words_only_where_a_line_is_too_short() {
        let mut table = Table::of_width(&["tool", "why"], 24);
        table.add_row(["a__tool", "it deletes files that nobody can bring back"]);
        assert_eq!(
            table.lines(),
            " TOOL     WHY\n a__tool  it deletes\n          files that\n          nobody can\n          bring back"
        );
        let mut table = Table::of_width(&["path"], 12);
        table.add_row(["/a/path/that/is/long"]);
        assert_eq!(table.lines(), " PATH\n /a/path/tha\n t/is/long");
    }

    #[test]
    fn colour_takes_no_room_and_a_broken_cell_has_none() {
        let painted = colour::around("always refused", "33", "39");
        let mut table = Table::of_width(&["a", "b"], 80);
        table.add_row([painted.clone(), "x".to_owned()]);
        assert_eq!(shown(&table.lines(), false), " A               B\n always refused  x");
        let mut table = Table::of_width(&["a", "b"], 14);
        table.add_row([painted, "xxxx".to_owned()]);
        assert_eq!(table.lines(), " A        B\n always   xxxx\n refused");
        // Hidden characters take the room of what is shown for them.
        let mut table = Table::of_width(&["a", "b"], 80);
        table.add_row(["x\u{1b}[0m", "y"]);
        assert_eq!(shown(&table.lines(), true), " A             B\n x<U+001B>[0m  y");
    }
}
