//! Counters and histograms of finished calls, and their text form for Prometheus.
//!
//! Deliberately not here: the door that serves them.
