package catalog

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

// giveAwayUntilKilled is the child: it prints whatever the catalog gives it, one line
// each, and never ends by itself.
//
//	id N          from ReserveProducerID or for a producer without a name
//	name N E      id and epoch of the one name
//	term N        of the one partition
func giveAwayUntilKilled(dir string) {
	c, err := Open(dir, Options{IDBlock: 7})
	check(err)
	topic, err := c.TopicByName("t")
	if err != nil {
		topic, err = c.CreateTopic("t", 1, TopicConfig{})
		check(err)
	}
	var id InstanceID
	for range 3 {
		go func() {
			for {
				pid, err := c.ReserveProducerID()
				check(err)
				fmt.Printf("id %d\n", pid)
			}
		}()
	}
	for {
		for i := range id {
			id[i] = byte(rand.Uint32())
		}
		p, err := c.InitProducer(id, "")
		check(err)
		fmt.Printf("id %d\n", p.ID)
		p, err = c.InitProducer(id, "name")
		check(err)
		fmt.Printf("name %d %d\n", p.ID, p.Epoch)
		term, err := c.NextTerm(topic.ID, 0, 0)
		check(err)
		fmt.Printf("term %d\n", term)
	}
}

func check(err error) {
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

// What was seen outside is never given out again, wherever the server is killed.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	ids := map[uint64]bool{}
	var last struct {
		pid   batchfmt.ProducerID
		epoch int64
		term  uint64
	}
	last.epoch = -1
	for round := range 10 {
		for _, line := range runAndKill(t, dir, 5+rand.IntN(400)) {
			var pid, term uint64
			var epoch int64
			switch {
			case scan(line, "id %d", &pid):
				if pid == 0 || ids[pid] {
					t.Fatalf("round %d: id %d a second time", round, pid)
				}
				ids[pid] = true
			case scan(line, "name %d %d", &pid, &epoch):
				if epoch <= last.epoch || last.pid != 0 && last.pid != batchfmt.ProducerID(pid) {
					t.Fatalf("round %d: name got %d/%d after %d/%d", round, pid, epoch, last.pid, last.epoch)
				}
				last.pid, last.epoch = batchfmt.ProducerID(pid), epoch
			case scan(line, "term %d", &term):
				if term <= last.term {
					t.Fatalf("round %d: term %d after %d", round, term, last.term)
				}
				last.term = term
			default:
				t.Fatalf("round %d: child said %q", round, line)
			}
		}
	}
	if ids[uint64(last.pid)] {
		t.Fatalf("the name's id %d was given out as well", last.pid)
	}
	c := open(t, dir, Options{})
	if c.Starts() != 11 {
		t.Errorf("start %d, want 11", c.Starts())
	}
	t.Logf("%d ids, last epoch %d, last term %d", len(ids), last.epoch, last.term)
}

func scan(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

// runAndKill lets the child print n lines, kills it, and returns all that it printed.
func runAndKill(t *testing.T, dir string, n int) []string {
	t.Helper()
	exe := must(os.Executable())(t)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			break // the pipe ends with the child
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
		if len(lines) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || len(lines) < n {
		t.Fatalf("the child ended by itself after %d lines: %v %q", len(lines), err, lines[max(0, len(lines)-3):])
	}
	return lines
}
