//! Films as data; the joins are a script of the experiment.
//!
//! Must not know: experiments and targets.

use super::KindVariables;
use crate::client::Client;
use crate::films;

pub(super) fn fill(client: &mut Client, variables: KindVariables<'_>) -> Result<(), String> {
    films::fill(client, variables.number("films", (films::FILMS_MIN, films::FILMS_MAX))?)
}
