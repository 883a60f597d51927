package ceiling

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// envRole makes the test binary play a role, with the settings in envSettings, instead of
// running tests.
const (
	envRole     = "QUOIN_CEILING_ROLE"
	envSettings = "QUOIN_CEILING_SETTINGS"
)

// A role runs in the child until ctx ends, which is when the parent wants it or is gone.
// It calls ready once, when it can be dialed.
type role func(ctx context.Context, s settings, ready func(greeting) error) error

var roles = map[string]role{"ceiling": serveCeiling}

// settings reach the child through its environment.
type settings struct {
	Dir        string // where the role may put files
	StoreBytes int64  // size of the file of a "ceiling" server
	Plain      bool   // receive without offload
}

// greeting is the first line that a child prints.
type greeting struct {
	Addr string // where it listens
	Cert []byte // the certificate to expect there, DER
}

// usage answers every line that the parent writes.
type usage struct {
	CPU time.Duration // user and system time of the child so far
}

func TestMain(m *testing.M) {
	// A log line of the QUIC library would end up among the results.
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	if os.Getenv("GOGC") == "" {
		// A bare process has so small a heap that it would collect all the time, which a
		// real one does not. Parent and children alike, so for every contender.
		debug.SetGCPercent(400)
	}
	if name := os.Getenv(envRole); name != "" {
		if err := playRole(name); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func playRole(name string) error {
	play, ok := roles[name]
	if !ok {
		return errors.New("no such role")
	}
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv(envSettings)), &s); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	return play(ctx, s, func(g greeting) error {
		out := json.NewEncoder(os.Stdout)
		if err := out.Encode(g); err != nil {
			return err
		}
		// Ends with standard input, at the latest with this process.
		go func() {
			defer cancel()
			for in := bufio.NewScanner(os.Stdin); in.Scan(); {
				if out.Encode(usage{CPU: cpuTime()}) != nil {
					return
				}
			}
		}()
		return nil
	})
}

// child is this test binary in another process, in a role.
type child struct {
	greeting
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	stopped func() error
}

// startChild returns when the child is ready. The test's end stops it, if nobody did.
func startChild(tb testing.TB, name string, s settings) *child {
	tb.Helper()
	c, err := launch(name, s)
	if err != nil {
		tb.Fatalf("start %s: %v", name, err)
	}
	tb.Cleanup(func() {
		if err := c.stop(); err != nil {
			tb.Errorf("%s: %v", name, err)
		}
	})
	return c
}

func launch(name string, s settings) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envRole+"="+name, envSettings+"="+string(encoded))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, in: in, out: json.NewDecoder(out)}
	c.stopped = sync.OnceValue(c.end)
	if err := c.out.Decode(&c.greeting); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// stop asks the child to end and waits. A child that does not end in 10 s is killed, and
// that is an error.
func (c *child) stop() error { return c.stopped() }

func (c *child) end() error {
	c.in.Close()
	impatient := time.AfterFunc(10*time.Second, func() { c.cmd.Process.Kill() })
	defer impatient.Stop()
	return c.cmd.Wait()
}

// cpu is the processor time that the child and this process have used so far.
func (c *child) cpu() (time.Duration, error) {
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		return 0, err
	}
	var u usage
	if err := c.out.Decode(&u); err != nil {
		return 0, err
	}
	return u.CPU + cpuTime(), nil
}
