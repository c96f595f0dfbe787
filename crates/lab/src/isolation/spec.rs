//! The text of a spec.

/// One session and its steps, in the order of the file.
pub struct SessionSpec {
    pub name: String,
    /// Runs as the session begins, before the first step of every order.
    pub setup: Option<String>,
}

pub struct SpecStep {
    pub name: String,
    /// Index of its session.
    pub session: usize,
    pub sql: String,
}

/// Values that a placeholder takes, one after the other.
pub struct PlaceholderValues {
    pub name: String,
    pub values: Vec<(String, String)>,
}

/// A place in an order.
pub struct PermutationStep {
    pub step: usize,
    /// Written `step!`: the next step waits for its end.
    pub to_the_end: bool,
}

#[derive(Default)]
pub struct Spec {
    /// `kilndb`: what PostgreSQL leaves to chance or does not have.
    pub only: Option<String>,
    pub setup: String,
    pub each: Vec<PlaceholderValues>,
    pub sessions: Vec<SessionSpec>,
    pub steps: Vec<SpecStep>,
    pub orders: Vec<Vec<PermutationStep>>,
    /// Steps of which alone the result is told, in one line for each run.
    pub report: Vec<usize>,
}

/// An unindented line with the indented ones that follow.
struct SpecSection<'a> {
    line: usize,
    head: Vec<&'a str>,
    /// Entries: a line with the lines below that are indented deeper.
    body: Vec<String>,
}

fn sections(text: &str) -> Result<Vec<SpecSection<'_>>, String> {
    let mut sections: Vec<SpecSection<'_>> = Vec::new();
    let mut indent = 0;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let depth = line.len() - line.trim_start().len();
        if depth == 0 {
            sections.push(SpecSection {
                line: number + 1,
                head: trimmed.split_whitespace().collect(),
                body: Vec::new(),
            });
            indent = 0;
            continue;
        }
        let section = sections.last_mut().ok_or_else(|| format!("line {}: indented, but below nothing", number + 1))?;
        if indent == 0 {
            indent = depth;
        }
        match section.body.last_mut() {
            Some(entry) if depth > indent => {
                entry.push(' ');
                entry.push_str(trimmed);
            }
            _ => section.body.push(trimmed.to_string()),
        }
    }
    Ok(sections)
}

pub fn parse(text: &str) -> Result<Spec, String> {
    let mut spec = Spec::default();
    for section in sections(text)? {
        let at = |message: &str| format!("line {}: {message}", section.line);
        match section.head[..] {
            ["setup"] => spec.setup = section.body.join("\n"),
            ["only", engine] => spec.only = Some(engine.to_string()),
            ["each", name] => {
                let values = section.body.iter().map(|entry| match entry.split_once(": ") {
                    Some((label, text)) => (label.to_string(), text.trim().to_string()),
                    None => (entry.clone(), entry.clone()),
                });
                spec.each.push(PlaceholderValues { name: format!("{{{name}}}"), values: values.collect() });
            }
            ["session", name] => add_session(&mut spec, name, &section.body).map_err(|e| at(&e))?,
            ["order", ..] => {
                // A long order goes on in indented lines.
                let more = section.body.iter().flat_map(|line| line.split_whitespace());
                let words: Vec<&str> = section.head[1..].iter().copied().chain(more).collect();
                let turns: Result<Vec<PermutationStep>, String> = words.iter().map(|word| turn(&spec, word)).collect();
                spec.orders.push(turns.map_err(|e| at(&e))?);
            }
            ["report", ..] => {
                let steps: Result<Vec<usize>, String> =
                    section.head[1..].iter().map(|word| find(&spec, word)).collect();
                spec.report = steps.map_err(|e| at(&e))?;
            }
            _ => return Err(at("not understood")),
        }
    }
    if spec.orders.is_empty() {
        return Err("no order".into());
    }
    Ok(spec)
}

fn add_session(spec: &mut Spec, name: &str, body: &[String]) -> Result<(), String> {
    let session = spec.sessions.len();
    let mut setup = None;
    for entry in body {
        let (step, sql) = entry.split_once(':').ok_or_else(|| format!("a step is NAME: SQL, not {entry}"))?;
        let sql = sql.trim().to_string();
        match step {
            "setup" => setup = Some(sql),
            _ if spec.steps.iter().any(|s| s.name == step) => return Err(format!("step {step} is there twice")),
            _ => spec.steps.push(SpecStep { name: step.to_string(), session, sql }),
        }
    }
    spec.sessions.push(SessionSpec { name: name.to_string(), setup });
    Ok(())
}

fn find(spec: &Spec, word: &str) -> Result<usize, String> {
    spec.steps.iter().position(|s| s.name == word).ok_or_else(|| format!("there is no step {word}"))
}

fn turn(spec: &Spec, word: &str) -> Result<PermutationStep, String> {
    let name = word.trim_end_matches('!');
    Ok(PermutationStep { step: find(spec, name)?, to_the_end: name.len() < word.len() })
}

impl Spec {
    /// Every choice of values, as indices into each placeholder's values.
    pub fn combinations(&self) -> Vec<Vec<usize>> {
        let mut all = vec![Vec::new()];
        for each in &self.each {
            all = all
                .iter()
                .flat_map(|chosen: &Vec<usize>| {
                    (0..each.values.len()).map(|n| chosen.iter().copied().chain([n]).collect::<Vec<usize>>())
                })
                .collect();
        }
        all
    }

    /// A text with the placeholders replaced.
    pub fn fill(&self, text: &str, chosen: &[usize]) -> String {
        self.each
            .iter()
            .zip(chosen)
            .fold(text.to_string(), |text, (each, n)| text.replace(&each.name, &each.values[*n].1))
    }

    pub fn labels(&self, chosen: &[usize]) -> String {
        let labels: Vec<&str> = self.each.iter().zip(chosen).map(|(each, n)| each.values[*n].0.as_str()).collect();
        labels.join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_read() {
        let text = "# what for\nsetup\n    create table t (a int);\n    insert into t\n      values (1);\neach mode\n    for update\n    keys: for key share\n\
                    session a\n    setup: begin\n    a1: select 1\n        {mode}\nsession b\n    b1: select 2::int\norder a1 b1!\norder b1\n    a1\n";
        let spec = parse(text).unwrap();
        assert_eq!(spec.setup, "create table t (a int);\ninsert into t values (1);");
        assert_eq!(spec.steps[0].sql, "select 1 {mode}");
        assert_eq!(spec.steps[1].sql, "select 2::int");
        assert_eq!(spec.sessions[0].setup.as_deref(), Some("begin"));
        assert!(spec.orders[0][1].to_the_end && !spec.orders[0][0].to_the_end);
        assert_eq!(spec.orders[1].len(), 2);
        assert_eq!(spec.combinations(), vec![vec![0], vec![1]]);
        assert_eq!(spec.fill("select 1 {mode}", &[1]), "select 1 for key share");
        assert_eq!(spec.labels(&[1]), "keys");
        assert!(parse("session a\n    a1: select 1\norder a2\n").is_err());
    }
}
