# For a Debian machine with Rust from rustup:
#   make demo    installs missing packages, builds, and profiles one pipe on this machine
#   make test    installs missing packages, fetches the kernels that the tests boot, and runs all tests
# `cargo test` alone leaves out the tests that need a guest, a browser, strace, namespaces or more than 5 s.
#   make build-arm64 builds pipeprof for arm64, which guests with arm64 kernels need
#   make dist    makes a tarball and a Debian package for x86-64 and for arm64 in target/dist
#   make release also writes checksums, and recipes for Arch Linux, Homebrew and Nix, there
#   make book    makes a book of the documents in target/book/html
#   make engines runs a campaign on GNU parallel, Slurm and HyperQueue on this machine, as root
# Others: make bench, make bisect, make fuzz, make chaos, make gallery, make lint, make dist-test.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:

# clang compiles bpf/; libelf and zlib are linked into the static binary.
BUILD_PACKAGES := gcc binutils libc6-dev make clang libbpf-dev libelf-dev zlib1g-dev pkg-config
# QEMU runs the guests, Chromium opens the reports, strace counts system calls, shells complete command lines, and man
# formats the manual pages, pv limits a speed, Python runs programs that hang; setcap (libcap2-bin) gives a plain user the
# rights to sample.
TEST_PACKAGES := qemu-system-x86 qemu-system-arm dpkg-dev xz-utils zstd e2fsprogs strace chromium librsvg2-bin bash zsh fish man-db libcap2-bin pv python3
BENCH_PACKAGES := bpftrace cpio time python3
# The cross compiler, and the same libraries for arm64, which are packages of a foreign architecture.
ARM64_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross libbpf-dev:arm64 libelf-dev:arm64 zlib1g-dev:arm64
# libFuzzer is compiled from C++; dpkg-deb opens packages.
FUZZ_PACKAGES := g++ dpkg tar
# The kernels that `make bisect` builds. ccache compiles each file only once.
BISECT_PACKAGES := linux-source-6.1 linux-source-6.12 gcc make git flex bison bc libelf-dev xz-utils ccache qemu-system-x86
# A Debian to install the package into, and a checker of packages.
DIST_TEST_PACKAGES := mmdebstrap man-db lintian
# Schedulers. Their services are not started.
ENGINES_PACKAGES := parallel openssh-server openssh-client slurm-wlm munge python3 python3-venv
TEST_KERNELS := 5.10 6.1 6.12 7.2 6.12:arm64 7.2:arm64
GALLERY_KERNELS := 6.1 7.2
GALLERY_MODES := write vmsplice-huge-busy

# .cargo/config.toml says x86-64: on another machine, its own.
TARGET := $(shell uname -m)-unknown-linux-gnu
export CARGO_BUILD_TARGET := $(TARGET)
TARGET_ARM64 := aarch64-unknown-linux-gnu
BIN := target/$(TARGET)/release/pipeprof

# Tools from crates, in target/tools only.
CARGO_DEB_VERSION := 3.8.0
MDBOOK_VERSION := 0.5.4
MDBOOK := target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook
CARGO_DEB := target/tools/cargo-deb-$(CARGO_DEB_VERSION)/bin/cargo-deb

VERSION := $(shell awk -F '"' '/^version = / { print $$2; exit }' Cargo.toml)
DIST := target/dist
TARBALL := pipeprof-$(VERSION)-$(shell uname -m)-linux

.PHONY: demo test build build-arm64 lint bench bisect fuzz chaos gallery dist release dist-test book packages-build packages-arm64 packages-test packages-bench \
	packages-bisect packages-fuzz packages-dist-test packages-engines engines kernels kernels-of-tests

demo: packages-build build
	$(BIN) run --mode vmsplice

test: packages-build packages-test kernels-of-tests build-arm64
	cargo test --no-fail-fast -- --include-ignored

# Names of functions are a quarter of the file. Those that graphs of pipeprof's own processes show are kept: on arm64, the
# workers' loops call the function that drops an error.
STRIPPED := --wildcard --strip-symbol='!_ZN8pipeprof*' --strip-symbol='!*pipeprof_workload*' --strip-symbol='!*3std*' \
	--strip-symbol='!*drop_in_place*std..io..error*' \
	--strip-symbol='!*4core3ops*' --strip-symbol='_ZN*' --strip-symbol='GCC_except_table*' --strip-symbol='anon.*'

