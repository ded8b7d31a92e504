//! What was seen around a call, in words.

use servanda_engine::probes::{Found, Observed, Seen, Verdict};

use crate::screen::{Mood, paint};

/// The lines of a page about it.
pub(super) fn lines(observed: &Observed) -> Vec<String> {
    let Observed { verdict, sample_percent, .. } = observed;
    let share =
        if *sample_percent == 100 { String::new() } else { format!(" (one of {sample_percent} % of the calls)") };
    let mut lines = vec![
        String::new(),
        format!("  observed  {}: {}{share}", paint(verdict.word(), mood(*verdict)), meaning(observed)),
    ];
    for probe in &observed.probes {
        let looks = match probe.found {
            Found::Same => seen(&probe.before),
            _ => format!("{} before, {} after", seen(&probe.before), seen(&probe.after)),
        };
        lines.push(format!("    {}, {}: {}, {looks}", probe.name, probe.target, probe.found.in_words()));
    }
    lines
}

fn meaning(observed: &Observed) -> &'static str {
    match observed.verdict {
        Verdict::AsDeclared if observed.reads_only => "it only reads, and nothing that is looked at changed",
        Verdict::AsDeclared => "it changes something, and a change was seen",
        Verdict::Violation => "it says that it only reads, and changed something; servanda quarantine list",
        Verdict::Inconclusive if !observed.alone => {
            "something changed, but a call that may change something was under way in this gateway"
        }
        Verdict::Inconclusive => "what is looked at changes without any call, so it tells nothing",
        Verdict::NoChangeSeen => "it was done and should change something, and nothing that is looked at changed",
        Verdict::NotJudged => "the call did not come to its end, or too little was seen",
    }
}

fn seen(seen: &Seen) -> String {
    match seen {
        Seen::Digest(digest) => format!("({})", digest.short()),
        Seen::Nothing => "nothing there".to_owned(),
        Seen::NotTaken(why) => format!("not taken ({why})"),
    }
}

const fn mood(verdict: Verdict) -> Mood {
    match verdict {
        Verdict::AsDeclared => Mood::Good,
        Verdict::Violation => Mood::Bad,
        Verdict::Inconclusive | Verdict::NoChangeSeen => Mood::Careful,
        Verdict::NotJudged => Mood::Quiet,
    }
}
