//! From a routine's definition to its tree.
//!
//! Invariants
//! 1. A [`Routine`] is read-only but for what it remembers of its SQL, and is shared by sessions.

use crate::namespace::{LabelKind, Namespace};
use crate::parser::{self, ExtraChecks, Frame, Names, Returns};
use crate::scanner::{Lexeme, Scanner, Token};
use crate::tree::*;
use kilndb_base::sync::{Arc, Mutex, OnceLock};
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_sql::routine::{self, Definition, IntegerProgram, RoutineKind, SlotExpression, Spi, SpiPrepared};
use kilndb_types::collation::Collation;
use kilndb_types::oids;

/// Types that variables happened to have, and what was prepared for them.
pub(crate) type Met = (Vec<(Slot, Oid)>, Arc<SpiPrepared>);

/// What of an expression can be computed on the variables themselves.
pub(crate) struct Shortcuts {
    pub quick: Option<IntegerProgram>,
    /// Only of what is `fixed`.
    pub program: Option<SlotExpression>,
}

/// What is known of a piece of SQL once it has been prepared.
#[derive(Default)]
pub(crate) struct Prepared {
    /// If it means the same in every call.
    pub fixed: OnceLock<Arc<SpiPrepared>>,
    /// Ways to its value that go past the session.
    pub shortcuts: OnceLock<Shortcuts>,
    /// If it depends on the types that variables happened to have.
    pub dynamic: Mutex<Option<Met>>,
}

pub(crate) struct Routine {
    pub definition: Arc<Definition>,
    pub action: Stmt,
    pub variables: Vec<Variable>,
    pub namespace: Namespace,
    pub conflict: Conflict,
    pub print_strict_params: bool,
    pub returns: Returns,
    /// What the result has, polymorphic types settled.
    pub result_type: Oid,
    pub returns_row: bool,
    pub found: Slot,
    pub inputs: Vec<Slot>,
    /// NEW and OLD.
    pub trigger_rows: Option<(Slot, Slot)>,
    pub prepared: Vec<Prepared>,
    /// Of each slot: the bits of an integer variable, 1 of a truth value, else 0.
    pub plain: Vec<u8>,
    /// Of each slot: the type of which the variable takes any value as it is, 0 if there is none.
    pub taken_types: Vec<Oid>,
}

/// Variables that integers and truth values are assigned to without a conversion that could need more.
fn plain_of(variables: &[Variable]) -> Vec<u8> {
    let plain = |v: &Variable| match v {
        Variable::Scalar(v) if v.fact.is_some() || v.name.starts_with(CASE_VARIABLE) => 0,
        Variable::Scalar(v) => match v.ty.oid {
            oids::INT2 => 16,
            oids::INT4 => 32,
            oids::INT8 => 64,
            oids::BOOL => 1,
            _ => 0,
        },
        _ => 0,
    };
    variables.iter().map(plain).collect()
}

/// Scalars that values of their type are assigned to without a check or conversion.
fn taken_types_of(variables: &[Variable]) -> Vec<Oid> {
    let taken = |v: &Variable| match v {
        Variable::Scalar(v) if v.fact.is_some() || v.name.starts_with(CASE_VARIABLE) => 0,
        Variable::Scalar(v) if v.not_null || v.ty.typmod != -1 => 0,
        Variable::Scalar(v) => v.ty.oid,
        _ => 0,
    };
    variables.iter().map(taken).collect()
}

/// Names of variables that CASE compares begin with it; their types are known when they are assigned.
const CASE_VARIABLE: &str = "__Case__Variable_";

impl Routine {
    /// The variable's type is known only when something is assigned to it.
    pub fn is_dynamic(&self, slot: Slot) -> bool {
        match self.variables.get(slot) {
            Some(Variable::Record(r)) => r.ty.oid == oids::RECORD,
            Some(Variable::Field { record, .. }) => self.is_dynamic(*record),
            Some(Variable::Scalar(v)) => v.name.starts_with(CASE_VARIABLE),
            _ => true,
        }
    }
}

fn is_polymorphic(oid: Oid) -> bool {
    use oids::*;
    // anycompatiblerange, anymultirange, anycompatiblemultirange have no name here.
    matches!(
        oid,
        ANYELEMENT
            | ANYARRAY
            | ANYNONARRAY
            | ANYENUM
            | ANYRANGE
            | ANYCOMPATIBLE
            | ANYCOMPATIBLEARRAY
            | ANYCOMPATIBLENONARRAY
            | 5080
            | 4537
            | 4538
    )
}

