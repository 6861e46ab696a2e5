# Every target sets up what it needs: see scripts/setup.sh.

# The main module, and those of the suites and the examples, whose dependencies are large.
LINTED := . test test/kubernetes examples examples/edge

DATA_DIR ?= default.sqlstore
LISTEN ?= http://127.0.0.1:2379
CONSOLE ?= http://127.0.0.1:2382
SERVE_FLAGS ?=
BENCH_FLAGS ?=
TEST_FLAGS ?=
FUZZ_TIME ?= 30s
IMAGE ?= sqlstore:dev
PACKAGE_VERSION ?= $(shell sed -n 's/^var Version = "\(.*\)"$$/\1/p' server.go)
LINTER := bin/golangci-lint
GOTESTSUM := bin/gotestsum
RELEASER := bin/goreleaser
SBOM := bin/cyclonedx-gomod
# One package at a time: their servers share the machine's processors and disk.
HEAVY_TEST = go test -count=1 -p 1

# The database that a suite runs over, of those that must pass over each: sqlite, or replicas that share a Postgres,
# directly or through a PgBouncer in transaction mode (test/support/datastore).
DATASTORE ?= sqlite
REPLICAS ?= 3
ON_POSTGRES = SQLSTORE_TEST_DATASTORE=postgres SQLSTORE_TEST_REPLICAS=$(REPLICAS)
OVER_sqlite = env
OVER_postgres = env $(ON_POSTGRES)
OVER_pgbouncer = env $(ON_POSTGRES) SQLSTORE_TEST_PGBOUNCER=1
OVER = $(or $(OVER_$(DATASTORE)),$(error DATASTORE=$(DATASTORE): want sqlite, postgres or pgbouncer))
SETUP_sqlite = setup
SETUP_postgres = setup-postgres
SETUP_pgbouncer = setup-pgbouncer

# A program with the race detector sleeps for a second at its end by default: each test, and each program it starts.
export GORACE ?= atexit_sleep_ms=10

# With RERUN=2 a test that fails runs again alone, up to twice; RERUN_REPORT names a directory for the list of such
# tests. A data race fails at once. go_test PACKAGES,FLAGS
RERUN ?=
RERUN_REPORT ?= $(CURDIR)/bin
go_test = $(if $(RERUN),$(CURDIR)/$(GOTESTSUM) --format pkgname-and-test-fails --format-icons text \
	--hide-summary skipped --packages='$(1)' --rerun-fails=$(RERUN) --rerun-fails-run-root-test \
	--rerun-fails-abort-on-data-race --rerun-fails-report=$(RERUN_REPORT)/rerun-$@-$$$$.txt -- $(2),\
	go test $(2) $(1))

.DEFAULT_GOAL := help

.PHONY: help
help: ## print the targets
	@awk -F ':.*## ' '/^[a-z0-9 -]+:.*## / { printf "make %-22s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup:
	@scripts/setup.sh

# On Linux, the crash tests use it to make syncs fail.
.PHONY: setup-strace
setup-strace:
	@scripts/setup.sh $$(test "$$(uname)" != Linux || echo strace)

# The tests run them, for example in the commands of the documentation.
.PHONY: setup-tools
setup-tools:
	@scripts/setup.sh sqlite3 curl openssl

# Makes sure that the tests can start a Postgres: see internal/testing/pgserver.
.PHONY: setup-postgres
setup-postgres:
	@scripts/setup.sh
	@scripts/setup-postgres.sh

# Makes sure that the tests can start a MariaDB: see test/moves/server.
.PHONY: setup-mariadb
setup-mariadb: setup
	@scripts/setup-mariadb.sh

# The restores need Postgres' programs, pgBackRest, and a program that changes the user.
.PHONY: setup-pitr
setup-pitr: setup
	@scripts/setup-postgres.sh programs
	@scripts/setup.sh pgbackrest
	@command -v setpriv >/dev/null || scripts/setup.sh util-linux

# The power cuts need Postgres' programs, whose files they put on a disk of their own.
.PHONY: setup-powercut
setup-powercut: setup
	@scripts/setup-postgres.sh programs

# Makes sure that the tests can start a PgBouncer: the machine's, or Debian's in a container
# (internal/testing/pgbouncer).
.PHONY: setup-pgbouncer
setup-pgbouncer: setup-postgres
	@timeout 20 docker version >/dev/null 2>&1 || scripts/setup.sh pgbouncer

# Static programs of both architectures, from the C compilers of Debian.
.PHONY: setup-packages
setup-packages: setup
	@scripts/setup-packages.sh

