//! The page that a monitor reads: samples by metric and labels, and their two text forms. Samples with equal labels are one.
//!
//! Deliberately not here: compression, and what else HTTP adds.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    catalogue::{Metric, MetricKind},
    histogram::{Exemplar, HistogramFigures},
    labels::write_label,
};

/// Millionths in a whole.
const MICROS: u64 = 1_000_000;

/// The text form of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFormat {
    /// Prometheus text, version 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.0, with exemplars.
    OpenMetrics,
}

/// One figure.
#[derive(Debug, Clone)]
pub(super) enum Sample {
    /// A number.
    Count(u64),
    /// A number of millionths, written in wholes.
    Micros(u64),
    /// A histogram of microseconds, written in seconds.
    Histogram(HistogramFigures),
}

/// All figures of one moment.
#[derive(Debug, Default)]
pub(super) struct Page(BTreeMap<Metric, BTreeMap<String, Sample>>);

impl Page {
    /// Adds a sample.
    pub(super) fn add(&mut self, metric: Metric, labels: &[(&str, &str)], sample: Sample) {
        let mut written = String::new();
        for (name, value) in labels {
            write_label(&mut written, name, value);
        }
        match self.0.entry(metric).or_default().entry(written) {
            std::collections::btree_map::Entry::Vacant(place) => drop(place.insert(sample)),
            std::collections::btree_map::Entry::Occupied(mut place) => place.get_mut().add(&sample),
        }
    }

    /// The same unless it is zero.
    pub(super) fn add_used(&mut self, metric: Metric, labels: &[(&str, &str)], sample: Sample) {
        if !matches!(sample, Sample::Count(0) | Sample::Micros(0)) {
            self.add(metric, labels, sample);
        }
    }

    /// The page in a text form.
    pub(super) fn text(&self, format: PageFormat) -> String {
        let mut out = String::with_capacity(64 << 10);
        for (metric, samples) in &self.0 {
            describe(&mut out, *metric, format);
            for (labels, sample) in samples {
                sample.write(&mut out, (*metric, labels), format);
            }
        }
        if format == PageFormat::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

impl Sample {
    fn add(&mut self, more: &Self) {
        match (self, more) {
            (Self::Count(count), Self::Count(more)) | (Self::Micros(count), Self::Micros(more)) => {
                *count = count.saturating_add(*more);
            }
            (Self::Histogram(figures), Self::Histogram(more)) => figures.add(more),
            // One metric has samples of one kind.
            _ => {}
        }
    }

    fn write(&self, out: &mut String, (metric, labels): (Metric, &str), format: PageFormat) {
        let name = metric.name();
        // Writing to a string cannot fail, here and below.
        let _ = match self {
            Self::Count(count) => writeln!(out, "{name}{} {count}", in_braces(labels)),
            Self::Micros(micros) => writeln!(out, "{name}{} {}", in_braces(labels), wholes(*micros)),
            Self::Histogram(figures) => {
                write_histogram(out, (name, labels), figures, format);
                Ok(())
            }
        };
    }
}

fn describe(out: &mut String, metric: Metric, format: PageFormat) {
    let (name, kind) = (metric.name(), metric.kind());
    let kind_word = match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    // `OpenMetrics` names a counter without the end of its samples' names.
    let family = match (format, kind) {
        (PageFormat::OpenMetrics, MetricKind::Counter) => name.strip_suffix("_total").unwrap_or(name),
        _ => name,
    };
    let _ = writeln!(out, "# HELP {family} {}\n# TYPE {family} {kind_word}", metric.help());
}

fn write_histogram(out: &mut String, (name, labels): (&str, &str), figures: &HistogramFigures, format: PageFormat) {
    let before = if labels.is_empty() { String::new() } else { format!("{labels},") };
    let bounds = figures.bounds.iter().map(|bound| bound.seconds).chain(["+Inf"]);
    let mut up_to_here = 0_u64;
    for (bucket, (bound, count)) in bounds.zip(&figures.counts).enumerate() {
        up_to_here = up_to_here.saturating_add(*count);
        let _ = write!(out, "{name}_bucket{{{before}le=\"{bound}\"}} {up_to_here}");
        if let (PageFormat::OpenMetrics, Some(Some(exemplar))) = (format, figures.exemplars.get(bucket)) {
            write_exemplar(out, exemplar);
        }
        out.push('\n');
    }
    let braces = in_braces(labels);
    let _ = writeln!(out, "{name}_sum{braces} {}\n{name}_count{braces} {up_to_here}", wholes(figures.sum_us));
}

fn write_exemplar(out: &mut String, exemplar: &Exemplar) {
    let at_ms = exemplar.at.unix_ms();
    let _ = write!(
        out,
        " # {{trace_id=\"{}\"}} {} {}.{:03}",
        exemplar.trace_id.escape_ascii(),
        wholes(exemplar.us),
        at_ms / 1_000,
        at_ms % 1_000
    );
}

fn in_braces(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

/// Millionths as a decimal number, exactly.
fn wholes(micros: u64) -> String {
    let (whole, fraction) = (micros / MICROS, micros % MICROS);
    if fraction == 0 { whole.to_string() } else { format!("{whole}.{fraction:06}") }
}
