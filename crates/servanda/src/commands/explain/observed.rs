//! What probes saw around a call, as text.

use servanda_engine::probes::{ProbeComparison, ProbeReport, ProbeSnapshot, ProbeVerdict};

use crate::screen::{TextStyle, paint};

/// The lines of the page.
pub(super) fn lines(observed: &ProbeReport) -> Vec<String> {
    let ProbeReport { verdict, sample_percent, .. } = observed;
    let share =
        if *sample_percent == 100 { String::new() } else { format!(" (one of {sample_percent} % of the calls)") };
    let mut lines = vec![
        String::new(),
        format!("  observed  {}: {}{share}", paint(verdict.word(), style(*verdict)), meaning(observed)),
    ];
    for probe in &observed.probes {
        let looks = match probe.found {
            ProbeComparison::Same => seen(&probe.before),
            _ => format!("{} before, {} after", seen(&probe.before), seen(&probe.after)),
        };
        lines.push(format!("    {}, {}: {}, {looks}", probe.name, probe.target, probe.found.in_words()));
    }
    lines
}

fn meaning(observed: &ProbeReport) -> &'static str {
    match observed.verdict {
        ProbeVerdict::AsDeclared if observed.reads_only => "it only reads, and nothing that is probed changed",
        ProbeVerdict::AsDeclared => "it changes something, and a change was seen",
        ProbeVerdict::Violation => "it says that it only reads, and changed something; servanda quarantine list",
        ProbeVerdict::Inconclusive if !observed.alone => {
            "something changed, but a call that may change something was under way in this gateway"
        }
        ProbeVerdict::Inconclusive => "what is probed changes without any call, so it tells nothing",
        ProbeVerdict::NoChangeSeen => "it was done and should change something, and nothing that is probed changed",
        ProbeVerdict::NotJudged => "the call did not complete, or too little was seen",
    }
}

fn seen(seen: &ProbeSnapshot) -> String {
    match seen {
        ProbeSnapshot::Digest(digest) => format!("({})", digest.short()),
        ProbeSnapshot::Nothing => "nothing there".to_owned(),
        ProbeSnapshot::NotTaken(why) => format!("not taken ({why})"),
    }
}

const fn style(verdict: ProbeVerdict) -> TextStyle {
    match verdict {
        ProbeVerdict::AsDeclared => TextStyle::Good,
        ProbeVerdict::Violation => TextStyle::Bad,
        ProbeVerdict::Inconclusive | ProbeVerdict::NoChangeSeen => TextStyle::Careful,
        ProbeVerdict::NotJudged => TextStyle::Quiet,
    }
}
