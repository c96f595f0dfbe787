//! Scripts mean what they mean to pgbench: the same expressions, evaluated by both.

use kilndb_lab::client::Address;
use kilndb_lab::postgres;
use kilndb_lab::process::{self, TempDir};
use kilndb_lab::script::{ScriptEnvironment, ScriptExpression, ScriptRandom, ScriptValue, VariableNames, Variables};
use std::process::Command;

const SEED: i64 = 5432;

/// As pgbench's `debug` shows a value.
fn shown(value: ScriptValue) -> String {
    match value {
        ScriptValue::Null => "null".into(),
        ScriptValue::Bool(_) => format!("boolean {value}"),
        ScriptValue::Int(_) => format!("int {value}"),
        ScriptValue::Double(_) => format!("double {value}"),
    }
}

fn ours(expression: &str) -> Result<String, String> {
    let mut names = VariableNames::default();
    let read = ScriptExpression::read(expression, &mut names)?;
    let mut variables = Variables::default();
    for (name, text) in [("n", "12"), ("x", "2.5"), ("yes", "y"), ("nothing", "null"), ("word", "abc")] {
        variables.set_text(names.number(name), text.into());
    }
    let mut random = ScriptRandom::of_seed(1);
    let mut env = ScriptEnvironment { variables: &variables, names: &names, random: &mut random, default_seed: SEED };
    read.evaluate(&mut env).map(shown)
}

/// What pgbench prints when it runs a script once: each value that is shown, and errors.
fn pgbench(at: &Address, script: &str) -> String {
    let folder = TempDir::new("scripts").expect("a folder");
    let file = folder.path().join("script.sql");
    std::fs::write(&file, script).expect("a file");
    let mut command = Command::new(postgres::program("pgbench").expect("pgbench"));
    command.args(["-n", "-c", "1", "-t", "1", "-h", &at.host, "-p", &at.port.to_string(), "-U", "postgres"]);
    command.args(["-D", "n=12", "-D", "x=2.5", "-D", "yes=y", "-D", "nothing=null", "-D", "word=abc"]);
    command.args(["-D", &format!("default_seed={SEED}"), "-f"]).arg(&file).arg("postgres");
    let output = command.output().expect("pgbench runs");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What has the same value each time.
const EXPRESSIONS: [&str; 66] = [
    "1 + 2 * 3 - 4 / 2 % 3",
    "-7 / 2",
    "-7 % 3",
    "- 2 * - 3",
    "7 / 2.0",
    "1e3 + .5",
    "1.0",
    "0.1 + 0.2",
    "1e300 * 1e10",
    "1e-7",
    "123456789.0 * 1000000000",
    "-9223372036854775808",
    "9223372036854775807 - 1",
    "~ 5",
    "~ 5 + 1",
    "6 & 3 | 8 # 1",
    "1 << 40 >> 38",
    "1 < 2",
    "2 <= 2.0",
    "3 > 4",
    "3 >= 4 or 1 <> 2",
    "1 != 1 and true",
    "not 1 = 2",
    "not not true",
    "not false and false",
    "true or false and false",
    "null",
    "null + 1",
    "null and true",
    "false and null",
    "true and null",
    "true or null",
    "null or true",
    "1 is null",
    "null is not null",
    "null isnull",
    "1 notnull",
    "1 = 1 is true",
    "false is not true",
    "1 is true",
    "true is true",
    "case when :n > 10 then 'a' end",
    "case when :n > 10 then 1 when true then 2 end",
    "case when :n < 10 then 1 else 2.5 end",
    "case when null then 1 end",
    "case when 5 then 1 else 2 end",
    ":n * :x",
    ":n + 1",
    ":yes and true",
    ":nothing is null",
    "abs(-17)",
    "abs(-1.5)",
    "double(3) / 2",
    "int(2.5)",
    "int(3.5)",
    "int(-2.5)",
    "greatest(5, 4, 3, 2)",
    "least(5, 4, 3, 2.1)",
    "greatest(null, 1)",
    "mod(54, 32)",
    "sqrt(2.0)",
    "ln(10)",
    "exp(1)",
    "power(2.0, 10) + pow(3, 2)",
    "pi()",
    "random(5, 5) + random_zipfian(3, 3, 1.5)",
];

/// Functions of a number and a seed.
fn scattered() -> Vec<String> {
    let mut all = Vec::new();
    for value in [0i64, 1, -1, 10, 123_456_789, i64::MAX] {
        for function in ["hash", "hash_murmur2", "hash_fnv1a"] {
            all.push(format!("{function}({value})"));
            all.push(format!("{function}({value}, 99)"));
        }
        for size in [1i64, 2, 3, 10, 1_000, 1_000_003, i64::MAX] {
            all.push(format!("permute({value}, {size})"));
            all.push(format!("permute({value}, {size}, -7)"));
        }
    }
    all
}

#[test]
fn values_are_those_of_pgbench() {
    let folder = TempDir::new("scripts").expect("a folder");
    let port = process::free_port().expect("a free port");
    let server = process::start_kilndb(&folder.path().join("data"), port, &[]).expect("the server starts");
    let fixed = EXPRESSIONS.iter().filter(|e| !e.contains('\'')).map(ToString::to_string);
    let all: Vec<String> = fixed.chain(scattered()).collect();
    let script: String = all.iter().map(|e| format!("\\set v debug({e})\n")).collect();
    let printed = pgbench(server.address(), &script);
    let theirs: Vec<&str> = printed.lines().filter_map(|l| l.split_once("): ").map(|(_, value)| value)).collect();
    assert_eq!(theirs.len(), all.len(), "{printed}");
    for (expression, theirs) in all.iter().zip(theirs) {
        assert_eq!(ours(expression), Ok(theirs.to_string()), "{expression}");
    }
    for expression in [
        "1 / 0",
        "1 % 0",
        "9223372036854775807 + 1",
        "-9223372036854775808 - 1",
        "9223372036854775807 * 2",
        "-9223372036854775808 / -1",
        "1 and true",
        "not 1",
        "true + 1",
        "int(1e30)",
        ":word + 1",
        "random(2, 1)",
        "random(-9223372036854775807, 9223372036854775807)",
        "random_gaussian(1, 10, 1.5)",
        "random_exponential(1, 10, 0)",
        "random_zipfian(1, 10, 1.0)",
        "permute(1, 0)",
    ] {
        let theirs = pgbench(server.address(), &format!("\\set v {expression}\n"));
        let ours = ours(expression).expect_err(expression);
        assert!(theirs.contains(&format!("error: {ours}\n")), "{expression}: {ours}, and pgbench: {theirs}");
    }
}
