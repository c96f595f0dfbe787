//! Operator classes of inverted indexes, as the catalogs have them.

use super::builtin::{FILES, Tsv, number};
use super::extension::INVERTED_CLASSES;
use super::{AccessMethod, CatalogView};
use kilndb_base::hash::HashMap;
use kilndb_base::sync::LazyLock;
use kilndb_base::{Error, Oid, Result};
use kilndb_types::inverted::InvertedClass;

/// Strategy numbers by class and operator.
static STRATEGIES: LazyLock<HashMap<(Oid, Oid), u16>> = LazyLock::new(|| {
    let mut all = HashMap::default();
    add_strategies(&FILES.pg_opclass, &FILES.pg_amop, &mut all);
    add_strategies(&FILES.extension_opclass, &FILES.extension_amop, &mut all);
    all
});

fn add_strategies(classes: &Tsv, operators: &Tsv, all: &mut HashMap<(Oid, Oid), u16>) {
    let (oid, method, family) = (classes.column("oid"), classes.column("opcmethod"), classes.column("opcfamily"));
    let (of_family, strategy, operator) =
        (operators.column("amopfamily"), operators.column("amopstrategy"), operators.column("amopopr"));
    for class in classes.rows.iter().filter(|r| AccessMethod::of(number(r[method])).has_terms()) {
        for row in operators.rows.iter().filter(|r| r[of_family] == class[family]) {
            all.insert((number(class[oid]), number(row[operator])), number(row[strategy]));
        }
    }
}

/// What an operator, with the column on its left, is to the class.
pub fn strategy(opclass: Oid, operator: Oid) -> Option<u16> {
    STRATEGIES.get(&(opclass, operator)).copied()
}

/// The class of a column, with the type of its elements.
pub fn inverted_class(opclass: Oid, type_oid: Oid, catalog: &dyn CatalogView) -> Result<InvertedClass> {
    if let Some(known) = INVERTED_CLASSES.iter().find(|c| c.oid == opclass) {
        return Ok(known.class);
    }
    let mut info = catalog.type_by_oid(type_oid)?;
    while let Some(domain) = info.as_ref().filter(|i| i.kind == b'd') {
        info = catalog.type_by_oid(domain.base_type)?;
    }
    let element = info.map_or(0, |i| i.element);
    InvertedClass::of(opclass, element)
        .ok_or_else(|| Error::internal(format!("operator class {opclass} is not one of inverted indexes")))
}
