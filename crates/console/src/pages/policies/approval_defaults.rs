//! When calls need an approval if neither contract nor policy says anything: the approval function itself, asked for each class.

use servanda_approval::{ApprovalFacts, ApprovalInputs, ApprovalSettings, TrustLevel, demand};
use servanda_contract::tool::{DataClassification, MutationClass, SideEffectClass};

/// Every class, the mildest first.
const CLASSES: [SideEffectClass; 6] = [
    SideEffectClass::ReadOnly,
    SideEffectClass::EphemeralWrite,
    SideEffectClass::LowRiskInternal,
    SideEffectClass::MediumRiskWrite,
    SideEffectClass::HighRiskExternal,
    SideEffectClass::CriticalMutation,
];

/// What one class needs.
pub(super) struct ApprovalDefaultsRow {
    pub(super) class: &'static str,
    /// Of a trusted caller, for a change that can be undone.
    pub(super) reversible: String,
    /// Of a trusted caller, for a change that cannot be undone.
    pub(super) irreversible: String,
    /// Of a caller under a name that is only claimed.
    pub(super) untrusted: String,
}

/// The table.
pub(super) fn rows(settings: &ApprovalSettings) -> Vec<ApprovalDefaultsRow> {
    let needed = |class: SideEffectClass, mutation: MutationClass, trust: TrustLevel| {
        let facts = ApprovalFacts {
            mutation: Some(mutation),
            manifest: &[],
            data: DataClassification::Internal,
            confirmation_required: false,
            terms: None,
        };
        let inputs = ApprovalInputs { class, facts, trust, policies: &[], payload: None };
        demand(&inputs, settings).map_or_else(|| "none".to_owned(), |demand| demand.describe())
    };
    let row = |class: SideEffectClass| ApprovalDefaultsRow {
        class: class.word(),
        reversible: needed(class, MutationClass::WriteReversible, TrustLevel::Trusted),
        irreversible: needed(class, MutationClass::WriteIrreversible, TrustLevel::Trusted),
        untrusted: needed(class, MutationClass::WriteReversible, TrustLevel::Claimed),
    };
    CLASSES.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_the_approval_function_says() {
        let many = rows(&ApprovalSettings { is_production: true, ..ApprovalSettings::default() });
        let class = |class: &str| many.iter().find(|row| row.class == class).unwrap();
        assert_eq!(class("READ_ONLY").untrusted, "none");
        assert_eq!(class("MEDIUM_RISK_WRITE").reversible, "none");
        assert_eq!(class("MEDIUM_RISK_WRITE").irreversible, "an approver");
        assert_eq!(class("CRITICAL_MUTATION").reversible, "2 approvers");
        let off = rows(&ApprovalSettings { by_class: false, ..ApprovalSettings::default() });
        assert!(off.iter().all(|row| row.irreversible == "none"));
    }
}
