//! The experiments' folders are part of the program: one that is new builds it anew.

fn main() {
    println!("cargo::rerun-if-changed=../../experiments");
}
