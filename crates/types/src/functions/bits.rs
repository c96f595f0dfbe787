//! bit and varbit functions. Not built yet.
