//! OAuth as a client of upstream MCP servers: where tokens are issued, which client the gateway is there, what a user consents to, and how
//! tokens are kept until they are used. And `OpenID` Connect, as far as it is the same: as the client of the provider that signs people in.
//!
//! Nothing that an upstream or an authorization server says is believed just because it was said: `allowed_url` and `metadata` decide which
//! of it counts. Deliberately absent: authentication of the gateway's own callers, and any way for their credentials to reach an upstream.

pub mod allowed_url;
pub mod assertion;
pub mod callback;
pub mod challenge;
pub mod client;
pub mod discovery;
pub mod fetch;
pub mod flow;
pub mod grant;
pub mod login;
pub mod login_store;
pub mod machine;
pub mod metadata;
pub mod openid;
pub mod personal;
pub mod pkce;
pub mod probe;
pub mod request;
pub mod scope;
#[cfg(test)]
mod testing;
pub mod token_response;
pub mod well_known;
