//! What this crate promises, tested from outside.

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod edges;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod leaves;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod notes;
#[cfg(test)]
mod ocsf;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod searches;
#[cfg(test)]
mod strangers;
#[cfg(test)]
mod tiles;
#[cfg(test)]
mod vectors;
