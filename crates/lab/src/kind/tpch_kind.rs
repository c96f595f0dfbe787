//! TPC-H as data; its queries are a script of the experiment.
//!
//! Must not know: experiments and targets.

use super::KindVariables;
use crate::client::Client;
use crate::tpch;

pub(super) fn fill(client: &mut Client, variables: KindVariables<'_>) -> Result<(), String> {
    tpch::fill(client, variables.number("scale", (tpch::SCALE_MIN, tpch::SCALE_MAX))?)
}
