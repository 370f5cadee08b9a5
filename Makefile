# Everything that continuous integration runs can be run here.
#
#   make demo       program a private network namespace, send traffic, tell what happened
#   make test       all tests with the race detector; the kernel tests need root
#   make check      what a change must pass: fmt, vet, lint, tests, ids
#   make soak       the agent under 2,000 changing Services, and killed 50 times; some minutes
#   make e2e        the agent with a real control plane, which is built first
#   make upstream   upstream's unit tests, whose every input vipkit is given too; needs no root
#   make bench      beside kube-proxy, a quarter of an hour; bench-full for everything, hours
#   make test-vm    the packet suites of nftables, iptables and ipvs on Debian's kernels; an hour or more
#   make test-vm-short  of them, what each run has: minutes
#   make test-nft   tests of the nftables backend with the newest nft of Debian, half a minute
#
# demo and test install the Debian packages they need if they may, and otherwise
# say which are missing.

SHELL := /bin/bash
GO ?= go
TOOL := $(GO) tool -modfile=$(CURDIR)/go.tool.mod
FUZZTIME ?= 30s
BENCH ?= .
PLATFORMS ?= darwin/arm64 windows/amd64 linux/arm64

.PHONY: demo test test-nft test-vm test-vm-short mutate agent soak e2e e2e-suite upstream upstream-short score score-short score-vm differential differential-short check fmt vet lint cross fuzz bench bench-full benchmarks check-bench ids tidy deps newest-api

demo:
	@hack/deps nft
	$(GO) run ./examples/quickstart

test: deps
	$(GO) test -race -shuffle=on -timeout 30m ./...

# The kernels at hand differ from those of users, and may have no SCTP and no IPVS, which may
# not be skipped there.
VM_KERNELS ?= linux-image-cloud-amd64 linux-image-6.12-cloud-amd64
VM_61 := linux-image-cloud-amd64
# Modules that register something for each network namespace are loaded first: Linux 6.1 was seen to stop
# for ever when one of them came while namespaces ended.
VM_MODULES := nf_conntrack nf_tables nf_nat sctp dummy xt_recent ip_vs ip_vs_rr ip_vs_sh ip_vs_lblc ip_vs_lblcr
vm = RUNVM_KERNEL=$(1) RUNVM_MODULES="$(VM_MODULES)" RUNVM_TIMEOUT=3600 CGO_ENABLED=0 VIPKIT_QUICK=1 \
	VIPKIT_REQUIRE_KERNEL=1,sctp,ipvs $(GO) test -count=1 -timeout 60m -exec "$(CURDIR)/hack/runvm"

test-vm:
	$(call vm,$(VM_61)) -skip HoldsMany ./backends/ipvs
	@for k in $(VM_KERNELS); do \
		for b in nftables iptables; do \
			echo "run the suite of $$b on $$k"; \
			$(call vm,$$k) -run Conformance ./backends/$$b || exit 1; \
		done; \
	done
	cd examples/agent && $(call vm,$(VM_61)) -run IPVS .

# Everything but the suite, and scenarios that between them need each kind of object in the table,
# each pool, each verdict, and a change of each. All are in test-vm.
VM_SCENARIOS := affinity-follows-the-pool|change-external-policy|change-endpoint-added-and-removed|clusterip-no-endpoints-rejects|$\
	external-local-none-here-drops-outside|hairpin-clusterip|nodeport-addresses-all|open-connections-stay|source-ranges-with-policy-local|$\
	two-services-on-one-external-ip
test-vm-short:
	$(call vm,$(VM_61)) -skip 'HoldsMany|Conformance' ./backends/ipvs
	@for b in ipvs nftables; do \
		echo "run scenarios of $$b on $(VM_61)"; \
		$(call vm,$(VM_61)) -run '^TestConformance$$/^($(VM_SCENARIOS))$$' ./backends/$$b || exit 1; \
	done

# Each nft reads back in its own way what is in the kernel: a newer one than the tests run with changes
# and takes over maps of every kind. Says so and is skipped where the archive lacks it.
NFT_SUITE ?= sid
test-nft:
	@bin=$$(hack/nft $(NFT_SUITE)) || { [ $$? = 3 ] && echo "test-nft: SKIPPED: the archive has no nft of $(NFT_SUITE)" && exit 0; exit 1; }; \
	echo "run tests of affinity and of changes as text with $$("$$bin/nft" --version)"; \
	PATH="$$bin:$$PATH" $(GO) test -count=1 -timeout 5m -run 'TestAffinity|TestBatches|TestAdopt|TestConformance/affinity' ./backends/nftables

# Small changes of the source, one at a time, which a test or the suite must notice: of each package the
# MUTANTS that the seed draws (0: all). MUTATE_PACKAGES=. adds the data planes of the kernel, which take longer.
# hack/mutate/survivors.txt has those that may stay. go doc ./hack/mutate says more.
MUTANTS ?= 40
MUTATE_SEED ?= 1
MUTATE_TIME ?= 15m
MUTATE_PACKAGES ?= ^(endpoints|topology|proxy/plan|backends/engine|backends/fake)$$
mutate: deps
	$(GO) run ./hack/mutate -n $(MUTANTS) -seed $(MUTATE_SEED) -time $(MUTATE_TIME) -packages '$(MUTATE_PACKAGES)'

