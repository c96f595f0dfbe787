//! Expressions of `\set`, `\if` and `\elif`: read into a tree, and evaluated.
//!
//! Operators, from those that bind least: OR, AND, NOT, IS and ISNULL and NOTNULL, comparisons (of which no two stand side by side),
//! `|` `#` `&` `<<` `>>` `~`, `+` `-`, `*` `/` `%`, the signs (pgbench.sgml, "Built-in Operators").
//!
//! Must not know: what scripts are made of.

use super::functions::{self, ScriptFunction};
use super::random::ScriptRandom;
use super::value::ScriptValue;
use super::variables::{VariableNames, Variables};

pub enum ScriptExpression {
    Constant(ScriptValue),
    Variable(usize),
    Call(&'static ScriptFunction, Vec<ScriptExpression>),
    /// The second condition is not evaluated if the first one decides.
    Joined {
        is_and: bool,
        both: Box<[ScriptExpression; 2]>,
    },
    Case {
        whens: Vec<(ScriptExpression, ScriptExpression)>,
        otherwise: Box<ScriptExpression>,
    },
}

/// What expressions are evaluated with.
pub struct ScriptEnvironment<'e> {
    pub variables: &'e Variables,
    pub names: &'e VariableNames,
    pub random: &'e mut ScriptRandom,
    /// The seed of hashes and permutations that are given none.
    pub default_seed: i64,
}

impl ScriptExpression {
    /// Errors: what is wrong with the text, in words.
    pub fn read(text: &str, names: &mut VariableNames) -> Result<ScriptExpression, String> {
        let mut reader = ExpressionReader { tokens: tokens(text)?, next: 0, names };
        let expression = reader.operators(0)?;
        match reader.tokens.get(reader.next) {
            None => Ok(expression),
            Some(token) => Err(format!("syntax error at {token}")),
        }
    }

    pub fn evaluate(&self, env: &mut ScriptEnvironment<'_>) -> Result<ScriptValue, String> {
        match self {
            ScriptExpression::Constant(value) => Ok(*value),
            ScriptExpression::Variable(variable) => env.variables.value(*variable, env.names),
            ScriptExpression::Call(function, args) => {
                let args = args.iter().map(|arg| arg.evaluate(env)).collect::<Result<Vec<ScriptValue>, String>>()?;
                if function.is_strict && args.iter().any(|arg| arg.is_null()) {
                    return Ok(ScriptValue::Null);
                }
                (function.apply)(env, &args)
            }
            ScriptExpression::Joined { is_and, both } => {
                let [first, second] = &**both;
                let first = first.evaluate(env)?;
                if first.is_null() || first.to_bool()? != *is_and {
                    return Ok(first);
                }
                let second = second.evaluate(env)?;
                match second {
                    ScriptValue::Null => Ok(second),
                    other => other.to_bool().map(ScriptValue::Bool),
                }
            }
            ScriptExpression::Case { whens, otherwise } => {
                for (when, then) in whens {
                    if when.evaluate(env)?.is_true() {
                        return then.evaluate(env);
                    }
                }
                otherwise.evaluate(env)
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Constant(ScriptValue),
    /// 2^63, which only a minus sign makes an integer.
    BeyondInt,
    Variable(String),
    Word(String),
    Symbol(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Constant(value) => write!(f, "\"{value}\""),
            Token::BeyondInt => write!(f, "\"{}\"", 1u64 << 63),
            Token::Variable(name) => write!(f, "\":{name}\""),
            Token::Word(word) => write!(f, "\"{word}\""),
            Token::Symbol(symbol) => write!(f, "\"{symbol}\""),
        }
    }
}

/// The longer ones first.
const SYMBOLS: [&str; 20] =
    ["<=", ">=", "<>", "!=", "<<", ">>", "+", "-", "*", "/", "%", "<", ">", "=", "|", "#", "&", "~", "(", ")"];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if first.is_ascii_digit() || first == '.' {
            number(rest)?
        } else if first == ':' {
            let name = name_at(&rest[1..]);
            if name.is_empty() {
                return Err("syntax error at \":\"".into());
            }
            (Token::Variable(name.to_string()), 1 + name.len())
        } else if first == ',' {
            (Token::Symbol(","), 1)
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            let word = name_at(rest);
            if word.is_empty() {
                return Err(format!("unexpected character \"{first}\""));
            }
            (Token::Word(word.to_ascii_lowercase()), word.len())
        };
        found.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

/// The letters, digits and underscores that a text begins with.
pub(super) fn name_at(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()));
    &text[..end.unwrap_or(text.len())]
}

