use super::{data, golden, sample};
use pipeprof::profile::{Folded, Unit};
use pipeprof::report::flamegraph::{Differential, GraphOptions, Shown, render, render_diff, together};
use pipeprof::roles::Skid;
use proptest::prelude::*;

fn options() -> GraphOptions {
    GraphOptions::new("zeroes | pv >/dev/null", "writer · article B", Unit::Samples, Skid::CpuClock)
}

/// The frames of a picture: name, text in brackets after it, colour.
fn frames(svg: &str) -> Vec<(String, String, String)> {
    svg.split("<g><title>")
        .skip(1)
        .map(|frame| {
            let (title, rest) = frame.split_once("</title>").unwrap();
            let (name, about) = title.rsplit_once(" (").unwrap();
            let fill = rest.split("fill=\"").nth(1).unwrap().split('"').next().unwrap();
            (name.to_owned(), about.trim_end_matches(')').to_owned(), fill.to_owned())
        })
        .collect()
}

/// Check well-formedness without a parser: tags are paired, and text contains no raw `&` or `<`.
fn assert_well_formed(svg: &str) {
    let (head, rest) = svg.split_once("<script").unwrap();
    let (_, body) = rest.split_once("</script>").unwrap();
    for part in [head, body] {
        let mut open = Vec::new();
        for tag in part.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').unwrap_or_else(|| panic!("a tag without end: {tag}"));
            if tag.starts_with(['?', '!']) || tag.ends_with('/') {
            } else if let Some(name) = tag.strip_prefix('/') {
                let opened: Option<String> = open.pop();
                assert!(opened.is_none_or(|opened| opened == name), "</{name}> closes another");
            } else {
                open.push(tag.split(' ').next().unwrap().to_owned());
            }
            for entity in text.split('&').skip(1) {
                let entity = entity.split(';').next().unwrap();
                assert!(["amp", "lt", "gt", "quot", "apos", "#39"].contains(&entity), "&{entity}");
            }
        }
    }
    assert!(svg.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()), "a control character");
}

#[test]
fn the_articles_stacks_as_recorded() {
    let stacks = sample::stacks("santos_zeroes_pv.folded");
    let svg = render(&stacks, &options()).unwrap();
    assert_well_formed(&svg);
    assert_eq!(svg, render(&stacks, &options()).unwrap(), "equal input, equal bytes");
    golden(&data("santos_zeroes_pv.svg"), &svg);
}

#[test]
fn shares_and_roles_are_the_article_s() {
    let svg = render(&sample::stacks("santos_zeroes_pv.folded"), &options()).unwrap();
    let frames = frames(&svg);
    let about = |name: &str| &frames.iter().find(|(frame, ..)| frame == name).unwrap().1;
    let percent =
        |name: &str| -> f64 { about(name).split(", ").nth(1).unwrap().split('%').next().unwrap().parse().unwrap() };
    // The article's main result.
    for (name, expected) in [
        ("pipe_write", 95.5),
        ("__alloc_pages", 36.3),
        ("__mutex_lock.constprop.0", 25.3),
        ("copy_page_from_iter", 20.3),
    ] {
        assert!((percent(name) - expected).abs() <= 0.051, "{name}: {}", about(name));
    }
    assert!(about("__alloc_pages").ends_with("; page allocation"), "{}", about("__alloc_pages"));
    assert!(svg.contains("page allocation 28.5%"), "the legend has the shares");
    let colour = |name: &str| &frames.iter().find(|(frame, ..)| frame == name).unwrap().2;
    assert_eq!(colour("get_page_from_freelist"), colour("__alloc_pages"), "one role, one colour");
    assert_ne!(colour("copy_page_from_iter"), colour("__alloc_pages"));
}