fn is_pseudo(oid: Oid) -> bool {
    use oids::*;
    // cstring, any, trigger, internal, event_trigger and handlers.
    is_polymorphic(oid)
        || matches!(oid, CSTRING | ANY | VOID | TRIGGER | INTERNAL | 3838 | 2280 | 3115 | 325 | 3310 | 269 | 32 | 705)
}

/// While a body is checked, what is polymorphic is taken for integers.
fn settled(oid: Oid) -> Oid {
    match oid {
        oids::ANYARRAY | oids::ANYCOMPATIBLEARRAY => oids::INT4_ARRAY,
        // int4range, int4multirange
        oids::ANYRANGE | 5080 => 3904,
        4537 | 4538 => 4451,
        oid if is_polymorphic(oid) => oids::INT4,
        oid => oid,
    }
}

/// The catalogs, as the parser asks them.
pub(crate) struct Catalog<'a, 's> {
    pub spi: &'a mut Spi<'s>,
}

impl Catalog<'_, '_> {
    fn relation_missing(parts: &[String]) -> Error {
        Error::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", parts.join(".")))
    }
}

impl Names for Catalog<'_, '_> {
    fn type_of_text(&mut self, text: &str) -> Result<TypeInfo> {
        let (oid, typmod) = self.spi.resolve_type(text)?;
        self.type_of_oid(oid, typmod)
    }
    fn type_of_column(&mut self, parts: &[String]) -> Result<TypeInfo> {
        let names: Vec<&str> = parts.iter().map(String::as_str).collect();
        if let Some((oid, typmod)) = self.spi.column_type(&names)? {
            return self.type_of_oid(oid, typmod);
        }
        let (table, column) = parts.split_at(parts.len().saturating_sub(1));
        let names: Vec<&str> = table.iter().map(String::as_str).collect();
        self.spi.row_type_of_relation(&names)?;
        let message = format!(
            "column \"{}\" of relation \"{}\" does not exist",
            column.join("."),
            table.last().map_or("", String::as_str)
        );
        Err(Error::new(sqlstate::UNDEFINED_COLUMN, message))
    }
    fn collation(&mut self, parts: &[String]) -> Result<Collation> {
        self.spi.collation(&parts.iter().map(String::as_str).collect::<Vec<_>>())
    }
    fn type_of_rows(&mut self, parts: &[String]) -> Result<TypeInfo> {
        let names: Vec<&str> = parts.iter().map(String::as_str).collect();
        let oid = self.spi.row_type_of_relation(&names)?;
        if oid == 0 {
            return Err(Catalog::relation_missing(parts));
        }
        self.type_of_oid(oid, -1)
    }
    fn type_of_oid(&mut self, oid: Oid, typmod: i32) -> Result<TypeInfo> {
        let built_in =
            |kind, is_array, name: &str| Ok(TypeInfo { oid, typmod, kind, is_array, name: name.to_string() });
        match oid {
            oids::INT4 => return built_in(TypeKind::Scalar, false, "integer"),
            oids::BOOL => return built_in(TypeKind::Scalar, false, "boolean"),
            oids::TEXT => return built_in(TypeKind::Scalar, false, "text"),
            oids::RECORD => return built_in(TypeKind::Record, false, "record"),
            _ => {}
        }
        let name = self.spi.format_type(oid, -1)?;
        let kind = if is_pseudo(oid) {
            TypeKind::Pseudo
        } else if self.spi.row_of_type(oid)?.is_some() {
            TypeKind::Record
        } else {
            TypeKind::Scalar
        };
        let is_array = !matches!(oid, oids::INT2VECTOR | oids::OIDVECTOR) && self.spi.element_type(oid)? != 0;
        Ok(TypeInfo { oid, typmod, kind, is_array, name })
    }
    fn array_of(&mut self, element: &TypeInfo) -> Result<TypeInfo> {
        let oid = self.spi.array_type(element.oid)?;
        if oid == 0 {
            return Err(Error::new(
                sqlstate::UNDEFINED_OBJECT,
                format!("could not find array type for data type {}", element.name),
            ));
        }
        self.type_of_oid(oid, element.typmod)
    }
    fn check_syntax(&mut self, text: &str, mode: ParseMode) -> Result<()> {
        if mode == ParseMode::Expression {
            refuse_set_operation(text)?;
        }
        self.spi.check_syntax(text, spi_mode(mode))
    }
    fn warn(&mut self, warning: Error) {
        // Whoever is not there to hear it will be found missing by what follows.
        let _ = self.spi.notice(warning);
    }
}