fn number(text: &str) -> Result<(Token, usize), String> {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(0);
    let mut is_double = false;
    if text[length..].starts_with('.') {
        is_double = true;
        length += 1 + digits(length + 1);
    }
    if text[length..].starts_with(['e', 'E']) {
        let sign = usize::from(text[length + 1..].starts_with(['+', '-']));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            is_double = true;
            length += 1 + sign + exponent;
        }
    }
    let written = &text[..length];
    let token = match (is_double, written.parse::<i64>(), written.parse::<f64>()) {
        (false, Ok(value), _) => Token::Constant(ScriptValue::Int(value)),
        (false, Err(_), _) if written == "9223372036854775808" => Token::BeyondInt,
        (false, Err(_), _) => return Err(format!("bigint constant overflow: {written}")),
        (true, _, Ok(value)) if value.is_finite() => Token::Constant(ScriptValue::Double(value)),
        (true, _, Ok(_)) => return Err(format!("double constant overflow: {written}")),
        (true, _, Err(_)) => return Err(format!("syntax error at \"{written}\"")),
    };
    Ok((token, length))
}

/// How an operator of two values binds, what it is the function of, and whether the values change places.
struct BinaryOperator {
    level: u8,
    function: &'static str,
    swapped: bool,
}

const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const IS: u8 = 4;
const COMPARED: u8 = 5;
const BITS: u8 = 6;
const SUM: u8 = 7;
const PRODUCT: u8 = 8;
const SIGN: u8 = 9;

fn binary(symbol: &str) -> Option<BinaryOperator> {
    let (level, function, swapped) = match symbol {
        "<" => (COMPARED, "<", false),
        "<=" => (COMPARED, "<=", false),
        ">" => (COMPARED, "<", true),
        ">=" => (COMPARED, "<=", true),
        "=" => (COMPARED, "=", false),
        "<>" | "!=" => (COMPARED, "<>", false),
        "|" => (BITS, "|", false),
        "#" => (BITS, "#", false),
        "&" => (BITS, "&", false),
        "<<" => (BITS, "<<", false),
        ">>" => (BITS, ">>", false),
        "+" => (SUM, "+", false),
        "-" => (SUM, "-", false),
        "*" => (PRODUCT, "*", false),
        "/" => (PRODUCT, "/", false),
        "%" => (PRODUCT, "mod", false),
        _ => return None,
    };
    Some(BinaryOperator { level, function, swapped })
}

struct ExpressionReader<'n> {
    tokens: Vec<Token>,
    next: usize,
    names: &'n mut VariableNames,
}

