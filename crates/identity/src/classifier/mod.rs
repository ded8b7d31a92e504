//! Recovers mutability, action and output domain from a descriptor, with the evidence for each. It does not decide anything.
