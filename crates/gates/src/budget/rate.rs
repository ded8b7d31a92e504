//! How often a tool may be called: a token bucket for each tenant and tool, filled evenly at the rate of its
//! contract. All numbers are whole and time is a parameter, so that rounding never loses or gains anything.
//!
//! Each process has its own buckets: several gateways together let through as many times more. Limits that have
//! to be exact across gateways are budgets. The number of buckets is limited. A bucket that is full again
//! carries no information and is dropped for a new one, the longest unused first; while all are in use, a new
//! tool is refused.

use std::{collections::HashMap, fmt};

use servanda_contract::tool::RateLimits;

/// A number of calls in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    calls_max: u64,
    window_ms: u64,
}

/// The error that a call comes too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolRateExceeded {
    /// When there is a token again.
    pub retry_after_ms: u64,
    /// How many tokens are left; zero, unless there was no free bucket.
    pub left: u64,
}

/// The buckets of this process.
#[derive(Debug)]
pub struct ToolRateLimiter {
    /// By tenant, then by tool.
    tenants: HashMap<String, HashMap<String, ToolRateBucket>>,
    buckets: usize,
    buckets_max: usize,
}

/// The tokens of one tool. They are counted in shares: each call takes `window_ms` shares and each millisecond
/// adds `calls_max`.
#[derive(Debug, Clone, Copy)]
struct ToolRateBucket {
    rate: Rate,
    shares: u128,
    at_ms: u64,
}

/// As a contract writes it.
impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} calls in {} s", self.calls_max, self.window_ms / 1_000)
    }
}

impl Rate {
    /// The rate of a contract. Admission ensures that none of its numbers is zero; here a zero counts as one.
    pub fn from_limits(limits: &RateLimits) -> Self {
        Self { calls_max: limits.max_requests.max(1), window_ms: limits.window_sec.saturating_mul(1_000).max(1) }
    }

    fn full(self) -> u128 {
        u128::from(self.calls_max) * u128::from(self.window_ms)
    }
}

impl ToolRateLimiter {
    /// No buckets yet, and never more than `buckets_max`.
    pub fn new(buckets_max: usize) -> Self {
        Self { tenants: HashMap::new(), buckets: 0, buckets_max }
    }

    /// Takes a token, and returns how many are left.
    pub fn take(&mut self, tenant: &str, tool: &str, rate: Rate, now_ms: u64) -> Result<u64, ToolRateExceeded> {
        if let Some(bucket) = self.tenants.get_mut(tenant).and_then(|tools| tools.get_mut(tool)) {
            bucket.change(rate);
            bucket.fill(now_ms);
            return bucket.take();
        }
        if self.buckets >= self.buckets_max {
            self.drop_one(now_ms)?;
        }
        let mut bucket = ToolRateBucket { rate, shares: rate.full(), at_ms: now_ms };
        let taken = bucket.take();
        self.tenants.entry(tenant.to_owned()).or_default().insert(tool.to_owned(), bucket);
        self.buckets += 1;
        taken
    }

    /// What [`ToolRateLimiter::take`] would say, without taking a token.
    pub fn peek(&self, tenant: &str, tool: &str, rate: Rate, now_ms: u64) -> Result<(), ToolRateExceeded> {
        let Some(bucket) = self.tenants.get(tenant).and_then(|tools| tools.get(tool)) else { return Ok(()) };
        let mut bucket = *bucket;
        bucket.change(rate);
        bucket.fill(now_ms);
        bucket.take().map(drop)
    }

    /// Drops the longest unused bucket that is full again. If there is none, the error says when there will be.
    fn drop_one(&mut self, now_ms: u64) -> Result<(), ToolRateExceeded> {
        let all = || self.tenants.iter().flat_map(|(tenant, tools)| tools_of(tenant, tools));
        let full = all().filter(|(.., bucket)| bucket.full_in_ms(now_ms) == 0);
        let Some((tenant, tool, _)) = full.min_by_key(|(.., bucket)| bucket.at_ms) else {
            let soonest = all().map(|(.., bucket)| bucket.full_in_ms(now_ms)).min();
            return Err(ToolRateExceeded { retry_after_ms: soonest.unwrap_or(1).max(1), left: 0 });
        };
        let (tenant, tool) = (tenant.to_owned(), tool.to_owned());
        if let Some(tools) = self.tenants.get_mut(&tenant) {
            self.buckets -= usize::from(tools.remove(&tool).is_some());
            if tools.is_empty() {
                self.tenants.remove(&tenant);
            }
        }
        Ok(())
    }
}

fn tools_of<'a>(
    tenant: &'a str,
    tools: &'a HashMap<String, ToolRateBucket>,
) -> impl Iterator<Item = (&'a str, &'a str, &'a ToolRateBucket)> {
    tools.iter().map(move |(tool, bucket)| (tenant, tool.as_str(), bucket))
}

impl ToolRateBucket {
    /// Changes the rate, if the contract changed. What was used of the old rate counts as used of the new one.
    fn change(&mut self, rate: Rate) {
        if rate == self.rate {
            return;
        }
        let used_calls = (self.rate.full().saturating_sub(self.shares)).div_ceil(u128::from(self.rate.window_ms));
        let used = used_calls.saturating_mul(u128::from(rate.window_ms));
        (self.rate, self.shares) = (rate, rate.full().saturating_sub(used));
    }

    /// Adds the tokens of the time that passed. A clock that goes back adds none.
    fn fill(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        let brought = u128::from(passed_ms) * u128::from(self.rate.calls_max);
        self.shares = self.shares.saturating_add(brought).min(self.rate.full());
        self.at_ms = self.at_ms.max(now_ms);
    }

    fn take(&mut self) -> Result<u64, ToolRateExceeded> {
        let call = u128::from(self.rate.window_ms);
        let Some(rest) = self.shares.checked_sub(call) else {
            let missing = call - self.shares;
            let retry_after_ms = missing.div_ceil(u128::from(self.rate.calls_max));
            return Err(ToolRateExceeded {
                retry_after_ms: u64::try_from(retry_after_ms).unwrap_or(u64::MAX),
                left: 0,
            });
        };
        self.shares = rest;
        Ok(u64::try_from(rest / call).unwrap_or(u64::MAX))
    }

    fn full_in_ms(&self, now_ms: u64) -> u64 {
        let mut then = *self;
        then.fill(now_ms);
        let missing = self.rate.full() - then.shares;
        u64::try_from(missing.div_ceil(u128::from(self.rate.calls_max))).unwrap_or(u64::MAX)
    }
}
