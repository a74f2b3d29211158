//! The presets of `--mode`.
