package proof

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(envServe) != "" {
		serveProcess() // this process is the server of another one
		return
	}
	goleak.VerifyTestMain(m)
}
