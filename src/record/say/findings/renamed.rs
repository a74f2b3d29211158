//! A program that follows a file, as `tail -f` does, whose name is that of another one by now.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, StaleFile};
use crate::util::text::clean;

/// `` `tail` follows the file that was `app.log` and is `/var/log/app.log.1` now: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let text = |file: &StaleFile| {
        let at = file.process.recorded?;
        let path = clean(&file.path);
        let now = file.now.as_ref().map_or_else(|| "was deleted".to_owned(), |now| format!("is `{}` now", clean(now)));
        let then =
            if file.replaced { format!(": what is written to `{path}` goes to another file") } else { String::new() };
        let text = format!(
            "{} follows the file that was `{path}` and {now}{then}. `tail -F`, or an option such as `--follow=name`, follows the name \
             instead.",
            view.name(at)
        );
        Some(Finding::new(FindingKind::Renamed, [at], text))
    };
    view.document.last_look.iter().flat_map(|look| &look.stale).filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::{LastLook, SeenProcess};

    #[test]
    fn a_file_that_lost_its_name_is_said() {
        let renamed = |now: Option<&str>, replaced: bool| {
            said(find, &|recording| {
                let process = SeenProcess { recorded: Some(1), ..SeenProcess::default() };
                let file = StaleFile { process, path: "app.log".to_owned(), now: now.map(str::to_owned), replaced };
                recording.last_look = Some(LastLook { stale: vec![file], ..LastLook::default() });
            })
        };
        let text = "`grep` follows the file that was `app.log` and is `/a/app.log.1` now: what is written to `app.log` goes to another \
                    file. `tail -F`, or an option such as `--follow=name`, follows the name instead.";
        assert_eq!(renamed(Some("/a/app.log.1"), true), [text]);
        assert!(
            renamed(None, false)[0]
                .starts_with("`grep` follows the file that was `app.log` and was deleted. `tail -F`")
        );
    }
}