build: packages-build
	cargo build --release
	objcopy $(STRIPPED) $(BIN)

# pipeprof for arm64: the init of guests with arm64 kernels, which `pipeprof` finds here, and a program for arm64 machines.
build-arm64: packages-build packages-arm64
	rustup target add $(TARGET_ARM64)
	cargo build --release --target $(TARGET_ARM64)
	aarch64-linux-gnu-objcopy $(STRIPPED) target/$(TARGET_ARM64)/release/pipeprof

lint: packages-build
	cargo fmt --all --check
	cargo clippy --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --document-private-items

# Runs criterion for the pure parts, then measures the cost of the collectors, of recordings (needs root and pv) and of
# bpftrace (needs bpftrace and cpio).
bench: packages-build packages-test packages-bench build kernels
	cargo bench
	benches/overhead/run
	benches/overhead/record
	benches/campaign/run
	for kernel in 6.1 6.12; do
		benches/bpftrace/run "$$($(BIN) kernel list | awk -v series="$$kernel" '/cloud-amd64/ && index($$2, series ".") == 1 { print $$3; exit }')"
	done

# Bisects real kernel trees with planted commits, then histories of kernel images in random order. RUNS is the number of
# those. Needs 4 GB in target/bisect.
RUNS := 50
bisect: packages-bisect build kernels
	tests/bisect/planted
	tests/bisect/run
	tests/bisect/shuffled $(RUNS)

# Fuzzes the readers of input from outside, one after the other, for FUZZ_SECONDS together. Fails if a crash is found.
FUZZ_SECONDS := 300
fuzz: packages-build packages-fuzz
	fuzz/run $(FUZZ_SECONDS)

# Sends signals to pipeprof and what it starts at random moments, for CHAOS_SECONDS together, here and with guests.
CHAOS_SECONDS := 600
chaos: packages-build packages-test kernels-of-tests
	PIPEPROF_CHAOS_SECONDS=$$(($(CHAOS_SECONDS) / 2)) \
		cargo test --test suite -- chaos:: --include-ignored --nocapture --test-threads 1

# Runs a campaign on each scheduler, kills a chunk, resumes, and requires the bytes of a local run. Needs root, and
# Debian's mirror and Python's package index for what is missing.
engines: packages-build packages-test packages-engines build kernels
	tests/engines/run $(BIN)

