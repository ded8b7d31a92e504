# `make test` is what CI runs: it sets up all it needs and passes on a machine with Rust, a C compiler, Node and Python.
# Longer runs have targets of their own; a short form of each is part of `make test`.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.PHONY: approvals audit audit-million telemetry telemetry-traces build-cost orderfile orderfile-check faults contracts recording redteam redteam-short fuzz fuzz-short test lint unit doc oidc interop interop-full conformance conformance-table conformance-client conformance-client-table hygiene bench bench-smoke bench-page syscalls syscalls-short chaos chaos-short \
	chaos-checker chaos-trial chaos-unfenced chaos-million model ledger-size ledger-size-short console console-pictures console-size identity-tables gate-cost gate-cost-check \
	demo deny clean

test: lint unit faults gate-cost-check doc oidc approvals audit telemetry telemetry-traces contracts interop conformance hygiene redteam-short fuzz-short chaos-checker chaos-short ledger-size-short bench-smoke syscalls-short console deny
	@echo "all of make test passed"
	@trials/skipped

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

# nextest runs every test in a process of its own; without it cargo's runner does the same tests. Every black-box test verifies the log of its
# gateways at its end: no test may leave one that does not hold.
unit: export SERVANDA_VERIFY_LOGS = 1
unit:
	trials/need-postgres
	trials/skipped --begin
	if cargo nextest --version >/dev/null 2>&1; then cargo nextest run --workspace; else cargo test --workspace --lib --bins --tests; fi
	@trials/skipped

# Tests of the points at which a process is made to fail or die. The feature is in no other build, so they have a run of their own.
FAULTS := -p servanda-contract -p servanda-ledger --features servanda-contract/faults,servanda-ledger/faults
faults:
	trials/need-postgres
	if cargo nextest --version >/dev/null 2>&1; then cargo nextest run $(FAULTS) fault; else cargo test $(FAULTS) --lib fault; fi

doc:
	cargo test --doc -p servanda-gates --quiet

# Real servers and clients from npm and PyPI, through the gateway and directly: the answers must be equal.
interop: .tools/ready
	cargo build -p servanda
	trials/interop/run --quick --servanda target/debug/servanda

# An authorization server of our own and the official Python client, which finds it by itself: token, call, challenge, step-up.
oidc: .tools/ready
	cargo build -p servanda
	trials/oidc/run --servanda target/debug/servanda

# Calls that wait for people, with the official clients of both eras in TypeScript and Python: as a task, by the ticket's page, and plain.
approvals: .tools/ready
	cargo build -p servanda
	trials/approvals/run --servanda target/debug/servanda

# The verifiable log before an auditor that we did not write: Go's own x/mod/sumdb, from PyPI.
audit: .tools/ready
	cargo build -p servanda
	trials/audit/run --servanda target/debug/servanda

# The same before a stored log of a million leaves, with a release build: a quarter of an hour, two gigabytes.
audit-million: .tools/ready
	cargo build --release -p servanda
	cargo build --release -p servanda-ledger --example fill
	trials/audit/run --servanda target/release/servanda --fill target/release/examples/fill --stored $(or $(KEYS),250000)

# Linked traces from an agent through the gateway to the sample upstream, at a receiver built on the official definitions of OTLP.
telemetry-traces: .tools/ready
	cargo build -p servanda
	.tools/otlp/bin/python trials/telemetry/traces --servanda target/debug/servanda

# The figures of a gateway before a monitor that we did not write: Debian's promtool and prometheus.
telemetry:
	trials/need-prometheus
	cargo build -p servanda
	trials/telemetry/run --servanda target/debug/servanda

# What `init` writes for ten real servers: lines a tool, and whole contracts by the published schema.
contracts: .tools/ready
	cargo build -p servanda
	.tools/py1/bin/python trials/contracts/run --servanda target/debug/servanda

interop-full: .tools/ready
	cargo build --release
	trials/interop/run --servanda target/release/servanda

