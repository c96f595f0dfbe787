# KilnDB. `make run` and `make test` are all a user needs; the others are for those who work on it.
PORT ?= 5432
DATA ?= ./data
HOST ?= 127.0.0.1
ROUNDS ?= 10
IMAGES ?= 100
SECONDS ?= 30

SETUP = ./scripts/setup.sh
# `--name VALUE` where the variable NAME has one.
flag = $(if $($(call upper,$(1))),--$(1) $($(call upper,$(1))))
upper = $(shell echo $(1) | tr a-z A-Z)

.PHONY: run build test test-postgres test-clients differential memory conformance crash power history simulate runaway bench lab test-pages

run: build
	@./scripts/client-hint.sh
	$${CARGO_TARGET_DIR:-./target}/release/kilndb serve -D $(DATA) -h $(HOST) -p $(PORT)

build:
	$(SETUP) build
	cargo build --release --locked -p kilndb-server

# Everything CI runs. One cargo profile for the tests and for the server they start.
test:
	$(SETUP) build test
	./scripts/test.sh

# The files of tests/sql, tests/isolation and tests/protocol against a PostgreSQL started in a temporary folder, and dumps compared with its own
# (PGBIN= names the bin folder of another one, of version 18 or later).
test-postgres:
	$(SETUP) build test postgres
	cargo build --locked -p kilndb-server
	cargo test --locked -p kilndb-lab --test dump
	cargo test --locked -p kilndb-lab --test sql --test isolation --test protocol -- --postgres
	KILNDB_AUTHENTICATION_POSTGRES=1 cargo test --locked -p kilndb-lab --test authentication postgresql

# Clients that connect with SCRAM and TLS, and SQLAlchemy's and Django's own suites, against PostgreSQL 18 and KilnDB: docs/clients.md.
# ONLY=connections,sqlalchemy,django names some of them; QUICK=1 runs a small part of each suite; OUT= names a folder for outcomes and logs.
test-clients:
	$(SETUP) build test postgres clients
	./scripts/clients.sh
	cargo build --locked -p kilndb-server
	tools=$$(./scripts/tools-folder.sh) && python3 -B tests/clients/run.py --kilndb $${CARGO_TARGET_DIR:-target}/debug/kilndb \
		--tools "$$tools" --postgres "$${PGBIN:-$$tools/postgres-18/bin}" $(call flag,only) $(call flag,out) $(if $(QUICK),--quick)

# Joins, orders and groups made at random, against PostgreSQL and with enable_* settings off: SEEDS= times a hundred statements, from SEED on.
# Then roles, grants and statements made at random, QUESTIONS= for each seed: what is allowed is what PostgreSQL allows.
differential:
	$(SETUP) build test postgres
	cargo build --locked -p kilndb-server
	KILNDB_DIFFERENTIAL=1 KILNDB_SEED=$(or $(SEED),1) KILNDB_SEEDS=$(or $(SEEDS),20) cargo test --locked -p kilndb-lab --test differential --test expressions
	KILNDB_SEED=$(or $(SEED),1) KILNDB_SEEDS=$(or $(SEEDS),20) KILNDB_QUESTIONS=$(or $(QUESTIONS),2000) cargo test --locked -p kilndb-lab --test grants

# The files of tests/sql and queries made at random where each sort and hash has little memory: the results are those that there are with more.
memory:
	$(SETUP) build test postgres
	cargo build --locked -p kilndb-server
	for size in 64kB 1MB 4MB; do \
		KILNDB_SETTINGS="work_mem=$$size" KILNDB_DIFFERENTIAL=1 KILNDB_SEED=$(or $(SEED),1) KILNDB_SEEDS=$(or $(SEEDS),20) \
			cargo test --locked -p kilndb-lab --test sql --test differential || exit 1; \
	done

# PostgreSQL's own regression suite and isolation specs, held against tests/conformance/scores.json: MIRROR= names a git directory or
# work tree of PostgreSQL's repository with REL_18_STABLE. RECORD=1 writes higher scores.
conformance:
	$(SETUP) build test conformance
	cargo build --locked -p kilndb-server
	"$$(./scripts/tools-folder.sh)/python/bin/python" -B tests/conformance/run.py --mirror "$(MIRROR)" \
		--kilndb $${CARGO_TARGET_DIR:-target}/debug/kilndb $(if $(RECORD),--record)

# The tests with kill -9 alone, for as many rounds as wanted: make crash ROUNDS=100. TEST= names some of them.
TEST ?= crash definitions sequence partitions inverted global_unique tpcc
crash:
	$(SETUP) build
	cargo build --locked -p kilndb-server
	KILNDB_CRASH_ROUNDS=$(ROUNDS) cargo test --locked --no-fail-fast -p kilndb-sim $(TEST:%=--test %) -- --nocapture --test-threads=1

