# The verbs of the house. `make` alone lists them. Anything with logic lives in xtask/.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Binaries of Kubernetes and the cargo target directory, shared by all checkouts of a machine.
BUTLER_CACHE ?= $(HOME)/.cache/butler
CARGO_TARGET_DIR ?= $(BUTLER_CACHE)/target
TOOLS := $(BUTLER_CACHE)/tools
SKIPPED := $(CARGO_TARGET_DIR)/skipped-tests.log
TEST_LOG := $(CARGO_TARGET_DIR)/test.log
CARGO_DENY_VERSION := 0.20.2
export BUTLER_CACHE CARGO_TARGET_DIR
export PATH := $(HOME)/.cargo/bin:$(TOOLS)/bin:$(PATH)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: prepare
prepare:
	@scripts/prepare

.PHONY: build
build: prepare ## Build the binaries, optimised, and say where they are
	cargo build --release --bin butler --bin butleradm --bin butlerctl
	@ls -l $(CARGO_TARGET_DIR)/release/butler $(CARGO_TARGET_DIR)/release/butleradm $(CARGO_TARGET_DIR)/release/butlerctl

# Machines need root; the build does not.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env=HOME,PATH,BUTLER_CACHE)

.PHONY: up
up: build ## Make this machine a management cluster; flags go into ARGUMENTS
	$(AS_ROOT) $(CARGO_TARGET_DIR)/release/butleradm up $(ARGUMENTS)

.PHONY: down
down: ## Remove the management cluster and everything of it
	$(AS_ROOT) $(CARGO_TARGET_DIR)/release/butleradm down $(ARGUMENTS)

# The image that `make docker-build` makes.
IMG ?= ghcr.io/butlerdotdev/butler:dev

.PHONY: docker-build
docker-build: ## Build an image with docker, podman or buildah; its name goes into IMG
	@scripts/docker-build $(IMG)

.PHONY: run
run: prepare ## Run the controllers against the cluster of your kubeconfig
	cargo run --bin butler -- controller --leader-elect=false

.PHONY: test
test: prepare ## Run every test; builds or finds the Kubernetes binaries it needs
	@rm -f $(SKIPPED)
	@mkdir -p $(CARGO_TARGET_DIR)
	cargo build --package xtask
	# Both take long where nothing is cached, and each leaves a processor idle at times.
	$(CARGO_TARGET_DIR)/debug/xtask assets & assets=$$!; cargo test --workspace --no-run || { kill $$assets; exit 1; }; wait $$assets
	BUTLER_SKIP_LOG=$(SKIPPED) cargo test --workspace --no-fail-fast 2>&1 | tee $(TEST_LOG) || cargo --quiet xtask failures $(TEST_LOG)
	@if [ -s $(SKIPPED) ]; then echo "Skipped on this machine:"; sort -u $(SKIPPED); else echo "Skipped on this machine: nothing"; fi

# As many as that, or a range such as 17..18.
WORLDS ?= 1000

.PHONY: worlds
worlds: prepare ## Tell each story of hosted control planes in a thousand worlds; another number goes into WORLDS
	STEWARD_SEEDS=$(WORLDS) cargo test -p steward --test it

.PHONY: lint
lint: prepare $(TOOLS)/bin/cargo-deny ## Check format, lints, layers, generated files, licences and documentation
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask check-layers
	cargo xtask generate --check
	cargo deny --locked --all-features check bans licenses sources
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

.PHONY: generate
generate: prepare ## Write the generated files anew: custom resource definitions, their chart, protocols
	cargo xtask generate

.PHONY: bench
bench: prepare ## Measure what we hold ourselves to; flags go into ARGUMENTS
	cargo xtask assets
	cargo build --release --bin butler --bin butleradm
	cargo run --release --package butler-bench -- $(ARGUMENTS)

$(TOOLS)/bin/cargo-deny:
	cargo install --quiet --locked cargo-deny --version $(CARGO_DENY_VERSION) --root $(TOOLS)