impl ExpressionReader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }
    fn takes(&mut self, token: &Token) -> bool {
        let is_it = self.peek() == Some(token);
        self.next += usize::from(is_it);
        is_it
    }
    fn takes_symbol(&mut self, symbol: &'static str) -> bool {
        self.takes(&Token::Symbol(symbol))
    }
    fn takes_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Word(found)) if found == word);
        self.next += usize::from(is_it);
        is_it
    }
    fn unexpected<T>(&self) -> Result<T, String> {
        Err(match self.peek() {
            Some(token) => format!("syntax error at {token}"),
            None => "unexpected end of the expression".into(),
        })
    }
    fn wants(&mut self, symbol: &'static str) -> Result<(), String> {
        if self.takes_symbol(symbol) { Ok(()) } else { self.unexpected() }
    }

    /// An expression whose operators bind at least so much.
    fn operators(&mut self, least: u8) -> Result<ScriptExpression, String> {
        let mut left = self.operand()?;
        loop {
            let Some(token) = self.peek().cloned() else { return Ok(left) };
            let found = match &token {
                Token::Symbol(symbol) => binary(symbol),
                _ => None,
            };
            if let Some(operator) = found {
                if operator.level < least {
                    return Ok(left);
                }
                self.next += 1;
                let right = self.operators(operator.level + 1)?;
                let args = if operator.swapped { vec![right, left] } else { vec![left, right] };
                left = call(operator.function, args)?;
                if operator.level == COMPARED && self.is_at(COMPARED) {
                    return self.unexpected();
                }
                continue;
            }
            let Token::Word(word) = &token else { return Ok(left) };
            left = match word.as_str() {
                "or" if least <= OR => self.joined(left, false, OR)?,
                "and" if least <= AND => self.joined(left, true, AND)?,
                "is" | "isnull" | "notnull" if least <= IS => {
                    let tested = self.tested(left)?;
                    if self.is_at(IS) {
                        return self.unexpected();
                    }
                    tested
                }
                _ => return Ok(left),
            };
        }
    }
    /// Is the next token an operator of a level of which no two stand side by side?
    fn is_at(&self, level: u8) -> bool {
        match self.peek() {
            Some(Token::Symbol(symbol)) => binary(symbol).is_some_and(|operator| operator.level == level),
            Some(Token::Word(word)) => level == IS && matches!(word.as_str(), "is" | "isnull" | "notnull"),
            _ => false,
        }
    }
    fn joined(&mut self, left: ScriptExpression, is_and: bool, level: u8) -> Result<ScriptExpression, String> {
        self.next += 1;
        let right = self.operators(level + 1)?;
        Ok(ScriptExpression::Joined { is_and, both: Box::new([left, right]) })
    }
    /// IS and its kin behind a value.
    fn tested(&mut self, value: ScriptExpression) -> Result<ScriptExpression, String> {
        let constant = |of: ScriptValue| ScriptExpression::Constant(of);
        if self.takes_word("isnull") {
            return call("is", vec![value, constant(ScriptValue::Null)]);
        }
        let (negated, wanted) = if self.takes_word("notnull") {
            (true, ScriptValue::Null)
        } else {
            self.next += 1;
            let negated = self.takes_word("not");
            let wanted = if self.takes_word("null") {
                ScriptValue::Null
            } else if self.takes_word("true") {
                ScriptValue::Bool(true)
            } else if self.takes_word("false") {
                ScriptValue::Bool(false)
            } else {
                return self.unexpected();
            };
            (negated, wanted)
        };
        let tested = call("is", vec![value, constant(wanted)])?;
        if negated { call("not", vec![tested]) } else { Ok(tested) }
    }

    fn operand(&mut self) -> Result<ScriptExpression, String> {
        let Some(token) = self.peek().cloned() else { return self.unexpected() };
        self.next += 1;
        match token {
            Token::Constant(value) => Ok(ScriptExpression::Constant(value)),
            Token::Variable(name) => Ok(ScriptExpression::Variable(self.names.number(&name))),
            Token::Symbol("(") => {
                let inner = self.operators(0)?;
                self.wants(")")?;
                Ok(inner)
            }
            Token::Symbol("+") => self.operators(SIGN),
            Token::Symbol("-") => {
                if self.takes(&Token::BeyondInt) {
                    return Ok(ScriptExpression::Constant(ScriptValue::Int(i64::MIN)));
                }
                let value = self.operators(SIGN)?;
                call("-", vec![ScriptExpression::Constant(ScriptValue::Int(0)), value])
            }
            Token::Symbol("~") => {
                let value = self.operators(BITS + 1)?;
                call("#", vec![ScriptExpression::Constant(ScriptValue::Int(-1)), value])
            }
            Token::Word(word) => self.word(&word),
            Token::BeyondInt => Err(format!("bigint constant overflow: {}", 1u64 << 63)),
            Token::Symbol(_) => {
                self.next -= 1;
                self.unexpected()
            }
        }
    }
    /// What begins with a word, which has been taken.
    fn word(&mut self, word: &str) -> Result<ScriptExpression, String> {
        match word {
            "null" => Ok(ScriptExpression::Constant(ScriptValue::Null)),
            "true" => Ok(ScriptExpression::Constant(ScriptValue::Bool(true))),
            "false" => Ok(ScriptExpression::Constant(ScriptValue::Bool(false))),
            "not" => {
                let value = self.operators(NOT)?;
                call("not", vec![value])
            }
            "case" => self.case(),
            name => {
                let mut args = Vec::new();
                self.wants("(")?;
                if !self.takes_symbol(")") {
                    loop {
                        args.push(self.operators(0)?);
                        if !self.takes_symbol(",") {
                            break;
                        }
                    }
                    self.wants(")")?;
                }
                call(name, args)
            }
        }
    }
    fn case(&mut self) -> Result<ScriptExpression, String> {
        let mut whens = Vec::new();
        while self.takes_word("when") {
            let when = self.operators(0)?;
            if !self.takes_word("then") {
                return self.unexpected();
            }
            whens.push((when, self.operators(0)?));
        }
        let otherwise = match self.takes_word("else") {
            true => self.operators(0)?,
            false => ScriptExpression::Constant(ScriptValue::Null),
        };
        if whens.is_empty() || !self.takes_word("end") {
            return self.unexpected();
        }
        Ok(ScriptExpression::Case { whens, otherwise: Box::new(otherwise) })
    }
}

