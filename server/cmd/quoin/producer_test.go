package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// ask runs a command that asks the server, and returns what it printed.
func ask(t *testing.T, s *servertest.Server, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, note bytes.Buffer
	if got := run(append(args, "--url", s.URL()), &out, &note); got != want {
		t.Fatalf("quoin %v: exit code %d, want %d\n%s%s", args, got, want, &out, &note)
	}
	return out.String(), note.String()
}

func connect(t *testing.T, s *servertest.Server) (context.Context, *sdk.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	c, err := sdk.Dial(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(ctx) })
	return ctx, c
}

func send(t *testing.T, ctx context.Context, c *sdk.Client, topic string) *sdk.Producer {
	t.Helper()
	p, err := c.Producer(topic).Idempotent().Partition(0).Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(ctx, sdk.Record{Value: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	return p
}

// A batch that is not durable yet is in flight, and its lane is open.
func TestProducerInFlight(t *testing.T) {
	s := servertest.Start(t)
	ctx, c := connect(t, s)
	if _, err := c.CreateTopic(ctx, "t", sdk.TopicOptions{}); err != nil {
		t.Fatal(err)
	}
	p := send(t, ctx, c, "t")
	began, release := s.HoldSync()
	if err := p.SendAsync(ctx, sdk.Record{Value: []byte("again")}, nil); err != nil {
		t.Fatal(err)
	}
	<-began
	out, _ := ask(t, s, 0, "producer", "list", "t")
	release()
	cells := strings.Split(strings.Split(out, "\n")[1], "\t")
	for name, i := range map[string]int{"L": 4, "window": 6, "in flight": 7, "state": 11} {
		if want := []string{4: "1", 6: "2", 7: "1", 11: "open"}[i]; cells[i] != want {
			t.Errorf("%s is %q, want %q, in %q", name, cells[i], want, out)
		}
	}
}

func TestProducerRetired(t *testing.T) {
	s := servertest.Start(t, servertest.Configure(func(cfg *server.Config) { cfg.MaxProducers = 1 }))
	ctx, c := connect(t, s)
	if _, err := c.CreateTopic(ctx, "t", sdk.TopicOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := send(t, ctx, c, "t").Close(ctx); err != nil {
		t.Fatal(err)
	}
	send(t, ctx, c, "t")
	out, note := ask(t, s, 0, "producer", "list", "t", "--json")
	if strings.Count(out, "\n") != 1 || note != "1 producers in memory, 1 retired\n" {
		t.Errorf("stdout %q, stderr %q", out, note)
	}
	out, _ = ask(t, s, 0, "producer", "describe", "t/0", "1")
	if !strings.Contains(out, "retired\n") || !strings.Contains(out, "\nidle\t-\n") || !strings.Contains(out, "\nL\t0\n") {
		t.Errorf("got %q", out)
	}
	out, _ = ask(t, s, 0, "producer", "describe", "t/0", "1", "-o", "json")
	if !strings.Contains(out, `"idle_ms":null`) || !strings.Contains(out, `"retired":true`) {
		t.Errorf("got %q", out)
	}
}

func TestRowsOfAProducer(t *testing.T) {
	for _, row := range []struct {
		name string
		lane sdk.ProducerLane
		want string
	}{
		{"nothing is known", sdk.ProducerLane{ProducerID: 7, Last: -1, LastOffset: -1, Confirmed: -1},
			"0|7|-|0|-|0|0|0|-|0s|0|-"},
		{"all marks", sdk.ProducerLane{ProducerID: 7, Open: true, Closed: true, Suspect: true, Retired: true, Idle: time.Hour},
			"0|7|-|0|0|0|0|0|0|-|0|open,closed,suspect,retired"},
		{"seconds are enough", sdk.ProducerLane{ProducerID: 7, Idle: 90*time.Minute + 1200*time.Millisecond},
			"0|7|-|0|0|0|0|0|0|1h30m1s|0|-"},
		{"a name that would move the cursor", sdk.ProducerLane{ProducerID: 1 << 63, Name: "a\x1b[2J\tb"},
			`0|9223372036854775808|"a\x1b[2J\tb"|0|0|0|0|0|0|0s|0|-`},
	} {
		var out strings.Builder
		list, err := (&outputForm{name: formTabs}).listing(&out)
		if err != nil {
			t.Fatal(err)
		}
		x := laneRow{"t", 0, &row.lane}
		if err := list.end(list.row(x.object(), x.cells()...)); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(strings.TrimSuffix(out.String(), "\n"), "\t", "|"); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

func TestLongTableIsAlignedInParts(t *testing.T) {
	var out strings.Builder
	list, err := (&outputForm{name: formTable}).listing(&out, "A", "B")
	if err != nil {
		t.Fatal(err)
	}
	for range alignedRows {
		err = list.row(nil, "x", "y")
	}
	if err != nil || !strings.HasPrefix(out.String(), "A  B\nx  y\n") {
		t.Errorf("%v, %.20q", err, out.String())
	}
}

// What one partition cannot tell does not hide the others.
func TestProducerListOfSomePartitions(t *testing.T) {
	refused := &sdk.ServerError{Op: "describe producers", Topic: "t", Code: wire.CodeThrottled, Partition: -1, Sequence: -1}
	lost, late := errors.New("lost"), fmt.Errorf("no answer: %w", context.DeadlineExceeded)
	for _, row := range []struct {
		name       string
		answers    []error
		code       int
		rows       int
		note, text string
	}{
		{"all tell", []error{nil, nil}, 0, 2, "2 producers in memory, 6 retired; of those with ids up to 8 some may be forgotten", ""},
		{"one does not", []error{nil, refused, nil}, exitPartial, 2, "partition 1: ", "1 of 3 partitions could not tell"},
		{"none does", []error{refused, refused}, exitOther, 0, "partition 0: ", "THROTTLED"},
		{"the only one does not", []error{refused}, exitOther, 0, "", "THROTTLED"},
		{"one has no answer", []error{nil, late, nil}, exitPartial, 2, "partition 1: no answer: context deadline exceeded\n", "1 of 3 partitions could not tell"},
		{"none has an answer", []error{late, late}, exitUnreachable, 0, "partition 1: no answer", "no answer"},
		{"nobody answers any more", []error{nil, lost, nil}, exitOther, 1, "", "lost"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out, note strings.Builder
			list, err := (&outputForm{name: formTabs}).listing(&out)
			if err != nil {
				t.Fatal(err)
			}
			l := laneList{topic: "t", list: list, note: &note, describe: func(_ context.Context, _ string, n int) (sdk.PartitionProducers, error) {
				return sdk.PartitionProducers{Lanes: make([]sdk.ProducerLane, 1), Retired: 3, ForgottenUpTo: 8}, row.answers[n]
			}}
			err = answer(list.end(l.run(t.Context(), 0, len(row.answers))))
			if (err == nil) != (row.code == 0) || err != nil && (exitCode(err) != row.code || !strings.Contains(err.Error(), row.text)) {
				t.Errorf("%v", err)
			}
			if strings.Count(out.String(), "\n") != row.rows || !strings.Contains(note.String(), row.note) {
				t.Errorf("stdout %q, stderr %q", &out, &note)
			}
		})
	}
}

// A partition that keeps silent costs its own time and no more; but the time of the command
// bounds all of them.
func TestProducerListWaitsForOnePartitionOnlySoLong(t *testing.T) {
	for _, row := range []struct {
		name        string
		all         time.Duration // for the command
		code, asked int
		took        time.Duration
	}{
		{"the others are listed", time.Minute, exitPartial, 3, partitionPatience},
		{"the time is over", time.Second, exitUnreachable, 2, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), row.all)
			defer cancel()
			list, err := (&outputForm{name: formTabs}).listing(io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			asked, began := 0, time.Now()
			l := laneList{topic: "t", list: list, note: io.Discard, describe: func(ctx context.Context, _ string, n int) (sdk.PartitionProducers, error) {
				if asked++; n == 1 {
					<-ctx.Done()
				}
				return sdk.PartitionProducers{}, context.Cause(ctx)
			}}
			err = answer(l.run(ctx, 0, 3))
			if err == nil || exitCode(err) != row.code || asked != row.asked || time.Since(began) != row.took {
				t.Errorf("%s: %v, %d asked, in %v", row.name, err, asked, time.Since(began))
			}
		})
	}
}

// A partition that cannot be opened does not hide the others of its topic.
func TestProducerListBesideAPartitionThatIsNotOpen(t *testing.T) {
	s := servertest.Start(t)
	ctx, c := connect(t, s)
	topic, err := c.CreateTopic(ctx, "t", sdk.TopicOptions{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	send(t, ctx, c, "t")
	s.RestartWith(func() {
		dir := filepath.Join(s.Data(), "topics", hex.EncodeToString(topic.ID[:]), "1")
		if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Error(err)
		}
	})
	out, note := ask(t, s, exitPartial, "producer", "list", "t")
	if !strings.Contains(out, "\n0\t1\t") || !strings.Contains(note, "partition 1: ") || !strings.HasSuffix(note, "quoin: 1 of 2 partitions could not tell\n") {
		t.Errorf("stdout %q, stderr %q", out, note)
	}
	_, note = ask(t, s, exitOther, "producer", "explain", "t/1", "--timeout", "200ms")
	if !strings.Contains(note, "could not be opened") {
		t.Errorf("stderr %q", note)
	}
}
