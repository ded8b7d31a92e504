//! Equal parts are kept once, and a change to one never affects another.

use serde_json::json;

use crate::{ToolContract, pool::SectionPool, testing::void_invoice};

#[test]
fn equal_sections_are_kept_once_and_the_contract_says_the_same() {
    let mut pool = SectionPool::default();
    let (mut one, mut other) = (void_invoice(), void_invoice());
    other.identity.name = "other".to_owned();
    let digests = [&one, &other].map(|contract| contract.digest().unwrap());
    pool.unify(&mut one);
    pool.unify(&mut other);
    assert!(one.runtime.is_same(&other.runtime) && one.error_contract.is_same(&other.error_contract));
    assert!(one.effect.as_ref().unwrap().is_same(other.effect.as_ref().unwrap()));
    assert!(one.affordance.output_schema.is_same(&other.affordance.output_schema));
    assert_eq!([&one, &other].map(|contract| contract.digest().unwrap()), digests);
}

#[test]
fn a_change_to_one_does_not_show_in_another() {
    let mut pool = SectionPool::default();
    let (mut one, mut other) = (void_invoice(), void_invoice());
    pool.unify(&mut one);
    pool.unify(&mut other);
    other.runtime.timeout_ms += 1;
    assert_eq!(one.runtime, void_invoice().runtime);
    assert_ne!(one.runtime, other.runtime);
    pool.unify(&mut other);
    assert_ne!(one.runtime, other.runtime, "sections that differ are not unified");
}

#[test]
fn shared_parts_read_and_write_as_the_parts_do() {
    let contract = void_invoice();
    let written = json!(contract);
    assert!(written["runtime"]["timeout_ms"].is_u64() && written["affordance"]["input_schema"].is_object());
    assert_eq!(serde_json::from_value::<ToolContract>(written).unwrap(), contract);
}