.tools/ready: trials/setup $(wildcard trials/pins/* trials/pins/*/*)
	trials/setup
	@touch .tools/ready

# The official conformance suite, directly and through the gateway, in all cells of client era and server eras. What no
# gateway can carry over is listed in expected.txt; anything else that fails, fails here.
conformance: .tools/ready
	cargo build -p servanda
	cargo build --manifest-path trials/conformance/fixture/Cargo.toml
	trials/conformance/run --servanda target/debug/servanda --cells --expected trials/conformance/expected.txt
	trials/conformance/run-client --servanda target/debug/servanda

# The other side: the suite's client scenarios, authorization above all, with Servanda as the client.
conformance-client: .tools/ready
	cargo build -p servanda
	trials/conformance/run-client --servanda target/debug/servanda

conformance-client-table: .tools/ready
	cargo build -p servanda
	trials/conformance/run-client --servanda target/debug/servanda --markdown docs/conformance-client.md

# The same, kept as a table.
conformance-table: .tools/ready
	cargo build -p servanda
	cargo build --manifest-path trials/conformance/fixture/Cargo.toml
	trials/conformance/run --servanda target/debug/servanda --cells --markdown docs/conformance.md || true

# The console's pages in Debian's Chromium: signing in, deciding, keyboard, without JavaScript, narrow, and axe in light and dark. About half a
# minute. `SHOTS=folder` keeps a picture of every page.
console: .tools/ready
	cargo build -p servanda-console --example console_fixture
	cargo build -p servanda
	trials/console/run --fixture target/debug/examples/console_fixture --servanda target/debug/servanda $(if $(SHOTS),--screenshots $(SHOTS))

# A million calls and ten thousand open tickets in a ledger, and how long the server takes for every page and filter. Takes a few minutes and two
# gigabytes of a temporary folder, which it removes. `STORE=postgresql` for a cluster of its own, `BUILD=debug` for a build that exists already,
# `CALLS=number` for fewer. The figures go to docs/console.md.
console-size: CONSOLE_SIZE_BUILD := $(if $(filter debug,$(BUILD)),debug,release)
console-size:
	$(if $(filter postgresql,$(STORE)),trials/need-postgres)
	cargo build $(if $(filter release,$(CONSOLE_SIZE_BUILD)),--release) -p servanda-console --example console_size
	trials/console/size --example target/$(CONSOLE_SIZE_BUILD)/examples/console_size --store $(or $(STORE),sqlite) --calls $(or $(CALLS),1000000)

# The pictures of docs/console.md, made by the same run.
CONSOLE_PICTURES := overview inbox ticket bidirectional transfer-in-part ticket-passkey review call-refused effect tool-changed narrow-ticket grant-form grant
console-pictures:
	$(MAKE) console SHOTS=target/console-pictures
	mkdir -p docs/console
	for picture in $(CONSOLE_PICTURES); do cp target/console-pictures/$$picture.png docs/console/; done

# Clients come and go a thousand times, and nothing of them is left.
hygiene:
	cargo build -p servanda
	trials/hygiene/run --servanda target/debug/servanda

# Attacks, each printed with what it tried and what happened. The short form is part of `make test`. With SERVANDA_REDTEAM_SUITES, a folder
# made by `trials/redteam/suites`, the databases' own regression suites and GTFOBins are tried too.
redteam:
	cargo build -p servanda
	trials/need-postgres
	trials/redteam/run --servanda target/debug/servanda

redteam-short:
	cargo build -p servanda
	trials/need-postgres
	trials/redteam/run --servanda target/debug/servanda --texts 800 --short

# Random and repeated texts for every reader of what agents, servers and operators send: `make fuzz INPUTS=100000 SEED=7`.
# A person copies the table to docs/reliability.md.
fuzz:
	cargo build --release -p servanda-fuzz
	target/release/servanda-fuzz --inputs $(or $(INPUTS),10000000) $(if $(SEED),--seed $(SEED))

