//! The fuzz target of fuzz/targets/bind.rs over changed statements, repeatable.

#[path = "../../../fuzz/generate.rs"]
#[allow(dead_code)]
mod generate;
#[path = "../../../fuzz/statements.rs"]
mod statements;
#[path = "../../../fuzz/targets/bind.rs"]
mod target;

use generate::Generator;
use kilndb_base::sqlstate;
use statements::STATEMENTS;

/// As the server's threads: what was parsed is taken apart by recursion.
fn on_large_stack(body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(body);
    thread.expect("a thread").join().expect("no panic");
}

#[test]
fn changed_statements_give_plans_or_errors() {
    on_large_stack(|| {
        let mut random = Generator(1);
        let all: Vec<&[u8]> = STATEMENTS.iter().map(|s| s.as_bytes()).collect();
        for statement in STATEMENTS {
            if let Err(e) = target::plan(statement) {
                assert_eq!(e.sqlstate(), sqlstate::FEATURE_NOT_SUPPORTED, "{statement}: {e:?}");
            }
        }
        for _ in 0..60_000 {
            let mut data = random.one_of(&all).to_vec();
            random.mutate(&mut data, &all);
            target::run(&data);
        }
    });
}

/// Bytes seldom make a statement of another meaning; tokens of other statements do.
#[test]
fn exchanged_tokens_give_plans_or_errors() {
    on_large_stack(|| {
        let mut random = Generator(2);
        let tokens: Vec<&str> = STATEMENTS.iter().flat_map(|s| s.split(' ')).collect();
        for _ in 0..120_000 {
            let mut words: Vec<&str> = random.one_of(STATEMENTS).split(' ').collect();
            for _ in 0..1 + random.below(3) {
                let at = random.below(words.len());
                match random.below(3) {
                    0 => drop(words.remove(at)),
                    1 => words.insert(at, random.one_of(&tokens)),
                    _ => words[at] = random.one_of(&tokens),
                }
                if words.is_empty() {
                    break;
                }
            }
            target::run(words.join(" ").as_bytes());
        }
    });
}

#[test]
fn deep_nesting_gives_plans_or_errors() {
    on_large_stack(|| {
        for (head, open, middle, close) in [
            ("select ", "(", "1", ")"),
            ("select ", "not ", "true", ""),
            ("select ", "1 + ", "1", ""),
            ("select true", " and true", "", ""),
            ("select ", "array[", "1", "]"),
            ("select 1", "::int", "", ""),
            ("select id", "[1]", "", " from people"),
            ("select ", "upper(", "'a'", ")"),
            ("select ", "case when ", "true", " then true end"),
            ("select ", "(select ", "1", ")"),
            ("", "select * from (", "select 1", ") t"),
            ("select 1", " union all select 1", "", ""),
            ("", "with t as (", "select 1", ") select * from t"),
            ("select 1 from people", " join pets on true", "", ""),
            ("select 1 from people", " natural join people", "", ""),
            ("select 1 from people where id in (", "1, ", "1", ")"),
            ("values (1)", ", (1)", "", ""),
        ] {
            for depth in [30, 1_000, 20_000] {
                let text = format!("{head}{}{middle}{}", open.repeat(depth), close.repeat(depth));
                target::run(text.as_bytes());
            }
        }
    });
}
