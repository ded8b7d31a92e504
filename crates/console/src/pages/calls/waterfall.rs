//! The stages of a call with their times, as rows with bars. A bar begins where the stage before it ended.

use servanda_contract::{
    CallRecord,
    record::{CallStage, StageStanding},
};

/// The width of the drawing.
const WIDTH: u64 = 1_000;
/// The narrowest bar.
const BAR_MIN: u64 = 4;

/// One stage on the page.
pub(super) struct StageRow {
    /// The number of the gate; none for the stages around them.
    pub(super) number: Option<u8>,
    /// The name.
    pub(super) name: String,
    /// How the call stands there.
    pub(super) word: &'static str,
    /// The class of the style sheet.
    pub(super) style: &'static str,
    /// What there is to say.
    pub(super) detail: String,
    /// Its time.
    pub(super) took: Option<String>,
    /// Its bar.
    pub(super) bar: Option<StageBar>,
}

/// A bar, in parts of the drawing's width.
pub(super) struct StageBar {
    pub(super) x: u64,
    pub(super) width: u64,
}

/// The stages of a call, in order.
pub(super) fn rows(record: &CallRecord) -> Vec<StageRow> {
    let stages = CallStage::all(record);
    let total_us: u64 = stages.iter().filter_map(|stage| stage.took_us).fold(0, u64::saturating_add).max(1);
    let mut begun_us = 0;
    stages
        .into_iter()
        .map(|stage| {
            let bar = stage.took_us.map(|took_us| bar(begun_us, took_us, total_us));
            begun_us += stage.took_us.unwrap_or_default();
            StageRow {
                number: stage.gate.number(),
                name: stage.gate.to_string(),
                word: stage.word,
                style: style(stage.standing),
                took: stage.took(),
                detail: stage.detail,
                bar,
            }
        })
        .collect()
}

fn bar(begun_us: u64, took_us: u64, total_us: u64) -> StageBar {
    let part = |us: u64| u64::try_from(u128::from(us) * u128::from(WIDTH) / u128::from(total_us)).unwrap_or(WIDTH);
    let width = part(took_us).clamp(BAR_MIN, WIDTH);
    StageBar { x: part(begun_us).min(WIDTH - width), width }
}

const fn style(standing: StageStanding) -> &'static str {
    match standing {
        StageStanding::Passed => "good",
        StageStanding::Ended => "bad",
        StageStanding::Open => "waiting",
        StageStanding::Silent => "quiet",
    }
}

#[cfg(test)]
mod tests {
    use super::{BAR_MIN, WIDTH, bar};

    #[test]
    fn bars_stay_inside_and_are_never_too_narrow_to_see() {
        for (begun, took, total, expected) in [
            (0, 100, 100, (0, WIDTH)),
            (50, 50, 100, (500, 500)),
            (100, 0, 100, (WIDTH - BAR_MIN, BAR_MIN)),
            (0, 1, 1_000_000, (0, BAR_MIN)),
            (u64::MAX - 1, 1, u64::MAX, (WIDTH - BAR_MIN, BAR_MIN)),
        ] {
            let bar = bar(begun, took, total);
            assert_eq!((bar.x, bar.width), expected, "{begun} {took} {total}");
        }
    }
}
