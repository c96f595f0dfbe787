//! Text search functions that return rows.

use super::StatementHost;
use super::session_function::{session_functions, session_rows};
use kilndb_base::{Error, Oid, Result, work};
use kilndb_catalog::CatalogView;
use kilndb_catalog::store::array;
use kilndb_catalog::text_search::{TextSearchKind, missing};
use kilndb_fulltext::parser::{Parser, TOKEN_TYPES, Token};
use kilndb_fulltext::vector::{position, weight};
use kilndb_fulltext::{Config, TsVector};
use kilndb_types::context::TextSearchCatalog;
use kilndb_types::functions::get;
use kilndb_types::functions::textsearch::unaccented;
use kilndb_types::{Datum, oids};

type Rows = Vec<Vec<Datum>>;

/// What making a row is taken for.
const UNITS_PER_ROW: usize = 200;

/// unaccent(text).
const UNACCENT_FUNCTION: Oid = 15951;

session_functions! {
    fn p15951_unaccent(call) = {
        let dictionary = own_unaccent(call.host)?;
        Ok(Datum::text(unaccented(&call.host.eval(), dictionary, &call.text(0))?))
    };
}

/// The dictionary that the function with one argument uses: the one of its own schema.
fn own_unaccent(host: &StatementHost<'_>) -> Result<Oid> {
    let function = host.reader.function_by_oid(UNACCENT_FUNCTION)?;
    let schema = function.map_or(0, |f| f.schema_oid);
    let schema = host.reader.schema_name(schema)?.unwrap_or_default();
    let found = host.reader.text_search_object(TextSearchKind::Dictionary, Some(&schema), "unaccent")?;
    found.ok_or_else(|| missing(TextSearchKind::Dictionary, &format!("{schema}.unaccent")))
}

session_rows! {
    fn p3322_tsvector_unnest(call) = unnested(call.args);
    fn p3713_ts_token_type_byid(call) = token_types(call.host, false, call.args);
    fn p3714_ts_token_type_byname(call) = token_types(call.host, true, call.args);
    fn p3715_ts_parse_byid(call) = parsed(call.host, false, call.args);
    fn p3716_ts_parse_byname(call) = parsed(call.host, true, call.args);
    fn p6183_ts_debug_byid(call) = debug(call.host, get::oid(get::arg(call.args, 0)?)?, get::arg(call.args, 1)?);
    fn p6184_ts_debug(call) = {
        debug(call.host, call.host.default_text_search_config()?, get::arg(call.args, 0)?)
    };
}

/// Lexeme, positions and weights.
fn unnested(args: &[Datum]) -> Result<Rows> {
    let vector: &TsVector = get::tsvector(get::arg(args, 0)?)?;
    let row = |l: &kilndb_fulltext::Lexeme| {
        if l.positions.is_empty() {
            return vec![Datum::text(&l.word), Datum::Null, Datum::Null];
        }
        let positions = l.positions.iter().map(|p| Datum::Int2(position(*p) as i16)).collect();
        let weights = l.positions.iter().map(|p| Datum::text(["D", "C", "B", "A"][usize::from(weight(*p))])).collect();
        vec![Datum::text(&l.word), array(oids::INT2, positions), array(oids::TEXT, weights)]
    };
    work::steps(&vector.lexemes, UNITS_PER_ROW).map(|lexeme| Ok(row(lexeme?))).collect()
}

/// There is one parser; an argument that names none is an error.
fn check_parser(host: &StatementHost<'_>, by_name: bool, parser: &Datum) -> Result<()> {
    if !by_name {
        let oid = get::oid(parser)?;
        let found = host.reader.text_search_row(TextSearchKind::Parser, oid)?;
        return found
            .map(|_| ())
            .ok_or_else(|| Error::internal(format!("cache lookup failed for text search parser {oid}")));
    }
    host.reader.text_search_named(TextSearchKind::Parser, get::text(parser)?).map(|_| ())
}
fn token_types(host: &StatementHost<'_>, by_name: bool, args: &[Datum]) -> Result<Rows> {
    check_parser(host, by_name, get::arg(args, 0)?)?;
    let row = |(i, (alias, description)): (usize, &(&str, &str))| {
        vec![Datum::Int4(i as i32 + 1), Datum::text(alias), Datum::text(description)]
    };
    Ok(TOKEN_TYPES.iter().enumerate().map(row).collect())
}
fn parsed(host: &StatementHost<'_>, by_name: bool, args: &[Datum]) -> Result<Rows> {
    check_parser(host, by_name, get::arg(args, 0)?)?;
    let tokens = Parser::new(get::text(get::arg(args, 1)?)?);
    let row = |t: Token<'_>| vec![Datum::Int4(i32::from(t.kind)), Datum::text(t.text)];
    work::steps(tokens, UNITS_PER_ROW).map(|token| Ok(row(token?))).collect()
}

fn debug(host: &StatementHost<'_>, config: Oid, document: &Datum) -> Result<Rows> {
    let config = host.text_search_config(config)?;
    let tokens = Parser::new(get::text(document)?);
    work::steps(tokens, 5 * UNITS_PER_ROW).map(|token| Ok(debug_row(&config, token?))).collect()
}
/// Alias, description, token, dictionaries, the one that knows the token, lexemes.
fn debug_row(config: &Config, token: Token<'_>) -> Vec<Datum> {
    let (alias, description) = TOKEN_TYPES.get(usize::from(token.kind) - 1).copied().unwrap_or_default();
    let dictionaries = config.dictionaries(token.kind);
    let (dictionary, found) = match dictionaries.iter().find_map(|d| Some((d.oid, d.dictionary.lexemes(token.text)?))) {
        Some((oid, lexemes)) => {
            (Datum::Oid(oid), array(oids::TEXT, lexemes.into_iter().map(|l| Datum::text(l.word)).collect()))
        }
        None => (Datum::Null, Datum::Null),
    };
    let list = dictionaries.iter().map(|d| Datum::Oid(d.oid)).collect();
    vec![
        Datum::text(alias),
        Datum::text(description),
        Datum::text(token.text),
        array(oids::REGDICTIONARY, list),
        dictionary,
        found,
    ]
}
