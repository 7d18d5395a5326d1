# SPDX-License-Identifier: Apache-2.0 OR MIT
# Everything here does its own set-up on a machine with a Rust toolchain, make,
# a C compiler and Debian's package manager.

ifneq ($(words $(CURDIR)),1)
$(error make cannot work in a directory whose path has blanks: $(CURDIR))
endif
TARGET := $(shell rustc -vV | sed -n 's/^host: //p')
TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
# What is linked with the MPI library of the machine (MPICC says with which), so not static.
# In the same directory it shares what the compiler itself runs: macros and build scripts.
MPI_TEST_FLAGS := --locked --manifest-path mpi/Cargo.toml --target $(TARGET) --target-dir $(TARGET_DIR)
MPI_FLAGS := --release $(MPI_TEST_FLAGS)
HAS_MPI := command -v mpicc >/dev/null && command -v mpirun >/dev/null && scripts/has-libclang
RELEASE := $(TARGET_DIR)/$(TARGET)/release
LAB := $(RELEASE)/sandbag-lab
# What evaluates sandbag is a workspace of its own, built into the same directory.
LAB_TEST_FLAGS := --manifest-path lab/Cargo.toml --locked --target $(TARGET) --target-dir $(TARGET_DIR)
LAB_FLAGS := --release $(LAB_TEST_FLAGS)
FUZZ_FLAGS := --manifest-path fuzz/Cargo.toml --locked --target $(TARGET) --target-dir $(TARGET_DIR)
SANDBAG := $(RELEASE)/sandbag
# One static binary. Naming the target keeps the flag away from build scripts.
export RUSTFLAGS := -C target-feature=+crt-static
# All test programs, and the sandbag that they start, are built once, by the profile
# that builds fastest.
TEST_FLAGS := --locked --target $(TARGET)
TESTED := $(TARGET_DIR)/$(TARGET)/debug
# A test program that takes longer hangs, and is an error that names it.
LIMITED := --config 'target.$(TARGET).runner = ["timeout", "--foreground", "-s", "KILL", "600"]'
CARGO_FLAGS := --release $(TEST_FLAGS)
PREFIX ?= /usr/local
DESTDIR ?=

# The tests measure the machine that they share.
.NOTPARALLEL:
.PHONY: build run test test-all check unit mpi mpi-test machine guest guest-results bench nodes audit-bench lab lint install uninstall package package-test man reference clean clean-results help

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

build: ## Build the static binary
	cargo build $(CARGO_FLAGS) -p sandbag
	@echo "$(SANDBAG)"

# The recording: a database and a compiler on two CPUs, 150 s (see
# examples/record-example.sh), five times as fast.
EXAMPLE := examples/database-and-compiler.json
run: build ## Replay a real recorded load beside a busy program (root, 30 s)
	@echo "Replaying $(EXAMPLE): a database server on CPU 0 and a compiler on CPU 1,"
	@echo "recorded for 150 s with sysstat, here in 30 s and scaled to four fifths (the compiler"
	@echo "took 100 % at times), in pieces of 500 ms, beside a program that keeps"
	@echo "every CPU busy."
	$(SANDBAG) replay $(EXAMPLE) --scale-time 0.2 --resample 500ms --scale-load 0.8 --progress \
	    $$(test "$$(nproc)" -ge 2 && echo --cpus 0,1 || echo --map mean) \
	    --force --out sandbag-run-example -- examples/busy.sh 30

test: prepared unit machine ## Tests of every claim of safety and correctness (root; others: without the machine tests)
	@echo "all test programs passed"

test-all: ## The same, all rounds of them, and with MPI, Prometheus and guests with other kernels
	@$(MAKE) prepared mpi-built
	@# What later tests need is made beside tests that busy CPUs do not fail. The release is
	@# linked by one thread for 80 s, so it comes first. What cannot be made is skipped or
	@# reported below.
	@{ $(TESTED)/guest & images=$$!; \
	    nice -n -10 $(MAKE) build; made=$$?; wait $$images; exit $$made; } & others=$$!; \
	    SANDBAG_TEST_ALL=1 $(MAKE) unit; unit=$$?; wait $$others && exit $$unit
	@SANDBAG_TEST_ALL=1 $(MAKE) mpi-test machine guest package-test fuzz-built
	@echo "all test programs passed"

check: ## What to run before a commit: formatting, clippy and unit tests of the crates that changed
	scripts/check

