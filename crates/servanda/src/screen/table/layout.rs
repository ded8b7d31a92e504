//! How the rows of a table are laid out in lines: which columns are beside each other, and what goes to the next line.

use super::{TableCell, width};
use crate::screen::shown;

/// Blanks before the first column, and between two.
pub(super) const MARGIN: usize = 1;
pub(super) const GAP: usize = 2;
/// Blanks before the later lines of a row.
pub(super) const INDENT: usize = 4;

/// A column and its width.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableColumn {
    pub(super) number: usize,
    pub(super) width: usize,
}

/// How rows are laid out: the columns by line, and the column whose long cells end their line.
pub(super) struct TableLayout {
    pub(super) groups: Vec<Vec<TableColumn>>,
    pub(super) overhang: Option<usize>,
    /// The room on a line.
    pub(super) width: usize,
}

impl TableLayout {
    /// The lines of a row.
    pub(super) fn row(&self, row: &[TableCell]) -> Vec<String> {
        let mut lines = Vec::new();
        for (position, group) in self.groups.iter().enumerate() {
            let indent = if position == 0 { MARGIN } else { INDENT };
            let long =
                self.overhang.and_then(|place| Some((place, group.get(place)?, row.get(group.get(place)?.number)?)));
            match long.filter(|(_, column, cell)| cell.width() > column.width) {
                Some((place, _, cell)) => {
                    let (upto, after) = group.split_at(place + 1);
                    let mut upto = upto.to_vec();
                    let room = self.width.saturating_sub(indent + beside(&upto)) + upto.last().map_or(0, |it| it.width);
                    upto.iter_mut().skip(place).for_each(|column| column.width = cell.width().min(room));
                    let start = indent + beside(group) - beside(after);
                    lines.extend(side_by_side(row, &upto, indent));
                    lines.extend(side_by_side(row, after, start));
                }
                None => lines.extend(side_by_side(row, group, indent)),
            }
        }
        lines
    }
}

/// The width of columns beside each other.
pub(super) fn beside(columns: &[TableColumn]) -> usize {
    columns.iter().map(|column| column.width).sum::<usize>() + GAP * columns.len().saturating_sub(1)
}

/// Distributes the remaining room to the columns that need the least first, so that as few as possible have to be wrapped.
pub(super) fn widen(group: &mut [TableColumn], mut left: usize, wanted: impl Fn(usize) -> usize) {
    let mut order: Vec<&mut TableColumn> = group.iter_mut().collect();
    order.sort_by_key(|column| wanted(column.number).saturating_sub(column.width));
    for column in order {
        let given = wanted(column.number).saturating_sub(column.width).min(left);
        column.width += given;
        left -= given;
    }
}

fn side_by_side(row: &[TableCell], group: &[TableColumn], indent: usize) -> Vec<String> {
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
