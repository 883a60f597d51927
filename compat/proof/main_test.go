package proof

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// roles are what the test binary can be besides a test, by the variable of the environment
// that makes it so: a process that can be killed.
var roles = map[string]func(){envServe: serveProcess}

func TestMain(m *testing.M) {
	for env, play := range roles {
		if os.Getenv(env) != "" {
			play()
			return
		}
	}
	goleak.VerifyTestMain(m)
}
