//! Words for how a tool stands, and what to do about it.

use servanda_contract::legibility;
use servanda_engine::{ToolHold, ToolStanding, oversight::ToolOverview};

use crate::pages::words::quoted;

/// How a tool stands, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StandingWords {
    /// The words of the badge.
    pub(crate) words: &'static str,
    /// The class of the style sheet.
    pub(crate) style: &'static str,
    /// What it means, and why.
    pub(crate) meaning: String,
    /// What to do, if anything.
    pub(crate) next: Option<String>,
    /// Whether agents cannot call it.
    pub(crate) is_held: bool,
}

impl StandingWords {
    /// The standing of a tool.
    pub(crate) fn new(report: &ToolOverview) -> Self {
        let words = Self::of(report);
        Self { next: words.next.map(|next| quoted(&next)), ..words }
    }

    fn of(report: &ToolOverview) -> Self {
        let name = &report.name;
        match &*report.standing {
            ToolStanding::Held(hold) => Self::held(hold, name),
            ToolStanding::Unasked => match &report.unreachable {
                Some(why) => Self::open(
                    "server away",
                    "quiet",
                    format!("Its server does not answer: {}. A call is tried anyway.", legibility::one_line(why)),
                    Some("`servanda doctor` says what is wrong with a server.".to_owned()),
                ),
                None => Self::open("not asked yet", "quiet", "Its server was not asked yet.".to_owned(), None),
            },
            ToolStanding::Withdrawn => Self::open(
                "withdrawn",
                "quiet",
                "Its server does not offer it any more, so agents cannot call it.".to_owned(),
                Some("Start the server as before, or remove the contract, then run `servanda check`.".to_owned()),
            ),
            ToolStanding::Offered { objections, .. } if !objections.is_empty() => Self::open(
                "doubted",
                "waiting",
                "Agents can call it. It seems to do more than its contract says.".to_owned(),
                Some(format!("`servanda identity show {name}` says who objects, and what to do about it.")),
            ),
            ToolStanding::Offered { drift, .. } if !drift.is_empty() => Self::open(
                "grown",
                "waiting",
                "Agents can call it. Its definition has additions since a person agreed to it.".to_owned(),
                Some(agreeing(name)),
            ),
            ToolStanding::Offered { .. } => Self::open("offered", "good", "Agents can call it.".to_owned(), None),
        }
    }

    fn open(words: &'static str, style: &'static str, meaning: String, next: Option<String>) -> Self {
        Self { words, style, meaning, next, is_held: false }
    }

    fn held(hold: &ToolHold, name: &str) -> Self {
        let release = || Some("When you have looked into it, release it below.".to_owned());
        let (words, meaning, next) = match hold {
            ToolHold::Observed { probes, .. } => {
                let probes = legibility::one_line(&probes.join(", "));
                let meaning =
                    format!("Its contract says that it only reads, and a call of it changed something ({probes}).");
                ("quarantined", meaning, release())
            }
            ToolHold::Blocked { by, reason } => {
                let meaning = format!("{} holds it back: {}", legibility::one_line(by), legibility::one_line(reason));
                ("quarantined", meaning, release())
            }
            ToolHold::Rejected { reason } => (
                "unusable",
                format!("Its definition cannot be used: {}.", legibility::one_line(reason)),
                Some("Tell the author of the server; `servanda doctor` shows all of its server.".to_owned()),
            ),
            ToolHold::Quarantined { severity, .. } => {
                let meaning = format!(
                    "Its definition is not the one that a person agreed to, and the change is {}. What changed is below.",
                    severity.word()
                );
                ("changed", meaning, Some(agreeing(name)))
            }
            ToolHold::Unpinned => {
                ("not agreed to", "No person has agreed to its definition yet.".to_owned(), Some(agreeing(name)))
            }
            ToolHold::Incompatible { .. } => (
                "does not fit",
                "It does not accept what its contract says.".to_owned(),
                Some("Correct its contract, then run `servanda check`.".to_owned()),
            ),
        };
        Self { words, style: "bad", meaning, next, is_held: true }
    }
}

/// How a person agrees to the present definition.
fn agreeing(name: &str) -> String {
    format!(
        "To agree to the present definition, run `servanda pin {name}` beside `servanda.yaml` and commit `servanda.lock`; the gateway uses it \
         within seconds. Until then it stays as it is."
    )
}
