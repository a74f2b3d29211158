//! What the three articles measured, as collected for this project in data/facts.md: each figure is a fact of
//! `pipeprof reproduce`.

use pipeprof::reproduce::facts::Facts;

/// Every figure of the facts file: cells of its tables under a unit, `name 12.3` in its call graphs, and speeds and
/// shares in its text.
fn figures(file: &str) -> Vec<(String, String)> {
    const UNITS: &str =
        "GiB/s|GB/s|system calls|instructions|instructions/syscall|real s|user s|sys s|write calls for 1 GiB";
    let numbers = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
        words.filter(|word| word.parse::<f64>().is_ok()).map(str::to_owned).collect()
    };
    let mut found = Vec::new();
    let mut header: Vec<String> = Vec::new();
    let mut prose = String::new();
    for line in file.lines() {
        let Some(cells) = line.strip_prefix('|') else {
            header.clear();
            prose.push_str(&line.replacen("- ", ";", usize::from(line.starts_with("- "))).replace(". ", ";"));
            prose.push(if line.is_empty() || line.ends_with('.') { ';' } else { ' ' });
            continue;
        };
        let cells: Vec<String> = cells.split('|').map(|cell| cell.trim().to_owned()).collect();
        if header.is_empty() {
            header = cells;
            continue;
        }
        for (cell, head) in cells.iter().zip(&header) {
            // What follows a comma or a bracket in a cell are conditions and names, with numbers of their own.
            let cells = cell.split([',', ';']).map(|cell| cell.split(" cores (david): ").last().unwrap_or(cell));
            for number in cells
                .flat_map(|cell| if UNITS.split('|').any(|unit| unit == head) { numbers(cell) } else { Vec::new() })
            {
                if number != "512" && !(number == "2" && cell.contains("AVX2")) && !cell.contains(&format!("={number}"))
                {
                    found.push((number, line.to_owned()));
                }
            }
        }
    }
    for phrase in prose.split([',', '>', ';', ':']) {
        let phrase = phrase.trim().trim_start_matches("... ").trim_end_matches(['.', '%', ' ']);
        let speed = phrase.strip_suffix("GiB/s").or_else(|| phrase.strip_suffix("GB/s")).map(str::trim);
        let last = speed.unwrap_or(phrase).rsplit(' ').next().unwrap_or_default();
        // A function and its share; "Linux 5.17" is neither.
        let graph = phrase.split(' ').count() == 2 && phrase.starts_with(|c: char| c.is_lowercase() || c == '_');
        if (speed.is_some() || graph) && last.parse::<f64>().is_ok() {
            found.push((last.to_owned(), phrase.to_owned()));
        }
    }
    found
}

#[test]
fn every_figure_of_the_facts_file_is_a_fact() {
    let file = include_str!("data/facts.md");
    let facts = Facts::load().unwrap();
    let rows: Vec<_> = facts.tables.iter().flat_map(|table| &table.rows).collect();
    let found = figures(file);
    assert!(found.len() > 90, "{}", found.len());
    for (number, place) in &found {
        let value: f64 = number.parse().unwrap();
        let of_file = found.iter().filter(|(other, _)| other.parse::<f64>() == Ok(value)).count();
        let here = rows.iter().filter(|fact| fact.value == Some(value) || fact.what.contains(number.as_str())).count();
        assert!(
            here >= of_file,
            "{number} of `{place}` stands {of_file} times in the file and {here} times in the facts"
        );
    }
    for words in [
        "17.08", "47.54", "4.32", "0.66", "11.22", "16.88", "96.4", "277", "9723", "3.327", "4.8", "36.2", "15.9",
        "2.8", "0.55",
    ] {
        assert!(found.iter().any(|(number, _)| number == words), "{words} was not read: {found:?}");
    }
}
