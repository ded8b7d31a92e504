//! The product from outside: the built binary as real processes, in folders of their own, against real upstreams.
//!
//! What a single crate promises is tested there; here is what a person, an agent and an auditor see of the whole.

mod agent;
mod calls;
mod check;
mod contract;
mod crash;
mod doctor;
mod doors;
mod gates;
mod gateway;
mod hostile;
mod http;
mod init;
mod output;
mod pipe;
mod records;
mod reference;
mod snapshot;
mod stdio;
mod streams;
mod stub;
mod world;
