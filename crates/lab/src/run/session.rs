//! A session that runs scripts one statement after the other: setups, and what is beside a load.
//!
//! 1. Statements go by the simple protocol, with the variables' values in their text, as pgbench's `-M simple` does.
//! 2. An error names the script's line and has the server's words.
//!
//! Must not know: experiments.

use crate::client::{Answer, Client};
use crate::script::{
    Script, ScriptCommand, ScriptEnvironment, ScriptRandom, ScriptStep, SqlResults, SqlText, VariableNames, Variables,
};

/// Statements with the variables' values, as one text.
pub(super) fn text_of_statements(
    statements: &[&SqlText],
    names: &VariableNames,
    presets: &[(String, String)],
) -> String {
    let variables = preset(names, presets);
    let mut text = String::new();
    for statement in statements {
        text.push_str("; ");
        statement.write_with_values(&variables, names, &mut text);
    }
    text
}

/// Variables that are set from the beginning, of those that scripts mention.
fn preset(names: &VariableNames, presets: &[(String, String)]) -> Variables {
    let mut variables = Variables::default();
    for (name, text) in presets {
        if let Some(number) = names.find(name) {
            variables.set_text(number, text.clone());
        }
    }
    variables
}

/// What is done with a statement of a script.
pub(super) type StatementAction<'a> =
    &'a mut dyn FnMut(&mut ScriptSession, &ScriptCommand, &SqlText) -> Result<(), String>;

pub(super) struct ScriptSession {
    pub client: Client,
    variables: Variables,
    random: ScriptRandom,
}

impl ScriptSession {
    /// `presets`: variables that are set from the beginning, of those that scripts mention.
    pub fn new(client: Client, names: &VariableNames, presets: &[(String, String)]) -> ScriptSession {
        ScriptSession { client, variables: preset(names, presets), random: ScriptRandom::of_seed(1) }
    }

    pub fn run(&mut self, script: &Script, names: &VariableNames) -> Result<(), String> {
        self.run_with(script, names, &mut |session, _, sql| session.statement(sql, names))
    }
    /// Runs a script with something else done for each of its statements.
    pub fn run_with(
        &mut self,
        script: &Script,
        names: &VariableNames,
        statement: StatementAction<'_>,
    ) -> Result<(), String> {
        let mut at = 0;
        while let Some(command) = script.commands.get(at) {
            at += 1;
            let done = match &command.step {
                ScriptStep::Sql(sql) => statement(self, command, sql),
                ScriptStep::Set { variable, expression } => {
                    let value = expression.evaluate(&mut self.environment(names));
                    value.map(|value| self.variables.set(*variable, value))
                }
                ScriptStep::Unless { condition, go_on_at } => {
                    let value = condition.evaluate(&mut self.environment(names));
                    value.map(|value| at = if value.is_true() { at } else { *go_on_at })
                }
                ScriptStep::Jump { to } => {
                    at = *to;
                    Ok(())
                }
                ScriptStep::Sleep(time) => time.length(&self.variables, names).map(std::thread::sleep),
                // One after the other is what it does anyway.
                ScriptStep::StartPipeline | ScriptStep::SyncPipeline | ScriptStep::EndPipeline => Ok(()),
                ScriptStep::Shell { .. } => Err("commands of the shell are for loads alone".into()),
            };
            done.map_err(|e| format!("{}:{}: {e}", script.name, command.line))?;
        }
        Ok(())
    }

    fn environment<'e>(&'e mut self, names: &'e VariableNames) -> ScriptEnvironment<'e> {
        ScriptEnvironment { variables: &self.variables, names, random: &mut self.random, default_seed: 1 }
    }

    fn statement(&mut self, sql: &SqlText, names: &VariableNames) -> Result<(), String> {
        let text = self.text_of(sql, names);
        let answers = self.client.query(&text).map_err(|e| e.to_string())?;
        self.keep(&sql.results, &answers, names)
    }
    /// A statement with the variables' values.
    pub fn text_of(&self, sql: &SqlText, names: &VariableNames) -> String {
        let mut text = String::new();
        sql.write_with_values(&self.variables, names, &mut text);
        text
    }
    /// Keeps of what a statement has answered what the script wants to know.
    pub fn keep(&mut self, results: &SqlResults, answers: &[Answer], names: &VariableNames) -> Result<(), String> {
        match results {
            SqlResults::Ignored => Ok(()),
            SqlResults::OneRow { prefix } => match answers.last().filter(|answer| answer.rows.len() == 1) {
                Some(answer) => {
                    self.keep_last_row(answer, prefix, names);
                    Ok(())
                }
                None => Err("expected one row".into()),
            },
            SqlResults::LastRows { prefix } => {
                answers.iter().for_each(|answer| self.keep_last_row(answer, prefix, names));
                Ok(())
            }
        }
    }
    fn keep_last_row(&mut self, answer: &Answer, prefix: &str, names: &VariableNames) {
        for ((column, _), value) in answer.columns.iter().zip(answer.rows.last().into_iter().flatten()) {
            if let Some(variable) = names.find(&format!("{prefix}{column}")) {
                self.variables.set_text(variable, value.clone().unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_a_session_have_the_values_of_variables() {
        let mut names = VariableNames::default();
        let script = Script::read("session", "set role :schema;\nset a.b = ':other';\n", &mut names).expect("a script");
        let statement = |command: &ScriptCommand| match &command.step {
            ScriptStep::Sql(sql) => sql.clone(),
            _ => panic!("it has statements alone"),
        };
        let statements: Vec<SqlText> = script.commands.iter().map(statement).collect();
        let presets = [("schema".to_string(), "kiln_lab_1".to_string())];
        let text = text_of_statements(&statements.iter().collect::<Vec<_>>(), &names, &presets);
        assert_eq!(text, "; set role kiln_lab_1; set a.b = ':other'");
    }
}
