//! What is known of programs by their names: how they read, write and end. Rules that need to tell programs apart ask here.

/// What a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// Writes nothing before it has read all.
    WritesAtEnd,
    /// Packs, checks or keeps what it reads: it reads all, and who has nothing for it has failed.
    Keeps,
    /// Passes on what it reads as it comes, to the end.
    PassesOn,
    /// Ends with code 1 as an answer, as grep(1) and diff(1) have it, or `sort -c` and `exit 1` of awk.
    AnswersWith1,
    /// Never ends with code 1 as an answer.
    FailsWith1,
    /// Passes its input to a connection, and what comes from there to its output: nc(1).
    Connects,
}

impl Does {
    /// The programs that do.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::WritesAtEnd => &[
                "sort",
                "tac",
                "wc",
                "tail",
                "shuf",
                "column",
                "md5sum",
                "sha1sum",
                "sha256sum",
                "sha512sum",
                "b2sum",
                "cksum",
            ],
            Self::Keeps => &[
                "gzip", "pigz", "bgzip", "bzip2", "lbzip2", "pbzip2", "xz", "zstd", "zstdmt", "lz4", "7z", "openssl",
                "gpg", "tee", "split", "tar", "dd", "mbuffer",
            ],
            Self::PassesOn => &["cat", "tr", "cut", "uniq", "nl", "rev", "base64", "od", "pv"],
            Self::AnswersWith1 => &[
                "grep", "egrep", "fgrep", "zgrep", "rg", "diff", "cmp", "pgrep", "jq", "sort", "awk", "mawk", "gawk",
                "git", "expr",
            ],
            Self::Connects => &["nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"],
            Self::FailsWith1 => {
                &["find", "cat", "head", "tail", "cut", "tac", "du", "stat", "zcat", "gzip", "tar", "base64"]
            }
        }
    }
}

/// Whether a program does this.
pub(crate) fn does(program: &str, what: Does) -> bool {
    what.programs().contains(&program)
}

/// What an exit code of a program means, as its manual page has it.
pub(crate) fn meaning(program: &str, code: u8) -> Option<&'static str> {
    Some(match (program, code) {
        ("tar", 1) => "a warning: a file changed while it was read, and the archive is there",
        ("rsync", 23) => "some files were not copied",
        ("rsync", 24) => "a warning: files were removed before they could be copied",
        ("curl", 6) => "no such host",
        ("curl", 7) => "no connection",
        ("curl", 18) => "only a part came",
        ("curl", 22) => "an error of the server, with `-f`",
        ("curl", 23) => "it could not write what came",
        ("curl", 28) => "its time was over",
        ("wget", 4) => "no connection",
        ("wget", 8) => "an error of the server",
        ("ssh", 255) => "an error of `ssh` itself, not of the command",
        ("gzip" | "zcat" | "gunzip", 2) => "a warning",
        ("grep" | "egrep" | "fgrep" | "zgrep" | "diff" | "cmp", 2) => "an error, not an answer",
        ("git", 128) => "a fatal error",
        ("xargs", 123) => "a command ended with 1 to 125",
        ("xargs", 124) => "a command ended with 255",
        ("make", 2) => "a recipe failed",
        _ => return None,
    })
}

/// Whether a program reads its input to the end, whatever comes: none of the arguments with which some of them do not is looked at
/// (`dd count=1`, `tar -x`).
pub(crate) fn reads_all(program: &str) -> bool {
    const STOP_EARLY: [&str; 4] = ["dd", "tar", "openssl", "7z"];
    let all = [Does::WritesAtEnd, Does::Keeps, Does::PassesOn].into_iter().any(|what| does(program, what));
    all && !STOP_EARLY.contains(&program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart() {
        assert!(does("sort", Does::WritesAtEnd) && !does("cat", Does::WritesAtEnd));
        assert!(reads_all("sort") && reads_all("cat") && reads_all("tee") && !reads_all("dd") && !reads_all("head"));
        assert!(does("grep", Does::AnswersWith1) && !does("grep", Does::FailsWith1) && does("tar", Does::FailsWith1));
    }
}
