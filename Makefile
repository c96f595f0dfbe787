# KilnDB. `make run` and `make test` are all a user needs; the others are for those who work on it.
PORT ?= 5432
DATA ?= ./data
HOST ?= 127.0.0.1
ROUNDS ?= 10
SECONDS ?= 30
SCALE ?= 50
DURATION ?= 10

SETUP = ./scripts/setup.sh

.PHONY: run build test test-postgres crash history bench

run: build
	./target/release/kilndb serve -D $(DATA) -h $(HOST) -p $(PORT)

build:
	$(SETUP) build
	cargo build --release --locked -p kilndb-server

# Everything CI runs. One cargo profile for the tests and for the server they start.
test:
	$(SETUP) build test
	./scripts/test.sh

# The files of tests/sql, tests/isolation and tests/protocol against a PostgreSQL started in a temporary folder (PGBIN= names another one's bin folder).
test-postgres:
	$(SETUP) build test postgres
	cargo test --locked -p kilndb-lab --test sql --test isolation --test protocol -- --postgres

# The crash test alone, for as many rounds as wanted: make crash ROUNDS=100
crash:
	$(SETUP) build
	cargo build --locked -p kilndb-server
	KILNDB_CRASH_ROUNDS=$(ROUNDS) cargo test --locked -p kilndb-sim --test crash -- --nocapture

# Random transactions with kills, checked against what each isolation level promises, for so many seconds at each: make history SECONDS=60
history:
	$(SETUP) build
	cargo build --locked -p kilndb-server
	KILNDB_HISTORY_SECONDS=$(SECONDS) cargo test --locked -p kilndb-sim --test history -- --nocapture --test-threads=1 hold

bench: build
	$(SETUP) build test postgres
	cargo build --release --locked -p kilndb-lab
	./target/release/kilndb-lab bench --scale $(SCALE) --duration $(DURATION)
