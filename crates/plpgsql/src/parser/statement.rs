//! Statements.

use super::block::Parsed;
use super::{Parser, Returns, Tok, VariableToken, sign};
use crate::keywords::Keyword;
use crate::namespace::LabelKind;
use crate::scanner::Token;
use crate::tree::*;
use kilndb_base::{Result, sqlstate};
use kilndb_types::oids;

type Where = (usize, usize);

/// The variable or variables of FOR, before it is known what kind of loop it is.
struct LoopTarget {
    name: String,
    at: Where,
    scalar: Option<Slot>,
    row: Option<Slot>,
}

impl Parser<'_> {
    pub(crate) fn one_statement(&mut self, tok: Tok, at: Where) -> Result<Parsed> {
        let kind = match tok {
            Tok::Plain(Token::LessLess) => {
                let label = self.label_name()?;
                let (tok, at) = self.next_at()?;
                return match tok {
                    Tok::Keyword(Keyword::Declare | Keyword::Begin) => self.inner_block(Some(label), tok, at),
                    Tok::Keyword(Keyword::Loop | Keyword::While | Keyword::For | Keyword::Foreach) => {
                        self.any_loop(Some(label), &tok, at)
                    }
                    _ => self.syntax_error(),
                };
            }
            Tok::Keyword(Keyword::Declare | Keyword::Begin) => return self.inner_block(None, tok, at),
            Tok::Keyword(Keyword::Loop | Keyword::While | Keyword::For | Keyword::Foreach) => {
                return self.any_loop(None, &tok, at);
            }
            Tok::Keyword(Keyword::If) => return self.if_statement(at),
            Tok::Keyword(Keyword::Case) => return self.case_statement(at),
            Tok::Variable(variable) => self.assignment(variable, at)?,
            Tok::Word { .. } | Tok::Words(_) => {
                let (next, place) = self.next_at()?;
                let assigns = matches!(next, Tok::Plain(Token::ColonEquals | Token::Sign('=' | '[' | '.')));
                self.push_back(next, place);
                if assigns {
                    return self.not_a_variable(&tok, at);
                }
                self.execute_sql(&tok, at)?
            }
            Tok::Keyword(Keyword::Import | Keyword::Insert | Keyword::Merge) => self.execute_sql(&tok, at)?,
            Tok::Keyword(Keyword::Null) => {
                self.expect(&sign(';'))?;
                return Ok(Parsed::Nothing);
            }
            Tok::Keyword(keyword) => match self.simple(keyword, at)? {
                Some(kind) => kind,
                None => return Ok(Parsed::Not(tok)),
            },
            tok => return Ok(Parsed::Not(tok)),
        };
        Ok(Parsed::Statement(self.statement(at.0, kind)))
    }

    /// Statements that contain no others.
    fn simple(&mut self, keyword: Keyword, at: Where) -> Result<Option<StmtKind>> {
        Ok(Some(match keyword {
            Keyword::Exit => self.exit(true, at)?,
            Keyword::Continue => self.exit(false, at)?,
            Keyword::Return => self.return_statement(at)?,
            Keyword::Raise => self.raise()?,
            Keyword::Assert => {
                let (condition, end) = self.expression_until(&[sign(','), sign(';')], ", or ;")?;
                let message = if end == sign(',') { Some(self.expression(sign(';'), ";")?) } else { None };
                StmtKind::Assert { condition, message }
            }
            Keyword::Execute => self.dynamic()?,
            Keyword::Perform => self.perform(at)?,
            Keyword::Call | Keyword::Do => {
                self.push_back(Tok::Keyword(keyword), at);
                StmtKind::Call { query: self.sql_statement()?, is_call: keyword == Keyword::Call }
            }
            Keyword::Get => self.diagnostics(at)?,
            Keyword::Open => self.open()?,
            Keyword::Fetch => self.fetch(at)?,
            Keyword::Move => self.move_cursor()?,
            Keyword::Close => {
                let cursor = self.cursor_variable()?;
                self.expect(&sign(';'))?;
                StmtKind::Close(cursor)
            }
            Keyword::Commit => StmtKind::Commit { chain: self.chain()? },
            Keyword::Rollback => StmtKind::Rollback { chain: self.chain()? },
            _ => return Ok(None),
        }))
    }

    fn inner_block(&mut self, label: Option<String>, tok: Tok, at: Where) -> Result<Parsed> {
        // The line is that of BEGIN.
        self.push_back(tok, at);
        let statement = self.nested(|parser| {
            let (block, begin) = parser.block(label)?;
            Ok(parser.statement(begin, StmtKind::Block(Box::new(block))))
        })?;
        self.expect(&sign(';'))?;
        Ok(Parsed::Statement(statement))
    }

    /// `AND [NO] CHAIN ;`
    fn chain(&mut self) -> Result<bool> {
        let mut tok = self.next()?;
        let mut chain = false;
        if tok == Tok::Keyword(Keyword::And) {
            chain = true;
            tok = self.next()?;
            if tok == Tok::Keyword(Keyword::No) {
                chain = false;
                tok = self.next()?;
            }
            if tok != Tok::Keyword(Keyword::Chain) {
                return self.syntax_error();
            }
            tok = self.next()?;
        }
        if tok == sign(';') { Ok(chain) } else { self.syntax_error() }
    }

    fn assignment(&mut self, variable: VariableToken, at: Where) -> Result<StmtKind> {
        self.check_assignable(variable.slot, at.0)?;
        let slot = variable.slot;
        // More names than the variable's own reach into its value.
        let mode = ParseMode::Assignment { names: variable.names.len() as u8 };
        let is_deeper = count_names(self.slice(at.0, at.1)) > variable.names.len();
        self.push_back(Tok::Variable(variable), at);
        let piece = self.read_sql(&super::sql::Until { tokens: &[sign(';')], expected: ";" }, false)?;
        let whole = self.slice(piece.start, piece.end);
        let Some((operator, source)) = piece.assign else {
            // No assignment at all: the grammar says where it stops making sense.
            self.check(whole, mode, piece.start)?;
            return self.syntax_error();
        };
        if self.slice(at.1, operator).trim().is_empty() && !is_deeper {
            let text = self.slice(source, piece.end);
            let blanks = text.len() - text.trim_start().len();
            let text = text.trim_start();
            self.check(text, ParseMode::Expression, source + blanks)?;
            let mut expr = self.expr(text, ParseMode::Expression);
            expr.assignment = Some(whole.into());
            return Ok(StmtKind::Assign { target: slot, expr });
        }
        self.check(whole, mode, piece.start)?;
        Ok(StmtKind::Assign { target: slot, expr: self.expr(whole, mode) })
    }

    fn perform(&mut self, at: Where) -> Result<StmtKind> {
        self.push_back(Tok::Keyword(Keyword::Perform), at);
        let piece = self.read_sql(&super::sql::Until { tokens: &[sign(';')], expected: ";" }, false)?;
        // SELECT is a letter shorter than PERFORM.
        let text = format!("SELECT{}", self.slice(at.1, piece.end));
        self.check(&text, ParseMode::Statement, at.0 + 1)?;
        Ok(StmtKind::Perform(self.expr(&text, ParseMode::Statement)))
    }

    fn if_statement(&mut self, at: Where) -> Result<Parsed> {
        self.nested(|parser| {
            let mut arms = Vec::new();
            let condition = parser.expression(Tok::Keyword(Keyword::Then), "THEN")?;
            arms.push((condition, parser.statements()?));
            let mut otherwise = Vec::new();
            loop {
                let (tok, place) = parser.next_at()?;
                match tok {
                    Tok::Keyword(Keyword::Elsif) => {
                        let condition = parser.expression(Tok::Keyword(Keyword::Then), "THEN")?;
                        arms.push((condition, parser.statements()?));
                    }
                    Tok::Keyword(Keyword::Else) => {
                        otherwise = parser.statements()?;
                        break;
                    }
                    tok => {
                        parser.push_back(tok, place);
                        break;
                    }
                }
            }
            parser.end_of(Keyword::If)?;
            Ok(Parsed::Statement(parser.statement(at.0, StmtKind::If { arms, otherwise })))
        })
    }

    fn case_statement(&mut self, at: Where) -> Result<Parsed> {
        self.nested(|parser| {
            let (tok, place) = parser.next_at()?;
            let mut test = None;
            if tok != Tok::Keyword(Keyword::When) {
                parser.push_back(tok, place);
                test = Some(parser.expression(Tok::Keyword(Keyword::When), "WHEN")?);
            }
            let mut whens = Vec::new();
            let mut otherwise = None;
            let mut tok = Tok::Keyword(Keyword::When);
            while tok == Tok::Keyword(Keyword::When) {
                let condition = parser.expression(Tok::Keyword(Keyword::Then), "THEN")?;
                whens.push((condition, parser.statements()?));
                tok = parser.next()?;
            }
            if tok == Tok::Keyword(Keyword::Else) {
                otherwise = Some(parser.statements()?);
                tok = parser.next()?;
            }
            if tok != Tok::Keyword(Keyword::End) {
                return parser.syntax_error();
            }
            parser.expect_keyword(Keyword::Case)?;
            parser.expect(&sign(';'))?;
            let line = parser.line_of(at.0);
            let test = match test {
                Some(expr) => Some((expr, parser.case_variable(line, &mut whens)?)),
                None => None,
            };
            Ok(Parsed::Statement(parser.statement(at.0, StmtKind::Case { test, whens, otherwise })))
        })
    }

    /// A variable for the value that is compared; each WHEN becomes a comparison with it.
    fn case_variable(&mut self, line: u32, whens: &mut [(Expr, Vec<Stmt>)]) -> Result<Slot> {
        let name = format!("__Case__Variable_{}__", self.frame.variables.len());
        let ty = self.names.type_of_oid(oids::INT4, -1)?;
        let slot = self.frame.declare(&name, line, ty, true)?;
        for (when, _) in whens {
            when.text = format!("\"{name}\" IN ({})", when.text).into();
            when.place = self.frame.namespace.place();
        }
        Ok(slot)
    }

    fn any_loop(&mut self, label: Option<String>, tok: &Tok, at: Where) -> Result<Parsed> {
        self.nested(|parser| {
            parser.frame.namespace.push(label.as_deref(), LabelKind::Loop);
            let mut kind = match tok {
                Tok::Keyword(Keyword::While) => {
                    let condition = parser.expression(Tok::Keyword(Keyword::Loop), "LOOP")?;
                    StmtKind::While { label: label.clone(), condition, body: Vec::new() }
                }
                Tok::Keyword(Keyword::For) => parser.for_control(label.clone())?,
                Tok::Keyword(Keyword::Foreach) => parser.foreach_control(label.clone())?,
                _ => StmtKind::Loop { label: label.clone(), body: Vec::new() },
            };
            let statements = parser.statements()?;
            parser.expect_keyword(Keyword::End)?;
            parser.expect_keyword(Keyword::Loop)?;
            parser.end_label(label.as_deref())?;
            parser.expect(&sign(';'))?;
            parser.frame.namespace.pop();
            if let StmtKind::Loop { body, .. }
            | StmtKind::While { body, .. }
            | StmtKind::ForInteger { body, .. }
            | StmtKind::ForQuery { body, .. }
            | StmtKind::ForDynamic { body, .. }
            | StmtKind::ForCursor { body, .. }
            | StmtKind::ForEach { body, .. } = &mut kind
            {
                *body = statements;
            }
            Ok(Parsed::Statement(parser.statement(at.0, kind)))
        })
    }

    fn loop_target(&mut self) -> Result<LoopTarget> {
        let (tok, at) = self.next_at()?;
        match tok {
            Tok::Variable(v) if self.frame.is_row(v.slot) => {
                self.line_of(at.0);
                Ok(LoopTarget { name: v.shown(), at, scalar: None, row: Some(v.slot) })
            }
            Tok::Variable(v) => {
                self.line_of(at.0);
                let (tok, place) = self.next_at()?;
                let is_list = tok == sign(',');
                self.push_back(tok, place);
                let row = if is_list { Some(self.scalar_list(&v, at)?) } else { None };
                Ok(LoopTarget { name: v.shown(), at, scalar: Some(v.slot), row })
            }
            Tok::Word { ref name, .. } => {
                let name = name.clone();
                self.line_of(at.0);
                let (next, place) = self.next_at()?;
                let is_list = next == sign(',');
                self.push_back(next, place);
                if is_list {
                    return self.not_a_variable(&tok, at);
                }
                Ok(LoopTarget { name, at, scalar: None, row: None })
            }
            tok => self.not_a_variable(&tok, at),
        }
    }

    /// The row that a loop over rows fills.
    fn row_target(&mut self, target: &LoopTarget, state: kilndb_base::SqlState) -> Result<Slot> {
        match (target.row, target.scalar) {
            (Some(row), _) => {
                self.check_assignable(row, target.at.0)?;
                Ok(row)
            }
            (None, Some(scalar)) => self.list_of_one(&target.name, scalar, target.at),
            (None, None) => self.fail(
                state,
                "loop variable of loop over rows must be a record variable or list of scalar variables",
                target.at.0,
            ),
        }
    }

    fn for_control(&mut self, label: Option<String>) -> Result<StmtKind> {
        let target = self.loop_target()?;
        self.expect_keyword(Keyword::In)?;
        let (tok, place) = self.next_at()?;
        if tok == Tok::Keyword(Keyword::Execute) {
            let (query, end) =
                self.expression_until(&[Tok::Keyword(Keyword::Loop), Tok::Keyword(Keyword::Using)], "LOOP or USING")?;
            let row = self.row_target(&target, sqlstate::DATATYPE_MISMATCH)?;
            let params = if end == Tok::Keyword(Keyword::Using) {
                self.expressions(Tok::Keyword(Keyword::Loop), ", or LOOP")?
            } else {
                Vec::new()
            };
            return Ok(StmtKind::ForDynamic { label, target: row, query, params, body: Vec::new() });
        }
        if let Tok::Variable(v) = &tok
            && let Some(Variable::Scalar(cursor)) = self.frame.variables.get(v.slot)
            && cursor.ty.oid == oids::REFCURSOR
        {
            let (slot, is_bound) = (v.slot, cursor.cursor.is_some());
            return self.for_cursor(label, &target, slot, is_bound, place);
        }
        let reverse = tok.is_word(Keyword::Reverse);
        if !reverse {
            self.push_back(tok, place);
        }
        // An expression up to two dots, or a query.
        let until = [Tok::Plain(Token::DotDot), Tok::Keyword(Keyword::Loop)];
        let piece = self.read_sql(&super::sql::Until { tokens: &until, expected: "LOOP" }, true)?;
        let text = self.slice(piece.start, piece.end);
        if piece.ended_by == Tok::Plain(Token::DotDot) {
            self.check(text, ParseMode::Expression, piece.start)?;
            let lower = self.expr(text, ParseMode::Expression);
            return self.for_integer(label, &target, lower, reverse);
        }
        if reverse {
            return self.syntax("cannot specify REVERSE in query FOR loop", place.0);
        }
        self.check(text, ParseMode::Statement, piece.start)?;
        let query = self.expr(text, ParseMode::Statement);
        let row = self.row_target(&target, sqlstate::SYNTAX_ERROR)?;
        Ok(StmtKind::ForQuery { label, target: row, query, body: Vec::new() })
    }

    fn for_integer(
        &mut self,
        label: Option<String>,
        target: &LoopTarget,
        lower: Expr,
        reverse: bool,
    ) -> Result<StmtKind> {
        let (upper, end) = self.expression_until(&[Tok::Keyword(Keyword::Loop), Tok::Keyword(Keyword::By)], "LOOP")?;
        let step = if end == Tok::Keyword(Keyword::By) {
            Some(self.expression(Tok::Keyword(Keyword::Loop), "LOOP")?)
        } else {
            None
        };
        if target.scalar.is_some() && target.row.is_some() {
            return self.syntax("integer FOR loop must have only one target variable", target.at.0);
        }
        let line = self.line_of(target.at.0);
        let ty = self.names.type_of_oid(oids::INT4, -1)?;
        let var = self.frame.declare(&target.name, line, ty, true)?;
        Ok(StmtKind::ForInteger { label, var, lower, upper, step, reverse, body: Vec::new() })
    }

    fn for_cursor(
        &mut self,
        label: Option<String>,
        target: &LoopTarget,
        cursor: Slot,
        is_bound: bool,
        place: Where,
    ) -> Result<StmtKind> {
        if target.scalar.is_some() && target.row.is_some() {
            return self.syntax("cursor FOR loop must have only one target variable", target.at.0);
        }
        if !is_bound {
            return self.syntax("cursor FOR loop must use a bound cursor variable", place.0);
        }
        let args = self.cursor_args(cursor, &Tok::Keyword(Keyword::Loop))?;
        let line = self.line_of(target.at.0);
        let ty = self.names.type_of_oid(oids::RECORD, -1)?;
        let record = self.frame.declare(&target.name, line, ty, true)?;
        Ok(StmtKind::ForCursor { label, cursor, args, record, body: Vec::new() })
    }

    fn foreach_control(&mut self, label: Option<String>) -> Result<StmtKind> {
        let target = self.loop_target()?;
        let mut tok = self.next()?;
        let mut slice = 0;
        if tok == Tok::Keyword(Keyword::Slice) {
            let Tok::Plain(Token::Integer(n)) = self.next()? else { return self.syntax_error() };
            slice = n;
            tok = self.next()?;
        }
        if tok != Tok::Keyword(Keyword::In) {
            return self.syntax_error();
        }
        self.expect_keyword(Keyword::Array)?;
        let array = self.expression(Tok::Keyword(Keyword::Loop), "LOOP")?;
        let Some(slot) = target.row.or(target.scalar) else {
            return self.syntax("loop variable of FOREACH must be a known variable or list of variables", target.at.0);
        };
        self.check_assignable(slot, target.at.0)?;
        Ok(StmtKind::ForEach { label, target: slot, slice, array, body: Vec::new() })
    }

    fn exit(&mut self, is_exit: bool, at: Where) -> Result<StmtKind> {
        let (mut tok, place) = self.next_at()?;
        let label = tok.any_identifier();
        if label.is_some() {
            tok = self.next()?;
        }
        let condition = match tok {
            Tok::Plain(Token::Sign(';')) => None,
            Tok::Keyword(Keyword::When) => Some(self.expression(sign(';'), ";")?),
            _ => return self.syntax_error(),
        };
        match &label {
            Some(name) => match self.frame.namespace.find_label(name) {
                None => {
                    return self.syntax(
                        format!("there is no label \"{name}\" attached to any block or loop enclosing this statement"),
                        place.0,
                    );
                }
                Some(kind) if kind != LabelKind::Loop && !is_exit => {
                    return self.syntax(format!("block label \"{name}\" cannot be used in CONTINUE"), place.0);
                }
                Some(_) => {}
            },
            None if !self.frame.namespace.is_in_loop() => {
                let message = if is_exit {
                    "EXIT cannot be used outside a loop, unless it has a label"
                } else {
                    "CONTINUE cannot be used outside a loop"
                };
                return self.syntax(message, at.0);
            }
            None => {}
        }
        Ok(StmtKind::Exit { is_exit, label, condition })
    }

    fn return_statement(&mut self, at: Where) -> Result<StmtKind> {
        let (tok, place) = self.next_at()?;
        if tok == Tok::Plain(Token::End) {
            return self.error_here("unexpected end of function definition");
        }
        if tok.is_word(Keyword::Next) {
            if self.frame.returns != Returns::Set {
                return self.fail(sqlstate::DATATYPE_MISMATCH, "cannot use RETURN NEXT in a non-SETOF function", at.0);
            }
            if let Some(slot) = self.frame.output {
                self.no_value(
                    "RETURN NEXT cannot have a parameter in function with OUT parameters",
                    sqlstate::DATATYPE_MISMATCH,
                    None,
                )?;
                return Ok(StmtKind::ReturnNext(ReturnValue::Slot(slot)));
            }
            return self.value().map(StmtKind::ReturnNext);
        }
        if tok.is_word(Keyword::Query) {
            return self.return_query(at);
        }
        self.push_back(tok, place);
        let mismatch = sqlstate::DATATYPE_MISMATCH;
        match self.frame.returns {
            Returns::Set => {
                self.no_value(
                    "RETURN cannot have a parameter in function returning set",
                    mismatch,
                    Some("Use RETURN NEXT or RETURN QUERY."),
                )?;
                Ok(StmtKind::Return(ReturnValue::None))
            }
            Returns::Void { procedure: true } => {
                self.no_value("RETURN cannot have a parameter in a procedure", sqlstate::SYNTAX_ERROR, None)?;
                Ok(StmtKind::Return(ReturnValue::None))
            }
            Returns::Void { procedure: false } => {
                self.no_value("RETURN cannot have a parameter in function returning void", mismatch, None)?;
                Ok(StmtKind::Return(ReturnValue::None))
            }
            Returns::Value => match self.frame.output {
                Some(slot) => {
                    self.no_value("RETURN cannot have a parameter in function with OUT parameters", mismatch, None)?;
                    Ok(StmtKind::Return(ReturnValue::Slot(slot)))
                }
                None => self.value().map(StmtKind::Return),
            },
        }
    }

    fn no_value(&mut self, message: &str, state: kilndb_base::SqlState, hint: Option<&str>) -> Result<()> {
        let (tok, place) = self.next_at()?;
        if tok == sign(';') {
            return Ok(());
        }
        self.fail(state, message, place.0).map_err(|e| match hint {
            Some(hint) => e.with_hint(hint),
            None => e,
        })
    }

    /// A variable alone, or an expression.
    fn value(&mut self) -> Result<ReturnValue> {
        let (tok, place) = self.next_at()?;
        if let Tok::Variable(v) = &tok
            && self.peek_is(&sign(';'))?
            && !matches!(self.frame.variables.get(v.slot), Some(Variable::Field { .. }))
        {
            self.next()?;
            return Ok(ReturnValue::Slot(v.slot));
        }
        self.push_back(tok, place);
        self.expression(sign(';'), ";").map(ReturnValue::Expr)
    }

    fn return_query(&mut self, at: Where) -> Result<StmtKind> {
        if self.frame.returns != Returns::Set {
            return self.fail(sqlstate::DATATYPE_MISMATCH, "cannot use RETURN QUERY in a non-SETOF function", at.0);
        }
        let (tok, place) = self.next_at()?;
        if tok != Tok::Keyword(Keyword::Execute) {
            self.push_back(tok, place);
            return self.sql_statement().map(StmtKind::ReturnQuery);
        }
        let (query, end) = self.expression_until(&[sign(';'), Tok::Keyword(Keyword::Using)], "; or USING")?;
        let params = if end == sign(';') { Vec::new() } else { self.expressions(sign(';'), ", or ;")? };
        Ok(StmtKind::ReturnDynamic { query, params })
    }

    fn dynamic(&mut self) -> Result<StmtKind> {
        let ends = [Tok::Keyword(Keyword::Into), Tok::Keyword(Keyword::Using), sign(';')];
        let (query, mut end) = self.expression_until(&ends, "INTO or USING or ;")?;
        let (mut into, mut params) = (None, Vec::new());
        loop {
            match end {
                Tok::Keyword(Keyword::Into) if into.is_none() => {
                    into = Some(self.target_of_into(true)?);
                    end = self.next()?;
                }
                Tok::Keyword(Keyword::Using) if params.is_empty() => loop {
                    let (e, ended_by) =
                        self.expression_until(&[sign(','), sign(';'), Tok::Keyword(Keyword::Into)], ", or ; or INTO")?;
                    params.push(e);
                    end = ended_by;
                    if end != sign(',') {
                        break;
                    }
                },
                Tok::Plain(Token::Sign(';')) => return Ok(StmtKind::Dynamic { query, into, params }),
                _ => return self.syntax_error(),
            }
        }
    }
}

/// How many names a qualified name has.
fn count_names(text: &str) -> usize {
    let mut scanner = crate::scanner::Scanner::new(text);
    let mut dots = 0;
    while let Ok(lexeme) = scanner.next() {
        match lexeme.token {
            Token::End => break,
            Token::Sign('.') => dots += 1,
            _ => {}
        }
    }
    dots + 1
}
