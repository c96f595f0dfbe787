//! What the WITH clause of a table says of it, as pg_class.reloptions has it.

/// The storage parameters of a table.
pub struct StorageParameters(pub Vec<String>);

impl StorageParameters {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|o| o.strip_prefix(name)?.strip_prefix('='))
    }

    /// A number that is the table's own: a negative one says nothing.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(|v| v.trim().parse::<f64>().ok()).filter(|n| *n >= 0.0)
    }

    pub fn is_off(&self, name: &str) -> bool {
        let value = self.get(name).unwrap_or("true").trim().to_ascii_lowercase();
        value == "0" || value == "of" || value == "off" || ["false", "no"].iter().any(|w| w.starts_with(&*value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_parameters_are_read_as_they_were_written() {
        let of = |texts: &[&str]| StorageParameters(texts.iter().map(ToString::to_string).collect());
        assert!(of(&["autovacuum_enabled=off"]).is_off("autovacuum_enabled"));
        assert!(of(&["fillfactor=50", "autovacuum_enabled=F"]).is_off("autovacuum_enabled"));
        assert!(!of(&["autovacuum_enabled=on"]).is_off("autovacuum_enabled"));
        assert!(!of(&[]).is_off("autovacuum_enabled"));
        let own = of(&["autovacuum_analyze_threshold=7", "autovacuum_analyze_scale_factor=-1"]);
        assert_eq!(own.number("autovacuum_analyze_threshold"), Some(7.0));
        assert_eq!(own.number("autovacuum_analyze_scale_factor"), None);
    }
}
