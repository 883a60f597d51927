//go:build !unix

package server_test

// envCost and serveForCost belong to a benchmark that measures processes as Unix counts them.
const envCost = "QUOIN_COST_SERVE"

func serveForCost(string) {}
