//! The console as a browser and its attackers see it: requests and answers, with an engine whose stores are in memory.

#![allow(unreachable_pub, missing_docs, reason = "the fixture is shared with an example")]

#[cfg(test)]
mod browser;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod decisions;
#[cfg(test)]
mod effects;
#[cfg(test)]
mod escaping;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod forgery;
#[cfg(test)]
mod grants;
#[cfg(test)]
mod hostile_packets;
#[cfg(test)]
mod identity_provider;
#[cfg(test)]
mod markup;
#[cfg(test)]
mod masked_states;
#[cfg(test)]
mod oidc;
#[cfg(test)]
mod oidc_refused;
#[cfg(test)]
mod over_http;
#[cfg(test)]
mod overview;
#[cfg(test)]
mod passkeys;
#[cfg(test)]
mod passkeys_refused;
#[cfg(test)]
mod people;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod policies_and_budgets;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod soft_passkey;
#[cfg(test)]
mod tools;
