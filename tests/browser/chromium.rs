//! Headless Chromium, controlled by the DevTools protocol over a pair of pipes (`--remote-debugging-pipe`): commands
//! go to its file descriptor 3, answers and events come from 4, each as JSON and a zero byte.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How to view a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub width: u32,
    pub dark: bool,
}

/// A browser with one page.
pub(crate) struct Chromium {
    child: Child,
    to: std::fs::File,
    from: std::sync::mpsc::Receiver<Value>,
    session: String,
    number: u64,
    complaints: Vec<String>,
    events: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Chromium {
    /// Start the browser. If it is not installed, the test fails.
    pub(crate) fn start() -> Self {
        let binary = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        });
        let binary = binary.expect("Chromium is missing: apt-get install chromium");
        let profile = tempfile::tempdir().unwrap();
        let (their_input, to) = rustix::pipe::pipe().unwrap();
        let (from, their_output) = rustix::pipe::pipe().unwrap();
        let mut command = Command::new(binary);
        command
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        place(&mut command, &their_input, &their_output);
        // Neither may be inherited by the browser, or it would never see the end of its input.
        for ours in [&to, &from] {
            rustix::io::fcntl_setfd(ours, rustix::io::FdFlags::CLOEXEC).unwrap();
        }
        let child = command.spawn().unwrap();
        drop((their_input, their_output));
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for message in BufReader::new(std::fs::File::from(from)).split(0) {
                let Ok(message) = message else { return };
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            to: to.into(),
            from: receiver,
            session: String::new(),
            number: 0,
            complaints: Vec::new(),
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = browser.call("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Network.enable"] {
            browser.call(domain, &json!({}));
        }
        browser
    }

    /// Load `url` and wait for it.
    pub(crate) fn open(&mut self, url: &str, look: Look) {
        let scheme = if look.dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        self.call(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": false}),
        );
        self.events.clear();
        self.call("Page.navigate", &json!({"url": url}));
        let start = Instant::now();
        while !self.events.iter().any(|event| event == "Page.loadEventFired") {
            assert!(start.elapsed() < Duration::from_secs(180), "the page does not load");
            self.receive();
        }
    }

    /// The value of a JavaScript expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self
            .call("Runtime.evaluate", &json!({"expression": expression, "returnByValue": true, "awaitPromise": true}));
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// The whole page as base64 PNG.
    pub(crate) fn screenshot(&mut self) -> String {
        let answer = self.call("Page.captureScreenshot", &json!({"format": "png", "captureBeyondViewport": true}));
        answer["data"].as_str().unwrap().to_owned()
    }

    /// Messages of console, log and network: errors, warnings, and requests for anything but the file.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        self.evaluate("true");
        self.complaints.clone()
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let number = self.number;
        let mut message = json!({"id": number, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = Value::from(self.session.clone());
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == number {
                assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    fn receive(&mut self) -> Value {
        let message = self.from.recv_timeout(Duration::from_secs(300)).expect("chromium answers within five minutes");
        let Some(method) = message["method"].as_str() else { return message };
        self.events.push(method.to_owned());
        let parameters = &message["params"];
        match method {
            "Runtime.exceptionThrown" => self.complaints.push(format!("exception: {parameters}")),
            "Runtime.consoleAPICalled" => self.complaints.push(format!("console: {parameters}")),
            "Log.entryAdded" => self.complaints.push(format!("log: {parameters}")),
            "Network.requestWillBeSent" => {
                let url = parameters["request"]["url"].as_str().unwrap_or("");
                if !["file:", "blob:", "data:", "about:"].iter().any(|scheme| url.starts_with(scheme)) {
                    self.complaints.push(format!("network: {url}"));
                }
            }
            _ => {}
        }
        message
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Move the ends of the two pipes to the descriptors of the protocol: 3 for commands, 4 for answers.
fn place(command: &mut Command, input: &OwnedFd, output: &OwnedFd) {
    let (input, output) = (input.as_raw_fd(), output.as_raw_fd());
    // SAFETY: only dup2 and fcntl, which are async-signal-safe, run between fork and exec. Duplicating to high
    // numbers first keeps one from overwriting the other.
    unsafe {
        command.pre_exec(move || {
            let (high_in, high_out) = (libc::fcntl(input, libc::F_DUPFD, 100), libc::fcntl(output, libc::F_DUPFD, 100));
            if high_in < 0 || high_out < 0 || libc::dup2(high_in, 3) < 0 || libc::dup2(high_out, 4) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            libc::close(high_in);
            libc::close(high_out);
            Ok(())
        });
    }
}
