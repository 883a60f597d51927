package sdk_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// children are what the test binary does, instead of running tests, when a variable of that
// name is set: it is given its value.
var children = map[string]func(string){}

func TestMain(m *testing.M) {
	for name, run := range children {
		if value := os.Getenv(name); value != "" {
			run(value)
			return
		}
	}
	goleak.VerifyTestMain(m)
}
