//! Command lines of processes, and the names that people give to what they started by them.

use crate::result::{MANY_IN_ONE, SHELLS, applet};
use crate::util::text::read_lossy;

/// A program that executes a script, and its options.
struct Interpreter {
    name: &'static str,
    /// Letters after which code or the name of a module follows in the command line itself, alone or as the last of several
    /// (`-ne` of Perl).
    inline: &'static str,
    /// Options of which the next word is the value.
    with_value: &'static [&'static str],
}

/// As their manuals have them.
const INTERPRETERS: [Interpreter; 11] = [
    Interpreter { name: "bash", inline: "c", with_value: &["-o", "+o", "-O", "+O", "--rcfile", "--init-file"] },
    Interpreter { name: "dash", inline: "c", with_value: &["-o", "+o"] },
    Interpreter { name: "java", inline: "", with_value: &["-cp", "-classpath", "--class-path", "-p", "--module-path"] },
    Interpreter { name: "ksh", inline: "c", with_value: &["-o", "+o"] },
    Interpreter { name: "lua", inline: "e", with_value: &["-l"] },
    Interpreter { name: "node", inline: "ep", with_value: &["-r", "--require", "--import", "--loader", "-C"] },
    Interpreter { name: "perl", inline: "eE", with_value: &[] },
    Interpreter { name: "php", inline: "r", with_value: &["-c", "-d", "-z"] },
    Interpreter { name: "python", inline: "cm", with_value: &["-W", "-X"] },
    Interpreter { name: "ruby", inline: "e", with_value: &["-I", "-r"] },
    Interpreter { name: "sh", inline: "c", with_value: &["-o", "+o"] },
];

impl Interpreter {
    /// Whether code follows `word`.
    fn is_inline(&self, word: &str) -> bool {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        !self.with_value.contains(&word)
            && letters.is_some_and(|letters| letters.len() <= 5 && letters.ends_with(|c| self.inline.contains(c)))
    }
}

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

fn interpreter(words: &[String]) -> Option<&'static Interpreter> {
    let program = words.first().map(|word| file_name(word))?;
    let plain = program.trim_start_matches('-').trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().find(|interpreter| interpreter.name == plain)
}

/// The script that `words` execute: its place among them.
fn script(words: &[String]) -> Option<usize> {
    let interpreter = interpreter(words)?;
    let mut at = 1;
    loop {
        let word = words.get(at)?;
        at += match &word[..] {
            word if interpreter.is_inline(word) => return None,
            word if interpreter.with_value.contains(&word) => 2,
            // `-euo pipefail` of a shell.
            word if interpreter.with_value.contains(&"-o")
                && !word.starts_with("--")
                && word.starts_with(['-', '+'])
                && word.ends_with('o') =>
            {
                2
            }
            word if word.starts_with(['-', '+']) => 1,
            _ => return Some(at),
        };
    }
}

/// The name of the script that `words` execute.
pub(crate) fn script_name(words: &[String]) -> Option<&str> {
    script(words).map(|at| file_name(&words[at]))
}

/// The code that an interpreter gets on its command line, as behind `sh -c`.
pub(crate) fn inline_code(words: &[String]) -> Option<&str> {
    let interpreter = interpreter(words)?;
    let at = words.iter().skip(1).position(|word| interpreter.is_inline(word))?;
    words.get(at + 2).map(String::as_str)
}

/// The name of what executes its own program again, as busybox does: /proc/self/exe.
const ITSELF: &str = "exe";

/// A program by its name (as in /proc/PID/comm) and its command line: an interpreter with the name of its script.
pub(crate) fn program_name(comm: &str, words: &[String]) -> String {
    let first = words.first().map(|word| file_name(word)).unwrap_or_default();
    // The whole of a name that the kernel has cut.
    let is_cut = comm.len() == COMM && first.starts_with(comm);
    let name = if is_cut || comm == ITSELF && !first.is_empty() { first } else { comm };
    match applet(words).filter(|_| MANY_IN_ONE.contains(&name)).or_else(|| script_name(words)) {
        Some(script) if !script.is_empty() && script != name && !script.starts_with(comm) => format!("{name} {script}"),
        _ => name.to_owned(),
    }
}

/// The words after those that [`program_name`] has, without code.
pub(crate) fn operands(words: &[String]) -> &[String] {
    let named = script(words).unwrap_or(usize::from(applet(words).is_some()));
    let rest = words.get(named + 1..).unwrap_or_default();
    let code = interpreter(words).and_then(|interpreter| rest.iter().position(|word| interpreter.is_inline(word)));
    code.and_then(|at| rest.get(..=at)).unwrap_or(rest)
}

/// Whether these words start a shell that reads its script from its standard input.
pub(crate) fn reads_its_script(words: &[String]) -> bool {
    let from_input = |shell: &Interpreter| {
        let inline = words.iter().skip(1).any(|word| shell.is_inline(word));
        words.iter().any(|word| word == "-s") || !inline && script(words).is_none()
    };
    let of_applet = || applet(words).is_some() && reads_its_script(&words[1..]);
    interpreter(words).is_some_and(|found| is_shell(found.name) && from_input(found)) || of_applet()
}

/// Whether a program with this name is a shell: it reads line by line on purpose, and writes what it prints at once.
pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
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
        assert_eq!(named("perl", "perl -W a.pl"), "perl a.pl");
        assert_eq!(named("bash", "bash -xe build.sh"), "bash build.sh");
        assert_eq!(named("bash", "bash -o pipefail -ec true"), "bash");
        assert_eq!(named("bash", "bash -euo pipefail -c true"), "bash");
        assert_eq!(named("bash", "bash -euo pipefail a.sh"), "bash a.sh");
        assert_eq!(named("python3", "python3 -W ignore a.py"), "python3 a.py");
        assert_eq!(named("node", "node -r esm a.js"), "node a.js");
        assert_eq!(named("server.py", "/usr/bin/python3 ./server.py"), "server.py");
        assert_eq!(named("bash", "-bash"), "bash");
        assert_eq!(named("", ""), "");
        assert_eq!(named("busybox", "busybox shuf -n 5"), "busybox shuf");
        assert_eq!(named("busybox", "busybox --help"), "busybox");
        assert_eq!(named("exe", "cat"), "cat");
        assert_eq!(named("a-long-name-of-", "./a-long-name-of-a-program x"), "a-long-name-of-a-program");
    }

    #[test]
    fn operands_are_what_tells_programs_apart() {
        let of = |line: &str| operands(&words(line.replace(' ', "\0").as_bytes())).join(" ");
        assert_eq!(of("python3 -u server.py 80"), "80");
        assert_eq!(of("dd if=a of=b"), "if=a of=b");
        assert_eq!(of("busybox dd if=a"), "if=a");
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
