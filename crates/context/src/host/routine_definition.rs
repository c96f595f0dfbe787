//! Definitions of routines as one way of calling them has them, whatever language their bodies are in.

use super::StatementHost;
use kilndb_base::{Oid, Result};
use kilndb_bind::Binder;
use kilndb_bind::variables::{Variable, VariableConflict, VariableScope};
use kilndb_catalog::routine::{Argument, RowColumn, TupleDescriptor, declared_arguments};
use kilndb_catalog::{CatalogView, FunctionInfo, Table};
use kilndb_types::collation::Collation;
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// One way of calling a routine.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RoutineKey {
    pub oid: Oid,
    /// Types of the input arguments and of the result; empty unless some are polymorphic.
    pub types: Vec<Oid>,
    /// What the arguments' texts are compared by; 0: what their types say.
    pub collation: Oid,
    /// Of a trigger function.
    pub table: Oid,
    /// Of a trigger function, if its trigger names tables of changed rows.
    pub trigger: Oid,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoutineKind {
    Function,
    Procedure,
    /// The block of a DO statement.
    Inline,
    Trigger,
    EventTrigger,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

/// The table that a trigger function is compiled for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TriggerTable {
    pub oid: Oid,
    pub row: Arc<TupleDescriptor>,
}

/// A routine as one way of calling it has it: polymorphic types are settled, a trigger function has its table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// 0 for an inline block.
    pub oid: Oid,
    pub schema: String,
    pub name: String,
    /// Name and argument types, as regprocedure shows them: `f(integer,text)`; `inline_code_block` for a DO block.
    pub signature: String,
    pub kind: RoutineKind,
    /// All of them, in the order in which they are declared.
    pub arguments: Vec<Argument>,
    /// VOID, TRIGGER, RECORD, a composite type, or another. A procedure's is RECORD if it has output arguments, else
    /// VOID.
    pub result_type: Oid,
    /// What parameters and variables are compared by; none: what their types say.
    pub collation: Collation,
    pub returns_set: bool,
    /// The result's columns if it is a row whose columns are known before the call: of a composite type, or of more
    /// than one output argument (RETURNS TABLE of any number of columns counts as one). None: a scalar, or RECORD whose
    /// caller says what it wants ([`Call::expected`]).
    pub row: Option<Arc<TupleDescriptor>>,
    pub body: Arc<str>,
    pub volatility: Volatility,
    pub trigger_table: Option<TriggerTable>,
    /// Being checked by CREATE FUNCTION: polymorphic types are not settled.
    pub is_validation: bool,
}

impl Definition {
    /// STABLE and IMMUTABLE routines see what their caller sees, and change nothing.
    pub fn is_read_only(&self) -> bool {
        self.volatility != Volatility::Volatile
    }
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &Argument)> {
        self.arguments.iter().enumerate().filter(|(_, a)| a.mode.is_input())
    }
    pub fn outputs(&self) -> impl Iterator<Item = (usize, &Argument)> {
        self.arguments.iter().enumerate().filter(|(_, a)| a.mode.is_output())
    }
}

/// The arguments as parameters: by number, by name, by the function's name and theirs.
pub struct Arguments<'a> {
    pub definition: &'a Definition,
    pub values: &'a [Datum],
}

impl Arguments<'_> {
    fn variable(&self, number: u32, type_oid: Oid) -> Variable {
        Variable { number, type_oid, typmod: -1, collation: self.definition.collation }
    }
    fn named(&self, name: &str) -> Option<Variable> {
        let mut inputs = self.definition.inputs().enumerate();
        let found = inputs.find(|(_, (_, a))| !a.name.is_empty() && a.name == name);
        found.map(|(number, (_, a))| self.variable(number as u32, a.type_oid))
    }
}

impl VariableScope for Arguments<'_> {
    fn resolve(&self, parts: &[&str], _star: bool, _required: bool) -> Result<Option<Variable>> {
        Ok(match parts {
            [name] => self.named(name),
            [function, name] if *function == self.definition.name => self.named(name),
            _ => None,
        })
    }
    fn parameter(&self, number: u32) -> Option<Variable> {
        let index = number.checked_sub(1)?;
        let (_, argument) = self.definition.inputs().nth(index as usize)?;
        Some(self.variable(index, argument.type_oid))
    }
    fn conflict(&self) -> VariableConflict {
        VariableConflict::UseColumn
    }
    fn language(&self) -> &'static str {
        "SQL"
    }
    fn value(&self, variable: u32) -> Result<Datum> {
        Ok(self.values.get(variable as usize).cloned().unwrap_or_default())
    }
}

pub(crate) fn row_of_table(table: &Table) -> Arc<TupleDescriptor> {
    let columns = table.columns.iter().filter(|c| !c.dropped);
    let columns = columns.map(|c| RowColumn { name: c.name.clone(), type_oid: c.type_oid, typmod: c.typmod }).collect();
    Arc::new(TupleDescriptor { type_oid: table.type_oid, columns })
}

