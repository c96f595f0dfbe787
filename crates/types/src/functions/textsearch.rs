//! Functions and operators of tsvector and tsquery, named as pg_proc's prosrc. What they do is in `kilndb_fulltext`.

use super::get;
use crate::{Array, Datum, EvalContext, oids, pieces};
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use kilndb_fulltext::dictionary::{Lexemes, parse_options};
use kilndb_fulltext::query::QueryOperator;
use kilndb_fulltext::rank::{DEFAULT_WEIGHTS, checked_weights, rank, rank_cover};
use kilndb_fulltext::rewrite::Rewriter;
use kilndb_fulltext::vector_ops::parse_weight;
use kilndb_fulltext::{Config, Lexeme, TsQuery, TsVector, headline};
use std::sync::Arc;

fn null_in(what: &str) -> Error {
    Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, format!("{what} array may not contain nulls"))
}
/// The texts of an array; NULLs are left out.
fn words(a: &Array) -> Vec<&str> {
    a.elements.iter().filter_map(|d| if let Datum::Text(s) = d { Some(&**s) } else { None }).collect()
}
pub(crate) fn text_array(words: impl IntoIterator<Item = Datum>) -> Array {
    let elements: Vec<Datum> = words.into_iter().collect();
    let dims = if elements.is_empty() { Vec::new() } else { vec![(1, elements.len() as u32)] };
    Array { element_type: oids::TEXT, dims, elements }
}
fn weights_of(a: &Array) -> Result<[f32; 4]> {
    if a.dims.len() != 1 {
        return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "array of weight must be one-dimensional"));
    }
    if a.elements.len() < 4 {
        return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "array of weight is too short"));
    }
    let mut weights = Vec::new();
    for e in &a.elements {
        if e.is_null() {
            return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "array of weight must not contain nulls"));
        }
        weights.push(get::float4(e)?);
    }
    checked_weights(&weights)
}
fn array_to_vector(a: &Array) -> Result<TsVector> {
    let mut lexemes = Vec::with_capacity(a.elements.len());
    for e in work::steps(&a.elements, 100) {
        let word = match e? {
            Datum::Text(s) if s.is_empty() => {
                let message = "lexeme array may not contain empty strings";
                return Err(Error::new(sqlstate::ZERO_LENGTH_CHARACTER_STRING, message));
            }
            Datum::Text(s) => s,
            _ => return Err(null_in("lexeme")),
        };
        lexemes.push(Lexeme { word: (**word).into(), positions: Vec::new() });
    }
    TsVector::from_lexemes(lexemes)
}
fn weight_mask(a: &Array) -> Result<u16> {
    work::steps(&a.elements, 10).try_fold(0, |mask, e| match e? {
        Datum::Char(c) => Ok(mask | 1 << parse_weight(*c)?),
        _ => Err(null_in("weight")),
    })
}
fn to_i32(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

scalars! {
    fn tsvector_length(ctx; a: tsvector) = to_i32(a.lexemes.len());
    fn tsvector_strip(ctx; a: tsvector) = a.strip();
    fn tsvector_setweight(ctx; a: tsvector, w: character) = a.set_weight(parse_weight(w)?, None)?;
    fn tsvector_setweight_by_filter(ctx; a: tsvector, w: character, only: array) = a.set_weight(parse_weight(w)?, Some(&words(only)))?;
    fn tsvector_concat(ctx; a: tsvector, b: tsvector) = a.concat(b)?;
    fn tsvector_delete_str(ctx; a: tsvector, word: text) = a.without(&[word])?;
    fn tsvector_delete_arr(ctx; a: tsvector, gone: array) = a.without(&words(gone))?;
    fn tsvector_filter(ctx; a: tsvector, weights: array) = a.filter_weights(weight_mask(weights)?);
    fn tsvector_to_array(ctx; a: tsvector) = text_array(a.lexemes.iter().map(|l| Datum::text(&l.word)));
    fn array_to_tsvector(ctx; a: array) = array_to_vector(a)?;
    fn ts_match_vq(ctx; v: tsvector, q: tsquery) = q.matches(v);
    fn ts_match_qv(ctx; q: tsquery, v: tsvector) = q.matches(v);
    fn tsquery_and(ctx; a: tsquery, b: tsquery) = a.join(QueryOperator::And, b, 0)?;
    fn tsquery_or(ctx; a: tsquery, b: tsquery) = a.join(QueryOperator::Or, b, 0)?;
    fn tsquery_not(ctx; a: tsquery) = a.negate()?;
    fn tsquery_phrase(ctx; a: tsquery, b: tsquery) = a.join(QueryOperator::Phrase, b, 1)?;
    fn tsquery_phrase_distance(ctx; a: tsquery, b: tsquery, d: int4) = a.join(QueryOperator::Phrase, b, d)?;
    fn tsq_mcontains(ctx; a: tsquery, b: tsquery) = a.contains(b);
    fn tsq_mcontained(ctx; a: tsquery, b: tsquery) = b.contains(a);
    fn tsquery_numnode(ctx; a: tsquery) = to_i32(a.items.len());
    fn tsquerytree(ctx; a: tsquery) = a.indexable_text();
    fn ts_rank_tt(ctx; v: tsvector, q: tsquery) = rank(&DEFAULT_WEIGHTS, v, q, 0);
    fn ts_rank_ttf(ctx; v: tsvector, q: tsquery, m: int4) = rank(&DEFAULT_WEIGHTS, v, q, m);
    fn ts_rank_wtt(ctx; w: array, v: tsvector, q: tsquery) = rank(&weights_of(w)?, v, q, 0);
    fn ts_rank_wttf(ctx; w: array, v: tsvector, q: tsquery, m: int4) = rank(&weights_of(w)?, v, q, m);
    fn ts_rankcd_tt(ctx; v: tsvector, q: tsquery) = rank_cover(&DEFAULT_WEIGHTS, v, q, 0);
    fn ts_rankcd_ttf(ctx; v: tsvector, q: tsquery, m: int4) = rank_cover(&DEFAULT_WEIGHTS, v, q, m);
    fn ts_rankcd_wtt(ctx; w: array, v: tsvector, q: tsquery) = rank_cover(&weights_of(w)?, v, q, 0);
    fn ts_rankcd_wttf(ctx; w: array, v: tsvector, q: tsquery, m: int4) = rank_cover(&weights_of(w)?, v, q, m);
    fn tsquery_rewrite(ctx; q: tsquery, what: tsquery, by: tsquery) = rewritten(q, what, by)?;
    fn get_current_ts_config(ctx;) = ctx.host.default_text_search_config()?;
    fn to_tsvector_byid(ctx; c: oid, t: text) = vector(ctx, Some(c), t)?;
    fn to_tsvector(ctx; t: text) = vector(ctx, None, t)?;
    fn to_tsquery_byid(ctx; c: oid, t: text) = query(ctx, Some(c), t, QueryForm::Standard)?;
    fn to_tsquery(ctx; t: text) = query(ctx, None, t, QueryForm::Standard)?;
    fn plainto_tsquery_byid(ctx; c: oid, t: text) = query(ctx, Some(c), t, QueryForm::Plain)?;
    fn plainto_tsquery(ctx; t: text) = query(ctx, None, t, QueryForm::Plain)?;
    fn phraseto_tsquery_byid(ctx; c: oid, t: text) = query(ctx, Some(c), t, QueryForm::Phrase)?;
    fn phraseto_tsquery(ctx; t: text) = query(ctx, None, t, QueryForm::Phrase)?;
    fn websearch_to_tsquery_byid(ctx; c: oid, t: text) = query(ctx, Some(c), t, QueryForm::Web)?;
    fn websearch_to_tsquery(ctx; t: text) = query(ctx, None, t, QueryForm::Web)?;
    fn ts_match_tq(ctx; t: text, q: tsquery) = q.matches(&vector(ctx, None, t)?);
    fn ts_match_tt(ctx; t: text, q: text) = query(ctx, None, q, QueryForm::Plain)?.matches(&vector(ctx, None, t)?);
    fn ts_headline_byid_opt(ctx; c: oid, t: text, q: tsquery, o: text) = shown(ctx, Some(c), t, q, o)?;
    fn ts_headline_byid(ctx; c: oid, t: text, q: tsquery) = shown(ctx, Some(c), t, q, "")?;
    fn ts_headline(ctx; t: text, q: tsquery) = shown(ctx, None, t, q, "")?;
    fn ts_headline_opt(ctx; t: text, q: tsquery, o: text) = shown(ctx, None, t, q, o)?;
    fn ts_lexize(ctx; d: oid, t: text) = lexized(ctx, d, t)?;
    fn p15950_unaccent(ctx; d: oid, t: text) = unaccented(ctx, d, t)?;
    fn tsvectorin(ctx; t: text) = crate::io::input(oids::TSVECTOR, t, -1, ctx)?;
    fn tsvectorout(ctx; a: any) = crate::io::output_string(oids::TSVECTOR, a, ctx)?;
    fn tsqueryout(ctx; a: any) = crate::io::output_string(oids::TSQUERY, a, ctx)?;
    fn tsqueryin(ctx; t: text) = crate::io::input(oids::TSQUERY, t, -1, ctx)?;
}

enum QueryForm {
    Standard,
    Plain,
    Phrase,
    Web,
}

pub(super) fn config(ctx: &EvalContext<'_>, oid: Option<Oid>) -> Result<Arc<Config>> {
    let oid = match oid {
        Some(oid) => oid,
        None => ctx.host.default_text_search_config()?,
    };
    ctx.host.text_search_config(oid)
}
pub(super) fn tell(ctx: &EvalContext<'_>, notices: Vec<Error>) {
    notices.into_iter().for_each(|n| ctx.host.notice(n));
}
fn vector(ctx: &EvalContext<'_>, oid: Option<Oid>, text: &str) -> Result<TsVector> {
    let mut notices = Vec::new();
    let made = config(ctx, oid)?.vector(text, &mut notices);
    tell(ctx, notices);
    made
}
fn query(ctx: &EvalContext<'_>, oid: Option<Oid>, text: &str, form: QueryForm) -> Result<TsQuery> {
    let config = config(ctx, oid)?;
    let parsed = match form {
        QueryForm::Standard => TsQuery::to_query(&config, text)?,
        QueryForm::Plain => TsQuery::plain(&config, text, QueryOperator::And)?,
        QueryForm::Phrase => TsQuery::plain(&config, text, QueryOperator::Phrase)?,
        QueryForm::Web => TsQuery::web(&config, text)?,
    };
    tell(ctx, parsed.notices);
    Ok(parsed.query)
}
pub(super) fn shown(
    ctx: &EvalContext<'_>,
    oid: Option<Oid>,
    text: &str,
    query: &TsQuery,
    options: &str,
) -> Result<String> {
    let (config, mut notices) = (config(ctx, oid)?, Vec::new());
    let made = headline::headline(&config, text, query, &parse_options(options)?, &mut notices);
    tell(ctx, notices);
    made
}
fn lexemes_of(ctx: &EvalContext<'_>, dictionary: Oid, text: &str) -> Result<Option<Lexemes>> {
    let dictionary = ctx.host.text_search_dictionary(dictionary)?;
    // A dictionary looks at a word as a whole.
    if text.len() > pieces::LONG { work::apart(|| dictionary.lexemes(text)) } else { Ok(dictionary.lexemes(text)) }
}
fn lexized(ctx: &EvalContext<'_>, dictionary: Oid, text: &str) -> Result<Option<Array>> {
    let found = lexemes_of(ctx, dictionary, text)?;
    Ok(found.map(|lexemes| text_array(lexemes.into_iter().map(|l| Datum::text(l.word)))))
}
/// What a dictionary makes of a text, taken as one word; the text itself if it makes nothing of it.
pub fn unaccented(ctx: &EvalContext<'_>, dictionary: Oid, text: &str) -> Result<String> {
    let filter = ctx.host.text_search_dictionary(dictionary)?;
    let made = match filter.is_filter() {
        true => filter.filtered_text(text)?,
        false => lexemes_of(ctx, dictionary, text)?.unwrap_or_default().into_iter().next().map(|lexeme| lexeme.word),
    };
    match made {
        Some(word) => Ok(word),
        None => pieces::concat(&[text]),
    }
}
fn rewritten(query: &TsQuery, what: &TsQuery, by: &TsQuery) -> Result<TsQuery> {
    if query.is_empty() || what.is_empty() {
        return Ok(query.clone());
    }
    let mut rewriter = Rewriter::new(query)?;
    rewriter.replace(what, by)?;
    rewriter.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn long_documents_give_way() {
        let words = "word:1 ".repeat(100_000);
        asks(worth(words.len() * 5), |_| TsVector::parse(&words));
        asks(worth(1_000_000), |_| TsVector::parse(&" ".repeat(1_000_000)));
        asks(worth(100_000 * 200), |_| TsQuery::parse(&"a & ".repeat(100_000)).map(|_| ()));
        asks(worth(1_000_000), |_| TsQuery::parse(&" ".repeat(1_000_000)).map(|_| ()));
        let gone = vec!["other"; 100_000];
        asks(worth(100_000 * 300), |_| TsVector::parse("word:1")?.without(&gone));
        asks(worth(100_000 * 300), |_| TsVector::parse("word:1")?.set_weight(3, Some(&gone)));
        let list = Array { element_type: oids::TEXT, dims: vec![(1, 1)], elements: vec![Datum::text("word"); 100_000] };
        asks(worth(100_000 * 100), |_| array_to_vector(&list));
    }
}