fn call(name: &str, args: Vec<ScriptExpression>) -> Result<ScriptExpression, String> {
    let function = functions::find(name).ok_or_else(|| format!("unexpected function name \"{name}\""))?;
    match function.arguments.contains(&args.len()) {
        true => Ok(ScriptExpression::Call(function, args)),
        false => Err(format!("unexpected number of arguments of \"{name}\": {}", args.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(text: &str) -> Result<ScriptValue, String> {
        let mut names = VariableNames::default();
        let expression = ScriptExpression::read(text, &mut names)?;
        let mut variables = Variables::default();
        for (name, value) in [("scale", ScriptValue::Int(10)), ("half", ScriptValue::Double(0.5))] {
            variables.set(names.number(name), value);
        }
        variables.set_text(names.number("word"), "abc".into());
        let mut random = ScriptRandom::of_seed(1);
        let mut env =
            ScriptEnvironment { variables: &variables, names: &names, random: &mut random, default_seed: 5432 };
        expression.evaluate(&mut env)
    }

    #[test]
    fn operators_bind_as_in_sql() {
        for (text, wanted) in [
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * 3", "9"),
            ("10 - 3 - 2", "5"),
            ("-2 - -3", "1"),
            ("7 / 2", "3"),
            ("-7 / 2", "-3"),
            ("-7 % 3", "-1"),
            ("7 / 2.0", "3.5"),
            ("1 | 2 # 3", "0"),
            ("1 << 4 >> 2", "4"),
            ("~ 1", "-2"),
            ("not 1 = 2", "true"),
            ("1 = 1 and 2 = 3 or true", "true"),
            ("not false and false", "false"),
            ("1 is null or 2 notnull", "true"),
            ("null is not null", "false"),
            (":scale * 2 > 3 is true", "true"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("CASE WHEN :scale > 5 THEN 'a' END", "error"),
            ("case when :scale > 50 then 1 when :half < 1 then 2 else 3 end", "2"),
            ("case when false then 1 end", "NULL"),
            ("1e3", "1000"),
            (".5 + 1", "1.5"),
        ] {
            let found = evaluated(text).map_or_else(|_| "error".to_string(), |value| value.to_string());
            assert_eq!(found, wanted, "{text}");
        }
    }

    #[test]
    fn null_and_the_second_condition() {
        // What decides is not followed by what would fail.
        assert_eq!(evaluated("false and 1 / 0 = 1"), Ok(ScriptValue::Bool(false)));
        assert_eq!(evaluated("true or 1 / 0 = 1"), Ok(ScriptValue::Bool(true)));
        assert_eq!(evaluated("null + 1"), Ok(ScriptValue::Null));
        assert_eq!(evaluated("null and true"), Ok(ScriptValue::Null));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, wanted) in [
            ("1 / 0", "division by zero"),
            ("9223372036854775807 + 1", "bigint add out of range"),
            ("9223372036854775808", "bigint constant overflow: 9223372036854775808"),
            ("1 +", "unexpected end of the expression"),
            ("1 2", "syntax error at \"2\""),
            ("1 < 2 < 3", "syntax error at \"<\""),
            ("nothing(1)", "unexpected function name \"nothing\""),
            ("abs(1, 2)", "unexpected number of arguments of \"abs\": 2"),
            (":word + 1", "malformed variable \"word\" value: \"abc\""),
            (":missing", "undefined variable \"missing\""),
            ("1 and true", "cannot coerce int to boolean"),
            ("random(2, 1)", "empty range given to random"),
        ] {
            assert_eq!(evaluated(text), Err(wanted.to_string()), "{text}");
        }
    }
}
