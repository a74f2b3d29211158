use super::*;
use crate::record::say::findings::tests::said;
use crate::record::say::programs::meaning;
use crate::result::Document;

/// `sh`, which started the others, ends with this code.
fn ends(recording: &mut Document, code: u8) {
    recording.recorded.insert(0, RecordedProcess { name: "sh".to_owned(), ..RecordedProcess::default() });
    recording.recorded[0].exit_code = Some(code);
    recording.channels.iter_mut().flat_map(|pipe| pipe.writers.iter_mut().chain(&mut pipe.readers)).for_each(|end| {
        end.process += 1;
    });
    recording.exit_codes = vec![code];
    recording.recorded[1].end_ns = 12_000_000;
    recording.recorded[2].end_ns = 11_200_000;
}

#[test]
fn who_ended_by_sigpipe_or_with_the_code_is_said() {
    let broken = said(find, &|recording| {
        ends(recording, 141);
        recording.recorded[1].signal = Some(libc::SIGPIPE.cast_unsigned());
    });
    let text = "Exit code 141: `seq` was ended by SIGPIPE at 12.0 ms, because `grep` had ended. \
                If `grep` had all that it wanted, nothing is wrong: a reader that reads to the end avoids it.";
    assert_eq!(broken, [text]);
    let failed = said(find, &|recording| {
        ends(recording, 2);
        (recording.recorded[1].exit_code, recording.recorded[1].execs) = (Some(2), 1);
    });
    assert_eq!(failed, ["Exit code 2 is that of `seq`, which ended at 12.0 ms."]);
    let kept = said(find, &|recording| {
        ends(recording, 2);
        (recording.recorded[1].exit_code, recording.recorded[1].execs) = (Some(2), 1);
        recording.recorded[1].started_by = Some(0);
        (recording.recorded[0].execs, recording.recorded[0].end_ns) = (1, 30_000_000);
        let rm = &mut recording.recorded[2];
        (rm.started_by, rm.execs, rm.begin_ns, rm.end_ns) = (Some(0), 1, 13_000_000, 14_000_000);
    });
    let text = "Exit code 2 is that of `seq`, which ended at 12.0 ms. `sh` went on after that, and ended with the same exit code.";
    assert_eq!(kept, [text]);
    let refused = said(find, &|recording| {
        ends(recording, 2);
        (recording.recorded[1].exit_code, recording.recorded[1].execs) = (Some(2), 1);
        recording.channels[0].writers[0].epipe = 1;
    });
    let text = "Exit code 2 is that of `seq`, which ended at 12.0 ms: it could not write on (EPIPE), because `grep` did not read \
                on, and it ignores SIGPIPE.";
    assert_eq!(refused, [text]);
}

#[test]
fn a_line_that_was_too_long_is_said() {
    let long = |large: u64, last: u64| {
        said(find, &|recording| {
            ends(recording, 1);
            let reader = &mut recording.recorded[2];
            (reader.exit_code, reader.execs, reader.end_ns) = (Some(1), 1, 200_000_000);
            let channel = &mut recording.channels[0];
            let writer = &mut channel.writers[0];
            writer.log2_sizes = [vec![0; 5], vec![3], vec![0; 11], vec![large]].concat();
            (writer.bytes, writer.calls) = (160_100 * large, [("write".to_owned(), 3 + large)].into());
            (channel.readers[0].moved_ns, channel.readers[0].at_end) = (Some([1, last]), 0);
        })
        .concat()
    };
    let text = ": right before, it had read the first message of more than 64 KiB from `seq`, and `readline` of asyncio (unless `limit` is \
                larger) and `bufio.Scanner` of Go (unless its `Buffer` is) take no line that is longer";
    assert!(long(1, 199_000_000).contains(text), "{}", long(1, 199_000_000));
    assert!(!long(2, 199_000_000).contains(text) && !long(1, 9_000_000).contains(text));
}

#[test]
fn a_reader_that_failed_before_is_said() {
    let found = said(find, &|recording| {
        ends(recording, 1);
        (recording.recorded[1].exit_code, recording.recorded[1].execs) = (Some(1), 1);
        (recording.recorded[2].exit_code, recording.recorded[2].input) = (Some(2), Some(0));
        let channel = &mut recording.channels[0];
        (channel.writers[0].epipe, channel.readers) = (1, Vec::new());
    });
    let text = "Exit code 1 is that of `seq`, which ended at 12.0 ms: it could not write to `grep` (EPIPE), which had failed with exit \
                code 2 at 11.2 ms, before it read anything.";
    assert_eq!(found, [text]);
}

