# Everything that continuous integration runs can be run here.
#
#   make demo       program a private network namespace, send traffic, tell what happened
#   make test       all tests with the race detector; the kernel tests need root
#   make check      what a change must pass: fmt, vet, lint, tests, ids
#
# demo and test install the Debian packages they need if they may, and otherwise
# say which are missing.

SHELL := /bin/bash
GO ?= go
TOOL := $(GO) tool -modfile=$(CURDIR)/go.tool.mod
FUZZTIME ?= 30s
BENCH ?= .
PLATFORMS ?= darwin/arm64 windows/amd64 linux/arm64

.PHONY: demo test check fmt vet lint cross fuzz bench ids tidy deps newest-api

demo:
	@hack/deps nft
	$(GO) run ./examples/quickstart

test: deps
	$(GO) test -race -shuffle=on ./...

check: fmt vet lint test ids

deps:
	@hack/deps

fmt:
	$(TOOL) golangci-lint fmt --diff

vet:
	$(GO) vet ./...

lint:
	$(TOOL) golangci-lint run ./...

# The library compiles, tests included, where it cannot run.
cross:
	@for p in $(PLATFORMS); do \
		echo "vet $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 $(GO) vet ./... || exit 1; \
	done

# Every fuzz target of the module for FUZZTIME.
fuzz:
	@hack/fuzz $(FUZZTIME)

bench:
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

ids:
	$(GO) run ./hack/ids

tidy:
	$(GO) mod tidy

# The library builds and passes its pure tests with the newest k8s.io/api, too.
newest-api:
	@hack/newest-api