.PHONY: setup
setup: ## Install what the tests need (root; says what is missing otherwise)
	scripts/setup-tests

.PHONY: prepared
prepared: # Nothing that is installed is needed to build the tests
	@scripts/setup-tests & setup=$$!; $(MAKE) built; built=$$?; wait $$setup && exit $$built

# Always of the whole workspace: other selections of packages have other features, and
# would be built again.
.PHONY: built
built:
	cargo test $(TEST_FLAGS) --workspace --no-run
	cargo test $(TEST_FLAGS) --workspace --test machine --test guest --no-run
	cargo test $(LAB_TEST_FLAGS) --no-run

unit: ## Tests that need no privilege
	scripts/claims
	scripts/links
	scripts/locks
	scripts/unit-tests
	cargo test $(LAB_TEST_FLAGS) $(LIMITED)
	@# Tests that need something that not every machine has are ignored above, and
	@# run here where it is there.
	@echo "again, those that were ignored above:"
	if command -v groff >/dev/null; then \
	    cargo test $(TEST_FLAGS) $(LIMITED) --workspace --test cli -- --ignored man_pages; fi
	if [ "$$(id -u)" = 0 ]; then \
	    cargo test $(TEST_FLAGS) $(LIMITED) --workspace --lib -- --ignored the_migrations \
	        other_users_are_refused what_belongs_to_another_user; fi
	if [ -n "$$SANDBAG_SAMPLES" ]; then \
	    cargo test $(TEST_FLAGS) $(LIMITED) --workspace --test samples -- --ignored; fi

mpi: ## sandbag-mpi, the benchmark of `scale bench` over MPI, beside sandbag (needs an MPI library)
	RUSTFLAGS= cargo build $(MPI_FLAGS)
	@echo "$(RELEASE)/sandbag-mpi"

.PHONY: mpi-built
mpi-built:
	@if $(HAS_MPI); then RUSTFLAGS= cargo test $(MPI_TEST_FLAGS) --no-run; fi

# What fuzzes the parsers: it is run by hand (fuzz/README.md), and has to compile.
.PHONY: fuzz-built
fuzz-built:
	@if command -v c++ >/dev/null; then cargo check $(FUZZ_FLAGS) && \
	    echo "test result: ok. 1 passed; 0 failed; 0 ignored: the fuzz targets compile"; \
	else \
	    echo "test result: ok. 0 passed; 0 failed; 1 ignored: the fuzz targets (no C++ compiler here: apt-get install g++)"; \
	fi

mpi-test: built ## Its tests, with 2 and 4 ranks
	@if $(HAS_MPI); then \
	    RUSTFLAGS= SANDBAG_BIN=$(TESTED)/sandbag cargo test $(MPI_TEST_FLAGS) && \
	    if [ "$$(id -u)" = 0 ] && [ "$$(nproc)" -ge 2 ]; then \
	        echo "again, those that were ignored above:"; \
	        RUSTFLAGS= SANDBAG_BIN=$(TESTED)/sandbag cargo test $(MPI_TEST_FLAGS) -- --ignored; fi; \
	else \
	    echo "test result: ok. 0 passed; 0 failed; 1 ignored: sandbag-mpi (no MPI library or no libclang here: apt-get install libopenmpi-dev openmpi-bin libclang-dev)"; \
	fi

machine: built ## Tests on this machine's own cgroup tree (root)
	SANDBAG_BIN=$(TESTED)/sandbag SANDBAG_LAB_BIN=$(TESTED)/sandbag-lab \
	    cargo test $(TEST_FLAGS) --workspace --test machine

package-test: build ## The packages, installed from scratch
	scripts/test-package $(TARGET_DIR)/package
	scripts/test-wheel
	scripts/test-image
	SANDBAG_BIN=$(SANDBAG) scripts/test-slurm
	SANDBAG_BIN=$(SANDBAG) scripts/test-hosts
	scripts/test-kubernetes
	scripts/test-ci $(TARGET_DIR)/package

guest-results: build ## Jitter, figures and an audit of guests, into OUT (30 min)
	cargo build $(CARGO_FLAGS) -p sandbag-machine-tests
	SANDBAG_BIN=$(SANDBAG) scripts/guest-results $(or $(OUT),guest-results)

guest: build ## Tests in emulated machines with another kernel, of the released binary
	SANDBAG_BIN=$(SANDBAG) cargo test $(TEST_FLAGS) --workspace --test guest