#[test]
fn who_failed_in_a_shell_is_said() {
    let passed = said(find, &|recording| {
        ends(recording, 1);
        recording.recorded[1].name = "bash".to_owned();
        for at in [1, 2] {
            (recording.recorded[at].exit_code, recording.recorded[at].execs) = (Some(1), 1);
        }
        (recording.recorded[2].started_by, recording.recorded[2].output) = (Some(1), Some(1));
    });
    let text = "Exit code 1 is that of `grep`, which found nothing and ended at 11.2 ms, although its output went to the pipe to `cat`: `set -o pipefail` does that, and `|| true` behind it \
                avoids it.";
    assert_eq!(passed, [text]);
}

#[test]
fn a_part_of_a_shell_that_got_nothing_is_said() {
    let passed = said(find, &|recording| {
        ends(recording, 1);
        for at in [1, 2] {
            (recording.recorded[at].name, recording.recorded[at].exit_code) = ("bash".to_owned(), Some(1));
        }
        (recording.recorded[1].execs, recording.recorded[2].execs) = (1, 0);
        recording.recorded[2].started_by = Some(1);
        let end = &mut recording.channels[0].readers[0];
        (end.bytes, end.at_end) = (0, 1);
    });
    assert!(
        passed[0].contains("was a part of it, `bash (2)`, which got the end of the pipe from `bash`, in which there was nothing: `read`"),
        "{passed:?}"
    );
}

#[test]
fn a_command_that_ended_its_script_is_said() {
    let found = |name: &str, late: u64| {
        said(find, &|recording| {
            ends(recording, 1);
            (recording.recorded[0].execs, recording.recorded[0].end_ns) = (1, 12_000_000 + late);
            let failed = &mut recording.recorded[1];
            (failed.name, failed.exit_code, failed.execs, failed.started_by) = (name.to_owned(), Some(1), 1, Some(0));
        })
    };
    let grep = "Exit code 1 is that of `grep`, which found nothing and ended at 12.0 ms; `sh` ended with it: it was its last command, \
                or the script ended there (`set -e`, `exit`): `|| true` behind the command avoids that.";
    assert_eq!(found("rg", 1000), [grep.replace("`grep`", "`rg`")]);
    let tar = found("tar", 900_000_000);
    assert_eq!(
        tar,
        [format!("Exit code 1 is that of `tar` ({}), which ended at 12.0 ms.", meaning("tar", 1).unwrap())]
    );
    let over = said(find, &|recording| {
        ends(recording, 124);
        (recording.recorded[1].name, recording.recorded[1].exit_code) = (TIMEOUT.to_owned(), Some(124));
        recording.recorded[1].execs = 1;
    });
    assert_eq!(over.len(), 1);
}

#[test]
fn an_error_of_the_script_itself_is_said() {
    let found = |errors: u64| {
        let mut recording = crate::record::say::findings::tests::pipeline();
        ends(&mut recording, 1);
        (recording.recorded[0].execs, recording.recorded[0].errors, recording.recorded[0].pids) = (1, errors, vec![9]);
        find(&FindingView::new(&recording))
    };
    let text = "Exit code 1 is that of `sh` itself: no program that it started ended with it. It wrote an error message itself: an unset \
                variable (`set -u`), a redirection or a syntax error ends it so, also in a `trap`.";
    assert_eq!((found(1)[0].kind, &found(1)[0].text[..]), (FindingKind::ExitCode, text));
    assert_eq!(found(0)[0].kind, FindingKind::Tolerated, "on purpose");
    let killed = said(find, &|recording| {
        ends(recording, 137);
        (recording.recorded[0].execs, recording.recorded[0].errors, recording.recorded[0].pids) = (1, 1, vec![9]);
    });
    assert!(killed.is_empty(), "128 and a signal: {killed:?}");
}

#[test]
fn a_match_that_pipefail_makes_a_failure_is_said() {
    let found = |options: &str, by: &str| {
        said(find, &|recording| {
            ends(recording, 1);
            recording.recorded[1].signal = Some(libc::SIGPIPE.cast_unsigned());
            recording.recorded[2].args = vec!["grep".to_owned(), options.to_owned()];
            recording.recorded[3].name = by.to_owned();
            (recording.recorded[3].exit_code, recording.recorded[3].execs) = (Some(1), 1);
        })
    };
    let text = "Exit code 1, and `grep` found what it sought and ended: `seq` was ended by SIGPIPE at 12.0 ms, which is a failure \
                with `set -o pipefail`. `grep pattern <<<\"$(command)\"`, or `grep pattern >/dev/null`, which reads all, \
                does not fail.";
    assert_eq!(found("-q", "bash"), [text]);
    assert!(found("-v", "bash")[0].starts_with("Exit code 1 is that of `bash`"));
    assert!(found("-q", "ls")[0].starts_with("Exit code 1 is that of `ls`"));
}

#[test]
fn a_code_of_the_only_program_or_of_nobody_is_not() {
    let own = |recording: &mut Document| {
        recording.exit_codes = vec![1];
        recording.recorded[0].exit_code = Some(1);
    };
    assert!(said(find, &own).is_empty());
    assert!(said(find, &|recording| ends(recording, 3)).is_empty());
    let good = said(find, &|recording| {
        ends(recording, 0);
        recording.recorded[1].signal = Some(libc::SIGPIPE.cast_unsigned());
    });
    assert!(good.is_empty(), "that is how a pipeline ends");
}

