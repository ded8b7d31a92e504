//! Both doors from outside: real sockets, real pipes, a small gateway behind them, every answer checked against MCP's
//! own schemas.

#[cfg(test)]
mod admission;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod bounds;
#[cfg(test)]
mod client_messages;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod health;
#[cfg(test)]
mod http_client;
#[cfg(test)]
mod http_legacy;
#[cfg(test)]
mod http_modern;
#[cfg(test)]
mod http_sessions;
#[cfg(test)]
mod inquiries;
#[cfg(test)]
mod listening;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod mirrored_arguments;
#[cfg(test)]
mod notebook;
#[cfg(test)]
mod questions;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod revival;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod stdio;
#[cfg(test)]
mod stdio_client;
#[cfg(test)]
mod stdio_sessions;
#[cfg(test)]
mod threads;
