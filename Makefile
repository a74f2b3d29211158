# For a Debian machine with Rust from rustup:
#   make demo    installs missing packages, builds, and profiles one pipe on this machine
#   make test    installs missing packages, fetches the kernels that the tests boot, and runs all tests
# `cargo test` alone leaves out the tests that need a guest, a browser, strace, namespaces or more than 5 s.
# Others: make bench, make bisect, make fuzz, make gallery, make lint.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:

# clang compiles bpf/; libelf and zlib are linked into the static binary.
BUILD_PACKAGES := gcc libc6-dev make clang libbpf-dev libelf-dev zlib1g-dev pkg-config
# QEMU runs the guests, Chromium opens the reports, strace counts system calls, shells complete command lines, and man
# formats the manual pages.
TEST_PACKAGES := qemu-system-x86 dpkg-dev xz-utils zstd e2fsprogs strace chromium librsvg2-bin bash zsh fish man-db
BENCH_PACKAGES := bpftrace cpio
# libFuzzer is compiled from C++; dpkg-deb opens packages.
FUZZ_PACKAGES := g++ dpkg tar
# The kernels that `make bisect` builds. ccache compiles each file only once.
BISECT_PACKAGES := linux-source-6.1 linux-source-6.12 gcc make git flex bison bc libelf-dev xz-utils ccache qemu-system-x86
TEST_KERNELS := 5.10 6.1 6.12 7.2
GALLERY_KERNELS := 6.1 7.2
GALLERY_MODES := write vmsplice-huge-busy

TARGET := x86_64-unknown-linux-gnu
BIN := target/$(TARGET)/release/pipeprof

.PHONY: demo test build lint bench bisect fuzz gallery packages-build packages-test packages-bench packages-bisect \
	packages-fuzz kernels

demo: packages-build build
	$(BIN) run --mode vmsplice

test: packages-build packages-test kernels
	cargo test --no-fail-fast -- --include-ignored

build: packages-build
	cargo build --release

lint: packages-build
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings

# Runs criterion for the pure parts, then measures the cost of the collectors and of bpftrace (needs bpftrace and
# cpio).
bench: packages-build packages-test packages-bench build kernels
	cargo bench
	benches/overhead/run
	for kernel in 6.1 6.12; do
		benches/bpftrace/run "$$($(BIN) kernel list | awk -v series="$$kernel" '/cloud/ && index($$2, series ".") == 1 { print $$3; exit }')"
	done

# Bisects real kernel trees with planted commits, then histories of kernel images in random order. RUNS is the number of
# those. Needs 4 GB in target/bisect.
RUNS := 50
bisect: packages-bisect build kernels
	tests/bisect/run
	tests/bisect/shuffled $(RUNS)

# Fuzzes the readers of input from outside, one after the other, for FUZZ_SECONDS together. Fails if a crash is found.
FUZZ_SECONDS := 300
fuzz: packages-build packages-fuzz
	fuzz/run $(FUZZ_SECONDS)

# flamegraphs/KERNEL-MODE: sampled, and exact (...-exact), with folded stacks and run.json, reduced in size for the
# repository.
gallery: packages-build packages-test build kernels
	rm -rf target/gallery
	for kernel in $(GALLERY_KERNELS); do for mode in $(GALLERY_MODES); do
		$(BIN) run --kernel $$kernel --cpus 2 --mode $$mode --collect sample -o target/gallery/$$kernel-$$mode
		$(BIN) run --kernel $$kernel --cpus 2 --mode $$mode --collect insn -o target/gallery/$$kernel-$$mode-exact
	done; done
	for run in target/gallery/*; do
		rm -rf flamegraphs/$$(basename $$run)
		$(BIN) gallery $$run -o flamegraphs/$$(basename $$run)
	done

packages-build:
	@missing=""
	command -v cargo >/dev/null || { echo "cargo is not installed: install Rust with rustup (https://rustup.rs), then run make again"; exit 1; }
	for package in $(BUILD_PACKAGES); do dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done
	$(install-missing)

packages-test:
	@missing=""
	for package in $(TEST_PACKAGES); do dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done
	$(install-missing)

packages-bench:
	@missing=""
	for package in $(BENCH_PACKAGES); do dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done
	$(install-missing)

packages-bisect:
	@missing=""
	for package in $(BISECT_PACKAGES); do dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done
	$(install-missing)

packages-fuzz:
	@missing=""
	for package in $(FUZZ_PACKAGES); do dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done
	$(install-missing)

define install-missing
if [ -n "$$missing" ]; then
	sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo
	echo "installing Debian packages:$$missing"
	$$sudo apt-get update -q
	DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -q --no-install-recommends $$missing
fi
endef

kernels: packages-build
	cargo build
	target/$(TARGET)/debug/pipeprof kernel fetch $(TEST_KERNELS)
