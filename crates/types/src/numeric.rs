//! NUMERIC with PostgreSQL's semantics.
#[derive(Clone, Debug)]
pub struct Numeric {}