bench: build ## The tables of loads, of OS jitter, of jitter at scale and of audits (root; QUICK=1: an hour; else half a day)
	cargo build $(LAB_FLAGS)
	@if $(HAS_MPI); then $(MAKE) mpi; fi
	$(LAB) loads --sandbag $(SANDBAG) $(if $(QUICK),--quick) --out bench-results.md
	$(LAB) jitter --sandbag $(SANDBAG) $(if $(QUICK),--quick) --out jitter-results.md
	$(LAB) scale --sandbag $(SANDBAG) $(if $(QUICK),--quick) --out scale-results.md
	$(LAB) audit --sandbag $(SANDBAG) $(if $(QUICK),--quick) --out audit-results.md

nodes: build ## The tables of virtual nodes (root; QUICK=1: a quarter of an hour; else an hour)
	cargo build $(LAB_FLAGS)
	$(LAB) nodes --sandbag $(SANDBAG) $(if $(QUICK),--quick) --out nodes-results.md

audit-bench: build ## What `audit` finds of planted differences (root; QUICK=1: ten minutes; else some hours)
	cargo build $(LAB_FLAGS)
	$(LAB) audit --sandbag $(SANDBAG) $(if $(QUICK),--quick) --out audit-results.md

lab: build ## The papers' experiments (root; QUICK=1: three hours; else two days; goes on where it was)
	scripts/setup-lab
	cargo build $(LAB_FLAGS)
	$(LAB) run $(if $(QUICK),--quick) --out lab-results

lint: ## Formatting, clippy, documentation
	cargo fmt --all --check
	cargo fmt --manifest-path lab/Cargo.toml --check
	cargo clippy $(TEST_FLAGS) --workspace --all-targets -- -D warnings
	cargo clippy $(TEST_FLAGS) --workspace --test machine --test guest -- -D warnings
	cargo clippy $(LAB_TEST_FLAGS) --all-targets -- -D warnings
	@# Help texts have <time> in them, and private items are documented, too.
	RUSTDOCFLAGS="-D warnings -A rustdoc::invalid_html_tags -A rustdoc::private-intra-doc-links" cargo doc $(TEST_FLAGS) --workspace --no-deps --document-private-items

reference: ## The pages of docs/reference, from the program's own definitions
	cargo run $(TEST_FLAGS) -q -p sandbag -- generate reference docs/reference

man: build ## Man pages, from the same source as --help
	mkdir -p $(TARGET_DIR)/man
	$(SANDBAG) generate man $(TARGET_DIR)/man

install: man ## Install binary, man pages, completions and documentation under PREFIX
	install -D -m 755 $(SANDBAG) $(DESTDIR)$(PREFIX)/bin/sandbag
	for page in $(TARGET_DIR)/man/*.1; do \
	    install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man1/$$(basename $$page); done
	umask 022; for file in bash:bash-completion/completions/sandbag zsh:zsh/site-functions/_sandbag \
	    fish:fish/vendor_completions.d/sandbag.fish; do \
	    to=$(DESTDIR)$(PREFIX)/share/$${file#*:}; \
	    mkdir -p $${to%/*} && $(SANDBAG) generate completions $${file%%:*} >$$to || exit 1; done
	for page in README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT $$(find docs examples -type f \
	    -not -path '*/results/*'); do \
	    install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/doc/sandbag/$$page; done

uninstall: ## Remove what install made under PREFIX
	cd $(DESTDIR)$(PREFIX)/ && rm -f bin/sandbag share/man/man1/sandbag.1 share/man/man1/sandbag-*.1 \
	    share/bash-completion/completions/sandbag share/zsh/site-functions/_sandbag \
	    share/fish/vendor_completions.d/sandbag.fish && rm -rf share/doc/sandbag

package: build ## A tarball with its checksum, a Debian package, a wheel and an image, in target/package
	scripts/package
	if /usr/bin/python3 -c 'import pip, setuptools, wheel' 2>/dev/null; then scripts/wheel; \
	    else echo "no wheel: apt-get install python3-pip python3-setuptools python3-wheel"; fi
	if command -v podman >/dev/null; then scripts/image; else echo "no image: apt-get install podman"; fi

clean: ## Remove what was built and fetched
	cargo clean
	rm -rf .guest sandbag-run-example

clean-results: ## Remove what was measured here: sandbag-run-*, *-results.*, lab-results, guest-results
	rm -rf sandbag-run-* bench-results.* loads-results.* jitter-results.* scale-results.* nodes-results.* \
	    audit-results.* lab-results guest-results
