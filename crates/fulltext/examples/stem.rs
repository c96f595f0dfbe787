//! Stems words: lines of `language<TAB>word` in, `language<TAB>word<TAB>stem` out. For comparison with `ts_lexize`.

use kilndb_fulltext::Dictionary;
use std::collections::HashMap;
use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    let mut dictionaries: HashMap<String, Option<Dictionary>> = HashMap::new();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let Some((language, word)) = line.split_once('\t') else { continue };
        let dictionary = dictionaries.entry(language.to_string()).or_insert_with(|| {
            let options = [("language".to_string(), language.to_string())];
            Dictionary::built_in("snowball", &options).ok()
        });
        let stem = dictionary.as_ref().and_then(|d| d.lexize(word)).flatten().unwrap_or_default();
        writeln!(out, "{language}\t{word}\t{stem}")?;
    }
    Ok(())
}
