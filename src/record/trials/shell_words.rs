//! The programs in a line for the shell: where they stand, and how to replace one.

/// Characters after which a command may begin.
const BEFORE_COMMANDS: &str = "|&;(){}\n`";

/// Words of the shell after which a command may begin.
const KEYWORDS: [&str; 12] = ["do", "then", "else", "elif", "if", "while", "until", "!", "{", "time", "exec", "nohup"];

/// A word of a line: where it is, and whether a command may begin there.
#[derive(Debug, PartialEq, Eq)]
struct ShellWord {
    begin: usize,
    end: usize,
    begins_command: bool,
}

/// The words of `line` as they are written, with quotes. It knows no more of the syntax than this needs: what is in quotes or in
/// a comment is a word.
fn words(line: &str) -> Vec<ShellWord> {
    let mut words: Vec<ShellWord> = Vec::new();
    let mut at = line.char_indices().peekable();
    let (mut begins, mut redirected) = (true, false);
    while let Some((begin, c)) = at.peek().copied() {
        if c == ' ' || c == '\t' {
            at.next();
            continue;
        }
        if BEFORE_COMMANDS.contains(c) || "<>".contains(c) {
            at.next();
            // The `&` of `2>&1` begins no command.
            (begins, redirected) = match c {
                '<' | '>' => (begins, true),
                '&' if redirected => (begins, true),
                _ => (true, false),
            };
            continue;
        }
        let mut quote = None;
        let mut end = line.len();
        while let Some((place, c)) = at.peek().copied() {
            match quote {
                None if " \t<>".contains(c) || BEFORE_COMMANDS.contains(c) => {
                    end = place;
                    break;
                }
                None if c == '\'' || c == '"' => quote = Some(c),
                Some(open) if open == c => quote = None,
                _ => {}
            }
            at.next();
            if c == '\\' && quote != Some('\'') {
                at.next();
            }
        }
        let text = &line[begin..end];
        words.push(ShellWord { begin, end, begins_command: begins && !redirected });
        // `A=1 program` sets a variable, and the word after `>` is a file.
        begins = begins && (redirected || KEYWORDS.contains(&text) || text.contains('='));
        redirected = false;
    }
    words
}

/// `line` with `to` instead of the words `from` wherever a command begins with them; absent if none does.
pub(crate) fn replaced(line: &str, from: &[String], to: &[String]) -> Option<String> {
    let all = words(line);
    let mut text = String::new();
    let mut kept = 0;
    let mut at = 0;
    while let Some(found) = all.get(at..at + from.len()) {
        let is_next = found.windows(2).all(|pair| line[pair[0].end..pair[1].begin].trim().is_empty());
        let same = found.iter().zip(from).all(|(word, from)| line[word.begin..word.end] == **from);
        let Some((first, last)) = found.first().zip(found.last()) else { break };
        if first.begins_command && is_next && same {
            text.push_str(&line[kept..first.begin]);
            text.push_str(&to.join(" "));
            kept = last.end;
            at += from.len();
        } else {
            at += 1;
        }
    }
    text.push_str(&line[kept..]);
    (kept > 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(line: &str, from: &str, to: &str) -> Option<String> {
        let [from, to] = [from, to].map(|words| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        replaced(line, &from, &to)
    }

    #[test]
    fn programs_are_replaced_where_commands_begin() {
        for (line, changed) in [
            ("sort a | sort -n >sort; echo sort", "S a | S -n >sort; echo sort"),
            ("for i in sort 2; do sort $i; done | (sort)", "for i in sort 2; do S $i; done | (S)"),
            ("LC_ALL=C sort x; if sort y; then sort z; fi", "LC_ALL=C S x; if S y; then S z; fi"),
            ("<in sort 2>&1 | x $(sort a)", "<in S 2>&1 | x $(S a)"),
            ("time sort\nsort", "time S\nS"),
            ("a && sort", "a && S"),
        ] {
            assert_eq!(with(line, "sort", "S").as_deref(), Some(changed), "{line}");
        }
        for line in ["echo sort", "echo 'a | sort'", "sorted", "cat \"| sort\"", "echo \\| sort", "cat >&2 sort", ""] {
            assert_eq!(with(line, "sort", "S"), None, "{line}");
        }
    }

    #[test]
    fn several_words_are_replaced_or_left_out() {
        assert_eq!(with("ls | xargs -n 1 echo", "xargs -n 1", "xargs -n 64").as_deref(), Some("ls | xargs -n 64 echo"));
        assert_eq!(with("ls | xargs  -n 1", "xargs -n 1", "xargs").as_deref(), Some("ls | xargs"));
        assert_eq!(with("ls | xargs -n 11 echo", "xargs -n 1", "xargs"), None);
        assert_eq!(with("stdbuf -oL sed p | cat", "stdbuf -oL", "").as_deref(), Some(" sed p | cat"));
        assert_eq!(with("sed | -u", "sed -u", "sed"), None);
    }
}