# The same for a few seconds for each reader, in a debug build, which uses more stack. Time is not judged there.
fuzz-short:
	cargo build -p servanda-fuzz
	target/debug/servanda-fuzz --seconds 3 --seed 1

# A short load, for errors only: figures of a debug build on a busy machine mean nothing.
bench-smoke:
	cargo build -p servanda
	cargo build --manifest-path trials/bench/Cargo.toml
	trials/bench/smoke target/debug/servanda trials/bench/target/debug

# Everything side by side in one run of about half an hour: `make bench`, `make bench QUICK=1` for two minutes. Peers are measured where a
# variable has the path of their binary (trials/bench/peers). Writes target/bench; `make bench-page` puts its tables and plots into docs/performance.
bench: orderfile-check
	cargo build --release -p servanda-ledger --example durable
	cargo build --release
	cargo build --release --manifest-path trials/bench/Cargo.toml
	trials/bench/run --servanda target/release/servanda --binaries trials/bench/target/release --durable target/release/examples/durable \
		$(if $(QUICK),--quick)

bench-page:
	python3 trials/bench/page.py target/bench/run.json docs

# System calls for one read, which a debug build makes as well. The bounds are loose enough for a slow machine, where more of the ledger's
# commits fall on one call; a release build on a quiet one makes fewer (docs/performance.md).
SYSCALLS_MAX ?= --max 1=20 --max 32=12
syscalls:
	trials/need-strace
	cargo build -p servanda
	cargo build --manifest-path trials/bench/Cargo.toml
	trials/syscalls --servanda target/debug/servanda --binaries trials/bench/target/debug $(SYSCALLS_MAX)

# The same with fewer calls, as a part of `make test`.
syscalls-short:
	trials/need-strace
	cargo build -p servanda
	cargo build --manifest-path trials/bench/Cargo.toml
	trials/syscalls --servanda target/debug/servanda --binaries trials/bench/target/debug --calls 800 $(SYSCALLS_MAX)

# The order in which the linker places functions (crates/servanda/build.rs), from a run in callgrind. After changes of the call path, of
# dependencies or of the compiler; `make bench` says how much of it still holds. The names are those of `cargo build --release`: a build of
# several packages at once has other features, and so other names.
SYMBOLS := target/release/servanda-symbols
orderfile: $(SYMBOLS)
	trials/need-valgrind
	cargo build --release --manifest-path trials/bench/Cargo.toml
	trials/orderfile --servanda $(SYMBOLS) --binaries trials/bench/target/release --out crates/servanda/orderfile.txt

orderfile-check: $(SYMBOLS)
	trials/orderfile --servanda $(SYMBOLS) --binaries trials/bench/target/release --out crates/servanda/orderfile.txt --check

# The release build with the names of its functions.
.PHONY: $(SYMBOLS)
$(SYMBOLS):
	cargo rustc --release -p servanda --bin servanda -- -C strip=none
	cp target/release/servanda $(SYMBOLS)

# What the first release build costs, crate by crate. From nothing, so as long as a first build takes; the table goes to docs/dependencies.md by hand.
build-cost:
	trials/build-cost

# Instructions and allocations of a call: at the gates, what of them is gate 6, and of the whole call from the door to the record. Counted,
# so the machine may be busy. The table of the gates goes to docs/behavioural-identity.md by hand.
gate-cost:
	cargo build --release --manifest-path trials/gate-cost/Cargo.toml --target-dir target
	target/release/gate-cost

# What is said there about allocations, and the golden figures of a whole call (trials/gate-cost/src/whole_call/golden.rs), held against a
# debug build; it shares what the other targets have built. A call that became slower fails here, and so does one that became faster until
# the golden figures say so. The whole calls take 20 to 50 s in callgrind.
gate-cost-check:
	trials/need-valgrind
	cargo test --quiet --manifest-path trials/gate-cost/Cargo.toml --target-dir target

