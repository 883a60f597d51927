# The commands of a contributor's day. CI runs .ci/run and nothing else.
.PHONY: test race fuzz bench campaign model ci

test:
	go test ./...

race:
	go test -race -short ./sdk/... ./server/...

# Every fuzz target for SECONDS each.
SECONDS ?= 60
fuzz:
	FUZZ_SECONDS=$(SECONDS) bash -c 'for p in $$(go list ./...); do for t in $$(go test -list "^Fuzz" $$p | grep "^Fuzz"); do go test -run "^$$" -fuzz "^$$t\$$" -fuzztime $(SECONDS)s $$p || exit 1; done; done'

# The product against the bare ceiling, in one run.
bench:
	go test -run '^$$' -bench . -benchmem ./compat/ceiling

# Crash states, torn writes, kills, full disks and bad networks, with new seeds in each round, until
# SECONDS are over or something is found. LEDGER is the file that says what was tried.
campaign: SECONDS = 3600
campaign:
	compat/proof/campaign.sh $(SECONDS) $(LEDGER)

# The server against its reference model, with new seeds, until SECONDS are over or
# something is found.
model: SECONDS = 600
model:
	go test ./server/internal/model -run '^TestModel$$' -v -count 1 -timeout $$(( $(SECONDS) + 120 ))s -seconds $(SECONDS) $(if $(LEDGER),-ledger $(LEDGER))

ci:
	.ci/run
