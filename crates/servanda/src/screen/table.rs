//! Tables that fit the terminal. Text is wrapped between words only, so that an id, a name or a path can be copied in one piece. If the
//! columns do not fit beside each other, rows with a long name, or sentences, take several lines. In a pipe a row is one line.

mod layout;

use std::cmp::Reverse;

use self::layout::{GAP, INDENT, MARGIN, TableColumn, TableLayout, beside, widen};
use super::{shown, stdout_width};

/// The minimal width of a column whose longest cells get their own lines.
const OVERHUNG_MIN: usize = 12;

/// A table with a head; plain enough to copy and paste.
#[derive(Debug)]
pub(crate) struct TextTable {
    rows: Vec<Vec<TableCell>>,
    width: usize,
    prose: Option<usize>,
}

/// A cell: as given, with our colour codes, and as shown without colour.
#[derive(Debug)]
struct TableCell {
    given: String,
    plain: String,
}

impl TextTable {
    /// A table as wide as the terminal.
    pub(crate) fn new(head: &[&str]) -> Self {
        Self::of_width(head, stdout_width().unwrap_or(usize::MAX))
    }

    fn of_width(head: &[&str], width: usize) -> Self {
        let mut table = Self { rows: Vec::new(), width, prose: None };
        table.add_row(head.iter().map(|title| title.to_uppercase()));
        table
    }

    /// Adds a row below the others.
    pub(crate) fn add_row<I>(&mut self, cells: I) -> &mut Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.rows.push(cells.into_iter().map(|cell| TableCell::new(cell.into())).collect());
        self
    }

    /// Sets the column with sentences: if they do not fit beside the rest, they go below their row.
    pub(crate) fn with_prose(mut self, number: usize) -> Self {
        self.prose = Some(number);
        self
    }

    /// The table as text, without blanks at the ends of its lines.
    pub(crate) fn lines(&self) -> String {
        let all = 0..self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let natural: usize = all.clone().map(|number| GAP + self.widest(number, TableCell::width)).sum();
        let below = self.prose.filter(|_| MARGIN + natural > self.width.saturating_add(GAP));
        let beside: Vec<usize> = all.filter(|number| below != Some(*number)).collect();
        let layout = self.layout(&beside);
        let mut lines: Vec<String> = Vec::new();
        for (position, row) in self.rows.iter().enumerate() {
            lines.extend(layout.row(row));
            // Text below its row needs no head.
            if let Some(cell) = below.and_then(|number| row.get(number)).filter(|_| position > 0) {
                let pieces = cell.broken(self.width.saturating_sub(INDENT));
                lines.extend(pieces.into_iter().filter(|it| !it.is_empty()).map(|it| format!("{:INDENT$}{it}", "")));
            }
        }
        lines.join("\n")
    }

    fn widest(&self, number: usize, of: fn(&TableCell) -> usize) -> usize {
        self.rows.iter().filter_map(|row| row.get(number)).map(of).max().unwrap_or(0)
    }

    /// The columns beside each other if they fit; otherwise with long names of one column ending their lines; otherwise on several lines.
    fn layout(&self, numbers: &[usize]) -> TableLayout {
        // A word wider than a whole line has to be broken.
        let needed =
            |number: usize| self.widest(number, TableCell::longest_word).clamp(1, self.width - INDENT.min(self.width));
        let columns: Vec<TableColumn> =
            numbers.iter().map(|number| TableColumn { number: *number, width: needed(*number) }).collect();
        if MARGIN + beside(&columns) <= self.width {
            return TableLayout { groups: vec![self.widened(columns, MARGIN)], overhang: None, width: self.width };
        }
        self.overhanging(&columns).unwrap_or_else(|| TableLayout {
            groups: self.groups(columns),
            overhang: None,
            width: self.width,
        })
    }

    /// The columns beside each other with one that is narrower than its longest cells, if that is enough. What follows such a cell goes to
    /// the next line.
    fn overhanging(&self, columns: &[TableColumn]) -> Option<TableLayout> {
        let (place, longest) =
            columns.iter().enumerate().max_by_key(|(place, column)| (column.width, Reverse(*place)))?;
        let upto = columns.get(..=place)?;
        let excess = (MARGIN + beside(columns)).saturating_sub(self.width);
        let most = longest.width.checked_sub(excess).filter(|most| *most >= OVERHUNG_MIN)?;
        if MARGIN + beside(upto) > self.width {
            return None;
        }
        let cells = self.rows.iter().filter_map(|row| row.get(longest.number)).map(TableCell::longest_word);
        let width = cells.filter(|width| *width <= most).max().unwrap_or(most);
        let mut columns: Vec<TableColumn> = columns.to_vec();
        columns.get_mut(place)?.width = width;
        let left = self.width.saturating_sub(MARGIN + beside(&columns));
        let wanted =
            |number: usize| if number == longest.number { width } else { self.widest(number, TableCell::width) };
        widen(&mut columns, left, wanted);
        Some(TableLayout { groups: vec![columns], overhang: Some(place), width: self.width })
    }

    /// The columns by line, each with its width.
    fn groups(&self, columns: Vec<TableColumn>) -> Vec<Vec<TableColumn>> {
        let mut groups: Vec<Vec<TableColumn>> = Vec::new();
        let mut left = 0;
        for column in columns {
            let needed = column.width;
            if let Some(group) = groups.last_mut().filter(|_| left >= GAP + needed) {
                left -= GAP + needed;
                group.push(column);
            } else {
                let indent = if groups.is_empty() { MARGIN } else { INDENT };
                left = self.width.saturating_sub(indent + needed);
                groups.push(vec![column]);
            }
        }
        let indent = |position: usize| if position == 0 { MARGIN } else { INDENT };
        groups.into_iter().enumerate().map(|(position, group)| self.widened(group, indent(position))).collect()
    }

    fn widened(&self, mut group: Vec<TableColumn>, indent: usize) -> Vec<TableColumn> {
        let left = self.width.saturating_sub(indent + beside(&group));
        widen(&mut group, left, |number| self.widest(number, TableCell::width));
        group
    }
}

