//! The whole engine, against scripted upstreams and scripted stores.

mod budgets;
mod caches;
mod calls;
mod claims;
mod conversations;
mod effects;
mod expectations;
mod fairness;
mod inputs;
mod marks;
mod names;
mod news;
mod onlookers;
mod overlaps;
mod policies;
mod probes;
mod recovery;
mod relays;
mod retries;
mod state;
mod tasks;
mod works;
mod worlds;
