//! Whether what was found in a descriptor bears out what its author declares. A difference towards more danger goes to review;
//! what review decides is not decided here.

use servanda_contract::tool::{Action, Behaviour, Mutability};

use super::Annotations;

/// What an author says of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// A declared behaviour.
    Behaviour(Behaviour),
    /// MCP's annotations.
    Annotations(Annotations),
}

/// What comes of comparing a claim with what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Corroboration {
    /// Everything claimed was found.
    Agreement,
    /// Nothing was claimed that could be compared.
    Unclaimed,
    /// Something differs.
    Disagreement {
        /// Which way, taken together: towards danger if any difference is, sideways only if all are.
        direction: Direction,
        /// Each difference.
        differences: Vec<Difference>,
    },
}

/// Which way what was found differs from what was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// The tool looks no safer and no more dangerous, but different.
    Sideways,
    /// The tool looks safer than claimed: the claim stands, nobody has to look.
    LessDangerous,
    /// The tool looks more dangerous than claimed: somebody has to look.
    MoreDangerous,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The field.
    pub field: &'static str,
    /// What its author says.
    pub claimed: &'static str,
    /// What was found.
    pub found: &'static str,
    /// Which way.
    pub direction: Direction,
}

impl Corroboration {
    /// Whether somebody has to look before the tool is admitted as declared.
    pub fn needs_review(&self) -> bool {
        matches!(self, Self::Disagreement { direction: Direction::MoreDangerous, .. })
    }
}

/// Compares a claim with what was found.
pub fn corroborate(claim: &Claim, found: &Behaviour) -> Corroboration {
    let differences = match claim {
        Claim::Behaviour(declared) => of_behaviour(declared, found),
        Claim::Annotations(hints) => {
            if hints.read_only_hint.is_none() && hints.destructive_hint.is_none() {
                return Corroboration::Unclaimed;
            }
            of_annotations(*hints, found)
        }
    };
    match differences.iter().map(|difference| difference.direction).max() {
        Some(direction) => Corroboration::Disagreement { direction, differences },
        None => Corroboration::Agreement,
    }
}

fn of_behaviour(declared: &Behaviour, found: &Behaviour) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut note = |field, claimed: &'static str, found: &'static str, direction| {
        if claimed != found {
            differences.push(Difference { field, claimed, found, direction });
        }
    };
    let by_mutability = toward(declared.mutability, found.mutability);
    note("mutability", declared.mutability.word(), found.mutability.word(), by_mutability);
    note(
        "action",
        declared.action.word(),
        found.action.word(),
        toward(gravity(declared.action), gravity(found.action)),
    );
    note("output_domain", declared.output_domain.word(), found.output_domain.word(), Direction::Sideways);
    if let (Some(claimed), Some(content)) = (declared.content_type, found.content_type) {
        note("content_type", claimed.word(), content.word(), Direction::Sideways);
    }
    differences
}

/// A missing `readOnlyHint` means "not read-only" and a missing `destructiveHint` means "may destroy": both are MCP's defaults
/// and claim nothing, so only what is written counts.
fn of_annotations(hints: Annotations, found: &Behaviour) -> Vec<Difference> {
    let mut differences = Vec::new();
    let claimed = hints.read_only_hint.map(|read_only| if read_only { Mutability::Pure } else { Mutability::Mutates });
    if let Some(claimed) = claimed.filter(|claimed| *claimed != found.mutability) {
        differences.push(Difference {
            field: "readOnlyHint",
            claimed: claimed.word(),
            found: found.mutability.word(),
            direction: toward(claimed, found.mutability),
        });
    }
    let destroys = matches!(found.action, Action::Delete | Action::Overwrite);
    if hints.destructive_hint == Some(false) && destroys {
        differences.push(Difference {
            field: "destructiveHint",
            claimed: "does not destroy",
            found: found.action.word(),
            direction: Direction::MoreDangerous,
        });
    }
    differences
}

fn toward<T: Ord + Copy>(claimed: T, found: T) -> Direction {
    match found.cmp(&claimed) {
        std::cmp::Ordering::Less => Direction::LessDangerous,
        std::cmp::Ordering::Equal => Direction::Sideways,
        std::cmp::Ordering::Greater => Direction::MoreDangerous,
    }
}

/// How much an action can undo: looking, adding, changing, replacing, removing.
fn gravity(action: Action) -> u8 {
    match action {
        Action::Read | Action::Search => 0,
        Action::Append | Action::Create => 1,
        Action::Update | Action::Merge => 2,
        Action::Overwrite => 3,
        Action::Delete => 4,
    }
}