impl TableCell {
    fn new(given: String) -> Self {
        let plain = shown(&given, false);
        Self { given, plain }
    }

    fn width(&self) -> usize {
        self.plain.lines().map(width).max().unwrap_or(0)
    }

    fn longest_word(&self) -> usize {
        self.plain.split_whitespace().map(width).max().unwrap_or(0)
    }

    /// The cell in lines of a width. A cell that is wrapped loses its colour, which only repeats what its words say.
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

/// A word in pieces of a width; almost always one.
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
        let mut table = TextTable::of_width(&["handle", "state", "class", "tool", "changed"], width);
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
    fn a_long_name_breaks_its_own_row_only_and_sentences_stand_below() {
        let mut table = TextTable::of_width(&["tool", "class", "state"], 40);
        table.add_row(["a__tool", "READ_ONLY", "offered"]);
        table.add_row(["a__tool_with_a_name_that_is_long", "READ_ONLY", "offered"]);
        assert_eq!(
            table.lines(),
            " TOOL     CLASS      STATE\n a__tool  READ_ONLY  offered\n a__tool_with_a_name_that_is_long\n          READ_ONLY  offered"
        );
        // A long cell may have several words, and is wrapped between them.
        table.add_row(["resource `a://place/that/is/long` of a server", "READ_ONLY", "offered"]);
        assert!(table.lines().lines().all(|line| width(line) <= 40), "{}", table.lines());
        let mut table = TextTable::of_width(&["tool", "why", "by"], 30).with_prose(1);
        table.add_row(["a__tool", "it deletes what nobody can bring back", "ada"]);
        table.add_row(["b__tool", "", "ada"]);
        assert_eq!(
            table.lines(),
            " TOOL     BY\n a__tool  ada\n    it deletes what nobody can\n    bring back\n b__tool  ada"
        );
        let mut piped = TextTable::of_width(&["tool", "why"], usize::MAX).with_prose(1);
        piped.add_row(["a__tool", "it deletes"]);
        assert_eq!(piped.lines(), " TOOL     WHY\n a__tool  it deletes");
    }

    #[test]
    fn text_is_broken_between_words_and_words_only_where_a_line_is_too_short() {
        let mut table = TextTable::of_width(&["tool", "why"], 24);
        table.add_row(["a__tool", "it deletes files that nobody can bring back"]);
        assert_eq!(
            table.lines(),
            " TOOL     WHY\n a__tool  it deletes\n          files that\n          nobody can\n          bring back"
        );
        let mut table = TextTable::of_width(&["path"], 12);
        table.add_row(["/a/path/that/is/long"]);
        assert_eq!(table.lines(), " PATH\n /a/path/tha\n t/is/long");
    }

    #[test]
    fn colour_takes_no_room_and_a_broken_cell_has_none() {
        let painted = colour::around("always refused", "33", "39");
        let mut table = TextTable::of_width(&["a", "b"], 80);
        table.add_row([painted.clone(), "x".to_owned()]);
        assert_eq!(shown(&table.lines(), false), " A               B\n always refused  x");
        let mut table = TextTable::of_width(&["a", "b"], 14);
        table.add_row([painted, "xxxx".to_owned()]);
        assert_eq!(table.lines(), " A        B\n always   xxxx\n refused");
        // A hidden character takes the room of its spelled-out form.
        let mut table = TextTable::of_width(&["a", "b"], 80);
        table.add_row(["x\u{1b}[0m", "y"]);
        assert_eq!(shown(&table.lines(), true), " A             B\n x<U+001B>[0m  y");
    }
}
