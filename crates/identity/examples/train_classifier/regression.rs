//! Logistic regression with a quadratic penalty, by coordinate descent in the dual. Deterministic: a fixed order of examples.

/// An example: the features it has, with their values, its label and its weight.
#[derive(Debug, Clone)]
pub(crate) struct Example {
    /// Feature numbers and values.
    pub(crate) features: Vec<(usize, f64)>,
    /// Whether it mutates.
    pub(crate) positive: bool,
    /// How much it counts.
    pub(crate) weight: f64,
}

/// Learns one weight per feature. `strength` is the inverse of the penalty.
pub(crate) fn learn(examples: &[Example], features: usize, strength: f64, rounds: usize) -> Vec<f64> {
    let mut weights = vec![0.0; features];
    let mut duals: Vec<(f64, f64)> = Vec::with_capacity(examples.len());
    let norms: Vec<f64> =
        examples.iter().map(|example| example.features.iter().map(|(_, value)| value * value).sum()).collect();
    for example in examples {
        let bound = strength * example.weight;
        let start = (bound * 0.001).min(1e-8);
        duals.push((start, bound - start));
        let sign = if example.positive { 1.0 } else { -1.0 };
        for (feature, value) in &example.features {
            weights[*feature] += sign * start * value;
        }
    }
    let mut order: Vec<usize> = (0..examples.len()).collect();
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..rounds {
        for at in (1..order.len()).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            order.swap(at, usize::try_from(state >> 33).unwrap_or(0) % (at + 1));
        }
        for &at in &order {
            step(&examples[at], norms[at], strength, &mut duals[at], &mut weights);
        }
    }
    weights
}

fn step(example: &Example, norm: f64, strength: f64, dual: &mut (f64, f64), weights: &mut [f64]) {
    let bound = strength * example.weight;
    if bound <= 0.0 {
        return;
    }
    let sign = if example.positive { 1.0 } else { -1.0 };
    let margin: f64 = sign * example.features.iter().map(|(feature, value)| weights[*feature] * value).sum::<f64>();
    let old = dual.0;
    // Minimise z log z + (bound - z) log(bound - z) + margin (z - old) + norm (z - old)^2 / 2 over 0 < z < bound.
    let mut z = old.clamp(bound * 1e-9, bound * (1.0 - 1e-9));
    for _ in 0..30 {
        let gradient = (z / (bound - z)).ln() + margin + norm * (z - old);
        let curvature = bound / (z * (bound - z)) + norm;
        let mut next = z - gradient / curvature;
        if next <= 0.0 {
            next = z * 0.1;
        } else if next >= bound {
            next = bound - (bound - z) * 0.1;
        }
        if (next - z).abs() < 1e-10 * bound {
            z = next;
            break;
        }
        z = next;
    }
    *dual = (z, bound - z);
    let change = sign * (z - old);
    for (feature, value) in &example.features {
        weights[*feature] += change * value;
    }
}
