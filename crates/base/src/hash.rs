//! Hash tables. Each has a seed of its own in production; in a build with simulation all have the same one, so that what
//! is read from them comes in the same order in each run.

pub use foldhash::{HashMapExt, HashSetExt};

#[cfg(feature = "simulation")]
pub use foldhash::fast::FixedState as HashState;
#[cfg(not(feature = "simulation"))]
pub use foldhash::fast::RandomState as HashState;

pub type HashMap<K, V> = std::collections::HashMap<K, V, HashState>;
pub type HashSet<T> = std::collections::HashSet<T, HashState>;
