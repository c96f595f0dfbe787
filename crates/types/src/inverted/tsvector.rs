//! tsvector_ops: a term for each lexeme. Weights and positions are left to the recheck.

use super::{TermCollector, TermCondition};
use kilndb_fulltext::TsQuery;
use kilndb_fulltext::query::{QueryItem, QueryOperator};

pub fn need(q: &TsQuery, terms: &mut TermCollector) -> TermCondition {
    if q.is_empty() { TermCondition::Never } else { need_at(q, 0, terms) }
}

fn need_at(q: &TsQuery, at: usize, terms: &mut TermCollector) -> TermCondition {
    match q.items.get(at) {
        None => TermCondition::Anything,
        Some(QueryItem::Operand(o)) if o.prefix => terms.prefix(o.word.as_bytes()),
        Some(QueryItem::Operand(o)) => terms.element(o.word.as_bytes()),
        // That a term is there says nothing: the row may have had it.
        Some(QueryItem::Operator { operator: QueryOperator::Not, .. }) => TermCondition::Anything,
        Some(QueryItem::Operator { operator, left, .. }) => {
            let sides = vec![need_at(q, at + left, terms), need_at(q, at + 1, terms)];
            if *operator == QueryOperator::Or { TermCondition::any(sides) } else { TermCondition::all(sides) }
        }
    }
}
