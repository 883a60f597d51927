package network

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	seed     = flag.Uint64("seed", 1, "what the relay's choices begin with")
	records  = flag.Int("records", 1500, "how many records each producer sends over a bad link")
	rebinds  = flag.Int("rebinds", 30, "how often TestRebindGoesUnnoticed changes the client's port")
	stops    = flag.String("stops", "100ms,1s,2500ms", "how long TestStoppedServerLosesNothing stops the server, by commas")
	restarts = flag.Int("restarts", 3, "how often TestKilledServerIsNoticed kills the server")
	hole     = flag.Duration("hole", 11*time.Second, "how long TestBlackHole lets nothing through; the idle timeout is 10 s")
	patience = flag.Duration("patience", time.Minute, "how long to wait for what must come")
)

// roles are what the test binary can be besides a test, by the variable of the environment
// that makes it so.
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

// waiting is a context for what must come.
func waiting(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	tb.Cleanup(cancel)
	return ctx
}
