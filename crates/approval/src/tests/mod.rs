//! The laws of approvals: who may decide, what follows what, and what a warrant is worth.

mod demands;
mod grant_guards;
mod grants;
mod laws;
mod notices;
mod packets;
mod people;
mod samples;
mod steps;
mod warrants;
