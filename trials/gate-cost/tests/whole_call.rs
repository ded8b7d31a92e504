//! A whole call takes as many instructions and allocations as the golden figures say. The program measures itself, in processes of its own.

use std::process::Command;

#[test]
fn a_whole_call_takes_what_the_golden_figures_say() {
    let ran = Command::new(env!("CARGO_BIN_EXE_gate-cost")).arg("check").output().expect("the program starts");
    let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", told(&ran.stdout));
    assert!(ran.status.success(), "\n{}{}", told(&ran.stdout), told(&ran.stderr));
}
