//! `servanda audit export`: the leaves as events of OCSF, one JSON object a line. The index of the last leaf is the cursor: the next export
//! begins behind it.

use servanda_audit::{Checkpoint, TileSource, ocsf::OcsfEvent};

use super::{
    counted,
    leaves::{each_leaf, tiles_of},
};
use crate::{
    failure::CommandFailure,
    screen::{Screen, escaped_json},
};

pub(super) fn run<S: TileSource>(
    log: &S,
    checkpoint: &Checkpoint,
    from: u64,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let size = checkpoint.size();
    if from > size {
        return Err(CommandFailure::failed(format!("the log has {}, and leaf {from} is not the next", counted(size)))
            .hint("the cursor is of another log, or this one was cut back: `servanda audit verify DIR --since CHECKPOINT` tells"));
    }
    let (mut tiles, origin) = (tiles_of(log, checkpoint)?, checkpoint.origin().to_owned());
    each_leaf(&mut tiles, from, |index, _, leaf| {
        let event = serde_json::to_string(&OcsfEvent::of_leaf(&origin, index, leaf));
        screen.stream(&escaped_json(&event.map_err(|error| CommandFailure::failed(error.to_string()))?))
    })?;
    screen.hint(format_args!("the next export begins with --since-leaf {size}"));
    Ok(())
}