/// SELECT may be followed by more than what an expression is.
fn refuse_set_operation(text: &str) -> Result<()> {
    let mut scanner = Scanner::new(text);
    let mut depth = 0;
    while let Ok(Lexeme { token, start, end }) = scanner.next() {
        match token {
            Token::End => break,
            Token::Sign('(' | '[') => depth += 1,
            Token::Sign(')' | ']') => depth -= 1,
            Token::Identifier { name, quoted: false }
                if depth == 0 && matches!(name.as_str(), "union" | "intersect" | "except") =>
            {
                let position = text.get(..start).unwrap_or("").chars().count() as u32 + 1;
                let message = format!("syntax error at or near \"{}\"", text.get(start..end).unwrap_or(""));
                return Err(Error::new(sqlstate::SYNTAX_ERROR, message).with_position(position));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn spi_mode(mode: ParseMode) -> routine::ParseMode {
    match mode {
        ParseMode::Statement => routine::ParseMode::Statement,
        ParseMode::Expression => routine::ParseMode::Expression,
        ParseMode::Assignment { names } => routine::ParseMode::Assignment { names },
    }
}

fn conflict_setting(spi: &Spi<'_>) -> Conflict {
    match spi.setting("plpgsql.variable_conflict").as_deref() {
        Some("use_variable") => Conflict::UseVariable,
        Some("use_column") => Conflict::UseColumn,
        _ => Conflict::Error,
    }
}

/// A list of checks by name, `all` or `none`.
pub(crate) fn extra_checks(value: Option<&str>) -> ExtraChecks {
    let mut checks = ExtraChecks::default();
    for name in value.unwrap_or("none").split(',').map(str::trim) {
        let all = name.eq_ignore_ascii_case("all");
        checks.shadowed_variables |= all || name.eq_ignore_ascii_case("shadowed_variables");
        checks.too_many_rows |= all || name.eq_ignore_ascii_case("too_many_rows");
        checks.strict_multi_assignment |= all || name.eq_ignore_ascii_case("strict_multi_assignment");
    }
    checks
}

/// What CREATE FUNCTION refuses before it looks at the body.
pub(crate) fn check_types(definition: &Definition, spi: &mut Spi<'_>) -> Result<()> {
    use oids::*;
    let result = definition.result_type;
    if is_pseudo(result) && !is_polymorphic(result) && !matches!(result, VOID | TRIGGER | 3838) {
        let name = spi.format_type(result, -1)?;
        return Err(Error::unsupported(format!("PL/pgSQL functions cannot return type {name}")));
    }
    for (_, argument) in definition.inputs() {
        let oid = argument.type_oid;
        if is_pseudo(oid) && !is_polymorphic(oid) {
            let name = spi.format_type(oid, -1)?;
            return Err(Error::unsupported(format!("PL/pgSQL functions cannot accept type {name}")));
        }
    }
    Ok(())
}

struct Compiler<'a, 's> {
    definition: &'a Arc<Definition>,
    catalog: Catalog<'a, 's>,
    frame: Frame,
    inputs: Vec<Slot>,
    trigger_rows: Option<(Slot, Slot)>,
}

/// Compiles a definition. Errors are told as PostgreSQL's compiler does: with a position in the body, or the line it
/// had come to.
pub(crate) fn compile(definition: &Arc<Definition>, spi: &mut Spi<'_>) -> Result<Routine> {
    let conflict = conflict_setting(spi);
    let strict = spi.setting("plpgsql.print_strict_params").is_some_and(|v| v == "on");
    let check = definition.is_validation
        || definition.kind == RoutineKind::Inline && spi.setting("check_function_bodies").is_none_or(|v| v == "on");
    let mut frame = Frame::new(conflict, Returns::Value);
    frame.print_strict_params = strict;
    if definition.is_validation {
        frame.extra_warnings = extra_checks(spi.setting("plpgsql.extra_warnings").as_deref());
        frame.extra_errors = extra_checks(spi.setting("plpgsql.extra_errors").as_deref());
    }
    let compiler = Compiler { definition, catalog: Catalog { spi }, frame, inputs: Vec::new(), trigger_rows: None };
    compiler.run(check)
}

impl Compiler<'_, '_> {
    fn run(mut self, check_syntax: bool) -> Result<Routine> {
        let definition = self.definition.clone();
        let located = |mut e: Error, line: u32| {
            let shown = definition.kind == RoutineKind::Inline || definition.is_validation;
            match e.0.position.take() {
                Some(position) => {
                    e.0.internal_position = Some(position);
                    e.0.internal_query = Some(definition.body.to_string());
                    // A position in the text of CREATE FUNCTION says enough.
                    if !shown {
                        e.add_context(&near_line(&definition, line));
                    }
                }
                None => e.add_context(&near_line(&definition, line)),
            }
            e
        };
        self.frame.namespace.push(Some(&definition.name), LabelKind::Block);
        self.signature().map_err(|e| located(e, 1))?;
        let found = self.declare("found", oids::BOOL).map_err(|e| located(e, 1))?;
        let parsed = parser::parse(&definition.body, &mut self.frame, &mut self.catalog, check_syntax);
        let mut action = parsed.map_err(|failure| located(failure.error, failure.line))?;
        let falls_off = self.frame.output.is_some() || !matches!(self.frame.returns, Returns::Value);
        if falls_off && self.trigger_rows.is_none() {
            add_return(&mut action, self.frame.output);
        }
        let result_type = settled(definition.result_type);
        let returns_row = self.trigger_rows.is_some()
            || result_type == oids::RECORD
            || self.catalog.type_of_oid(result_type, -1)?.kind == TypeKind::Record;
        let frame = self.frame;
        Ok(Routine {
            action,
            prepared: (0..frame.exprs).map(|_| Prepared::default()).collect(),
            plain: plain_of(&frame.variables),
            taken_types: taken_types_of(&frame.variables),
            variables: frame.variables,
            namespace: frame.namespace,
            conflict: frame.conflict,
            print_strict_params: frame.print_strict_params,
            returns: frame.returns,
            result_type,
            returns_row,
            found,
            inputs: self.inputs,
            trigger_rows: self.trigger_rows,
            definition,
        })
    }

    fn declare(&mut self, name: &str, oid: Oid) -> Result<Slot> {
        let ty = self.catalog.type_of_oid(oid, -1)?;
        self.frame.declare(name, 0, ty, true)
    }

    fn signature(&mut self) -> Result<()> {
        let definition = self.definition.clone();
        match definition.kind {
            RoutineKind::Trigger => return self.trigger(),
            RoutineKind::EventTrigger => return Err(Error::unsupported("event triggers are not supported")),
            _ => {}
        }
        let mut outputs = Vec::new();
        for (i, argument) in definition.arguments.iter().enumerate() {
            let numbered = format!("${}", i + 1);
            let ty = self.catalog.type_of_oid(settled(argument.type_oid), -1)?;
            if ty.kind == TypeKind::Pseudo {
                return Err(Error::unsupported(format!("PL/pgSQL functions cannot accept type {}", ty.name)));
            }
            let is_record = ty.kind == TypeKind::Record;
            let name = if argument.name.is_empty() { &numbered } else { &argument.name };
            let slot = self.frame.declare(name, 0, ty, false)?;
            if argument.mode.is_input() {
                self.inputs.push(slot);
            }
            if argument.mode.is_output() {
                outputs.push((name.clone(), slot));
            }
            self.name_parameter(slot, &numbered, is_record)?;
            if !argument.name.is_empty() {
                self.name_parameter(slot, &argument.name, is_record)?;
            }
        }
        let is_procedure = definition.kind == RoutineKind::Procedure;
        self.frame.output = match outputs.as_slice() {
            [] => None,
            [(_, slot)] if !is_procedure => Some(*slot),
            many => {
                let (names, slots) = many.iter().cloned().unzip();
                Some(self.frame.add(Variable::Row { names, slots }))
            }
        };
        self.frame.returns = if definition.returns_set {
            Returns::Set
        } else if definition.result_type == oids::VOID
            || is_procedure && outputs.is_empty()
            || definition.kind == RoutineKind::Inline
        {
            Returns::Void { procedure: is_procedure }
        } else {
            Returns::Value
        };
        if matches!(definition.result_type, oids::TRIGGER | 3838) {
            return Err(Error::unsupported("trigger functions can only be called as triggers"));
        }
        // In a call what was polymorphic is settled already; the body has been checked with what it may use.
        let is_settled =
            !definition.is_validation && definition.kind == RoutineKind::Function && !is_pseudo(definition.result_type);
        if outputs.is_empty() && (is_settled || is_polymorphic(definition.result_type)) {
            self.declare("$0", settled(definition.result_type))?;
        }
        Ok(())
    }

    fn name_parameter(&mut self, slot: Slot, name: &str, is_record: bool) -> Result<()> {
        if self.frame.namespace.find_local(name).is_some() {
            return Err(Error::new(
                sqlstate::INVALID_FUNCTION_DEFINITION,
                format!("parameter name \"{name}\" used more than once"),
            ));
        }
        if is_record {
            self.frame.namespace.add_record(slot, name);
        } else {
            self.frame.namespace.add_scalar(slot, name);
        }
        Ok(())
    }

    fn trigger(&mut self) -> Result<()> {
        if !self.definition.arguments.is_empty() {
            return Err(Error::new(
                sqlstate::INVALID_FUNCTION_DEFINITION,
                "trigger functions cannot have declared arguments",
            )
            .with_hint("The arguments of the trigger can be accessed through TG_NARGS and TG_ARGV instead."));
        }
        let new = self.declare("new", oids::RECORD)?;
        let old = self.declare("old", oids::RECORD)?;
        self.trigger_rows = Some((new, old));
        let facts = [
            ("tg_name", oids::NAME, TriggerFact::Name),
            ("tg_when", oids::TEXT, TriggerFact::When),
            ("tg_level", oids::TEXT, TriggerFact::Level),
            ("tg_op", oids::TEXT, TriggerFact::Op),
            ("tg_relid", oids::OID, TriggerFact::RelId),
            ("tg_relname", oids::NAME, TriggerFact::TableName),
            ("tg_table_name", oids::NAME, TriggerFact::TableName),
            ("tg_table_schema", oids::NAME, TriggerFact::TableSchema),
            ("tg_nargs", oids::INT4, TriggerFact::ArgumentCount),
            ("tg_argv", oids::TEXT_ARRAY, TriggerFact::Arguments),
        ];
        for (name, oid, fact) in facts {
            let slot = self.declare(name, oid)?;
            if let Some(Variable::Scalar(v)) = self.frame.variables.get_mut(slot) {
                v.fact = Some(fact);
            }
        }
        Ok(())
    }
}

fn near_line(definition: &Definition, line: u32) -> String {
    format!("compilation of PL/pgSQL function \"{}\" near line {line}", definition.name)
}

/// A RETURN at the end, outside of the outermost block's handlers and label.
fn add_return(action: &mut Stmt, output: Option<Slot>) {
    let last = Stmt { line: 0, kind: StmtKind::Return(output.map_or(ReturnValue::None, ReturnValue::Slot)) };
    let StmtKind::Block(block) = &mut action.kind else { return };
    if block.exceptions.is_some() || block.label.is_some() {
        let line = 0;
        let outer = Block { label: None, declared: Vec::new(), body: Vec::new(), exceptions: None };
        let inner = std::mem::replace(action, Stmt { line, kind: StmtKind::Block(Box::new(outer)) });
        if let StmtKind::Block(outer) = &mut action.kind {
            outer.body = vec![inner, last];
        }
    } else if !matches!(block.body.last(), Some(Stmt { kind: StmtKind::Return(_), .. })) {
        block.body.push(last);
    }
}

/// A severity below ERROR of RAISE.
pub(crate) fn severity(level: Level) -> Severity {
    match level {
        Level::Debug => Severity::Debug,
        Level::Log => Severity::Log,
        Level::Info => Severity::Info,
        Level::Notice => Severity::Notice,
        Level::Warning => Severity::Warning,
        Level::Exception => Severity::Error,
    }
}
