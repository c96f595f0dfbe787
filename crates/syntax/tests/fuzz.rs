//! The fuzz target of fuzz/targets/parse.rs over changed statements, repeatable.

#[path = "../../../fuzz/generate.rs"]
#[allow(dead_code)]
mod generate;
#[path = "../../../fuzz/statements.rs"]
mod statements;
#[path = "../../../fuzz/targets/parse.rs"]
mod target;

use generate::Generator;
use statements::STATEMENTS;

/// As the server's threads: the C parser recurses.
fn on_large_stack(body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(body);
    thread.expect("a thread").join().expect("no panic");
}

#[test]
fn changed_statements_give_statements_or_errors() {
    on_large_stack(|| {
        let mut random = Generator(1);
        let all: Vec<&[u8]> = STATEMENTS.iter().map(|s| s.as_bytes()).collect();
        for _ in 0..20_000 {
            let mut data = random.one_of(&all).to_vec();
            random.mutate(&mut data, &all);
            target::run(&data);
        }
    });
}

#[test]
fn random_bytes_give_errors() {
    on_large_stack(|| {
        let mut random = Generator(2);
        for _ in 0..20_000 {
            let data = random.bytes(60);
            target::run(&data);
        }
        for data in [&b""[..], b"\0", b"select 1\0", b"select '\xff'", b"\xf0\x9f", b"'", b"\"", b"$a$", b"/*"] {
            target::run(data);
        }
    });
}

#[test]
fn deep_nesting_gives_statements_or_errors() {
    on_large_stack(|| {
        for (head, open, middle, close) in [
            ("select ", "(", "1", ")"),
            ("select ", "- ", "1", ""),
            ("select ", "not ", "true", ""),
            ("select ", "1 + ", "1", ""),
            ("select ", "1 ^ (", "1", ")"),
            ("select ", "a.", "a", ""),
            ("select a", "[1]", "", ""),
            ("select ", "f(", "1", ")"),
            ("select ", "case when ", "true", " then 1 end"),
            ("select ", "array[", "1", "]"),
            ("select 1", "::int", "", ""),
            ("", "(", "select 1", ")"),
            ("", "select * from (", "select 1", ") t"),
            ("", "select 1 union ", "select 1", ""),
            ("", "with t as (", "select 1", ") select 1"),
            ("select * from t", " join t on true", "", ""),
            ("", "explain ", "select 1", ""),
            ("", "/*", "select 1", "*/"),
        ] {
            // The C code's time grows with the square of these two's depth.
            let is_slow = open.contains("union") || open == "/*";
            for depth in [100, 3_000, if is_slow { 5_000 } else { 100_000 }] {
                let text = format!("{head}{}{middle}{}", open.repeat(depth), close.repeat(depth));
                target::run(text.as_bytes());
            }
        }
    });
}