#[test]
fn a_read_that_got_nothing_is_said() {
    let read = |change: &dyn Fn(&mut Document)| {
        said(find, &|recording| {
            ends(recording, 1);
            (recording.recorded[0].execs, recording.recorded[0].end_ns) = (1, 12_500_000);
            (recording.recorded[1].output, recording.recorded[1].execs) = (Some(0), 1);
            let pipe = &mut recording.channels[0];
            pipe.writers.clear();
            let end = &mut pipe.readers[0];
            (end.process, end.bytes, end.at_end, end.requested) = (0, 0, 1, 1);
            change(recording);
        })
    };
    let text = "Exit code 1 is that of `sh` itself: its `read` got the end of the pipe from `seq`, in which there was nothing, and failed, at which \
                `set -e` ends a script. `|| true` behind `read` avoids that.";
    assert_eq!(read(&|_| {}), [text]);
    for change in [
        (&|recording: &mut Document| recording.channels[0].readers[0].requested = 4096) as &dyn Fn(&mut Document),
        &|recording| recording.recorded[0].end_ns = 90_000_000,
        &|recording| recording.recorded[0].exit_code = Some(2),
    ] {
        assert!(!read(change).contains(&text.to_owned()));
    }
}

#[test]
fn a_part_that_was_taken_for_all_is_said() {
    let of = |last: &str, written: u64| {
        said(find, &|recording| {
            ends(recording, 1);
            recording.channels[0].writers[0].bytes = written;
            let reader = &mut recording.recorded[2];
            (reader.exit_code, reader.execs) = (Some(1), 1);
            reader.words = Some(crate::result::ProcessWords { last: last.to_owned(), ..Default::default() });
            recording.channels[0].readers[0].bytes = 65_536;
        })
    };
    let said = of("Unterminated string in JSON at position 65536", 236_688);
    assert!(
        said[0].contains(": its message names byte 65,536, which is where a read of the pipe from `seq` ends, and that had written 236,688 bytes."),
        "{said:?}"
    );
    assert!(!of("at position 65536", 65_536)[0].contains("its message"));
    assert!(!of("at position 612", 236_688)[0].contains("its message"));
}

#[test]
fn an_input_in_which_there_was_nothing_is_said() {
    let nothing = |change: &dyn Fn(&mut Document)| {
        said(find, &|recording| {
            ends(recording, 1);
            let [_, writer, reader, ..] = &mut recording.recorded[..] else { panic!() };
            (writer.name, writer.output, writer.execs, writer.end_ns) = ("curl".to_owned(), Some(0), 1, 9_000_000);
            (reader.exit_code, reader.execs, reader.end_ns) = (Some(1), 1, 11_200_000);
            let pipe = &mut recording.channels[0];
            pipe.writers.clear();
            (pipe.readers[0].process, pipe.readers[0].bytes, pipe.readers[0].at_end) = (2, 0, 1);
            change(recording);
        })
    };
    let text = ": it got nothing from `curl`, which wrote nothing and ended without an error at 9.00 ms: what a server answers can be empty";
    assert!(nothing(&|_| {})[0].contains(text), "{:?}", nothing(&|_| {}));
    for change in [
        (&|recording: &mut Document| recording.recorded[1].exit_code = Some(22)) as &dyn Fn(&mut Document),
        &|recording| recording.channels[0].readers[0].bytes = 1,
        &|recording| recording.recorded[1].output = None,
    ] {
        assert!(!nothing(change).concat().contains("it got nothing"));
    }
}

#[test]
fn a_script_that_ends_itself_without_a_word_is_said() {
    let script = |line: &str, change: &dyn Fn(&mut Document)| {
        said(find, &|recording| {
            ends(recording, 1);
            let script = &mut recording.recorded[1];
            (script.name, script.exit_code, script.execs) = ("bash".to_owned(), Some(1), 1);
            script.args = line.split(' ').map(str::to_owned).collect();
            (recording.recorded[2].started_by, recording.recorded[2].execs) = (Some(1), 1);
            change(recording);
        })
    };
    let with_e = script("bash -euo pipefail a.sh", &|_| {});
    assert!(
        with_e[0].contains(": no program that it started failed, so that a builtin command did, at which `-e` ends it"),
        "{with_e:?}"
    );
    let without = script("bash a.sh", &|_| {});
    assert!(without[0].contains("at which `set -e` ends a script, or `exit` did"), "{without:?}");
    assert!(!script("bash -e a.sh", &|recording| recording.recorded[1].errors = 1)[0].contains("builtin"));
    assert!(!script("bash -e a.sh", &|recording| recording.recorded[2].exit_code = Some(3))[0].contains("builtin"));
}
