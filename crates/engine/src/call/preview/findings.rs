//! What a dry run found out, and what follows from it for the call.

use servanda_contract::{
    CallPreview, Feedback, GateName, Refusal,
    preview::{
        ApprovalStanding, PredictedEffects, PreviewVerdict, PreviewedApproval, PreviewedBudget, PreviewedDecision,
        PreviewedGate, PreviewedOperation, PreviewedPrecondition, UpstreamPreview,
    },
};

/// The gates that judge once more what a dry run finds out.
const LATE_GATES: [GateName; 4] = [GateName::Scope, GateName::State, GateName::Confirmation, GateName::Budget];

/// What a dry run found out.
#[derive(Debug, Default)]
pub(super) struct PreviewFindings {
    /// What would refuse the call, in the order of the gates.
    pub(super) refusals: Vec<Refusal>,
    /// Whether gates 1 to 9 passed it, so that the rest was looked at.
    pub(super) was_judged: bool,
    pub(super) effects: Option<PredictedEffects>,
    pub(super) preconditions: Vec<PreviewedPrecondition>,
    pub(super) approval: Option<PreviewedApproval>,
    pub(super) cost: Option<String>,
    pub(super) budgets: Vec<PreviewedBudget>,
    pub(super) operation: Option<PreviewedOperation>,
    pub(super) upstream_preview: Option<UpstreamPreview>,
}

impl PreviewFindings {
    /// A gate before the tenth refuses the call, so nothing else is looked at.
    pub(super) fn refused(refusal: Refusal) -> Self {
        Self { refusals: vec![refusal], ..Self::default() }
    }

    /// What would become of the call. People come before budgets and preconditions, and everything else before people.
    pub(super) fn verdict(&self) -> PreviewVerdict {
        let waits = self.waits();
        let is_late = |refusal: &Refusal| matches!(refusal.gate, GateName::Budget | GateName::State);
        match self.refusals.first() {
            _ if self.is_done() => PreviewVerdict::WouldBeReplayed,
            None if waits => PreviewVerdict::WouldWaitForApproval,
            None => PreviewVerdict::WouldPass,
            Some(first) if waits && is_late(first) => PreviewVerdict::WouldWaitForApproval,
            Some(_) => PreviewVerdict::WouldBeRefused,
        }
    }

    /// Whether the operation is done, so that its answer is replayed.
    pub(super) fn is_done(&self) -> bool {
        self.operation == Some(PreviewedOperation::Done)
    }

    fn waits(&self) -> bool {
        let standing = self.approval.as_ref().map(|approval| approval.standing);
        matches!(standing, Some(ApprovalStanding::NotAsked | ApprovalStanding::Pending))
    }

    /// The verdicts of the gates that a dry run decides itself.
    pub(super) fn late_verdicts(&self) -> Vec<(GateName, bool)> {
        // The stored answer of a done operation costs nothing and needs no approval.
        if !self.was_judged || self.is_done() {
            return Vec::new();
        }
        let refuses = |gate: GateName| self.refusals.iter().any(|refusal| refusal.gate == gate);
        let decided = LATE_GATES.into_iter().filter(|gate| match gate {
            // The credential was revoked meanwhile.
            GateName::Scope => refuses(GateName::Scope),
            // Without preconditions, the gate's own verdict is on the trail already.
            GateName::State => !self.preconditions.is_empty(),
            GateName::Confirmation => self.approval.is_some() && !self.waits(),
            _ => true,
        });
        decided.map(|gate| (gate, !refuses(gate))).collect()
    }

    /// Says what a plain verdict cannot: that the call waits, or that a store could not be asked.
    pub(super) fn correct(&self, gates: &mut [PreviewedGate]) {
        let standing = self.approval.as_ref().map(|approval| approval.standing);
        let confirmation = match standing {
            Some(ApprovalStanding::NotAsked | ApprovalStanding::Pending) => PreviewedDecision::Wait,
            Some(ApprovalStanding::Unknown) => PreviewedDecision::Unknown,
            _ => return,
        };
        for gate in gates.iter_mut().filter(|gate| gate.gate == GateName::Confirmation) {
            gate.decision = confirmation;
        }
    }

    /// The preview with everything that was found out.
    pub(super) fn fill(self, frame: CallPreview) -> CallPreview {
        CallPreview {
            refusals: self.refusals.iter().map(Feedback::from_refusal).collect(),
            effects: self.effects,
            preconditions: self.preconditions,
            approval: self.approval,
            cost: self.cost,
            budgets: self.budgets,
            operation: self.operation,
            upstream_preview: self.upstream_preview,
            ..frame
        }
    }
}
