package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/sdk"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"quoin": main})
}

// leakChecked looks for goroutines that the tests have left behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	return code
}

// patience bounds every wait; a test that passes never reaches it.
const patience = 20 * time.Second

// TestScripts pins what the commands print, where, and with which exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_RUNTIME_DIR", filepath.Join(env.WorkDir, "run"))
			env.Setenv("QUOIN_ADMIN_ADDR", "off") // scripts run side by side, and the port is one
			return os.Mkdir(filepath.Join(env.WorkDir, "run"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":       await,
			"badrow":      damageRow,
			"copydir":     copyDir,
			"damage":      damageSegment,
			"deletetopic": deleteTopic,
			"flip":        flipByte,
			"generation":  setGeneration,
			"living":      startProducer,
			"oddnames":    makeOddNames,
			"partition":   nameOfPartition,
			"plain":       sendPlain,
			"putindex":    writeIndex,
			"putretired":  writeRetired,
			"roundtrip":   roundTrip,
			"samefiles":   sameFiles,
			"savetoken":   saveToken,
			"segment":     copySegment,
			"snapshot":    writeSnapshot,
			"snapversion": snapshotVersion,
			"splice":      splice,
			"status":      status,
			"store":       makeStore,
			"term":        terminate,
			"token":       makeToken,
			"topicid":     nameOfTopic,
			"trim":        cutFile,
			"urlfrom":     setURL,
		},
	})
}

// await waits until a file is there: the server has announced itself then.
func await(ts *testscript.TestScript, neg bool, args []string) {
	name := ts.MkAbs(args[0])
	for end := time.Now().Add(patience); ; {
		_, err := os.Stat(name)
		if (err == nil) != neg {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s: %v", args[0], err)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

// terminate sends SIGTERM to what runs in the background; testscript's own kill cannot.
func terminate(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}

// segmentOf finds the one segment of a data directory with one partition.
func segmentOf(ts *testscript.TestScript, data string) string {
	names, err := filepath.Glob(filepath.Join(ts.MkAbs(data), "topics", "*", "0", "*.seg"))
	ts.Check(err)
	if len(names) != 1 {
		ts.Fatalf("segments %v", names)
	}
	return names[0]
}

// nameOfPartition sets a variable to the directory of the one partition.
func nameOfPartition(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], filepath.Dir(segmentOf(ts, args[1])))
}

// nameOfTopic sets a variable to the id of its topic.
func nameOfTopic(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], filepath.Base(filepath.Dir(filepath.Dir(segmentOf(ts, args[1])))))
}

func copySegment(ts *testscript.TestScript, _ bool, args []string) {
	b, err := os.ReadFile(segmentOf(ts, args[1]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o600))
}

// damageSegment changes the one record that roundTrip has sent.
func damageSegment(ts *testscript.TestScript, _ bool, args []string) {
	name := segmentOf(ts, args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	b[bytes.Index(b, []byte("hello"))] ^= 1
	ts.Check(os.WriteFile(name, b, 0o600))
}

// roundTrip sends a record to the server whose URL is in a file, and reads it back.
func roundTrip(ts *testscript.TestScript, _ bool, args []string) {
	url := strings.TrimSpace(ts.ReadFile(args[0]))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ts.Check(sendAndRead(ctx, url))
}

// sendPlain sends a record, to the server whose URL is in a file, by a producer that is plain:
// the file, topic, partition.
func sendPlain(ts *testscript.TestScript, _ bool, args []string) {
	url := strings.TrimSpace(ts.ReadFile(args[0]))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := sdk.Dial(ctx, url)
	ts.Check(err)
	defer client.Close(ctx)
	producer, err := client.Producer(args[1]).Partition(toInt(ts, args[2])).Build(ctx)
	ts.Check(err)
	_, err = producer.Send(ctx, sdk.Record{Value: []byte("hello")})
	ts.Check(err)
}

// setURL makes the URL in a file the one that commands use.
func setURL(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv("QUOIN_URL", strings.TrimSpace(ts.ReadFile(args[0])))
}

func sendAndRead(ctx context.Context, url string) (err error) {
	client, err := sdk.Dial(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(ctx)) }()
	if _, err := client.CreateTopic(ctx, "t", sdk.TopicOptions{Partitions: 1}); err != nil && !errors.Is(err, sdk.ErrTopicExists) {
		return err
	}
	producer, err := client.Producer("t").Idempotent().Build(ctx)
	if err != nil {
		return err
	}
	ack, err := producer.Send(ctx, sdk.Record{Value: []byte("hello")})
	if err != nil {
		return err
	}
	consumer, err := client.Consumer("t").From(sdk.At(ack.Offset)).StopAtEnd().Build(ctx)
	if err != nil {
		return err
	}
	defer consumer.Close()
	for rec, err := range consumer.Records(ctx) {
		if err != nil || string(rec.Value) != "hello" {
			return errors.Join(err, errors.New("read something else than was sent"))
		}
	}
	return nil
}
