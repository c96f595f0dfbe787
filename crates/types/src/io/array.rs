//! Arrays, int2vector, oidvector and records: text in and out.

use super::*;
use crate::{Array, Record};

const MAX_DIMS: usize = 6;

#[cold]
fn malformed(text: &str, detail: &str) -> Error {
    error(sqlstate::INVALID_TEXT_REPRESENTATION, format!("malformed array literal: \"{text}\"")).with_detail(detail)
}

struct ArrayParser<'a> {
    text: &'a str,
    at: usize,
    delim: u8,
}
enum ArrayToken {
    Open,
    Close,
    Delim,
    Null,
    Value(String),
    End,
}
impl ArrayParser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
    fn blanks(&mut self) -> Result<()> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or(&[]);
        self.at += pieces::count_leading(rest, |b| b.is_ascii_whitespace() || b == 0x0b)?;
        Ok(())
    }
    fn token(&mut self, array_nulls: bool) -> Result<ArrayToken> {
        self.blanks()?;
        match self.peek() {
            None => Ok(ArrayToken::End),
            Some(b'{') => {
                self.at += 1;
                Ok(ArrayToken::Open)
            }
            Some(b'}') => {
                self.at += 1;
                Ok(ArrayToken::Close)
            }
            Some(b) if b == self.delim => {
                self.at += 1;
                Ok(ArrayToken::Delim)
            }
            Some(b'"') => self.quoted(),
            Some(_) => self.unquoted(array_nulls),
        }
    }
    fn quoted(&mut self) -> Result<ArrayToken> {
        let end = || malformed(self.text, "Unexpected end of input.");
        let mut v = Vec::new();
        let mut at = self.at + 1;
        let b = self.text.as_bytes();
        let mut steps = work::SmallSteps::default();
        loop {
            steps.step(3)?;
            match b.get(at).ok_or_else(end)? {
                b'"' => break,
                b'\\' => {
                    at += 1;
                    v.push(*b.get(at).ok_or_else(end)?);
                }
                c => v.push(*c),
            }
            at += 1;
        }
        self.at = at + 1;
        self.blanks()?;
        match self.peek() {
            None => return Err(malformed(self.text, "Unexpected end of input.")),
            Some(b'}') => {}
            Some(c) if c == self.delim => {}
            Some(_) => return Err(malformed(self.text, "Incorrectly quoted array element.")),
        }
        String::from_utf8(v).map(ArrayToken::Value).map_err(|_| malformed(self.text, "Unexpected end of input."))
    }
    fn unquoted(&mut self, array_nulls: bool) -> Result<ArrayToken> {
        let mut v = Vec::new();
        let b = self.text.as_bytes();
        let mut keep = 0;
        let mut escaped = false;
        let mut steps = work::SmallSteps::default();
        loop {
            steps.step(3)?;
            match b.get(self.at) {
                None => return Err(malformed(self.text, "Unexpected end of input.")),
                Some(b'{') => {
                    return Err(malformed(self.text, "Unexpected \"{\" character."));
                }
                Some(b'"') => return Err(malformed(self.text, "Incorrectly quoted array element.")),
                Some(b'}') => break,
                Some(c) if *c == self.delim => break,
                Some(b'\\') => {
                    self.at += 1;
                    match b.get(self.at) {
                        None => return Err(malformed(self.text, "Unexpected end of input.")),
                        Some(c) => v.push(*c),
                    }
                    keep = v.len();
                    escaped = true;
                }
                Some(c) => {
                    v.push(*c);
                    if !c.is_ascii_whitespace() && *c != 0x0b {
                        keep = v.len();
                    }
                }
            }
            self.at += 1;
        }
        v.truncate(keep);
        if array_nulls && !escaped && v.eq_ignore_ascii_case(b"null") {
            return Ok(ArrayToken::Null);
        }
        String::from_utf8(v).map(ArrayToken::Value).map_err(|_| malformed(self.text, "Unexpected end of input."))
    }
    /// `[l:u]...=` in front of the braces.
    fn bounds(&mut self) -> Result<Vec<(i32, u32)>> {
        let mut dims = Vec::new();
        self.blanks()?;
        while self.peek() == Some(b'[') {
            if dims.len() >= MAX_DIMS {
                return Err(too_many_dims(MAX_DIMS + 1));
            }
            self.at += 1;
            let mut low = 1i64;
            let mut high = self.bound()?;
            if self.peek() == Some(b':') {
                self.at += 1;
                low = high;
                high = self.bound()?;
            }
            if self.peek() != Some(b']') {
                return Err(malformed(self.text, "Missing \"]\" after array dimensions."));
            }
            self.at += 1;
            if high < low {
                return Err(error(sqlstate::ARRAY_SUBSCRIPT_ERROR, "upper bound cannot be less than lower bound"));
            }
            if high == i64::from(i32::MAX) {
                return Err(error(sqlstate::PROGRAM_LIMIT_EXCEEDED, format!("array upper bound is too large: {high}")));
            }
            dims.push((low as i32, (high - low + 1) as u32));
            self.blanks()?;
        }
        if !dims.is_empty() {
            if self.peek() != Some(b'=') {
                return Err(malformed(self.text, "Missing \"=\" after array dimensions."));
            }
            self.at += 1;
            self.blanks()?;
        }
        Ok(dims)
    }
    fn bound(&mut self) -> Result<i64> {
        let start = self.at;
        if matches!(self.peek(), Some(b'+' | b'-')) {
            self.at += 1;
        }
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        if !text.bytes().any(|b| b.is_ascii_digit()) {
            return Err(malformed(self.text, "\"[\" must introduce explicitly-specified array dimensions."));
        }
        let out = || error(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "array bound is out of integer range");
        let v: i64 = text.parse().map_err(|_| out())?;
        if i32::try_from(v).is_err() { Err(out()) } else { Ok(v) }
    }
}
#[cold]
fn too_many_dims(n: usize) -> Error {
    let _ = n;
    error(
        sqlstate::PROGRAM_LIMIT_EXCEEDED,
        format!("number of array dimensions exceeds the maximum allowed ({MAX_DIMS})"),
    )
}

