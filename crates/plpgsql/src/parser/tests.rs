use super::*;
use kilndb_types::collation::Collation;
use kilndb_types::oids;

/// Types by name; SQL is wrong if it has the word `wrong` in it.
struct Fake;

impl Names for Fake {
    fn type_of_text(&mut self, text: &str) -> Result<TypeInfo> {
        match text {
            "int" | "integer" => self.type_of_oid(oids::INT4, -1),
            "text" => self.type_of_oid(oids::TEXT, -1),
            "record" => self.type_of_oid(oids::RECORD, -1),
            "refcursor" => self.type_of_oid(oids::REFCURSOR, -1),
            "int[]" => self.type_of_oid(oids::INT4_ARRAY, -1),
            _ => {
                Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("type \"{text}\" does not exist")).with_position(1))
            }
        }
    }
    fn type_of_column(&mut self, _parts: &[String]) -> Result<TypeInfo> {
        self.type_of_oid(oids::TEXT, -1)
    }
    fn type_of_rows(&mut self, _parts: &[String]) -> Result<TypeInfo> {
        self.type_of_oid(oids::RECORD, -1)
    }
    fn type_of_oid(&mut self, oid: Oid, typmod: i32) -> Result<TypeInfo> {
        let kind = if oid == oids::RECORD { TypeKind::Record } else { TypeKind::Scalar };
        Ok(TypeInfo { oid, typmod, kind, is_array: oid == oids::INT4_ARRAY, name: oid.to_string() })
    }
    fn collation(&mut self, _parts: &[String]) -> Result<Collation> {
        Ok(Collation::default())
    }
    fn array_of(&mut self, _element: &TypeInfo) -> Result<TypeInfo> {
        self.type_of_oid(oids::INT4_ARRAY, -1)
    }
    fn check_syntax(&mut self, text: &str, _mode: ParseMode) -> Result<()> {
        match text.find("wrong") {
            Some(at) => Err(Error::new(sqlstate::SYNTAX_ERROR, "wrong SQL").with_position(at as u32 + 1)),
            None => Ok(()),
        }
    }
    fn warn(&mut self, _warning: Error) {}
}

fn parsed(text: &str) -> (Vec<Stmt>, Frame) {
    let mut frame = Frame::new(Conflict::Error, Returns::Void { procedure: false });
    frame.namespace.push(Some("f"), crate::namespace::LabelKind::Block);
    let statement = parse(text, &mut frame, &mut Fake, true).unwrap_or_else(|f| panic!("{text}: {:?}", f.error));
    let StmtKind::Block(block) = statement.kind else { panic!("no block") };
    (block.body, frame)
}

fn kinds(text: &str) -> Vec<&'static str> {
    parsed(text).0.iter().map(|s| s.kind.name()).collect()
}

fn failure(text: &str) -> (String, Option<u32>) {
    let mut frame = Frame::new(Conflict::Error, Returns::Void { procedure: false });
    frame.namespace.push(Some("f"), crate::namespace::LabelKind::Block);
    let failure = parse(text, &mut frame, &mut Fake, true).expect_err("an error");
    (failure.error.message().to_string(), failure.error.0.position)
}

#[test]
fn every_statement_is_known() {
    let body = "declare x int; r record; c refcursor; a int[]; begin
        x := 1; x = 2; r.f := 3; a[1] := 4;
        if x > 1 then null; elsif x = 0 then x := 1; else x := 2; end if;
        case x when 1, 2 then null; else null; end case;
        loop exit; end loop;
        while true loop continue when x = 1; end loop;
        for i in reverse 10..1 by 2 loop null; end loop;
        for r in select 1 loop null; end loop;
        for r in execute 'select $1' using x loop null; end loop;
        foreach x in array a loop null; end loop;
        return;
        raise notice 'x % %%', x using hint = 'h';
        assert x = 1, 'm';
        insert into t values (1) returning a into x;
        execute 'select 1' into strict x using 1, 2;
        perform f(x);
        call p(x);
        get diagnostics x = row_count;
        open c scroll for select 1;
        fetch next from c into x;
        move backward all in c;
        close c;
        commit and chain;
        rollback;
        select 1 into r from t;
        create function g() returns int begin atomic; select 1; end;
    end";
    assert_eq!(
        kinds(body),
        [
            "assignment",
            "assignment",
            "assignment",
            "assignment",
            "IF",
            "CASE",
            "LOOP",
            "WHILE",
            "FOR with integer loop variable",
            "FOR over SELECT rows",
            "FOR over EXECUTE statement",
            "FOREACH over array",
            "RETURN",
            "RAISE",
            "ASSERT",
            "SQL statement",
            "EXECUTE",
            "PERFORM",
            "CALL",
            "GET DIAGNOSTICS",
            "OPEN",
            "FETCH",
            "MOVE",
            "CLOSE",
            "COMMIT",
            "ROLLBACK",
            "SQL statement",
            "SQL statement",
        ]
    );
}

