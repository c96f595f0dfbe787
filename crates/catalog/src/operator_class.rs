//! Operator classes of users, as partition keys use them: the function that hashes or compares, and what operators mean
//! to the class.
//!
//! Invariants
//! 1. A class that is built in has none of this: its values are hashed and compared by `types`, without a call.
//! 2. Who calls the function is up to who asks: a running statement, a definition, a plan that is made.
//!
//! Must not know: sessions, plans.

use super::builtin::FIRST_USER_OID;
use super::cache::CatalogReader;
use super::ids::*;
use super::{AccessMethod, BTREE_METHOD, CatalogView, FunctionInfo};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::{Datum, oids, partition_hash};
use std::cmp::Ordering;
use std::sync::Arc;

/// The strategy of equality in classes of btree; in those of hash it is 1.
pub const EQUAL: u8 = 3;

#[derive(Debug)]
pub struct UserOperatorClass {
    pub oid: Oid,
    /// What values of the key are handed over as.
    pub input_type: Oid,
    /// The function that compares, or that hashes with a seed; or what is wrong with the class.
    function: std::result::Result<Arc<FunctionInfo>, Error>,
    /// Operators between two values of the type, as btree strategies.
    operators: Vec<(Oid, u8)>,
}

/// Who calls the functions of users' classes.
pub trait SupportFunctionCaller {
    fn call(&mut self, function: &FunctionInfo, class: &UserOperatorClass, arguments: [&Datum; 2]) -> Result<Datum>;
}

/// For maps of partitions whose keys have no operator classes of users.
pub struct NoSupportFunctions;
impl SupportFunctionCaller for NoSupportFunctions {
    fn call(&mut self, function: &FunctionInfo, _: &UserOperatorClass, _: [&Datum; 2]) -> Result<Datum> {
        Err(Error::internal(format!(
            "function {} of an operator class was called where nobody calls it",
            function.name
        )))
    }
}

impl UserOperatorClass {
    pub fn function(&self) -> Result<&Arc<FunctionInfo>> {
        self.function.as_ref().map_err(Clone::clone)
    }
    fn call(&self, arguments: [&Datum; 2], functions: &mut dyn SupportFunctionCaller) -> Result<Datum> {
        let function = self.function()?;
        match functions.call(function, self, arguments)? {
            Datum::Null => Err(Error::internal(format!("function {} returned NULL", function.oid))),
            value => Ok(value),
        }
    }
    pub fn hash(&self, value: &Datum, functions: &mut dyn SupportFunctionCaller) -> Result<u64> {
        match self.call([value, &Datum::Int8(partition_hash::SEED as i64)], functions)? {
            Datum::Int8(hash) => Ok(hash as u64),
            _ => Err(Error::internal("a hash function did not return bigint")),
        }
    }
    pub fn compare(&self, a: &Datum, b: &Datum, functions: &mut dyn SupportFunctionCaller) -> Result<Ordering> {
        match self.call([a, b], functions)? {
            Datum::Int4(order) => Ok(order.cmp(&0)),
            _ => Err(Error::internal("a comparison function did not return integer")),
        }
    }
    /// What an operator is to the class, as a btree strategy.
    pub fn strategy(&self, operator: Oid) -> Option<u8> {
        self.operators.iter().find(|(known, _)| *known == operator).map(|(_, strategy)| *strategy)
    }
    pub fn operator(&self, strategy: u8) -> Option<Oid> {
        self.operators.iter().find(|(_, known)| *known == strategy).map(|(operator, _)| *operator)
    }
}

impl CatalogReader<'_> {
    /// The user's operator class with this OID; None for one that is built in.
    pub(crate) fn user_class(&self, oid: Oid) -> Result<Option<Arc<UserOperatorClass>>> {
        if oid < FIRST_USER_OID {
            return Ok(None);
        }
        let rows = self.lookup(PG_OPCLASS, PG_OPCLASS_OID_INDEX, &[Datum::Oid(oid)])?;
        let row =
            rows.first().ok_or_else(|| Error::internal(format!("cache lookup failed for operator class {oid}")))?;
        let (method, input_type) = (row.oid("opcmethod"), row.oid("opcintype"));
        let key = [Datum::Oid(row.oid("opcfamily")), Datum::Oid(input_type), Datum::Oid(input_type)];
        let (number, equal) = if method == BTREE_METHOD { (1, EQUAL) } else { (2, 1) };
        let functions = self.lookup(PG_AMPROC, PG_AMPROC_FAM_PROC_INDEX, &key)?;
        let found = match functions.iter().find(|r| r.int("amprocnum") == number) {
            Some(member) => self.function_by_oid(member.oid("amproc"))?,
            None => None,
        };
        let function = found.ok_or_else(|| {
            let (name, shown) = (row.text("opcname").unwrap_or(""), self.format_type(input_type, -1));
            let message = format!(
                "operator class \"{name}\" of access method {} is missing support function {number} for type {shown}",
                AccessMethod::of(method).name
            );
            Error::new(sqlstate::INVALID_OBJECT_DEFINITION, message)
        });
        let members = self.lookup(PG_AMOP, PG_AMOP_FAM_STRAT_INDEX, &key)?;
        let as_btree = |strategy: u8| if strategy == equal { EQUAL } else { strategy };
        let operators = members.iter().map(|r| (r.oid("amopopr"), as_btree(r.int("amopstrategy") as u8))).collect();
        Ok(Some(Arc::new(UserOperatorClass { oid, input_type, function, operators })))
    }
}

/// Types of what the function gets.
pub fn argument_types(function: &FunctionInfo, class: &UserOperatorClass) -> [Oid; 2] {
    let is_hash = function.return_type == oids::INT8;
    [class.input_type, if is_hash { oids::INT8 } else { class.input_type }]
}

/// Whether an operator class compares texts by their bytes, whatever their collation: those of `~<~` and its like.
pub fn compares_bytes(class: Oid) -> bool {
    matches!(class, 4217..=4219 | 10056..=10058)
}