# Real processes killed, paused, starved of disk and time; PostgreSQL crashed; an upstream that counts its effects. The release
# binary with its failpoints: the whole matrix, the named trials in their long form (owners may be silent for 15 s, as at
# users'), thirty minutes of random schedules and five with a budget on each store: the schedules alone are 70 minutes.
chaos:
	cargo build --release -p servanda --features faults
	cp target/release/servanda target/release/servanda-faults
	trials/chaos/run --servanda target/release/servanda-faults --matrix --trial all --long --random 1800 --budget 300

# The same in a few minutes. A copy, because other targets build the same file without failpoints.
chaos-short:
	cargo build -p servanda --features faults
	cp target/debug/servanda target/debug/servanda-faults
	trials/chaos/run --servanda target/debug/servanda-faults --matrix --trial all --random 10 --budget 10

# One named trial alone, in its short form: `make chaos-trial TRIAL=away STORE=sqlite`; `LONG=1` for the long form.
chaos-trial:
	cargo build -p servanda --features faults
	cp target/debug/servanda target/debug/servanda-faults
	trials/chaos/run --servanda target/debug/servanda-faults --trial $(or $(TRIAL),all) --store $(or $(STORE),both) $(if $(LONG),--long)

# The history checker finds the lies that its tests plant.
chaos-checker:
	cargo test --quiet --manifest-path trials/chaos/Cargo.toml

# A check that cannot fail is none: without the fence, effects must be found to happen more than once.
chaos-unfenced:
	cargo build -p servanda --features faults,unfenced
	cp target/debug/servanda target/debug/servanda-unfenced
	trials/chaos/run --servanda target/debug/servanda-unfenced --matrix --random 20 --expect-violations

# The protocol of effects, explored exhaustively within stated bounds, and every rule taken out once; a small bound is among the
# unit tests.
model:
	cargo run --release -p model

# A million keys of class N under faults; takes hours. The figures go to docs/reliability.md.
chaos-million:
	cargo build --release -p servanda --features faults
	cp target/release/servanda target/release/servanda-faults
	CHAOS_PROFILE=release trials/chaos/run --servanda target/release/servanda-faults --calls 1000000 --class n --clients 32 \
		--store $(or $(STORE),sqlite)

# A ledger with two million keys beside an empty one: what an idle gateway burns, how long reads take, and whether the file stops growing
# under retention. Takes a quarter of an hour and eight gigabytes of disk. The figures go to docs/retention.md.
ledger-size:
	cargo build --release -p servanda
	cargo build --release -p servanda-ledger --example fill
	trials/growth/run --servanda target/release/servanda --fill target/release/examples/fill --keys $(or $(KEYS),2000000)

# The same with a debug build and few keys: that what is over goes and that the file stops growing, which are counts.
ledger-size-short:
	cargo build -p servanda
	cargo build -p servanda-ledger --example fill
	trials/growth/run --servanda target/debug/servanda --fill target/debug/examples/fill --keys 5000 --idle 5 --reads 200 --churn 30 --counts-only

# The tables of docs/behavioural-identity.md, from the lists of the paper's four servers and the shared corpus.
identity-tables:
	cargo run -q -p servanda-identity --example paper_tables -- ../shared/corpora/tools/paper-servers.json \
		../shared/corpora/tools/tools.jsonl docs/behavioural-identity.md

# The README's picture of the demo, drawn from a real run.
recording:
	cargo build --release
	trials/recording/run --servanda target/release/servanda

demo:
	cargo run --release -- demo

deny:
	if cargo deny --version >/dev/null 2>&1; then cargo deny check; else echo "skipped: cargo-deny is not installed"; printf 'make deny\tcargo-deny is not installed\n' >> target/skipped.txt; fi

clean:
	cargo clean
	rm -rf .tools trials/bench/target trials/chaos/target
