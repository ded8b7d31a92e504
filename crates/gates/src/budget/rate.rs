//! How often a tool may be called: a bucket of tokens for each tenant and tool, filled evenly as its contract says. Whole numbers
//! and time as a parameter, so that nothing is ever lost or won by rounding.
//!
//! Each process has its own: several gateways together let through as many times more. What has to be exact across them is a
//! budget. There are at most so many buckets; one that is full again says nothing and is dropped for a new one, the longest unused
//! first, and while all are in use a new tool is refused.

use std::{collections::HashMap, fmt};

use servanda_contract::tool::RateLimits;

/// So many calls in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    calls_max: u64,
    window_ms: u64,
}

/// That a call comes too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolRateExceeded {
    /// When there is a token again.
    pub retry_after_ms: u64,
    /// How many there are; none, unless it is buckets that are missing.
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

/// One tool's tokens. They are counted in shares, of which each call takes `window_ms` and each millisecond brings `calls_max`.
#[derive(Debug, Clone, Copy)]
struct ToolRateBucket {
    rate: Rate,
    shares: u128,
    at_ms: u64,
}

/// As a contract says it.
impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} calls in {} s", self.calls_max, self.window_ms / 1_000)
    }
}

impl Rate {
    /// What a contract says. None of its numbers is zero when it was admitted; here a zero is taken for one.
    pub fn from_limits(limits: &RateLimits) -> Self {
        Self { calls_max: limits.max_requests.max(1), window_ms: limits.window_sec.saturating_mul(1_000).max(1) }
    }

    fn full(self) -> u128 {
        u128::from(self.calls_max) * u128::from(self.window_ms)
    }
}

impl ToolRateLimiter {
    /// None yet, and never more than that.
    pub fn new(buckets_max: usize) -> Self {
        Self { tenants: HashMap::new(), buckets: 0, buckets_max }
    }

    /// Takes a token, and says how many are left.
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

    /// Drops the longest unused of those that are full again; if there is none, says when there is.
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
    /// A contract may say something else than before: what was used of one is used of the other.
    fn change(&mut self, rate: Rate) {
        if rate == self.rate {
            return;
        }
        let used_calls = (self.rate.full().saturating_sub(self.shares)).div_ceil(u128::from(self.rate.window_ms));
        let used = used_calls.saturating_mul(u128::from(rate.window_ms));
        (self.rate, self.shares) = (rate, rate.full().saturating_sub(used));
    }

    /// A clock that goes back brings nothing.
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