#[test]
fn long_lines_below_the_legend_are_wrapped() {
    // Interrupts come back on in these functions; their callers are of nine roles.
    let callers = [
        "__wake_up",
        "get_page_from_freelist",
        "free_unref_page",
        "__memcg_kmem_charge_page",
        "schedule",
        "__mutex_lock",
        "copy_page_from_iter",
        "iov_iter_get_pages2",
        "psi_task_switch",
    ];
    let mut stacks = Folded::new();
    for caller in callers {
        stacks.add(format!("writer;entry_SYSCALL_64;{caller};_raw_spin_unlock_irqrestore"), 1);
    }
    let svg = render(&stacks, &options()).unwrap();
    let legend = svg.split("<g id=\"legend\">").nth(1).unwrap();
    let notes: Vec<&str> =
        legend.lines().filter_map(|line| line.strip_prefix("<text ")?.split(['>', '<']).nth(1)).collect();
    assert!(notes[0].starts_with("Interrupts off (part of the share, attributed to the caller): "), "{notes:?}");
    assert!(notes.len() > 1 && notes.iter().all(|note| note.chars().count() <= 160), "{notes:?}");
    let text = notes.join(" ");
    assert_eq!(text.matches("11.1%").count(), callers.len(), "{text}");
    assert!(!svg.contains('…'));
}

