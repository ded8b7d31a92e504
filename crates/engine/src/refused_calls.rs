//! Limits how often a principal's calls may be refused, and how many records of refused calls are kept. A refused call costs its caller
//! nothing, but costs the gateway a pass through the gates and a record on disk: without these limits one principal could fill the disk
//! with calls that were never made.
//!
//! A principal whose calls are refused too often has to wait, and its calls do not reach the gates meanwhile. A refused call beyond the
//! budget of records is refused as usual, but gets no record; the log tells how many got none.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use servanda_contract::Caller;
use tokio::time::Instant;

/// The most principals that are remembered; the one that was quiet for the longest time is dropped first.
const PRINCIPALS_MAX: usize = 4_096;
/// One principal gets at most one `PRINCIPALS_SHARE`th of the records.
const PRINCIPALS_SHARE: u32 = 4;
/// How often the log tells that records were not kept.
const TOLD_EVERY: Duration = Duration::from_mins(1);

/// Limits of refused calls and of their records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedCallLimits {
    /// Calls of one principal that may be refused in a minute, all at once or one by one.
    pub calls_per_minute_max: u32,
    /// Records of refused calls that are kept in a day, of all principals together.
    pub records_per_day_max: u32,
}

impl Default for RefusedCallLimits {
    fn default() -> Self {
        Self { calls_per_minute_max: 1_200, records_per_day_max: 20_000 }
    }
}

/// The calls that were refused lately.
#[derive(Debug)]
pub(crate) struct RefusedCalls {
    limits: RefusedCallLimits,
    tally: Mutex<RefusalTally>,
}

#[derive(Debug)]
struct RefusalTally {
    principals: HashMap<PrincipalKey, PrincipalBuckets>,
    records: RefusalBucket,
    /// Records that were not kept since the log last told.
    not_kept: u64,
    told_at: Option<Instant>,
}

/// Tenant and principal.
type PrincipalKey = (String, String);

#[derive(Debug)]
struct PrincipalBuckets {
    calls: RefusalBucket,
    records: RefusalBucket,
}

/// A token bucket: a number of things at once, and the same number again over a time.
#[derive(Debug)]
struct RefusalBucket {
    left: f64,
    at: Instant,
}

impl RefusedCalls {
    pub(crate) fn new(limits: RefusedCallLimits) -> Self {
        let records = RefusalBucket::full(f64::from(limits.records_per_day_max));
        let tally = RefusalTally { principals: HashMap::new(), records, not_kept: 0, told_at: None };
        Self { limits, tally: Mutex::new(tally) }
    }

    /// How long a caller has to wait because its calls were refused too often; none if it need not wait.
    pub(crate) fn wait_ms(&self, caller: &Caller) -> Option<u64> {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        // The common case: no call was refused yet.
        if tally.principals.is_empty() {
            return None;
        }
        let of_principal = tally.principals.get_mut(&principal(caller))?;
        of_principal.calls.fill(self.calls());
        of_principal.calls.wait_ms(self.calls())
    }

    /// Counts a refused call. Returns whether its record is kept.
    pub(crate) fn count(&self, caller: &Caller) -> bool {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.make_room();
        let (all, own) = (self.records(), self.own_records());
        let of_principal = tally.principals.entry(principal(caller)).or_insert_with(|| PrincipalBuckets {
            calls: RefusalBucket::full(self.calls().count),
            records: RefusalBucket::full(own.count),
        });
        of_principal.calls.take(self.calls());
        let is_kept = of_principal.records.take(own) && tally.records.take(all);
        if !is_kept {
            tally.log_not_kept(caller);
        }
        is_kept
    }

    fn calls(&self) -> BucketSize {
        BucketSize { count: f64::from(self.limits.calls_per_minute_max), over: Duration::from_mins(1) }
    }

    fn records(&self) -> BucketSize {
        BucketSize { count: f64::from(self.limits.records_per_day_max), over: Duration::from_hours(24) }
    }