# The node agent is a module of its own, for the sake of its dependencies.
agent: deps
	cd examples/agent && $(GO) vet ./... && $(GO) test -race -shuffle=on .

# Not part of the continuous integration, as they take long.
SOAKTIME ?= 2m
soak: deps
	cd examples/agent && VIPKIT_SOAK=$(SOAKTIME) $(GO) test -race -count=1 -v -timeout 10m -run '^TestSoak$$' .
	cd examples/agent && VIPKIT_KILLS=50 $(GO) test -count=1 -v -timeout 20m -run '^TestKill$$' .

E2E_BIN ?= $(CURDIR)/bin/control-plane
e2e: deps
	@hack/deps curl openssl
	examples/agent/e2e/control-plane build $(E2E_BIN)
	cd examples/agent && VIPKIT_E2E=$(E2E_BIN) $(GO) test -count=1 -v -timeout 15m -run '^TestEndToEnd$$' .

# Kubernetes' own tests of Services on a cluster of three nodes, made here: see hack/e2e-suite/README.md.
PROXY ?= vipkit-nftables
e2e-suite:
	@hack/e2e-suite/suite $(PROXY)

# Upstream's own unit tests, in a copy of its module; random objects besides. The first time everything
# that they import is compiled, which takes a quarter of an hour on two cores. SEED chooses what is random.
SEED ?= 1
upstream:
	cd hack/upstream && $(GO) vet . ./shadow && $(GO) test . ./shadow && $(GO) run . -seed $(SEED) -doc ../../docs/conformance.md

upstream-short:
	cd hack/upstream && $(GO) vet . ./shadow && $(GO) test . ./shadow && $(GO) run . -seed $(SEED) -short

# All scenarios of the suite against whole proxies, kube-proxy's and ours, from outside; RECORD=yes writes the results and the table of
# docs/conformance.md. score-short plays some of them. See docs/conformance.md.
score_table = $(GO) run ./score/table -reasons score/reasons.txt $(if $(filter yes,$(RECORD)),-results score/results -doc ../docs/conformance.md)
SCORE_PROXIES ?= .*
score: deps
	cd bench && $(GO) test -json -count=1 -timeout 60m -run '^TestScore$$/^($(SCORE_PROXIES))$$' ./score | \
		$(score_table) $(if $(filter-out .*,$(SCORE_PROXIES)),-partial)

SCORE_SHORT := clusterip-.*|source-ranges-with-.*|change-endpoint-.*|nodeport-.*
score-short: deps
	cd bench && $(GO) test -json -count=1 -timeout 20m -run '^TestScore$$/nftables$$/^($(SCORE_SHORT))$$' ./score | \
		$(score_table) -partial

# The IPVS modes of both, in a virtual machine.
score-vm:
	cd bench && $(call vm,$(VM_61)) -json -run '^TestScore$$/ipvs$$' ./score | $(score_table) -partial

# Random clusters through kube-proxy and ours, packet by packet. With an argument of -sabotage one sees that it notices faults.
DIFFERENTIAL ?= -seed 1 -clusters 100
differential: deps
	cd bench && $(GO) build -o ../bin/differential ./differential && ../bin/differential $(DIFFERENTIAL)

differential-short: deps
	$(MAKE) differential DIFFERENTIAL='-seed 1 -clusters 4 -iptables 4 -for 2m'

check: fmt vet lint test ids

deps:
	@hack/deps

fmt:
	$(TOOL) golangci-lint fmt --diff

vet:
	$(GO) vet ./...

# Its findings are cached by the contents of packages and name the places of the checkout that
# filled the cache, so each checkout has its own.
lint:
	GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint $(TOOL) golangci-lint run ./...

# The library compiles, tests included, where it cannot run.
cross:
	@for p in $(PLATFORMS); do \
		echo "vet $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 $(GO) vet ./... || exit 1; \
	done

# Every fuzz target of the module for FUZZTIME.
fuzz:
	@hack/fuzz $(FUZZTIME)

# Beside kube-proxy, each in its own network namespace; needs root. See bench/README.md.
# bench takes about a quarter of an hour and fails if a requirement is not met; bench-full measures
# everything at all sizes and draws the pictures of docs/performance.md, in some hours.
BENCHFLAGS ?=
bench: deps
	cd bench && $(GO) build -o ../bin/bench . && ../bin/bench -kube-rounds 5 -sizes 1000,10000,50000 $(BENCHFLAGS)

bench-full: deps
	cd bench && $(GO) build -o ../bin/bench . && ../bin/bench -full -kube-rounds 5 -sizes 1000,2000,5000,10000,20000,50000 \
		-traffic-sizes 1000,10000 -svg ../docs/performance -json ../bin/bench.json $(BENCHFLAGS)

# The benchmarks of the packages, without kube-proxy.
benchmarks:
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

# A module of its own, for the sake of its dependencies.
check-bench:
	cd bench && $(GO) vet ./... && $(GO) test ./results ./score/table ./differential

ids:
	$(GO) run ./hack/ids

tidy:
	$(GO) mod tidy

# The library builds and passes its pure tests with the newest k8s.io/api, too.
newest-api:
	@hack/newest-api
