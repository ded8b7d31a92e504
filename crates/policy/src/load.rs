//! Reads policies: each is parsed by itself, named, located and validated. If one is wrong, none is loaded. The caller opens
//! the files.

use std::{collections::HashMap, sync::Arc};

use cedar_policy::{Effect, Expression, Policy, PolicyId};
use servanda_approval::PolicyApproval;

use crate::{
    context_needs::ContextNeeds,
    deciding_policy::DecidingPolicy,
    findings::{PolicyFinding, PolicyFindingKind, describe_diagnostic},
    loaded::{LoadedPolicy, PolicySource},
    nearest::nearest,
    scope::policy_scope,
    split::{PolicyText, clauses, pieces, position},
    validate,
    vocabulary::Vocabulary,
};

/// The deepest nesting of brackets in one policy.
const DEPTH_MAX: usize = 24;
/// The most conditions that one policy may join. This limit and the next two exist because Cedar recurses along them, and a
/// stack overflow ends the process.
const JOINS_MAX: usize = 64;
/// The most steps, sums and the like in one condition.
const STEPS_MAX: usize = 32;
/// The most `if`s in one policy. They are counted before the policy is parsed, so words that begin with `if` count too. Each
/// `if` in the `then` of another doubles the work of validation: with 32 it does not end.
const IFS_MAX: usize = 8;
/// After this many mistakes the search stops, because the list is long enough.
const FINDINGS_MAX: usize = 200;
/// The longest id.
const ID_BYTES_MAX: usize = 128;

/// Whether the built-in permits apply beside the written policies. The rule that protects tenants from each other always
/// applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BuiltInPermits {
    /// They apply: the side-effect class decides a call that no policy mentions.
    #[default]
    On,
    /// They do not apply: a call that no policy permits is refused.
    Off,
}

/// The limits of loading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyLimits {
    /// The number of policies.
    pub policies_max: usize,
    /// The bytes of one policy.
    pub policy_bytes_max: usize,
    /// The bytes of all sources.
    pub sources_bytes_max: usize,
}

impl Default for PolicyLimits {
    fn default() -> Self {
        Self { policies_max: 20_000, policy_bytes_max: 32 << 10, sources_bytes_max: 32 << 20 }
    }
}

/// Reads sources, or reports everything that is wrong with them.
pub(crate) fn load(
    vocabulary: &Vocabulary,
    sources: &[PolicySource<'_>],
    limits: &PolicyLimits,
) -> Result<Vec<LoadedPolicy>, Vec<PolicyFinding>> {
    let mut reading =
        PolicyLoader { vocabulary, limits, loaded: Vec::new(), findings: Vec::new(), ids: HashMap::new(), at: (0, 1) };
    let bytes: usize = sources.iter().map(|source| source.text.len()).sum();
    if bytes > limits.sources_bytes_max {
        let message = format!("the policies have more than {} bytes in all", limits.sources_bytes_max);
        let file = sources.first().map_or_else(String::new, |source| source.name.to_owned());
        let kind = PolicyFindingKind::Limit;
        return Err(vec![PolicyFinding { file, line: 1, column: 1, policy: None, kind, message, hint: None }]);
    }
    for source in sources {
        reading.source(source);
    }
    let PolicyLoader { mut loaded, mut findings, .. } = reading;
    for policy in &mut loaded {
        findings.extend(
            policy.analyse_needs().err().map(|error| policy.finding(sources, 0, PolicyFindingKind::Engine, error)),
        );
    }
    findings.extend(validate::all(vocabulary, &loaded, sources));
    if findings.is_empty() {
        return Ok(loaded);
    }
    findings.sort_by(|left, right| (&left.file, left.line, left.column).cmp(&(&right.file, right.line, right.column)));
    Err(findings)
}

/// The conditions of a policy as one expression, joined as Cedar joins them.
fn condition(text: &str) -> Result<Option<Expression>, String> {
    let clauses = clauses(text);
    // A body may end with a comment, so the bracket after it is on the next line.
    let joined: Vec<String> =
        clauses.iter().map(|(when, body)| format!("{}({body}\n)", if *when { "" } else { "!" })).collect();
    if joined.is_empty() {
        return Ok(None);
    }
    joined.join(" && ").parse().map(Some).map_err(|error: cedar_policy::ParseErrors| error.to_string())
}

/// What a policy says about approvals. Only a permit can say something about them.
fn approval(policy: &Policy, id: &str) -> Result<Option<PolicyApproval>, LoadMistake> {
    let mistake =
        |message: String, hint: String| (0, Some(id.to_owned()), PolicyFindingKind::Approval, (message, Some(hint)));
    let found = PolicyApproval::read(id, |name| policy.annotation(name))
        .map_err(|fault| mistake(fault.to_string(), fault.hint))?;
    if found.is_some() && policy.effect() == Effect::Forbid {
        let message = "a `forbid` refuses the call, so there is nothing to approve".to_owned();
        let hint = "write the annotation on the `permit` whose calls need an approval".to_owned();
        return Err(mistake(message, hint));
    }
    // Other annotations mean nothing to us. A misspelt one would silently let calls pass without an approval.
    for (name, _) in policy.annotations().filter(|(name, _)| !PolicyApproval::ANNOTATIONS.contains(name)) {
        if let Some(meant) = nearest(name, PolicyApproval::ANNOTATIONS) {
            let message = format!("`@{name}` says nothing about approvals");
            return Err(mistake(message, format!("did you mean `@{meant}`?")));
        }
    }
    Ok(found)
}

struct PolicyLoader<'a> {
    vocabulary: &'a Vocabulary,
    limits: &'a PolicyLimits,
    loaded: Vec<LoadedPolicy>,
    findings: Vec<PolicyFinding>,
    /// Where each id was first used.
    ids: HashMap<String, String>,
    /// The offset up to which lines are counted, and the line there. Counting from the start for each policy would be far too
    /// slow for a long file.
    at: (usize, usize),
}

