# Godwit. `make help` lists the targets; each stage of `make test` is a script
# in build/ci that also runs by itself.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

TOOL  := go tool -modfile=build/tools/go.mod
STAGE := build/ci/stage.sh

.PHONY: help run build build-page test test-all bench check check-parts fmt lint vet cross generate generate-check \
	notice notice-check arrows tidy-check tools-test gpu-check vuln test-go test-arm64 test-emu test-page test-window test-clients test-agents test-faults bench-ui archives clean

help: ## list the targets
	@awk -F ':.*## ' '/^##@ /{print substr($$0, 5)} /^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use

run: ## fetch the demo model, build, and start: the window, or the page without a display
	@build/run.sh

build: ## build build/bin/godwit: with the window where its libraries are, else headless
	@build/ci/packages.sh build
	@build/page.sh
	@build/build.sh

build-page: ## build frontend/dist where a source is newer
	@build/page.sh

archives: ## release archives for Linux and Windows in build/bin/release; needs the window's libraries
	@build/ci/packages.sh desktop
	@go run github.com/goreleaser/goreleaser/v2@v2.12.5 release --snapshot --clean

##@ Test

test: ## everything that CI runs; root on Debian gets what is missing installed first
	@build/ci/packages.sh
	@$(MAKE) check test-go test-arm64 test-emu test-page test-window test-clients test-agents test-faults
	@echo "make test: passed"

test-all: ## make test, and the long matrices that CI leaves out
	@GODWIT_TEST=all $(MAKE) test

test-go: ## Go tests; with the race detector where goroutines share data
	@$(STAGE) go 840 go.mod build/ci/go.sh

test-arm64: ## kernel packages on arm64 under qemu
	@$(STAGE) arm64 300 engine build/ci/arm64.sh

test-emu: ## GPU kernels on the emulator
	@$(STAGE) emulator 480 shaders/emu build/ci/emu.sh

test-page: ## the page: types, units, and a real browser against the real server
	@$(STAGE) page 360 frontend/package.json build/ci/page.sh

test-window: ## the real window under Xvfb
	@$(STAGE) window 240 wails.json build/ci/window.sh

test-clients: ## the official clients against the real server
	@$(STAGE) clients 240 app/api build/ci/clients.sh

test-agents: ## coding agents against the real server, with scripted answers
	@$(STAGE) agents 360 app/agents build/ci/agents.sh

test-faults: ## clients of four keys and four models on a budget that holds two models
	@$(STAGE) faults 300 app/cli build/ci/faults.sh

bench: ## measure this machine and append it to docs/measurements.md
	@build/bench.sh

bench-ui: ## measure the page in a real browser: opening, long chats, streaming
	@build/page.sh
	@build/build.sh headless
	@cd frontend && GODWIT_BIN=../build/bin/godwit node tests/bench.mjs

##@ Check

check: ## format, vet, lint, cross-builds, generated files, licences
	@$(STAGE) check 480 go.mod $(MAKE) check-parts

check-parts:
	@$(STAGE) lint - go.mod $(MAKE) fmt vet lint
	@$(STAGE) generated - go.mod $(MAKE) tools-test generate-check notice-check arrows
	@$(STAGE) cross-builds - go.mod build/ci/cross.sh

fmt: ## fail on a file that gofumpt would change (`make fmt FIX=1` changes it)
	@if [ -n "$${FIX:-}" ]; then $(TOOL) golangci-lint fmt; else $(TOOL) golangci-lint fmt --diff; fi

vet: ## go vet
	@go vet ./...

lint: ## golangci-lint with the rules of .golangci.yml
	@$(TOOL) golangci-lint run ./...

cross: ## build for every platform that is shipped, without cgo
	@build/ci/cross.sh

generate: ## run the generators
	@go generate ./engine/... ./app/...

generate-check: ## fail where a generated file is not what its generator writes
	@build/ci/generated.sh

notice: ## rewrite NOTICE from the modules that are linked
	@go run -C build/tools ./notice -root ../..

notice-check: ## fail where NOTICE does not match the modules
	@go run -C build/tools ./notice -root ../.. -check

arrows: ## fail where an arrow between the files of app/api runs against their order
	@go run -C build/tools ./arrows -root ../.. -most 0 app/api
	@go run -C build/tools ./arrows -root ../.. app/pool app/api/page engine engine/kv engine/kv/layout engine/kv/pages

tidy-check: ## fail where go mod tidy would change a file
	@go mod tidy -diff
	@go -C build/tools mod tidy -diff

tools-test: ## tests of the tools in build/tools
	@go -C build/tools test ./...

gpu-check: ## assemble the changed kernels for all cards that are served, and renew the record of what they take
	@cuda/check.sh

vuln: ## govulncheck; asks the Go vulnerability database, so it is run by hand
	@$(TOOL) govulncheck ./...

clean: ## remove what the build made
	@rm -rf build/bin