#[test]
fn icicle_and_reverse() {
    let stacks = sample::stacks("santos_vmsplice.folded");
    let up = render(&stacks, &options()).unwrap();
    let down = render(&stacks, &GraphOptions { icicle: true, ..options() }).unwrap();
    assert!(down.contains("var inverted = true") && up.contains("var inverted = false"));
    let y = |svg: &str| -> u32 {
        let all = svg.split("<title>all (").nth(1).unwrap();
        all.split(" y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    assert!(y(&down) < y(&up));
    let reversed = render(&stacks, &GraphOptions { reverse: true, ..options() }).unwrap();
    assert_well_formed(&reversed);
    // mutex_spin_on_owner is a leaf: in a reversed graph its whole weight is at the bottom.
    let spinning = frames(&reversed).into_iter().find(|(name, ..)| name == "mutex_spin_on_owner").unwrap();
    let weight: u64 = stacks.iter().filter(|(s, _)| s.leaf() == "mutex_spin_on_owner").map(|(_, w)| w).sum();
    assert_eq!(spinning.1.split(' ').next().unwrap().replace(',', ""), weight.to_string());
}

#[test]
fn both_processes_in_one_picture() {
    let mut writer = Folded::new();
    writer.add("a;b", 3);
    let mut reader = Folded::new();
    reader.add("a;c", 1);
    let svg = render(&together([("writer", &writer), ("reader", &reader)]), &options()).unwrap();
    let frames = frames(&svg);
    let about = |name: &str| frames.iter().find(|(frame, ..)| frame == name).unwrap().1.clone();
    assert!(about("writer").starts_with("3 samples, 75.00%"));
    assert!(about("reader").starts_with("1 samples, 25.00%"));
}

#[test]
fn differences_show_what_grew_and_what_vanished() {
    let mut before = Folded::new();
    before.add("w;pipe_write;old", 60);
    before.add("w;pipe_write;copy", 40);
    let mut after = Folded::new();
    after.add("w;anon_pipe_write;new", 20);
    after.add("w;anon_pipe_write;copy", 40);
    let difference = Differential {
        before: &before,
        after: &after,
        before_scale: 0.5,
        after_scale: 0.5,
        unit: "instructions per KiB",
        sums: true,
    };
    let now = frames(&render_diff(&difference, Shown::After, &options()).unwrap());
    let then = frames(&render_diff(&difference, Shown::Before, &options()).unwrap());
    let find = |frames: &[(String, String, String)], name: &str| {
        frames.iter().find(|(frame, ..)| frame == name).unwrap_or_else(|| panic!("no {name}")).clone()
    };
    assert_eq!(find(&now, "new").1, "0.00 → 10.00, +10.00 instructions per KiB");
    assert_eq!(find(&now, "copy").1, "20.00 as before instructions per KiB");
    assert_eq!(
        find(&now, "anon_pipe_write").1,
        "50.00 → 30.00, -20.00 instructions per KiB; itself 0.00 as before; before: pipe_write"
    );
    assert_eq!(find(&now, "all").1, "50.00 → 30.00, -20.00 instructions per KiB");
    assert!(!now.iter().any(|(name, ..)| name == "old"));
    assert_eq!(find(&then, "old").1, "30.00 → 0.00, -30.00 instructions per KiB");
    assert_eq!(find(&then, "old").2, "#3578b9", "what shrank most has the full colour");
    assert_eq!(find(&now, "copy").2, find(&then, "copy").2);
}

#[test]
fn hostile_names_are_text() {
    let mut stacks = Folded::new();
    for name in [
        "<script>alert(1)</script>",
        "]]>&amp;\"'",
        "a 12",
        "-",
        "--",
        "# hash",
        " lead",
        "tab\there",
        "\u{1b}[31m",
        "\u{fffe}",
        "all",
        "7",
        "operator()(int)",
        "",
        "naïve 函数 🙂",
    ] {
        stacks.add(name, 5);
        stacks.add(format!("{name};{name}"), 5);
    }
    let title = "<b>\u{1}\"&</b> -- ".repeat(40);
    let svg = render(&stacks, &GraphOptions::new(title.clone(), title, Unit::Instructions, Skid::None)).unwrap();
    assert_well_formed(&svg);
    assert!(!svg.contains("<script>alert"));
    let names: Vec<_> = frames(&svg).into_iter().map(|(name, ..)| name).collect();
    assert!(names.iter().filter(|name| *name == "a 12").count() == 2, "{names:?}");
    assert!(names.contains(&"&lt;script&gt;alert(1)&lt;/script&gt;".to_owned()));
}

#[test]
fn nothing_to_draw_is_an_error_and_not_a_picture() {
    let error = render(&Folded::new(), &options()).unwrap_err();
    assert_eq!(error.to_string(), "nothing to draw: the profile contains no stacks");
}

#[test]
fn very_deep_stacks_are_cut() {
    let mut stacks = Folded::new();
    stacks.add("f;".repeat(100_000) + "g", 1);
    let svg = render(&stacks, &options()).unwrap();
    assert!(frames(&svg).len() == 402 && svg.contains("[deeper] ("));
    let reversed = render(&stacks, &GraphOptions { reverse: true, ..options() }).unwrap();
    assert_eq!(frames(&reversed).len(), 402);
    let difference = Differential::of_shares(&stacks, &stacks);
    assert_eq!(frames(&render_diff(&difference, Shown::After, &options()).unwrap()).len(), 402);
}

#[test]
fn narrow_stacks_keep_their_place_but_are_not_drawn() {
    let mut stacks = Folded::new();
    for leaf in 0..1000 {
        stacks.add(format!("a;b{leaf:03};c"), 1);
    }
    stacks.add("a;b500a", 9000);
    let svg = render(&stacks, &options()).unwrap();
    let names: Vec<String> = frames(&svg).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["b500a", "all", "a"]);
    // 501 of 10,000 are left of it.
    assert!(svg.contains("<title>b500a (9,000 samples, 90.00%; user)</title><rect x=\"5.0100%\""), "{svg}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_folded_file_can_be_drawn(lines in prop::collection::vec(("[ -~é\\t;]{1,30}", 1u64..1 << 50), 1..20)) {
        let mut stacks = Folded::new();
        for (stack, weight) in &lines {
            stacks.add(stack.clone(), *weight);
        }
        for (reverse, icicle) in [(false, false), (true, true)] {
            let svg = render(&stacks, &GraphOptions { reverse, icicle, ..options() }).unwrap();
            assert_well_formed(&svg);
        }
    }
}
