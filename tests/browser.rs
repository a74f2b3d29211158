//! The report in a real browser: it renders without console messages, and its flame graphs can be searched and
//! zoomed.

mod chromium;

use crate::compare::synthetic;
use chromium::{Chromium, Look};
use pipeprof::compare::{CompareOptions, Input, compare, render};
use serde_json::Value;

fn report() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let inputs: Vec<Input> = [synthetic::older(), synthetic::newer()]
        .into_iter()
        .zip(["6.12.9 psi=0 quiet 256K no memcg with polls", "7.2.1 psi=0 quiet 256K no memcg with polls"])
        .map(|(outcome, label)| Input {
            label: Some(label.to_owned()),
            runs: vec![("result.json".into(), synthetic::in_windows(outcome))],
        })
        .collect();
    let compared = compare(&inputs, &CompareOptions::default()).unwrap();
    render::write_all(folder.path(), &compared).unwrap();
    folder
}

/// Wait for `expression` to be true in the page.
fn until(page: &mut Chromium, expression: &str) {
    let start = std::time::Instant::now();
    while page.evaluate(expression) != Value::Bool(true) {
        assert!(start.elapsed().as_secs() < 180, "never became true: {expression}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
#[ignore = "needs Chromium: make test"]
fn the_report_works_in_chromium() {
    let mut page = Chromium::start();
    let folder = report();
    let url = format!("file://{}", folder.path().join("report.html").display());
    page.open(&url, Look { width: 1280, dark: false });

    // The answer comes first.
    let first = page.evaluate("document.querySelector('main h2').textContent");
    assert!(first.as_str().unwrap().contains("What changed"), "{first}");
    let answers = page.evaluate("document.querySelector('#answers').innerText");
    assert!(answers.as_str().unwrap().contains("page allocation"), "{answers}");
    until(&mut page, "!!document.querySelector('svg.chart rect')");

    // Each graph becomes a separate document when it is scrolled into view.
    let graphs = page.evaluate("document.querySelectorAll('iframe[data-graph]').length");
    assert_eq!(graphs, Value::from(4), "two directions and two plain ones");
    page.evaluate("document.querySelectorAll('iframe[data-graph]').forEach(frame => show(frame)); true");
    until(
        &mut page,
        "[...document.querySelectorAll('iframe[data-graph]')].every(f => f.contentDocument && \
         f.contentDocument.querySelectorAll('#frames > *').length > 5)",
    );

    // Search in the third graph: frames are highlighted and their share is shown; the other graphs do not change.
    page.evaluate(
        "{ const w = document.querySelectorAll('iframe[data-graph]')[2].contentWindow; w.search('get_page_from'); true }",
    );
    let matched = page.evaluate(
        "document.querySelectorAll('iframe[data-graph]')[2].contentDocument.getElementById('matched').textContent",
    );
    assert!(matched.as_str().is_some_and(|text| text.contains("Matched") && !text.contains(" 0%")), "{matched}");
    let lit = |page: &mut Chromium, graph: usize| {
        page.evaluate(&format!(
            "[...document.querySelectorAll('iframe[data-graph]')[{graph}].contentDocument.querySelectorAll('#frames rect')] \
             .filter(r => r.getAttribute('fill') === 'rgb(230,0,230)').length"
        ))
        .as_u64()
        .unwrap()
    };
    assert!(lit(&mut page, 2) >= 1);
    assert_eq!(lit(&mut page, 1), 0, "a search in one graph is a search in one graph");

    // Zoom in the first graph: the clicked frame fills the width.
    page.evaluate(
        "{ const d = document.querySelectorAll('iframe[data-graph]')[0].contentDocument; \
           const frame = [...d.querySelectorAll('#frames g')].find(g => g.querySelector('title').textContent.includes('get_page_from')); \
           window.before = frame.querySelector('rect').getBoundingClientRect().width; \
           frame.dispatchEvent(new MouseEvent('click', { bubbles: true })); \
           window.after = frame.querySelector('rect').getBoundingClientRect().width; true }",
    );
    let grew = page.evaluate("window.after > window.before * 1.2");
    assert_eq!(grew, Value::Bool(true), "{} to {}", page.evaluate("window.before"), page.evaluate("window.after"));

    // A hidden graph, or one that is not laid out yet, has no width.
    let hidden = page.evaluate(
        "(() => { const f = document.querySelectorAll('iframe[data-graph]')[1]; f.style.width = '0'; \
           f.getBoundingClientRect(); const w = f.contentWindow.innerWidth; \
           f.contentWindow.dispatchEvent(new Event('resize')); f.style.width = ''; return w; })()",
    );
    assert_eq!(hidden, Value::from(0));

    let shot = page.screenshot();
    assert!(shot.len() > 20_000, "a picture of {} bytes is an empty page", shot.len());
    assert_eq!(page.complaints(), Vec::<String>::new());
}

/// A reproduction of one part, with a figure, a chart and a graph in it.
fn reproduction() -> tempfile::TempDir {
    use pipeprof::report::chart::{Chart, ChartKind, Point, Series};
    use pipeprof::reproduce::reproduced::{DiffGraph, PartOutput, PartResult};
    use pipeprof::reproduce::verdict::{Reading, Readings};
    use pipeprof::result::ExecutedOn;
    let folder = tempfile::tempdir().unwrap();
    let facts = pipeprof::reproduce::facts::Facts::load().unwrap();
    let reading = |runs: &[f64]| Ok(Reading::median(runs.to_vec(), "GiB/s", ExecutedOn::Hardware, "").unwrap());
    let readings = Readings::from([
        ("A.ladder.1".to_owned(), reading(&[3.7, 3.8, 3.9])),
        ("A.ladder.2".to_owned(), reading(&[3.7, 12.0, 30.0])),
    ]);
    let points = vec![Point { label: "1: write to read".into(), y: 3.8, span: Some([3.7, 3.9]) }];
    let chart = Chart {
        id: "ladder".into(),
        title: "The six rungs".into(),
        kind: ChartKind::Bars,
        y: "GiB/s".into(),
        x: String::new(),
        series: vec![Series { name: "this machine".into(), points }],
        caption: "Measured: median of 3 runs.".into(),
    };
    let svg = include_str!("data/santos_zeroes_pv.svg").to_owned();
    let graph = DiffGraph { id: "zeroes".into(), title: "write(2) into pv".into(), about: "widths".into(), svg };
    let found = PartOutput {
        readings,
        findings: vec!["a finding".into()],
        charts: vec![chart],
        graphs: vec![graph],
        notes: vec!["a note".into()],
        ..PartOutput::default()
    };
    let part = PartResult { part: "ladder".into(), busy: Some(0.5), found, ..PartResult::default() };
    let unfinished = vec!["cat".to_owned()];
    let command = "pipeprof reproduce ladder cat".to_owned();
    let reproduction = pipeprof::reproduce::Reproduction { facts, parts: vec![part], unfinished, command };
    pipeprof::reproduce::page::write(&reproduction, folder.path()).unwrap();
    folder
}

#[test]
#[ignore = "needs Chromium: make test"]
fn a_reproduction_works_in_chromium() {
    let mut page = Chromium::start();
    let folder = reproduction();
    let url = format!("file://{}", folder.path().join("report.html").display());
    for look in [Look { width: 1280, dark: false }, Look { width: 390, dark: true }] {
        page.open(&url, look);
        let overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(overflow, Value::from(0), "at {} pixels", look.width);
        let verdicts = page.evaluate("['A.ladder.1', 'A.ladder.2'].map(id => document.getElementById(id).querySelector('.word').textContent).join()");
        assert_eq!(verdicts, Value::from("✓ reproduced,? undecided"));
        let head = page.evaluate("document.querySelector('header').innerText");
        assert!(head.as_str().unwrap().contains("Not finished: cat."), "{head}");
        let drawn = page.evaluate("document.querySelector('svg.chart').textContent");
        assert!(drawn.as_str().unwrap().contains("median of 3 runs"), "{drawn}");
        page.evaluate("document.querySelectorAll('iframe[data-graph]').forEach(frame => show(frame)); true");
        until(
            &mut page,
            "[...document.querySelectorAll('iframe[data-graph]')].every(f => f.contentDocument && \
             f.contentDocument.querySelectorAll('#frames > *').length > 5)",
        );
    }
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "needs Chromium: make test"]
fn the_report_is_readable_dark_and_narrow() {
    let mut page = Chromium::start();
    let folder = report();
    let url = format!("file://{}", folder.path().join("report.html").display());
    for look in [Look { width: 1280, dark: true }, Look { width: 390, dark: false }] {
        page.open(&url, look);
        // Only elements that scroll by themselves are wider than the window.
        let overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(overflow, Value::from(0), "at {} pixels", look.width);
        // On a window of a usual width, no table does.
        let tables = page.evaluate(
            "document.querySelectorAll('details').forEach(one => one.open = true); \
             [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth) \
             .map(one => one.innerText.slice(0, 60)).join()",
        );
        assert!(look.width < 1280 || tables == "", "{tables}");
        // Contrast with the page's background (WCAG 2.1, relative luminance): at least 7 for text, and 4.5 for each word
        // of a chart, whose labels are dim.
        page.evaluate(
            "window.contrast = colour => { const lum = c => { const v = c.match(/[0-9.]+/g).slice(0, 3).map(x => x / 255) \
             .map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); \
             return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; }; \
             const a = lum(colour), b = lum(getComputedStyle(document.body).backgroundColor); \
             return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }; true",
        );
        let contrast = page.evaluate("contrast(getComputedStyle(document.body).color)");
        assert!(contrast.as_f64().unwrap() > 7.0, "{contrast}");
        let charts = page.evaluate(
            "Math.min(...[...document.querySelectorAll('svg.chart text')].map(t => contrast(getComputedStyle(t).fill)))",
        );
        assert!(charts.as_f64().unwrap() > 4.5, "{charts}");
    }
    assert_eq!(page.complaints(), Vec::<String>::new());
}

/// A flame graph with a long command and many roles.
fn flame_graph(folder: &std::path::Path) -> String {
    use pipeprof::profile::{Folded, Unit};
    use pipeprof::report::flamegraph::{GraphOptions, render};
    let command = "pipeprof run --kernel 6.1 --mode vmsplice-huge-busy --collect insn --buffer-size 64K --calls 4000";
    let subtitle =
        "writer · mode vmsplice-huge-busy · Linux 6.1.0-56-cloud-amd64 · 2,946,666 instructions · emulated (TCG)";
    let folded = Folded::parse(include_str!("../flamegraphs/6.1-write-exact/writer.folded")).unwrap();
    let options = GraphOptions::new(command, subtitle, Unit::Instructions, pipeprof::roles::Skid::None);
    let path = folder.join("graph.svg");
    std::fs::write(&path, render(&folded, &options).unwrap()).unwrap();
    format!("file://{}", path.display())
}

#[test]
#[ignore = "needs Chromium: make test"]
fn a_flame_graph_fits_any_window_and_obeys_keys() {
    let mut page = Chromium::start();
    let folder = tempfile::tempdir().unwrap();
    let url = flame_graph(folder.path());
    for look in [Look { width: 1200, dark: false }, Look { width: 500, dark: true }, Look { width: 320, dark: false }] {
        page.open(&url, look);
        // Nothing runs off at the right, and no text covers another.
        let wrong = page.evaluate(&format!(
            "(() => {{ const boxes = [...document.querySelectorAll('#title tspan, #subtitle tspan, #legend text, #search')] \
             .map(e => [e.textContent, e.getBoundingClientRect()]); \
             const off = boxes.filter(([, b]) => b.left < 0 || b.right > {} + 0.5).map(([text]) => text); \
             for (const [i, [a, p]] of boxes.entries()) for (const [b, q] of boxes.slice(i + 1)) \
             if (p.left < q.right && q.left < p.right && p.top + 3 < q.bottom && q.top + 3 < p.bottom) off.push(a + ' / ' + b); \
             return off.join(); }})()",
            look.width
        ));
        assert_eq!(wrong, Value::from(""), "at {} pixels", look.width);
        let order = page.evaluate(
            "(() => { const box = id => document.getElementById(id).getBoundingClientRect(); const frames = \
             [...document.querySelectorAll('#frames rect')].map(r => r.getBoundingClientRect()); \
             const bottom = document.querySelector('svg').getBoundingClientRect().bottom; \
             return Math.min(...frames.map(b => b.top)) >= box('subtitle').bottom - 1 \
             && Math.max(...frames.map(b => b.bottom)) <= box('legend').top && box('legend').bottom <= bottom; })()",
        );
        assert_eq!(order, Value::from(true), "at {} pixels", look.width);
        let ink = page.evaluate("getComputedStyle(document.getElementById('title')).fill");
        assert_eq!(ink, Value::from(if look.dark { "rgb(228, 230, 234)" } else { "rgb(0, 0, 0)" }));
    }
    // Up from the lowest frame, zoom by Enter, and back by Escape.
    page.evaluate("document.querySelector('#frames [tabindex=\"0\"]').focus(); true");
    let mut press = |key: &str| {
        page.evaluate(&format!(
            "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }})); \
             [document.activeElement.querySelector('title').textContent.split(' ')[0], \
             document.getElementById('details').textContent.trim().split(' ').slice(0, 2).join(' '), \
             document.getElementById('unzoom').classList.contains('hide')].join()"
        ))
    };
    assert_eq!(press("ArrowDown"), Value::from("all,Function: all,true"));
    let names: Vec<String> = (0..3).map(|_| press("ArrowUp").as_str().unwrap().to_owned()).collect();
    assert!(names.iter().all(|name| !name.starts_with("all,")) && names[0] != names[2], "{names:?}");
    let zoomed = press("Enter");
    assert_eq!(zoomed.as_str().unwrap(), names[2].replace("true", "false"));
    assert_eq!(press("Escape").as_str().unwrap(), names[2]);
    // The legend is reached by Tab, and its entries search.
    page.evaluate("document.querySelector('#legend [tabindex]').focus(); true");
    page.evaluate(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true })); true",
    );
    let matched = page.evaluate("document.getElementById('matched').textContent");
    assert!(matched.as_str().unwrap().starts_with("Matched"), "{matched}");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

/// The pictures of this folder's subfolders, and of itself.
fn pictures(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pictures(&path));
        } else if path.extension().is_some_and(|extension| extension == "svg") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
#[ignore = "needs Chromium: make test"]
fn committed_pictures_fit_a_phone() {
    let mut page = Chromium::start();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let pictures: Vec<_> = ["flamegraphs", "docs/charts", "docs/graphs"].map(|of| pictures(&root.join(of))).concat();
    assert!(pictures.len() > 20, "{pictures:?}");
    for picture in pictures {
        page.open(&format!("file://{}", picture.display()), Look { width: 390, dark: true });
        let off = page.evaluate(
            "[...document.querySelectorAll('text')].filter(e => { const b = e.getBoundingClientRect(); \
             return b.width && (b.left < -1 || b.right > 391); }).map(e => e.textContent).join()",
        );
        assert_eq!(off, Value::from(""), "{} runs off", picture.display());
        // Texts outside of frames are light, as the window is dark.
        let dark = page.evaluate(
            "[...document.querySelectorAll('text')].filter(e => !e.closest('#frames') && e.textContent) \
             .filter(e => getComputedStyle(e).fill.match(/[0-9]+/g).slice(0, 3).every(v => v < 100)).length",
        );
        assert_eq!(dark, Value::from(0), "{}: dark text on dark paper", picture.display());
    }
    assert_eq!(page.complaints(), Vec::<String>::new());
}