# flamegraphs/KERNEL-MODE: sampled, and exact (...-exact), with folded stacks and result.json, reduced in size for the
# repository.
gallery: packages-build packages-test build kernels-of-tests
	rm -rf target/gallery
	for kernel in $(GALLERY_KERNELS); do for mode in $(GALLERY_MODES); do
		$(BIN) run --kernel $$kernel --cpus 2 --mode $$mode --collect sample -o target/gallery/$$kernel-$$mode
		$(BIN) run --kernel $$kernel --cpus 2 --mode $$mode --collect insn -o target/gallery/$$kernel-$$mode-exact
	done; done
	for run in target/gallery/*; do
		rm -rf flamegraphs/$$(basename $$run)
		target/$(TARGET)/debug/test-programs gallery $$run -o flamegraphs/$$(basename $$run)
	done

# target/dist: a tarball and a Debian package for each processor, with the static binary, manual pages and completions. The
# same commit makes the same tarballs.
dist: build build-arm64 $(CARGO_DEB)
	rm -rf $(DIST)
	mkdir -p $(DIST)/completions/{bash,zsh,fish}
	$(BIN) man -o $(DIST)/man
	$(BIN) completions bash > $(DIST)/completions/bash/pipeprof
	$(BIN) completions zsh > $(DIST)/completions/zsh/_pipeprof
	$(BIN) completions fish > $(DIST)/completions/fish/pipeprof.fish
	time=$$(git log -1 --format=%ct 2>/dev/null || date +%s)
	maintainer=$$(sed -n 's/^maintainer = "\(.*\)"/\1/p' Cargo.toml)
	printf 'pipeprof (%s-1) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' \
		"$(VERSION)" "$$maintainer" "$$(date -R -u -d @$$time)" > $(DIST)/changelog
	for target in $(TARGET) $(TARGET_ARM64); do
		tarball=pipeprof-$(VERSION)-$${target%%-*}-linux
		mkdir -p $(DIST)/$$tarball/man
		cp -r $(DIST)/man $(DIST)/$$tarball/man/man1
		cp -r $(DIST)/completions target/$$target/release/pipeprof README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE bpf/LICENSE-GPL-2.0 $(DIST)/$$tarball
		tar -C $(DIST) --sort=name --owner=0 --group=0 --numeric-owner --mtime=@$$time -cf - $$tarball | gzip -9n > $(DIST)/$$tarball.tar.gz
		rm -r $(DIST)/$$tarball
		SOURCE_DATE_EPOCH=$$time $(CARGO_DEB) --no-build --no-strip --target $$target -o $(DIST)/
	done
	ls -l $(DIST)/*.tar.gz $(DIST)/*.deb

# As the release workflow makes them: REPOSITORY is the address from which a release of the archives can be fetched.
REPOSITORY := https://github.com/OWNER/pipeprof
release: dist
	build/packages/render $(VERSION) $(REPOSITORY) $(DIST)

# Installs the packages, the .deb in a new Debian 12, uses them and removes them. Needs root and Debian's mirror.
dist-test: packages-dist-test dist
	tests/packages/run $(DIST)/*_$$(dpkg --print-architecture).deb $(DIST)/$(TARBALL).tar.gz

# target/book/html: the documents as a book. Its source has the layout of this folder, so that links resolve. mdbook
# makes a README.md the index of its folder.
book: $(MDBOOK)
	rm -rf target/book
	mkdir -p target/book/src
	cp docs/book.toml docs/book.css target/book
	cp -r docs flamegraphs README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md target/book/src
	sed -E 's|\]\(|](docs/|; s|\]\(docs/\.\./|](|' docs/SUMMARY.md > target/book/src/SUMMARY.md
	sed -i 's|(flamegraphs/README.md)|(flamegraphs/index.html)|' target/book/src/README.md
	rm target/book/src/docs/{SUMMARY.md,book.toml,book.css}
	$(MDBOOK) build target/book

# The project's cargo configuration is for pipeprof only.
$(MDBOOK):
	root="$$PWD/target/tools"
	cd / && CARGO_TARGET_DIR="$$root/build" cargo install mdbook --version $(MDBOOK_VERSION) --locked --no-default-features --features search --root "$$root/mdbook-$(MDBOOK_VERSION)"

$(CARGO_DEB):
	root="$$PWD/target/tools"
	cd / && CARGO_TARGET_DIR="$$root/build" cargo install cargo-deb --version $(CARGO_DEB_VERSION) --locked --root "$$root/cargo-deb-$(CARGO_DEB_VERSION)"

packages-build:
	@missing=""
	command -v cargo >/dev/null || { echo "cargo is not installed: install Rust with rustup (https://rustup.rs), then run make again"; exit 1; }
	for package in $(BUILD_PACKAGES); do dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done
	$(install-missing)

packages-arm64:
	@sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo
	dpkg --print-foreign-architectures | grep -qx arm64 || $$sudo dpkg --add-architecture arm64
	missing=""
	for package in $(ARM64_PACKAGES); do dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done
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

packages-dist-test:
	@missing=""
	for package in $(DIST_TEST_PACKAGES); do dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done
	$(install-missing)

packages-engines:
	@tests/engines/install $(ENGINES_PACKAGES)

define install-missing
if [ -n "$$missing" ]; then
	sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo
	echo "installing Debian packages:$$missing"
	$$sudo apt-get update -q
	DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -q --no-install-recommends $$missing
fi
endef

kernels: build
	$(BIN) kernel fetch $(TEST_KERNELS)

# By the program that the tests run. `cargo build` would compile everything once more, because dependencies have fewer
# features without the tests.
kernels-of-tests: packages-build
	cargo test --no-run
	target/$(TARGET)/debug/pipeprof kernel fetch $(TEST_KERNELS)