pub(crate) fn array_in(element: Oid, text: &str, typmod: i32, ctx: &EvalContext) -> Result<Datum> {
    let delim = if element == 603 { b';' } else { b',' };
    let mut p = ArrayParser { text, at: 0, delim };
    let bounds = p.bounds()?;
    if p.peek() != Some(b'{') {
        return Err(malformed(
            text,
            if bounds.is_empty() {
                "Array value must start with \"{\" or dimension information."
            } else {
                "Array contents must start with \"{\"."
            },
        ));
    }
    let mut elements = Vec::new();
    let lengths = braces(&mut p, element, typmod, ctx, &mut elements)?;
    p.blanks()?;
    if p.peek().is_some() {
        return Err(malformed(text, "Junk after closing right brace."));
    }
    let dims = if bounds.is_empty() {
        lengths.iter().map(|n| (1, *n)).collect()
    } else {
        if bounds.len() != lengths.len() || bounds.iter().zip(&lengths).any(|(b, n)| b.1 != *n) {
            return Err(malformed(text, "Specified array dimensions do not match array contents."));
        }
        bounds
    };
    let dims = if elements.is_empty() { Vec::new() } else { dims };
    Ok(Datum::Array(Arc::new(Array { element_type: element, dims, elements })))
}
/// Reads the braces; returns the length per dimension.
fn braces(p: &mut ArrayParser, element: Oid, typmod: i32, ctx: &EvalContext, out: &mut Vec<Datum>) -> Result<Vec<u32>> {
    const RAGGED: &str = "Multidimensional arrays must have sub-arrays with matching dimensions.";
    let mut depth = 0usize;
    let mut counts = [0u32; MAX_DIMS + 1];
    let mut sizes = [None::<u32>; MAX_DIMS + 1];
    let mut leaf = None::<usize>;
    let mut expect_value = true;
    let mut just_opened = false;
    loop {
        work::step(30)?;
        match p.token(ctx.format.array_nulls)? {
            ArrayToken::End => return Err(malformed(p.text, "Unexpected end of input.")),
            ArrayToken::Open => {
                if !expect_value {
                    return Err(malformed(p.text, "Unexpected \"{\" character."));
                }
                if depth >= MAX_DIMS {
                    return Err(too_many_dims(depth + 1));
                }
                if leaf.is_some_and(|l| depth >= l) {
                    return Err(malformed(p.text, RAGGED));
                }
                counts[depth] += u32::from(depth > 0);
                depth += 1;
                counts[depth] = 0;
                just_opened = true;
            }
            ArrayToken::Close => {
                if expect_value && !just_opened {
                    return Err(malformed(p.text, "Unexpected \"}\" character."));
                }
                if just_opened && leaf.is_none() {
                    leaf = Some(depth);
                } else if just_opened && leaf != Some(depth) {
                    return Err(malformed(p.text, RAGGED));
                }
                match sizes[depth] {
                    None => sizes[depth] = Some(counts[depth]),
                    Some(n) if n != counts[depth] => return Err(malformed(p.text, RAGGED)),
                    _ => {}
                }
                depth -= 1;
                just_opened = false;
                expect_value = false;
                if depth == 0 {
                    break;
                }
            }
            ArrayToken::Delim => {
                if expect_value {
                    return Err(malformed(p.text, &format!("Unexpected \"{}\" character.", p.delim as char)));
                }
                expect_value = true;
                just_opened = false;
            }
            value @ (ArrayToken::Null | ArrayToken::Value(_)) => {
                if !expect_value {
                    return Err(malformed(p.text, "Unexpected array element."));
                }
                if *leaf.get_or_insert(depth) != depth {
                    return Err(malformed(p.text, RAGGED));
                }
                counts[depth] += 1;
                out.push(match value {
                    ArrayToken::Value(v) => input(element, &v, typmod, ctx)?,
                    _ => Datum::Null,
                });
                expect_value = false;
                just_opened = false;
            }
        }
    }
    let dims = leaf.unwrap_or(1);
    Ok((1..=dims).map(|d| sizes[d].unwrap_or(0)).collect())
}