    fn own_records(&self) -> BucketSize {
        let count = (self.limits.records_per_day_max / PRINCIPALS_SHARE).max(1);
        BucketSize { count: f64::from(count), ..self.records() }
    }
}

impl RefusalTally {
    fn make_room(&mut self) {
        while self.principals.len() >= PRINCIPALS_MAX {
            let quietest =
                self.principals.iter().min_by_key(|(_, of)| of.calls.at).map(|(principal, _)| principal.clone());
            let Some(quietest) = quietest else { return };
            self.principals.remove(&quietest);
        }
    }

    fn log_not_kept(&mut self, caller: &Caller) {
        self.not_kept += 1;
        if self.told_at.is_some_and(|told_at| told_at.elapsed() < TOLD_EVERY) {
            return;
        }
        tracing::warn!(
            count = self.not_kept,
            last = %format_args!("{}/{}", caller.tenant, caller.principal),
            "refused calls are not on record: the budget of their records is used up"
        );
        (self.not_kept, self.told_at) = (0, Some(Instant::now()));
    }
}

/// The size of a bucket, and the time in which it fills.
#[derive(Debug, Clone, Copy)]
struct BucketSize {
    count: f64,
    over: Duration,
}

impl RefusalBucket {
    fn full(count: f64) -> Self {
        Self { left: count, at: Instant::now() }
    }

    fn fill(&mut self, measure: BucketSize) {
        let now = Instant::now();
        let grown = (now - self.at).as_secs_f64() * measure.count / measure.over.as_secs_f64();
        (self.left, self.at) = ((self.left + grown).min(measure.count), now);
    }

    fn take(&mut self, measure: BucketSize) -> bool {
        self.fill(measure);
        let is_there = self.left >= 1.0;
        if is_there {
            self.left -= 1.0;
        }
        is_there
    }

    /// How long until something is left to take; none if something is left now.
    fn wait_ms(&self, measure: BucketSize) -> Option<u64> {
        (self.left < 1.0).then(|| {
            let seconds = (1.0 - self.left) * measure.over.as_secs_f64() / measure.count.max(1.0);
            u64::try_from(Duration::from_secs_f64(seconds).as_millis()).unwrap_or(u64::MAX).max(1)
        })
    }
}

fn principal(caller: &Caller) -> PrincipalKey {
    (caller.tenant.clone(), caller.principal.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use servanda_contract::Caller;

    use super::{PRINCIPALS_MAX, RefusedCallLimits, RefusedCalls};

    fn somebody(principal: &str) -> Caller {
        Caller { principal: principal.to_owned(), ..Caller::local() }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_principal_that_is_refused_too_often_waits() {
        let refused = RefusedCalls::new(RefusedCallLimits { calls_per_minute_max: 60, records_per_day_max: 1_000 });
        let (one, other) = (somebody("one"), somebody("other"));
        for _ in 0..60 {
            assert_eq!(refused.wait_ms(&one), None);
            refused.count(&one);
        }
        assert_eq!(refused.wait_ms(&one), Some(1_000));
        assert_eq!(refused.wait_ms(&other), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(refused.wait_ms(&one), None);
    }

    #[tokio::test(start_paused = true)]
    async fn records_have_a_budget_of_which_one_principal_has_a_share() {
        let refused =
            RefusedCalls::new(RefusedCallLimits { calls_per_minute_max: 1_000_000, records_per_day_max: 400 });
        let kept = |who: &str| (0..1_000).filter(|_| refused.count(&somebody(who))).count();
        assert_eq!(["a", "b", "c", "d", "e"].map(kept), [100, 100, 100, 100, 0]);
        tokio::time::advance(Duration::from_hours(24)).await;
        assert_eq!(kept("e"), 100);
    }

    #[tokio::test]
    async fn only_so_many_principals_are_remembered() {
        let refused = RefusedCalls::new(RefusedCallLimits::default());
        for number in 0..PRINCIPALS_MAX + 10 {
            refused.count(&somebody(&number.to_string()));
        }
        assert_eq!(refused.tally.lock().unwrap().principals.len(), PRINCIPALS_MAX);
    }
}
