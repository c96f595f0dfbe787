//! What is declared of routines, and the rows that they return.

use super::model::FunctionInfo;
use kilndb_base::Oid;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentMode {
    In,
    Out,
    InOut,
    Variadic,
    /// A column of RETURNS TABLE.
    Table,
}

impl ArgumentMode {
    pub fn is_input(self) -> bool {
        matches!(self, ArgumentMode::In | ArgumentMode::InOut | ArgumentMode::Variadic)
    }
    pub fn is_output(self) -> bool {
        matches!(self, ArgumentMode::Out | ArgumentMode::InOut | ArgumentMode::Table)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// Empty: it has none.
    pub name: String,
    pub mode: ArgumentMode,
    /// As declared, or as this call has it if that is polymorphic.
    pub type_oid: Oid,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowColumn {
    pub name: String,
    pub type_oid: Oid,
    pub typmod: i32,
}

/// The columns of a row, dropped ones left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TupleDescriptor {
    /// The composite type, or RECORD.
    pub type_oid: Oid,
    pub columns: Vec<RowColumn>,
}

fn mode_of(letter: u8) -> ArgumentMode {
    match letter {
        b'o' => ArgumentMode::Out,
        b'b' => ArgumentMode::InOut,
        b'v' => ArgumentMode::Variadic,
        b't' => ArgumentMode::Table,
        _ => ArgumentMode::In,
    }
}

/// All arguments of a function as declared.
pub fn declared_arguments(info: &FunctionInfo) -> Vec<Argument> {
    let types = if info.all_arg_types.is_empty() { &info.arg_types } else { &info.all_arg_types };
    let argument = |(i, type_oid): (usize, &Oid)| {
        let mode = info.arg_modes.get(i).map_or(ArgumentMode::In, |m| mode_of(*m));
        Argument { name: info.arg_names.get(i).cloned().unwrap_or_default(), mode, type_oid: *type_oid }
    };
    types.iter().enumerate().map(argument).collect()
}
