//! Guests: any kernel under QEMU, with this very binary as its `/init`.
