//! The articles' experiments, run here and set beside what the articles printed.
