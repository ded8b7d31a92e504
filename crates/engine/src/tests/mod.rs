//! The whole engine, against scripted upstreams and scripted stores.

mod calls;
mod conversations;
mod effects;
mod inputs;
mod news;
mod recovery;
mod relays;
mod retries;
mod tasks;
mod worlds;
