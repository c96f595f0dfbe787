//! What scripts have written is what they would write now.

use std::path::Path;
use std::process::Command;

/// Scripts that write files of this repository from others of it; with `--check` they compare.
const SCRIPTS: &[&str] = &["function-table.py"];

#[test]
fn generated_files_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for script in SCRIPTS {
        let checked = Command::new("python3").arg(root.join("scripts").join(script)).arg("--check").output();
        let output = checked.unwrap_or_else(|e| panic!("python3 cannot be run: {e}"));
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "run scripts/{script} again: {told}");
    }
}
