//! Variables of scripts. Names get numbers when scripts are read, so that thousands of clients keep lists and no tables of names.

use super::value::ScriptValue;
use std::collections::HashMap;

/// The names that the scripts of a run mention, by their numbers.
#[derive(Default)]
pub struct VariableNames {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl VariableNames {
    /// The name's number; a new one, if it has not been mentioned.
    pub fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len();
        self.names.push(name.to_string());
        self.numbers.insert(name.to_string(), number);
        number
    }
    /// None: no script mentions it.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }
    pub fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("", String::as_str)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Variable {
    Undefined,
    Value(ScriptValue),
    /// From outside: what it means as a value is found out when an expression wants it.
    Text(String),
}

/// One client's variables.
#[derive(Clone, Debug, Default)]
pub struct Variables(Vec<Variable>);

impl Variables {
    fn place(&mut self, number: usize) -> &mut Variable {
        if self.0.len() <= number {
            self.0.resize(number + 1, Variable::Undefined);
        }
        &mut self.0[number]
    }
    pub fn set(&mut self, number: usize, value: ScriptValue) {
        *self.place(number) = Variable::Value(value);
    }
    pub fn set_text(&mut self, number: usize, text: String) {
        *self.place(number) = Variable::Text(text);
    }
    pub fn is_defined(&self, number: usize) -> bool {
        self.0.get(number).is_some_and(|variable| *variable != Variable::Undefined)
    }
    pub fn value(&self, number: usize, names: &VariableNames) -> Result<ScriptValue, String> {
        let name = || names.name(number);
        match self.0.get(number) {
            Some(Variable::Value(value)) => Ok(*value),
            Some(Variable::Text(text)) => {
                ScriptValue::of_text(text).ok_or_else(|| format!("malformed variable \"{}\" value: \"{text}\"", name()))
            }
            Some(Variable::Undefined) | None => Err(format!("undefined variable \"{}\"", name())),
        }
    }
    /// Writes what stands for the variable in a statement behind `out`. False: it is undefined.
    pub fn write(&self, number: usize, out: &mut String) -> bool {
        use std::fmt::Write;
        match self.0.get(number) {
            Some(Variable::Value(value)) => write!(out, "{value}").is_ok(),
            Some(Variable::Text(text)) => {
                out.push_str(text);
                true
            }
            Some(Variable::Undefined) | None => false,
        }
    }
}