impl PolicyLoader<'_> {
    fn source(&mut self, source: &PolicySource<'_>) {
        let file: Arc<str> = source.name.into();
        self.at = (0, 1);
        for piece in pieces(source.text) {
            if self.findings.len() >= FINDINGS_MAX {
                return;
            }
            if self.loaded.len() >= self.limits.policies_max {
                let message = format!("there are more than {} policies", self.limits.policies_max);
                self.find(source, &piece, 0, None, PolicyFindingKind::Limit, (message, None));
                return;
            }
            if let Err((offset, policy, kind, words)) = self.piece(source, &piece, &file) {
                self.find(source, &piece, offset, policy, kind, words);
            }
        }
    }

    fn piece(&mut self, source: &PolicySource<'_>, piece: &PolicyText<'_>, file: &Arc<str>) -> Result<(), LoadMistake> {
        let text = piece.text;
        for (count, count_max, what) in [
            (text.len(), self.limits.policy_bytes_max, "bytes"),
            (piece.depth, DEPTH_MAX, "brackets in each other"),
            (piece.joins, JOINS_MAX, "joined conditions"),
            (piece.steps, STEPS_MAX, "steps or sums in one condition"),
            (piece.ifs, IFS_MAX, "times `if`"),
        ] {
            if count > count_max {
                let message = format!("the policy has more than {count_max} {what}");
                let hint = "write several policies: a permit or a forbid holds if one of them does".to_owned();
                return Err((0, None, PolicyFindingKind::Limit, (message, Some(hint))));
            }
        }
        let policy = Policy::parse(None, text).map_err(|errors| {
            let (offset, message, help) =
                errors.iter().next().map_or_else(|| (0, errors.to_string(), None), |first| describe_diagnostic(first));
            (offset, None, PolicyFindingKind::Syntax, (message, help))
        })?;
        let line = self.line(source, piece);
        let id = policy.annotation("id").map_or_else(|| format!("{file}:{line}"), str::to_owned);
        self.name(&id, file, line)?;
        let policy = policy.new_id(PolicyId::new(&id));
        let place = policy_scope(self.vocabulary, &policy)
            .map_err(|(message, hint)| (0, Some(id.clone()), PolicyFindingKind::NeverApplies, (message, Some(hint))))?;
        let condition = condition(text)
            .map_err(|error| (0, Some(id.clone()), PolicyFindingKind::Engine, (error, None)))?
            .map(Arc::new);
        let (text, needs) = (text.to_owned(), ContextNeeds::default());
        let reason = policy.annotation("reason").filter(|reason| !reason.is_empty()).map(str::to_owned);
        let approval = approval(&policy, &id)?.map(Box::new);
        let told = Arc::new(DecidingPolicy { policy: id.clone(), place: format!("{file}:{line}"), reason, approval });
        let (file, offset) = (Arc::clone(file), piece.offset);
        self.loaded.push(LoadedPolicy {
            id,
            file,
            offset,
            text,
            policy,
            scope: place,
            deciding_policy: told,
            needs,
            argument_accesses: Vec::new(),
            condition,
            listing: None,
        });
        Ok(())
    }

    /// The line on which a policy begins. Callers ask in the order of the policies.
    fn line(&mut self, source: &PolicySource<'_>, piece: &PolicyText<'_>) -> usize {
        let (offset, line) = self.at;
        let between = source.text.get(offset..piece.offset).unwrap_or_default();
        self.at = (piece.offset, line + position(between, between.len()).0 - 1);
        self.at.1
    }

    fn name(&mut self, id: &str, file: &str, line: usize) -> Result<(), LoadMistake> {
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            let message = format!("an id is 1 to {ID_BYTES_MAX} bytes long");
            return Err((0, None, PolicyFindingKind::Limit, (message, None)));
        }
        if let Some(other) = self.ids.insert(id.to_owned(), format!("{file}:{line}")) {
            let message = format!("the policy at {other} has the same id");
            let hint = "give each policy an `@id(\"...\")` of its own".to_owned();
            return Err((0, Some(id.to_owned()), PolicyFindingKind::SameId, (message, Some(hint))));
        }
        Ok(())
    }

    fn find(
        &mut self,
        source: &PolicySource<'_>,
        piece: &PolicyText<'_>,
        offset: usize,
        policy: Option<String>,
        kind: PolicyFindingKind,
        (message, hint): (String, Option<String>),
    ) {
        let (line, column) = position(source.text, piece.offset + offset);
        self.findings.push(PolicyFinding { file: source.name.to_owned(), line, column, policy, kind, message, hint });
    }
}

/// The offset in the policy, the policy, the kind of mistake, the message and the hint.
type LoadMistake = (usize, Option<String>, PolicyFindingKind, (String, Option<String>));
