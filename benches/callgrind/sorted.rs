// Sorts words by how often they occur.
use std::collections::BTreeMap;

fn main() {
    let (mut x, mut counts) = (1_u64, BTreeMap::new());
    for _ in 0..20_000 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *counts.entry(format!("word{}", (x >> 33) % 997)).or_insert(0_u32) += 1;
    }
    let mut all: Vec<_> = counts.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    println!("{} {}", all[0].0, all[0].1);
}
