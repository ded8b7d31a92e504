//! Plots as SVG: bars that are stacked, and steps. A drawing has no text in it, because text in a drawing becomes too small on a narrow page:
//! names, numbers and times stand around it as HTML. Colours are classes of the style sheet.

/// The size of a drawing, which the page stretches.
const WIDTH: u64 = 1_200;
const HEIGHT: u64 = 200;

/// A plot over the slots of a time.
pub(super) struct TimeChart {
    /// What it shows, in one sentence, for people who do not see it.
    pub(super) summary: String,
    /// The largest value, in words.
    pub(super) top: String,
    /// When it begins and ends, in words.
    pub(super) from: String,
    pub(super) until: String,
    /// The names of what is plotted.
    pub(super) series: Vec<ChartSeries>,
    pub(super) bars: Vec<ChartBar>,
    pub(super) steps: Vec<ChartSteps>,
    /// The same as numbers: a row for each slot that has any.
    pub(super) rows: Vec<ChartRow>,
}

/// One thing that is plotted.
pub(super) struct ChartSeries {
    pub(super) name: String,
    pub(super) style: &'static str,
}

/// A rectangle.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChartBar {
    pub(super) x: u64,
    pub(super) y: u64,
    pub(super) width: u64,
    pub(super) height: u64,
    pub(super) style: &'static str,
}

/// A line of level pieces, one a slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChartSteps {
    pub(super) path: String,
    pub(super) style: &'static str,
}

/// The numbers of a slot.
pub(super) struct ChartRow {
    pub(super) label: String,
    pub(super) values: Vec<String>,
}

/// Bars, one a slot, whose parts are stacked in the order of the styles. An amount that is not zero is always seen.
pub(super) fn stacked(slots: &[Vec<u64>], styles: &[&'static str]) -> Vec<ChartBar> {
    let sum = |values: &Vec<u64>| values.iter().fold(0, |sum: u64, value| sum.saturating_add(*value));
    let top = slots.iter().map(sum).max().unwrap_or_default();
    let mut bars = Vec::new();
    for (slot, values) in slots.iter().enumerate() {
        let (x, width) = columns(slot, slots.len());
        let mut below = 0;
        for (value, style) in values.iter().zip(styles).filter(|(value, _)| **value > 0) {
            let height = part(*value, top).max(1).min(HEIGHT - below);
            below += height;
            // A gap between slots, if there is room for one.
            let gap = width / 5;
            bars.push(ChartBar { x, y: HEIGHT - below, width: width - gap, height, style });
        }
    }
    bars
}

/// A line of level pieces for each series; slots without a value have none.
pub(super) fn steps(slots: &[Vec<Option<u64>>], styles: &[&'static str]) -> Vec<ChartSteps> {
    let top = slots.iter().flatten().flatten().copied().max().unwrap_or_default();
    let line = |(number, style): (usize, &&'static str)| {
        let piece = |(slot, values): (usize, &Vec<Option<u64>>)| {
            let value = values.get(number).copied().flatten()?;
            let (x, width) = columns(slot, slots.len());
            // Away from the edges, so that the line is not cut off.
            let y = (HEIGHT - part(value, top)).clamp(2, HEIGHT - 2);
            Some(format!("M{x} {y}h{width}"))
        };
        ChartSteps { path: slots.iter().enumerate().filter_map(piece).collect(), style }
    };
    styles.iter().enumerate().map(line).filter(|steps| !steps.path.is_empty()).collect()
}

/// A bar from the left for one of several amounts.
pub(super) fn level(value: u64, top: u64) -> u64 {
    if value == 0 { 0 } else { scaled(value, top, WIDTH).max(4) }
}

fn part(value: u64, top: u64) -> u64 {
    scaled(value, top, HEIGHT)
}

fn scaled(value: u64, top: u64, size: u64) -> u64 {
    let top = u128::from(top.max(1));
    u64::try_from(u128::from(value) * u128::from(size) / top).unwrap_or(size).min(size)
}

fn columns(slot: usize, slots: usize) -> (u64, u64) {
    let number = |of: usize| u64::try_from(of).unwrap_or(u64::MAX);
    let width = WIDTH / number(slots).max(1);
    (number(slot) * width, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_stacked_and_small_ones_are_seen() {
        let bars = stacked(&[vec![3, 1], vec![0, 0], vec![8_000, 1]], &["good", "bad"]);
        let bar = |x, y, height, style| ChartBar { x, y, width: 320, height, style };
        assert_eq!(
            bars,
            [bar(0, 199, 1, "good"), bar(0, 198, 1, "bad"), bar(800, 1, 199, "good"), bar(800, 0, 1, "bad"),]
        );
    }

    #[test]
    fn no_bar_leaves_the_drawing_whatever_is_counted() {
        let slots: Vec<Vec<u64>> = (0..60).map(|slot| vec![u64::MAX - slot, 1, u64::MAX]).collect();
        for bar in stacked(&slots, &["a", "b", "c"]) {
            assert!(bar.x + bar.width <= WIDTH && bar.y + bar.height <= HEIGHT && bar.width > 0, "{bar:?}");
        }
        assert!(stacked(&[], &["a"]).is_empty());
    }

    #[test]
    fn steps_leave_out_what_is_not_known() {
        let steps = steps(&[vec![Some(5), None], vec![None, None], vec![Some(10), None]], &["p50", "p95"]);
        assert_eq!(steps, [ChartSteps { path: "M0 100h400M800 2h400".to_owned(), style: "p50" }]);
    }
}
