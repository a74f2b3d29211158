//! Command lines of processes, and the names that people give to what they started by them.

use crate::util::text::read_lossy;

/// Programs that execute a script.
const INTERPRETERS: [&str; 11] = ["bash", "dash", "java", "ksh", "lua", "node", "perl", "php", "python", "ruby", "sh"];

/// Their options after which the code follows in the command line itself, or the name of a module.
const INLINE: [&str; 4] = ["-c", "-e", "-m", "-r"];

/// Their options of which the next word is the value.
const WITH_VALUE: [&str; 7] = ["-W", "-X", "-cp", "-classpath", "--class-path", "-p", "--module-path"];

/// The kernel keeps so many bytes of a name.
const COMM: usize = 15;

/// The words of a command line, as in /proc/PID/cmdline: each ends with a zero, but for the last one if it was cut.
pub(crate) fn words(text: &[u8]) -> Vec<String> {
    let text = text.strip_suffix(&[0]).unwrap_or(text);
    let mut words: Vec<String> =
        text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    // A process that has changed its line may have left nothing but zeros.
    while words.last().is_some_and(String::is_empty) {
        words.pop();
    }
    words
}

/// The command line of a running process; empty if it cannot be read.
pub(crate) fn of_process(pid: u32) -> Vec<String> {
    words(read_lossy(&format!("/proc/{pid}/cmdline")).unwrap_or_default().as_bytes())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_interpreter(words: &[String]) -> bool {
    let program = words.first().map(|word| file_name(word)).unwrap_or_default();
    let plain = program.trim_start_matches('-').trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&plain)
}

/// The script that `words` execute: its place among them.
fn script(words: &[String]) -> Option<usize> {
    if !is_interpreter(words) {
        return None;
    }
    let mut at = 1;
    loop {
        let word = words.get(at)?;
        at += match word {
            word if is_inline(word) => return None,
            word if WITH_VALUE.contains(&&word[..]) => 2,
            word if word.starts_with('-') => 1,
            _ => return Some(at),
        };
    }
}

/// Whether code follows, as after `-c`, or `-ne` of Perl.
fn is_inline(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-') && letters.len() <= 4);
    INLINE.contains(&word) || letters.is_some_and(|letters| letters.ends_with('e'))
}

/// A program by its name (as in /proc/PID/comm) and its command line: an interpreter with the name of its script.
pub(crate) fn program_name(comm: &str, words: &[String]) -> String {
    let first = words.first().map(|word| file_name(word)).unwrap_or_default();
    // The whole of a name that the kernel has cut.
    let name = if comm.len() == COMM && first.starts_with(comm) { first } else { comm };
    match script(words).map(|at| file_name(&words[at])) {
        Some(script) if !script.is_empty() && script != name && !script.starts_with(comm) => format!("{name} {script}"),
        _ => name.to_owned(),
    }
}

/// The words after those that [`program_name`] has, without code.
pub(crate) fn operands(words: &[String]) -> &[String] {
    let rest = words.get(script(words).unwrap_or(0) + 1..).unwrap_or_default();
    let code = is_interpreter(words).then(|| rest.iter().position(|word| is_inline(word))).flatten();
    code.and_then(|at| rest.get(..=at)).unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(comm: &str, line: &str) -> String {
        program_name(comm, &words(line.replace(' ', "\0").as_bytes()))
    }

    #[test]
    fn a_script_is_named_with_its_interpreter() {
        assert_eq!(named("python3", "python3 -u /a/server.py 80"), "python3 server.py");
        assert_eq!(named("python3", "/usr/bin/python3.11 server.py"), "python3 server.py");
        assert_eq!(named("sh", "sh -c 'a b'"), "sh");
        assert_eq!(named("python3", "python3 -m http.server"), "python3");
        assert_eq!(named("gzip", "gzip -1 file"), "gzip");
        assert_eq!(named("java", "java -Xmx1g -cp bin Main"), "java Main");
        assert_eq!(named("perl", "perl -lane print"), "perl");
        assert_eq!(named("perl", "perl a.pl"), "perl a.pl");
        assert_eq!(named("server.py", "/usr/bin/python3 ./server.py"), "server.py");
        assert_eq!(named("bash", "-bash"), "bash");
        assert_eq!(named("", ""), "");
        assert_eq!(named("a-long-name-of-", "./a-long-name-of-a-program x"), "a-long-name-of-a-program");
    }

    #[test]
    fn operands_are_what_tells_programs_apart() {
        let of = |line: &str| operands(&words(line.replace(' ', "\0").as_bytes())).join(" ");
        assert_eq!(of("python3 -u server.py 80"), "80");
        assert_eq!(of("dd if=a of=b"), "if=a of=b");
        assert_eq!(of("python3 -c print"), "-c");
        assert_eq!(of(""), "");
    }

    #[test]
    fn a_line_that_was_cut_or_erased_is_read() {
        assert_eq!(words(b"a\0b\0"), ["a", "b"]);
        assert_eq!(words(b"a\0bc"), ["a", "bc"]);
        assert_eq!(words(b"a\0\0b\0"), ["a", "", "b"]);
        assert_eq!(words(b"a\0\0\0"), ["a"]);
        assert!(words(b"").is_empty() && words(b"\0\0").is_empty());
    }
}
