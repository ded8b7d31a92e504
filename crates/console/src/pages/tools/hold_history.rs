//! The quarantine of a tool: what happened, when, and who did it.

use servanda_contract::{Timestamp, legibility};
use servanda_engine::quarantine::{QuarantineEvent, QuarantineEventKind, QuarantineHistory};

use crate::view::Moment;

/// One event of a quarantine.
pub(crate) struct HoldLine {
    /// What happened and who did it.
    pub(crate) what: String,
    /// Why, or what was seen.
    pub(crate) why: String,
    /// When.
    pub(crate) at: Moment,
}

/// The events, the latest first.
pub(crate) fn lines(history: &QuarantineHistory, now: Timestamp) -> Vec<HoldLine> {
    history.events.iter().rev().map(|event| HoldLine::new(event, now)).collect()
}

impl HoldLine {
    fn new(event: &QuarantineEvent, now: Timestamp) -> Self {
        let by = legibility::one_line(&event.by);
        let (what, why) = match &event.what {
            QuarantineEventKind::Observed { call_id, probes } => {
                let names: Vec<&str> = probes.iter().map(|probe| probe.name.as_str()).collect();
                let seen = format!("the probes {} saw a change around the call {call_id}", names.join(", "));
                (format!("{by} held it back"), legibility::one_line(&seen))
            }
            QuarantineEventKind::Blocked { reason } => (format!("{by} held it back"), legibility::one_line(reason)),
            QuarantineEventKind::Released { reason } => (format!("{by} released it"), legibility::one_line(reason)),
        };
        Self { what, why, at: Moment::new(event.at_ms, now) }
    }
}