# Power failures on a simulated disk, at random operations: so many images in all, a third by each test: make power IMAGES=1000
# (SEED= says which comes first).
power:
	$(SETUP) build
	KILNDB_SEED=$(or $(SEED),1) KILNDB_SEEDS=$$((($(IMAGES) + 2) / 3)) cargo test --locked --no-fail-fast -p kilndb-storage \
		--test relation_pages --test cells --test old_versions_model -- power_fails

# Random transactions with kills, checked against what each isolation level promises, for so many seconds at each: make history SECONDS=60
history:
	$(SETUP) build
	cargo build --locked -p kilndb-server
	KILNDB_HISTORY_SECONDS=$(SECONDS) cargo test --locked -p kilndb-sim --test history -- --nocapture --test-threads=1 hold

# The whole engine in virtual time, by seeds: fresh ones for so many SECONDS, or from SEED on so many SEEDS (docs/simulation.md).
simulate:
	$(SETUP) build
	cargo build --locked --profile simulate -p kilndb-simulation
	$${CARGO_TARGET_DIR:-target}/simulate/kilndb-simulation $(call flag,seed) $(call flag,seeds) $(if $(SEED),,--seconds $(SECONDS)) \
		$(call flag,plant) $(if $(TWICE),--twice) $(if $(WITHOUT),--without "$(WITHOUT)") $(if $(SHRINK),--shrink)

# Statements that go deep, want much memory or take long: which of them end the server, go on after their time, or (BESIDE=8) keep others
# waiting. ONLY= names some of them. It may need 8 GB of memory.
runaway: build
	$(SETUP) build test conformance
	"$$(./scripts/tools-folder.sh)/python/bin/python" -B tests/runaway/run.py --kilndb $${CARGO_TARGET_DIR:-target}/release/kilndb $(call flag,only) $(call flag,beside)

# The lab's experiments that builds are compared by, on this build and on PostgreSQL, or on another build of KilnDB (BEFORE=its program);
# with BEFORE it fails if a row is slower. ONLY=hot-row,queue are some of them; PAIRS= rounds (3, with BEFORE 12), SECONDS= of a run (1),
# CLIENTS=8,64, ROWS= and SCALE= sizes of those that have them, RESTART=1 starts servers again between rounds, OUT= another folder.
# ONLY=plans are queries, their answers and the rows of their plans, ONLY=execution statements over much data: BOUNDS=1 fails if a figure is beyond
# its bound, which are for ROWS=10000000 SCALE=1. DOCUMENT=docs/benchmarks.md SECTION=execution writes the tables into that section.
# ONLY=online (SCALE=100) is TPC-B beside changes of its table, ANALYZE and a report; ONLY=access-control,strangers,tls is what grants, policies, strangers
# and encryption cost.
comma = ,
bench: build
	$(SETUP) build test $(if $(BEFORE),,postgres)
	$${CARGO_TARGET_DIR:-./target}/release/kilndb lab run $(or $(subst $(comma), ,$(ONLY)),bench) --seconds $(if $(findstring command,$(origin SECONDS)),$(SECONDS),1) --check \
		$(call flag,before) $(call flag,clients) $(call flag,rows) $(if $(PAIRS),--rounds $(PAIRS)) $(if $(SCALE),--set scale=$(SCALE)) \
		$(if $(RESTART),--restart) $(if $(BOUNDS),--bounds) --out $(or $(OUT),bench-results) --overwrite
	$(if $(DOCUMENT),$${CARGO_TARGET_DIR:-target}/release/kilndb lab report $(or $(OUT),bench-results) --markdown $(DOCUMENT) --section $(SECTION))

# The documents' experiments and the queue beside a held snapshot on this build and on PostgreSQL 18, and the report: LAB_SECONDS= and
# LAB_ROUNDS= for longer ones, OUT= for another folder. DOCUMENT=docs/benchmarks.md writes the tables into its section `documents`.
lab: build
	$(SETUP) build test postgres
	$${CARGO_TARGET_DIR:-target}/release/kilndb lab run documents --seconds $(or $(LAB_SECONDS),1) --rounds $(or $(LAB_ROUNDS),3) \
		--out $(or $(OUT),lab-results) --overwrite
	$(if $(DOCUMENT),$${CARGO_TARGET_DIR:-target}/release/kilndb lab report $(or $(OUT),lab-results) --markdown $(DOCUMENT) --section documents)

# The report in a browser, the console with a real Prometheus, and counters of Redis and MariaDB, which want these packages (their services
# are not used).
test-pages:
	$(SETUP) build test pages
	cargo build --locked -p kilndb-server
	cargo test --locked -p kilndb-lab --lib --test report --test console -- --include-ignored
