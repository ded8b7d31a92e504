//! The whole engine, against scripted upstreams and scripted stores.

mod budgets;
mod caches;
mod calls;
mod claims;
mod conversations;
mod effects;
mod expectations;
mod fairness;
mod hostile;
mod inputs;
mod marks;
mod names;
mod news;
mod onlookers;
mod overlaps;
mod policies;
mod probes;
mod questions;
mod recovery;
mod refused;
mod relays;
mod retries;
mod state;
mod tasks;
mod works;
mod worlds;
