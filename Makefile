# SPDX-License-Identifier: Apache-2.0 OR MIT
# Everything here does its own set-up on a machine with a Rust toolchain, make,
# a C compiler and Debian's package manager.

TARGET := $(shell rustc -vV | sed -n 's/^host: //p')
TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
# What is linked with the MPI library of the machine (MPICC says with which).
MPI_DIR := $(TARGET_DIR)/mpi
MPI_FLAGS := --release --locked --manifest-path mpi/Cargo.toml --target-dir $(MPI_DIR)
HAS_MPI := command -v mpicc >/dev/null && command -v mpirun >/dev/null && scripts/has-libclang
RELEASE := $(TARGET_DIR)/$(TARGET)/release
LAB := $(RELEASE)/sandbag-lab
# What evaluates sandbag is a workspace of its own, built into the same directory.
LAB_FLAGS := --manifest-path lab/Cargo.toml --release --locked --target $(TARGET) --target-dir $(TARGET_DIR)
SANDBAG := $(RELEASE)/sandbag
# One static binary. Naming the target keeps the flag away from build scripts.
export RUSTFLAGS := -C target-feature=+crt-static
CARGO_FLAGS := --release --locked --target $(TARGET)
PREFIX ?= /usr/local
DESTDIR ?=

# The tests measure the machine that they share.
.NOTPARALLEL:
.PHONY: build run test unit mpi mpi-test machine guest guest-results bench nodes audit-bench lab lint install man clean help

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

test: setup unit mpi-test machine guest ## All tests; as root also the machine and guest tests
	@echo "all test programs passed"

.PHONY: setup
setup: ## Install what the tests need (root; says what is missing otherwise)
	scripts/setup-tests

unit: ## Tests that need no privilege
	cargo test $(CARGO_FLAGS) --workspace --exclude sandbag-machine-tests
	cargo test $(CARGO_FLAGS) -p sandbag-machine-tests --lib
	cargo test $(LAB_FLAGS)
	@# Tests that need something not everybody has are ignored above, and
	@# run here where it is there.
	if command -v groff >/dev/null; then \
	    cargo test $(CARGO_FLAGS) -p sandbag --test cli -- --ignored man_pages; fi
	if [ -e /proc/self/autogroup ]; then \
	    cargo test $(CARGO_FLAGS) -p sandbag-linux --lib -- --ignored a_session; fi
	if [ -n "$$SANDBAG_SAMPLES" ]; then \
	    cargo test $(CARGO_FLAGS) -p sandbag-profile --test samples -- --ignored; fi

mpi: ## sandbag-mpi, the benchmark of `scale bench` over MPI, beside sandbag (needs an MPI library)
	RUSTFLAGS= cargo build $(MPI_FLAGS)
	mkdir -p $(RELEASE)
	cp $(MPI_DIR)/release/sandbag-mpi $(RELEASE)/
	@echo "$(RELEASE)/sandbag-mpi"

mpi-test: build ## Its tests, with 2 and 4 ranks
	@if $(HAS_MPI); then \
	    RUSTFLAGS= SANDBAG_BIN=$(SANDBAG) cargo test $(MPI_FLAGS); \
	else \
	    echo "skipped 1: sandbag-mpi (no MPI library or no libclang here: apt-get install libopenmpi-dev openmpi-bin libclang-dev)"; \
	fi

machine: build ## Tests on this machine's own cgroup tree (root)
	cargo build $(LAB_FLAGS)
	cargo test $(CARGO_FLAGS) -p sandbag-linux --lib -- --ignored the_migrations
	SANDBAG_BIN=$(SANDBAG) SANDBAG_LAB_BIN=$(LAB) \
	    cargo test $(CARGO_FLAGS) -p sandbag-machine-tests --test machine

guest-results: build ## Jitter, figures and an audit of guests, into OUT (30 min)
	cargo build $(LAB_FLAGS)
	cargo build $(CARGO_FLAGS) -p sandbag-machine-tests
	SANDBAG_BIN=$(SANDBAG) scripts/guest-results $(or $(OUT),guest-results)

guest: build ## Tests in emulated machines with another kernel
	SANDBAG_BIN=$(SANDBAG) cargo test $(CARGO_FLAGS) -p sandbag-machine-tests --test guest

bench: build ## The tables of loads, of OS jitter, of jitter at scale and of audits (root; QUICK=1: an hour; else half a day)
	cargo build $(LAB_FLAGS)
	@if $(HAS_MPI); then $(MAKE) mpi; fi
	$(LAB) loads --sandbag $(SANDBAG) $(if $(QUICK),--quick) \
	    $(if $(SANDBAG_DISPOSABLE),--v2) --out bench-results.md
	$(LAB) jitter --sandbag $(SANDBAG) $(if $(QUICK),--quick) --out jitter-results.md
	$(LAB) scale --sandbag $(SANDBAG) $(if $(QUICK),--quick) --out scale-results.md
	$(LAB) audit --sandbag $(SANDBAG) $(if $(QUICK),--quick) --out audit-results.md

nodes: build ## The tables of virtual nodes (root; QUICK=1: a quarter of an hour; else an hour)
	cargo build $(LAB_FLAGS)
	$(LAB) nodes --sandbag $(SANDBAG) $(if $(QUICK),--quick) --out nodes-results.md

audit-bench: build ## What `audit` finds of planted differences (root; QUICK=1: ten minutes; else some hours)
	cargo build $(LAB_FLAGS)
	$(LAB) audit --sandbag $(SANDBAG) $(if $(QUICK),--quick) --out audit-results.md

lab: build ## The papers' experiments (root; QUICK=1: within an hour; else days; goes on where it was)
	scripts/setup-lab
	cargo build $(LAB_FLAGS)
	$(LAB) run $(if $(QUICK),--quick) --out lab-results

lint: ## Formatting, clippy, documentation
	cargo fmt --all --check
	cargo fmt --manifest-path lab/Cargo.toml --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	cargo clippy $(LAB_FLAGS) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

man: build ## Man pages, from the same source as --help
	mkdir -p $(TARGET_DIR)/man
	$(SANDBAG) generate man $(TARGET_DIR)/man

install: man ## Install binary, man pages and completions under PREFIX
	install -D -m 755 $(SANDBAG) $(DESTDIR)$(PREFIX)/bin/sandbag
	for page in $(TARGET_DIR)/man/*.1; do \
	    install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man1/$$(basename $$page); done
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(SANDBAG) generate completions bash \
	    >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/sandbag

clean: ## Remove what was built and fetched
	cargo clean
	rm -rf .guest sandbag-run-* bench-results.* jitter-results.* scale-results.* nodes-results.* audit-results.* lab-results
