//! Which tool is meant, and what it does. Responsible for the layers of a tool's identity (`layers`), for what a program in the
//! arguments would do (`effects`), and for recovering a tool's behaviour from its descriptor (`classifier`).
//!
//! Pure: no I/O, no clock. A contract declares its behaviour in `servanda_contract::tool::Behaviour`; the gates decide calls.

pub mod classifier;
pub mod effects;
pub mod layers;