pub(crate) fn array_out(type_oid: Oid, v: &Array, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    if matches!(type_oid, INT2VECTOR | OIDVECTOR) {
        for (i, e) in v.elements.iter().enumerate() {
            work::step(20)?;
            if i > 0 {
                out.push(b' ');
            }
            output(v.element_type, e, out, ctx)?;
        }
        return Ok(());
    }
    if v.elements.is_empty() {
        out.extend_from_slice(b"{}");
        return Ok(());
    }
    if v.dims.iter().any(|d| d.0 != 1) {
        for (low, len) in &v.dims {
            super::write(out, format_args!("[{}:{}]", low, i64::from(*low) + i64::from(*len) - 1));
        }
        out.push(b'=');
    }
    let mut at = 0;
    level(v, 0, &mut at, out, ctx)
}
fn level(v: &Array, depth: usize, at: &mut usize, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    let delim = if v.element_type == 603 { b';' } else { b',' };
    out.push(b'{');
    let Some(&(_, len)) = v.dims.get(depth) else {
        out.push(b'}');
        return Ok(());
    };
    for i in 0..len {
        work::step(30)?;
        if i > 0 {
            out.push(delim);
        }
        if depth + 1 < v.dims.len() {
            level(v, depth + 1, at, out, ctx)?;
            continue;
        }
        match v.elements.get(*at) {
            None | Some(Datum::Null) => out.extend_from_slice(b"NULL"),
            Some(e) => {
                let start = out.len();
                output(v.element_type, e, out, ctx)?;
                quote_element(out, start, delim)?;
            }
        }
        *at += 1;
    }
    out.push(b'}');
    Ok(())
}
fn quote_element(out: &mut Vec<u8>, start: usize, delim: u8) -> Result<()> {
    let text = &out[start..];
    let plain =
        |b: u8| !(matches!(b, b'"' | b'\\' | b'{' | b'}') || b == delim || b.is_ascii_whitespace() || b == 0x0b);
    if !text.is_empty() && !text.eq_ignore_ascii_case(b"null") && pieces::all(text, plain)? {
        return Ok(());
    }
    let text = out.split_off(start);
    out.push(b'"');
    let mut steps = work::SmallSteps::default();
    for b in text {
        steps.step(3)?;
        if matches!(b, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(b);
    }
    out.push(b'"');
    Ok(())
}

pub(crate) fn vector_in(type_oid: Oid, text: &str) -> Result<Datum> {
    let (element_type, small) = if type_oid == INT2VECTOR { (INT2, true) } else { (OID, false) };
    let mut elements = Vec::new();
    for word in text.split_ascii_whitespace() {
        work::step(30)?;
        elements.push(if small {
            Datum::Int2(int::parse(word, "smallint", i128::from(i16::MIN), i128::from(i16::MAX))? as i16)
        } else {
            Datum::Oid(int::parse_oid(word, "oid")?)
        });
    }
    let dims = vec![(0, elements.len() as u32)];
    Ok(Datum::Array(Arc::new(Array { element_type, dims, elements })))
}

pub(crate) fn record_in(type_oid: Oid, fields: &[(String, Oid, i32)], text: &str, ctx: &EvalContext) -> Result<Datum> {
    let bad = |detail: &str| {
        error(sqlstate::INVALID_TEXT_REPRESENTATION, format!("malformed record literal: \"{text}\""))
            .with_detail(detail)
    };
    let blanks = pieces::count_leading(text.as_bytes(), |c| c.is_ascii_whitespace())?;
    let b = text[blanks..].trim_start().as_bytes();
    let mut at = 1;
    if b.first() != Some(&b'(') {
        return Err(bad("Missing left parenthesis."));
    }
    let mut values = Vec::with_capacity(fields.len());
    for (i, (_, oid, typmod)) in fields.iter().enumerate() {
        if i > 0 {
            if b.get(at) != Some(&b',') {
                return Err(bad("Too few columns."));
            }
            at += 1;
        }
        let mut v = Vec::new();
        let mut quoted = false;
        let mut any = false;
        let mut steps = work::SmallSteps::default();
        loop {
            steps.step(3)?;
            match b.get(at) {
                None => return Err(bad("Unexpected end of input.")),
                Some(b',' | b')') if !quoted => break,
                Some(b'\\') => {
                    at += 1;
                    v.push(*b.get(at).ok_or_else(|| bad("Unexpected end of input."))?);
                    any = true;
                }
                Some(b'"') if quoted && b.get(at + 1) == Some(&b'"') => {
                    v.push(b'"');
                    at += 1;
                }
                Some(b'"') => {
                    quoted = !quoted;
                    any = true;
                }
                Some(c) => {
                    v.push(*c);
                    any = true;
                }
            }
            at += 1;
        }
        let value = if any {
            let s = String::from_utf8(v).map_err(|_| bad("Unexpected end of input."))?;
            input(*oid, &s, *typmod, ctx)?
        } else {
            if *oid >= super::FIRST_USER_TYPE && ctx.host.under_domain(*oid).is_some() {
                ctx.host.check_domain(*oid, &Datum::Null)?;
            }
            Datum::Null
        };
        values.push((*oid, value));
    }
    match b.get(at) {
        Some(b')') => {}
        Some(b',') => return Err(bad("Too many columns.")),
        // `()` of a type without columns comes here at once.
        _ => return Err(bad("Too many columns.")),
    }
    if !pieces::all(&b[at + 1..], |c| c.is_ascii_whitespace())? {
        return Err(bad("Junk after right parenthesis."));
    }
    Ok(Datum::Record(Arc::new(Record { type_oid, fields: values, names: None })))
}
pub(crate) fn record_out(v: &Record, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    out.push(b'(');
    for (i, (oid, field)) in v.fields.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        if field.is_null() {
            continue;
        }
        let start = out.len();
        output(*oid, field, out, ctx)?;
        let text = &out[start..];
        let plain = |b: u8| !(matches!(b, b'"' | b'\\' | b'(' | b')' | b',') || b.is_ascii_whitespace() || b == 0x0b);
        if text.is_empty() || !pieces::all(text, plain)? {
            double_quote(out, start)?;
        }
    }
    out.push(b')');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn long_rows_give_way() {
        let long = "b\\\"".repeat(300_000);
        let fields = [("a".to_string(), TEXT, -1), ("b".to_string(), TEXT, -1)];
        let blanks = " ".repeat(1_000_000);
        for text in
            [format!("({long},)"), format!("(\"{long}\",x)"), format!("{blanks}(a,b)"), format!("(a,b){blanks}")]
        {
            asks(worth(text.len()), |cx| record_in(RECORD, &fields, &text, cx));
        }
        let row = Record { type_oid: RECORD, fields: vec![(TEXT, Datum::text(&long))], names: None };
        asks(worth(3 * long.len()), |cx| record_out(&row, &mut Vec::new(), cx));
    }

    #[test]
    fn long_elements_give_way() {
        let long = "b\\\"".repeat(300_000);
        let array = Array { element_type: TEXT, dims: vec![(1, 1)], elements: vec![Datum::text(&long)] };
        asks(worth(3 * long.len()), |cx| array_out(0, &array, &mut Vec::new(), cx));
        asks(worth(1_000_000), |cx| array_in(TEXT, &format!("{}{{}}", " ".repeat(1_000_000)), -1, cx));
        asks(worth(100_000 * 30), |_| vector_in(OIDVECTOR, &"1 ".repeat(100_000)));
    }
}
