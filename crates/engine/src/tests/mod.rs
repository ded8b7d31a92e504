//! The whole engine, against scripted upstreams and scripted stores.

mod calls;
mod conversations;
mod inputs;
mod news;
mod relays;
mod tasks;
mod worlds;
