//! Array functions and operators. Not built yet: an unknown OID makes `lookup` return None.
