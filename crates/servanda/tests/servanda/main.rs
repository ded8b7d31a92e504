//! The product from outside: the built binary as real processes, in folders of their own, against real upstreams.
//!
//! The promises of a single crate are tested there; these tests check what a person, an agent and an auditor see of the whole.

#[cfg(test)]
mod access;
#[cfg(test)]
mod admission;
#[cfg(test)]
mod agent;
#[cfg(test)]
mod allow_rules;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod backups;
#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod budgets;
#[cfg(test)]
mod bundles;
#[cfg(test)]
mod call_lists;
#[cfg(test)]
mod callbacks;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod canaries;
#[cfg(test)]
mod chain;
#[cfg(test)]
mod check;
#[cfg(test)]
#[allow(dead_code, reason = "the ledger's own tests use all of it")]
#[path = "../../../ledger/src/tests/cluster.rs"]
mod cluster;
#[cfg(test)]
mod collector;
#[cfg(test)]
mod columns;
#[cfg(test)]
mod connect;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod doors;
#[cfg(test)]
mod doubts;
#[cfg(test)]
mod dry_runs;
#[cfg(test)]
mod effects;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod eras;
#[cfg(test)]
mod feedback;
#[cfg(test)]
mod found_secrets;
#[cfg(test)]
mod gates;
#[cfg(test)]
mod gateway;
#[cfg(test)]
mod grants;
#[cfg(test)]
mod health;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod http;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod import;
#[cfg(test)]
mod init;
#[cfg(test)]
mod issuer;
#[cfg(test)]
mod json_everywhere;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod logins;
mod logs;
#[cfg(test)]
mod masked_states;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod names;
#[cfg(test)]
mod operators;
#[cfg(test)]
mod opinions;
#[cfg(test)]
mod outages;
mod output;
#[cfg(test)]
mod passkeys;
#[cfg(test)]
mod pins;
#[cfg(test)]
mod pipe;
#[cfg(test)]
mod planted;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod quarantine;
#[cfg(test)]
mod received;
#[cfg(test)]
mod recipes;
#[cfg(test)]
mod records;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod removal;
#[cfg(test)]
mod repair;
mod running_gateway;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod settling;
#[cfg(test)]
mod sightings;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod snapshot;
#[cfg(test)]
mod stdio;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod stub;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod tenants_offers;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod threats;
#[cfg(test)]
mod turncoat;
#[cfg(test)]
mod upkeep;
#[cfg(test)]
mod watching;
#[cfg(test)]
mod works;
#[cfg(test)]
mod world;