# The suite also installs packages in a system of their own, and runs programs of arm64.
.PHONY: setup-packages-suite
setup-packages-suite: setup setup-tools
	@scripts/setup-packages.sh suite

.PHONY: run
run: build ## serve on SQLite: LISTEN=http://127.0.0.1:2379, CONSOLE=http://127.0.0.1:2382, DATA_DIR=default.sqlstore
	exec bin/sqlstore serve --data-dir $(DATA_DIR) --listen-client-urls $(LISTEN) \
		--advertise-client-urls $(LISTEN) --listen-console-urls $(CONSOLE) $(SERVE_FLAGS)

.PHONY: build
build: setup ## build bin/sqlstore
	go build -o bin/sqlstore ./cmd/sqlstore

# The version that the tests use. go install refuses it because of its module's replace directives.
.PHONY: etcdctl etcdutl
etcdctl etcdutl: setup ## build bin/etcdctl and bin/etcdutl, etcd's command line tools
	cd test && go build -o $(CURDIR)/bin/$@ go.etcd.io/etcd/$@/v3

# Kubernetes' own build sets its version in the same way: without one, kube-apiserver takes itself for v0.0.0.
KUBERNETES_VERSION = $(shell cd examples/edge && go list -m -f '{{.Version}}' k8s.io/kubernetes)
KUBERNETES_PARTS = $(subst ., ,$(KUBERNETES_VERSION:v%=%))
EDGE_VERSION = $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
	-X $(package).gitVersion=$(KUBERNETES_VERSION) -X $(package).gitMajor=$(word 1,$(KUBERNETES_PARTS)) \
	-X $(package).gitMinor=$(word 2,$(KUBERNETES_PARTS)))
EDGE_FLAGS ?=

.PHONY: edge-binary
edge-binary: setup
	go build -C examples/edge -p 2 -ldflags '-s -w $(EDGE_VERSION)' -o $(CURDIR)/bin/edge .

.PHONY: edge
edge: edge-binary ## a Kubernetes control plane in one process: examples/edge (EDGE_FLAGS='--data-dir DIR')
	exec bin/edge $(EDGE_FLAGS)

.PHONY: image
image: setup ## build the container image IMAGE=sqlstore:dev
	scripts/image.sh $(IMAGE)

.PHONY: packages
packages: setup-packages $(RELEASER) $(SBOM) ## build .deb, .rpm, archives, SBOMs and checksums of this commit in dist/
	PACKAGE_VERSION=$(PACKAGE_VERSION) PACKAGE_MODIFIED="$$(git status --porcelain | head -n 1)" \
		PATH="$(CURDIR)/bin:$$PATH" $(RELEASER) release --snapshot --clean

$(RELEASER): tools/release/go.mod tools/release/go.sum
	@scripts/setup.sh
	go build -C tools/release -o $(CURDIR)/$@ github.com/goreleaser/goreleaser/v2

$(SBOM): tools/release/go.mod tools/release/go.sum
	@scripts/setup.sh
	go build -C tools/release -o $(CURDIR)/$@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

$(GOTESTSUM): tools/go.mod tools/go.sum
	@scripts/setup.sh
	go build -C tools -o $(CURDIR)/$@ gotest.tools/gotestsum

# The package that takes longest begins first.
TESTED = ./internal/store ./...

.PHONY: test
test: setup-tools setup-postgres $(if $(RERUN),$(GOTESTSUM)) ## the main module's tests, with the race detector (TEST_FLAGS=...)
	$(call go_test,$(TESTED),-race -p 3 -timeout 30m $(TEST_FLAGS))

# Fixed seeds, so that the same tree gives the same result.
SMOKE_FLAGS = -count=1 -p 1 -timeout 15m

.PHONY: smoke
smoke: ## the real binary over DATASTORE=sqlite|postgres: etcd side by side, etcdctl, SIGKILL, Kubernetes' storage
smoke: $(SETUP_$(DATASTORE)) setup-tools $(if $(RERUN),$(GOTESTSUM))
	cd test && SQLSTORE_TEST_SEED=1 SQLSTORE_TEST_LENGTH=3 $(OVER) $(call go_test,./etcd/sidebyside ./etcd/clients \
		./etcd/crash,$(SMOKE_FLAGS) -run '^(TestSideBySide|TestErrors|TestSameOutput|TestWatch|TestKill)$$')
	cd test && $(call go_test,./support/...,$(SMOKE_FLAGS))
	cd test/kubernetes && $(OVER) $(call go_test,./storage,$(SMOKE_FLAGS) -run '^(TestStore|TestComplete)$$')