/// The columns of a composite type or of a domain over one.
pub fn row_of_type(catalog: &dyn CatalogView, type_oid: Oid) -> Result<Option<Arc<TupleDescriptor>>> {
    let mut info = catalog.type_by_oid(type_oid)?;
    while let Some(domain) = info.as_ref().filter(|t| t.kind == b'd') {
        info = catalog.type_by_oid(domain.base_type)?;
    }
    let Some(info) = info.filter(|t| t.kind == b'c') else { return Ok(None) };
    Ok(catalog.table_by_oid(info.table_oid)?.map(|table| row_of_table(&table)))
}

/// `f(integer,text)`.
pub(crate) fn signature_of(host: &StatementHost<'_>, info: &FunctionInfo) -> Result<String> {
    let quote = kilndb_catalog::format_type::quote_identifier;
    let types: Vec<String> =
        info.arg_types.iter().map(|t| kilndb_catalog::format_type::format_type(&host.reader, *t, None)).collect();
    let visible = host
        .reader
        .functions(None, &info.name)?
        .iter()
        .find(|f| f.arg_types == info.arg_types)
        .is_some_and(|f| f.oid == info.oid);
    let schema = if visible {
        String::new()
    } else {
        format!("{}.", quote(&host.reader.schema_name(info.schema_oid)?.unwrap_or_default()))
    };
    Ok(format!("{schema}{}({})", quote(&info.name), types.join(",")))
}

/// The definition for a call with these types: of the input arguments, then of the result.
pub fn definition_of(
    host: &StatementHost<'_>,
    info: &FunctionInfo,
    key: &RoutineKey,
    is_validation: bool,
) -> Result<Definition> {
    let mut arguments = declared_arguments(info);
    let mut result_type = info.return_type;
    if let Some((result, inputs)) = key.types.split_last() {
        let outputs = Binder::new(&host.reader, Arc::from(""), Vec::new()).settle_polymorphic(&arguments, inputs)?;
        for (argument, settled) in arguments.iter_mut().zip(outputs) {
            argument.type_oid = settled;
        }
        result_type = *result;
    }
    let kind = match (info.kind, info.return_type) {
        (b'p', _) => RoutineKind::Procedure,
        (_, oids::TRIGGER) => RoutineKind::Trigger,
        (_, oids::EVENT_TRIGGER) => RoutineKind::EventTrigger,
        _ => RoutineKind::Function,
    };
    if info.kind == b'p' && result_type == oids::VOID && arguments.iter().any(|a| a.mode.is_output()) {
        result_type = oids::RECORD;
    }
    let outputs: Vec<RowColumn> = arguments
        .iter()
        .filter(|a| a.mode.is_output())
        .enumerate()
        .map(|(i, a)| RowColumn {
            name: if a.name.is_empty() { format!("column{}", i + 1) } else { a.name.clone() },
            type_oid: a.type_oid,
            typmod: -1,
        })
        .collect();
    let row = if result_type == oids::RECORD && !outputs.is_empty() {
        Some(Arc::new(TupleDescriptor { type_oid: oids::RECORD, columns: outputs }))
    } else {
        row_of_type(&host.reader, result_type)?
    };
    let trigger_table = match host.reader.table_by_oid(key.table)? {
        Some(table) if key.table != 0 => Some(TriggerTable { oid: table.oid, row: row_of_table(&table) }),
        _ => None,
    };
    Ok(Definition {
        oid: info.oid,
        schema: host.reader.schema_name(info.schema_oid)?.unwrap_or_default(),
        name: info.name.clone(),
        signature: signature_of(host, info)?,
        kind,
        arguments,
        result_type,
        collation: if key.collation == 0 { Collation::default() } else { host.reader.collation(key.collation)? },
        returns_set: info.returns_set,
        row,
        body: Arc::from(info.source.as_str()),
        volatility: match info.volatility {
            b'i' => Volatility::Immutable,
            b's' => Volatility::Stable,
            _ => Volatility::Volatile,
        },
        trigger_table,
        is_validation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_calling_a_routine_is_its_own() {
        let key = RoutineKey { oid: 1, types: Vec::new(), collation: 0, table: 2, trigger: 3 };
        assert_eq!(key, key.clone());
        for other in [
            RoutineKey { oid: 9, ..key.clone() },
            RoutineKey { types: vec![23], ..key.clone() },
            RoutineKey { table: 9, ..key.clone() },
            RoutineKey { trigger: 9, ..key.clone() },
        ] {
            assert_ne!(key, other);
        }
        let of_integers = RoutineKey { types: vec![23], ..key };
        assert_ne!(of_integers, RoutineKey { types: vec![25], ..of_integers.clone() });
    }
}
