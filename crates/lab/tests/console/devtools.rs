//! A page in Chromium, steered by the DevTools protocol over a pair of pipes: its messages are JSON, each with a zero byte behind it.
//!
//! A frame, as the report is looked at in, is of no use here: the console lets no page show it in one.
//!
//! Must not know: what is on a page.

use crate::browser::{CHROMIUM_FLAGS, Scheme};
use base64::Engine;
use kilndb_lab::process::TempDir;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct BrowserPage {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    requests: u64,
    session: Option<String>,
    /// What the page has told its console, and what went wrong in it.
    problems: Vec<String>,
    folder: TempDir,
}

impl BrowserPage {
    /// An empty page.
    pub fn start(program: &Path) -> BrowserPage {
        let folder = TempDir::new("browser").expect("a folder");
        let log = std::fs::File::create(folder.path().join("log")).expect("a file");
        // Chromium reads the descriptor 3 and writes to 4, which a shell makes of its own input and output.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"])
            .arg(program)
            .args(CHROMIUM_FLAGS)
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("Chromium starts");
        let input = child.stdin.take().expect("a pipe");
        let messages = messages_of(child.stdout.take().expect("a pipe"));
        let mut page = BrowserPage { child, input, messages, requests: 0, session: None, problems: Vec::new(), folder };
        let target = page.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            page.ask("Target.attachToTarget", json!({ "targetId": target["targetId"].clone(), "flatten": true }));
        page.session = attached["sessionId"].as_str().map(str::to_string);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            page.ask(domain, json!({}));
        }
        page
    }

    pub fn set_look(&mut self, (width_px, height_px): (u32, u32), scheme: Scheme) {
        let metrics = json!({ "width": width_px, "height": height_px, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme.name() }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    pub fn open(&mut self, url: &str) {
        let answer = self.ask("Page.navigate", json!({ "url": url }));
        assert!(answer.get("errorText").is_none(), "{url}: {answer}");
    }

    /// The value of an expression of JavaScript in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let answer = self.ask("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Asks for an expression until its value is as it should be. The value, and how long that took.
    pub fn wait_for(&mut self, expression: &str, is_right: impl Fn(&Value) -> bool) -> (Value, Duration) {
        let began = Instant::now();
        loop {
            let value = self.value(expression);
            if is_right(&value) {
                return (value, began.elapsed());
            }
            assert!(began.elapsed() < PATIENCE, "{expression} is still {value}: {:?}", self.problems);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A picture of the whole page.
    pub fn picture(&mut self, into: &Path) {
        let answer = self.ask("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": true }));
        let bytes = base64::prelude::BASE64_STANDARD.decode(answer["data"].as_str().expect("a picture"));
        std::fs::write(into, bytes.expect("base64")).expect("a file");
    }

    /// What has gone wrong in the page so far.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.requests += 1;
        let mut request = json!({ "id": self.requests, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{request}\0").as_bytes()).expect("Chromium reads");
        loop {
            let message = self.messages.recv_timeout(PATIENCE).unwrap_or_else(|e| {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                panic!("{method}: no answer: {e}\n{log}")
            });
            if message["id"] == self.requests {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    /// An event.
    fn note(&mut self, message: &Value) {
        let told = &message["params"];
        let is_problem = match message["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled") => true,
            Some("Log.entryAdded") => told["entry"]["level"] == "error" || told["entry"]["level"] == "warning",
            _ => false,
        };
        if is_problem {
            self.problems.push(told.to_string());
        }
    }
}

/// What Chromium says, read by a thread of its own, so that nobody waits for it longer than he likes.
fn messages_of(output: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut message = Vec::new();
        while output.read_until(0, &mut message).is_ok_and(|length| length > 0) {
            message.pop();
            let is_wanted = serde_json::from_slice(&message).is_ok_and(|message| sender.send(message).is_ok());
            if !is_wanted {
                return;
            }
            message.clear();
        }
    });
    receiver
}

impl Drop for BrowserPage {
    fn drop(&mut self) {
        // A browser that is asked ends its other processes too.
        let _ = self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let begun = Instant::now();
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if begun.elapsed() > Duration::from_secs(10) {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