.PHONY: docs
docs: setup ## update the flags in docs/configuration.md and packaging/sqlstore.yaml.example
	go test -count=1 ./cmd/sqlstore -run 'TestConfigurationPage|TestPackagedFile' -update

# One version after the other. Without a container engine, only the version of the machine's binaries.
POSTGRES_VERSIONS ?= 13 15 17 18

.PHONY: test-postgres-versions
test-postgres-versions: setup-postgres ## the Postgres backend's tests on POSTGRES_VERSIONS="13 15 17 18"
	scripts/test-postgres-versions.sh $(POSTGRES_VERSIONS)

.PHONY: race
race: test ## the same as test

.PHONY: fuzz
fuzz: setup ## each fuzz test for FUZZ_TIME=30s
	scripts/fuzz.sh $(FUZZ_TIME)

.PHONY: lint
lint: $(LINTER) ## golangci-lint over the packages that differ from the main branch (LINT_BASE=...)
	@scripts/lint.sh $(LINTED)

.PHONY: lint-all
lint-all: $(LINTER) ## the same over every package of every module, as continuous integration does
	@LINT_ALL=1 scripts/lint.sh $(LINTED)
	@for patch in test/simulation/testdata/*.patch; do git -c safe.directory='*' apply --check "$$patch" || exit 1; done

VULNCHECK := bin/govulncheck

.PHONY: vuln
vuln: $(VULNCHECK) ## govulncheck over every module; asks https://vuln.go.dev
	for dir in $(LINTED); do echo "govulncheck $$dir" && $(VULNCHECK) -C $$dir ./... || exit 1; done

$(VULNCHECK): tools/go.mod tools/go.sum
	@scripts/setup.sh
	go build -C tools -o $(CURDIR)/$@ golang.org/x/vuln/cmd/govulncheck

.PHONY: fmt
fmt: $(LINTER) ## format every module's code
	for dir in $(LINTED); do \
		(cd $$dir && $(CURDIR)/$(LINTER) fmt --config $(CURDIR)/.golangci.yaml ./...) || exit 1; \
	done

$(LINTER): tools/go.mod tools/go.sum
	@scripts/setup.sh
	go build -C tools -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: nightly
nightly: ## every heavy suite over all databases with random seeds; SUITES="powercut bitrot" runs some, SEED= repeats
	scripts/nightly.sh $(SUITES)

.PHONY: e2e-etcd
e2e-etcd: ## compare with a real etcd; etcd's tools, hostile clients and crashes (DATASTORE=sqlite|postgres|pgbouncer)
e2e-etcd: setup-strace setup-tools setup-postgres $(SETUP_$(DATASTORE))
	cd test && $(OVER) $(HEAVY_TEST) -timeout 25m $(TEST_FLAGS) ./etcd/...

.PHONY: e2e-restapi
e2e-restapi: setup-postgres ## the list/watch API over HTTP/JSON, and its OpenAPI description
	cd test && $(HEAVY_TEST) -timeout 25m $(TEST_FLAGS) ./restapi/...

.PHONY: e2e-kubestorage
e2e-kubestorage: $(SETUP_$(DATASTORE)) ## Kubernetes' own storage tests (DATASTORE=sqlite|postgres|pgbouncer)
	cd test/kubernetes && $(OVER) $(HEAVY_TEST) -timeout 25m $(TEST_FLAGS) ./storage

.PHONY: kubernetes
kubernetes: setup-tools ## build Kubernetes' programs for the tests: minutes, once
	cd test && $(HEAVY_TEST) -timeout 45m ./programs

# Two replicas, so that one continues when the other is killed.
.PHONY: e2e-kubeapiserver
e2e-kubeapiserver: ## a real kube-apiserver, kube-controller-manager and kubectl (DATASTORE=sqlite|postgres|pgbouncer)
e2e-kubeapiserver: REPLICAS = 2
e2e-kubeapiserver: kubernetes $(SETUP_$(DATASTORE))
	cd test/kubernetes && $(OVER) $(HEAVY_TEST) -timeout 25m $(TEST_FLAGS) ./apiserver/...

.PHONY: e2e-powercut
e2e-powercut: setup-powercut ## power cuts that lose and tear what is not synced; needs Linux, root and /dev/fuse
	cd test && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./faults/powercut/...

.PHONY: e2e-bitrot
e2e-bitrot: setup-powercut ## bits that flip in the files of SQLite and Postgres; every answer is correct or an error
	cd test && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./faults/bitrot/...

.PHONY: e2e-simulation
e2e-simulation: setup ## replicas over a simulated database in virtual time, with faults that follow from a seed
	cd test && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./simulation/...

.PHONY: e2e-launchers
e2e-launchers: kubernetes ## programs that start etcd start sqlstore instead; needs Docker
	cd test/kubernetes && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./launchers/...

.PHONY: e2e-deploy
e2e-deploy: kubernetes setup-postgres ## the Helm chart on a kube-apiserver, the static Pod, the files for k3s, k0s, kubeadm
	cd test/kubernetes && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./deploy

.PHONY: e2e-console
e2e-console: kubernetes setup-postgres ## the console's pages in Chromium, on a store that a kube-apiserver has filled
	@command -v chromium >/dev/null || scripts/setup.sh chromium
	cd test/kubernetes && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./console

.PHONY: pictures
pictures: ## the pictures in docs/console.md, as the console's tests see the pages
	rm -rf .cache/pictures
	SQLSTORE_TEST_KEEP=$(CURDIR)/.cache/pictures $(MAKE) e2e-console
	cp .cache/pictures/overview-light.png docs/console/overview.png
	cp .cache/pictures/registry-light.png docs/console/browse.png
	cp .cache/pictures/object-light.png docs/console/object.png
	cp .cache/pictures/top-counted-light.png docs/console/top.png

.PHONY: e2e-examples
e2e-examples: setup-postgres kubernetes edge-binary image ## the examples, built and run; needs Docker
	cd examples && SQLSTORE_IMAGE=$(IMAGE) $(HEAVY_TEST) -timeout 25m $(TEST_FLAGS) ./...
	cd examples/edge && $(HEAVY_TEST) -timeout 25m $(TEST_FLAGS) ./...
	cd test/kubernetes && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./edge

.PHONY: e2e-etcdtests
e2e-etcdtests: setup-tools setup-postgres ## etcd's own end-to-end tests, with sqlstore as the program etcd
	cd test && $(HEAVY_TEST) -timeout 3h -v $(TEST_FLAGS) ./etcdtests

.PHONY: e2e-traces
e2e-traces: setup-postgres ## traces that a collector of OpenTelemetry receives, over SQLite and Postgres
	cd test && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./traces/...

# Both programs are in the package of Prometheus.
.PHONY: e2e-monitoring
e2e-monitoring: setup-postgres ## Prometheus' rules and the dashboard, against the metrics of a server under load
	@command -v prometheus >/dev/null && command -v promtool >/dev/null || scripts/setup.sh prometheus
	cd test && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./monitoring/...

.PHONY: e2e-moves
e2e-moves: setup-postgres setup-mariadb ## moves from kine's databases and back, with data that kine has written
	cd test && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./moves/...

.PHONY: e2e-pitr
e2e-pitr: setup-pitr ## restores to points in time, of Postgres by pgBackRest and of SQLite by Litestream
	cd test && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./pitr/...

.PHONY: e2e-backups
e2e-backups: setup-postgres ## continuous backups: uploads cut in S3, servers killed, replicas that take over
	cd test && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./backups/...

.PHONY: e2e-packages
e2e-packages: ## the packages: built twice, installed, upgraded, removed; the unit; arm64; needs Linux, root and apt-get
e2e-packages: setup-packages-suite $(RELEASER) $(SBOM)
	cd test && $(HEAVY_TEST) -timeout 50m -v $(TEST_FLAGS) ./packages/...

.PHONY: e2e-cluster
e2e-cluster: setup ## containers as hosts: faults under load, and how long they last; needs Docker
	cd test && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./faults/cluster/...

# Newer engines include Docker Compose, which the test of compose.yaml needs.
.PHONY: e2e-patroni
e2e-patroni: setup ## over Patroni's Postgres servers, with sqlstore as Patroni's store; needs Docker
	@scripts/setup.sh $$(docker compose version >/dev/null 2>&1 || echo docker-compose)
	cd test && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./faults/patroni ./faults/patroni/compose

.PHONY: e2e-chaos
e2e-chaos: setup ## random faults under load over Patroni's Postgres; needs Docker
	cd test && $(HEAVY_TEST) -timeout 25m -v $(TEST_FLAGS) ./faults/patroni/chaos/...

.PHONY: bench
bench: setup ## compare with etcd, kine and a bare gRPC server (BENCH_FLAGS=-help lists the flags)
	cd test/bench && go run . $(BENCH_FLAGS)

# The soak takes hours; make accepts other numbers.
SOAK_KILLS ?= 2000
SOAK_RUNS ?= 100
SOAK_CUTS ?= 5000
SOAK_FLIPS ?= 5000
SOAK_OBJECTS ?= 50000
SOAK_NODES ?= 1000
SOAK_CLUSTER_MINUTES ?= 120
SOAK_SIMULATION_MINUTES ?= 120
SOAK_CHAOS_MINUTES ?= 180
SOAK_WRITES ?= 3000
SOAK_BENCH_FLAGS ?= -objects 20000,1000000

.PHONY: soak
soak: ## the heavy suites and the comparison at full length: hours
soak: setup-strace setup-tools setup-pgbouncer setup-mariadb setup-powercut setup-pitr kubernetes
	$(MAKE) test-postgres-versions
	SQLSTORE_TEST_LENGTH=60 $(HEAVY_TEST) -timeout 1h -v -run TestReplicasShareTheClock ./internal/store
	SQLSTORE_TEST_LENGTH=1000000 $(HEAVY_TEST) -timeout 1h -v -run TestManyLeases ./internal/store
	cd test && for over in "$(OVER_sqlite)" "$(OVER_postgres)" "$(OVER_pgbouncer)"; do \
		$$over SQLSTORE_TEST_LENGTH=$(SOAK_KILLS) $(HEAVY_TEST) -timeout 24h -run TestKill ./etcd/crash && \
		$$over SQLSTORE_TEST_LENGTH=$(SOAK_RUNS) SQLSTORE_TEST_WHOLE=1 $(HEAVY_TEST) -timeout 24h ./etcd/... || exit 1; \
	done
	$(MAKE) e2e-restapi
	cd test/kubernetes && $(HEAVY_TEST) -timeout 4h -count=5 ./storage
	cd test/kubernetes && for replicas in 1 3; do \
		$(OVER_postgres) SQLSTORE_TEST_REPLICAS=$$replicas $(HEAVY_TEST) -timeout 4h -count=5 ./storage && \
		$(OVER_pgbouncer) SQLSTORE_TEST_REPLICAS=$$replicas $(HEAVY_TEST) -timeout 4h -count=5 ./storage || exit 1; \
	done
	cd test/kubernetes && for over in "$(OVER_sqlite)" "$(OVER_postgres)" "$(OVER_pgbouncer)"; do \
		$$over SQLSTORE_TEST_REPLICAS=2 SQLSTORE_TEST_LENGTH=$(SOAK_OBJECTS) \
			$(HEAVY_TEST) -timeout 8h ./apiserver/... || exit 1; \
	done
	cd test && SQLSTORE_TEST_LENGTH=$(SOAK_CUTS) $(HEAVY_TEST) -timeout 24h -v ./faults/powercut/...
	cd test && SQLSTORE_TEST_LENGTH=$(SOAK_FLIPS) $(HEAVY_TEST) -timeout 24h -v ./faults/bitrot/...
	cd test && SQLSTORE_TEST_LENGTH=$(SOAK_SIMULATION_MINUTES) SQLSTORE_TEST_SEED=$$(date +%s) SQLSTORE_TEST_WHOLE=1 \
		$(HEAVY_TEST) -timeout 24h -v ./simulation/...
	cd test/kubernetes && SQLSTORE_TEST_LENGTH=$(SOAK_NODES) SQLSTORE_TEST_WHOLE=1 $(HEAVY_TEST) -timeout 4h -v \
		./launchers/...
	$(MAKE) e2e-deploy
	$(MAKE) e2e-console
	SQLSTORE_TEST_WHOLE=1 $(MAKE) e2e-etcdtests
	$(MAKE) e2e-traces
	$(MAKE) e2e-monitoring
	SQLSTORE_TEST_WHOLE=1 $(MAKE) e2e-packages
	cd test && SQLSTORE_TEST_LENGTH=$(SOAK_WRITES) $(HEAVY_TEST) -timeout 4h -v -count=5 ./moves/...
	cd test && $(HEAVY_TEST) -timeout 4h -v -count=5 ./pitr/...
	cd test && $(HEAVY_TEST) -timeout 4h -v -count=20 ./backups/...
	cd test && SQLSTORE_TEST_LENGTH=$(SOAK_CLUSTER_MINUTES) $(HEAVY_TEST) -timeout 24h -v ./faults/cluster/...
	$(MAKE) e2e-patroni
	cd test && SQLSTORE_TEST_LENGTH=$(SOAK_CHAOS_MINUTES) $(HEAVY_TEST) -timeout 24h -v ./faults/patroni/chaos/...
	$(MAKE) bench BENCH_FLAGS="$(SOAK_BENCH_FLAGS)"

.PHONY: ci
ci: ## the gate: lint, tests and short smokes, as continuous integration runs them
	.ci/run

.PHONY: clean
clean: ## remove build output; data stays
	rm -rf bin dist
