//! Which tool is meant, and what it does. Responsible for the layers of a tool's identity (`layers`), for what a program among
//! the arguments would do (`effects`), and for recovering a tool's behaviour from its descriptor (`classifier`).
//!
//! Pure: no I/O, no clock. What a contract declares is `servanda_contract::tool::Behaviour`; deciding a call is the gates'.

pub mod classifier;
pub mod effects;
pub mod layers;