#[test]
fn into_leaves_blanks_behind() {
    let (body, _) = parsed("declare x int; begin select 1 into x from t; end");
    let StmtKind::Sql { query, into: Some(_) } = &body[0].kind else { panic!() };
    assert_eq!(&*query.text, "select 1        from t");
}

#[test]
fn fields_and_slots() {
    let (body, frame) = parsed("<<b>> declare r record; begin r.a := r.b; r.a.deep := 1; b.r := null; end b");
    let StmtKind::Assign { target, expr } = &body[0].kind else { panic!() };
    assert!(matches!(&frame.variables[*target], Variable::Field { name, .. } if name == "a"));
    assert_eq!((&*expr.text, expr.mode), ("r.b", ParseMode::Expression));
    let StmtKind::Assign { target: again, expr } = &body[1].kind else { panic!() };
    assert_eq!((again, expr.mode), (target, ParseMode::Assignment { names: 2 }));
}

#[test]
fn lines_are_those_of_the_first_word() {
    let (body, _) = parsed("\nbegin\n  null;\n\n  raise notice 'x';\n  begin\n  null; end; end");
    assert_eq!(body.iter().map(|s| s.line).collect::<Vec<_>>(), [5, 6]);
}

#[test]
fn words_are_keywords_unless_assigned_to() {
    assert_eq!(
        kinds("declare next int; error int; begin next := 1; error = 2; raise notice 'a'; end"),
        ["assignment", "assignment", "RAISE"]
    );
    assert_eq!(
        kinds("declare comment text; begin comment := 'x'; comment on table t is 'x'; end"),
        ["assignment", "SQL statement"]
    );
}

#[test]
fn errors_are_told_with_their_places() {
    let cases = [
        ("begin x := 1; end", "\"x\" is not a known variable", 7),
        ("declare x int begin null; end", "type \"int begin null\" does not exist", 11),
        ("begin return 1; end", "RETURN cannot have a parameter in function returning void", 14),
        ("begin exit; end", "EXIT cannot be used outside a loop, unless it has a label", 7),
        (
            "begin loop exit a; end loop; end",
            "there is no label \"a\" attached to any block or loop enclosing this statement",
            17,
        ),
        ("<<a>> begin null; end b", "end label \"b\" differs from block's label \"a\"", 23),
        ("begin null; end x", "end label \"x\" specified for unlabeled block", 17),
        ("begin if true then null; end; end", "syntax error at or near \";\"", 29),
        ("begin if true null; end if; end", "missing \"THEN\" at end of SQL expression", 19),
        ("begin select (1; end", "unexpected end of function definition at end of input", 21),
        ("begin perform wrong; end", "wrong SQL", 15),
        ("declare x int; x int; begin null; end", "duplicate declaration at or near \"x\"", 16),
        ("declare c constant int := 1; begin c := 2; end", "variable \"c\" is declared CONSTANT", 36),
        ("begin raise notice '%'; end", "too few parameters specified for RAISE", 0),
        ("begin", "syntax error at end of input", 6),
    ];
    for (text, message, position) in cases {
        assert_eq!(failure(text), (message.to_string(), (position > 0).then_some(position)), "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let text = format!("{}null;{}", "begin ".repeat(1000), "end;".repeat(1000));
    assert_eq!(failure(&text).0, "stack depth limit exceeded");
}

#[test]
fn constants_may_have_defaults_and_names_may_be_types() {
    let (_, frame) = parsed(
        "declare a constant int not null default 1; b a%type[]; c text collate \"C\" := 'x'; d alias for a; begin null; end",
    );
    assert!(matches!(&frame.variables[1], Variable::Scalar(v) if v.ty.is_array));
    assert!(matches!(&frame.variables[0], Variable::Scalar(v) if v.constant && v.not_null && v.default.is_some()));
}

#[test]
fn cursors_take_arguments_by_name() {
    let (body, _) = parsed("declare c cursor (a int, b int) for select a, b; begin open c(b := 1, a => 2); end");
    let StmtKind::Open { source: OpenSource::Bound(Some(args)), .. } = &body[0].kind else { panic!() };
    assert_eq!(&*args.text, "2 AS a, 1 AS b");
}
