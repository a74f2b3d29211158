//! What differs between outcomes, which role and which function, and whether to believe it.
