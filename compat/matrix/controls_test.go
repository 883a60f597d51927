package matrix

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/sdk"
)

// decoders read the frozen frames of the first release, by the prefix of the file.
var decoders = map[string]func(frame) (any, error){
	"client/hello-":                func(f frame) (any, error) { return f.hello() },
	"client/describe-topics":       func(f frame) (any, error) { return f.describe() },
	"client/open-":                 func(f frame) (any, error) { return f.openLane() },
	"client/produce-":              func(f frame) (any, error) { return f.produce() },
	"client/subscribe":             func(f frame) (any, error) { return f.subscribe() },
	"server/hello-ok":              func(f frame) (any, error) { return f.welcome() },
	"server/topics-described":      func(f frame) (any, error) { return f.described() },
	"server/producer-inited":       func(f frame) (any, error) { return f.inited() },
	"server/lane-opened":           func(f frame) (any, error) { return f.opened() },
	"server/produce-results":       func(f frame) (any, error) { return f.results() },
	"server/subscribed":            func(f frame) (any, error) { return f.subscribed() },
	"server/batches-":              func(f frame) (any, error) { return f.push() },
	"older-server/refused":         func(f frame) (any, error) { return f.refused() },
	"newer-server/error-version-3": func(f frame) (any, error) { return f.error() },
}

// anything fills the holes of all frames.
func anything() holes {
	fill := holes{"lane": le32(0x01020304), "epoch": le32(0x0a0b0c0d), "topic": topicID[:], "key": []byte("the key of a row")}
	for i, name := range []string{"producer", "from", "start", "end", "number", "nonce"} {
		fill.set64(name, int64(0x1112131415161718+i))
	}
	return fill
}

// TestDecoderNoticesMoves changes the layout of every frame that the frozen decoder reads, at
// every byte: one more, one less, cut off. It reads something else then, or nothing. Bytes
// behind the end change nothing.
func TestDecoderNoticesMoves(t *testing.T) {
	for prefix, decode := range decoders {
		for name, b := range framesOf(t, prefix) {
			was, err := decodeFrame(b, decode)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			payload := b[frameHead:]
			if name == "newer-server/error-version-3" {
				payload = payload[:len(payload)-8] // what came later
			}
			if is, err := decodeFrame(reframe(b, payload, []byte{0xee}), decode); err != nil || !reflect.DeepEqual(is, was) {
				t.Errorf("%s with a byte of a newer peer is %+v, %v", name, is, err)
			}
			for i := range payload {
				for what, changed := range map[string][]byte{
					"one more": reframe(b, payload[:i], []byte{0xff}, payload[i:]),
					"one less": reframe(b, payload[:i], payload[i+1:]),
					"cut off":  reframe(b, payload[:i]),
				} {
					if is, err := decodeFrame(changed, decode); err == nil && reflect.DeepEqual(is, was) {
						t.Errorf("%s, %s at byte %d: nothing is noticed", name, what, i)
					}
				}
			}
		}
	}
}

// framesOf are the frozen frames of this prefix, of the newest folder.
func framesOf(t *testing.T, prefix string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, name := range names(t, release("next")) {
		if strings.HasPrefix(name, prefix) {
			all[name] = release("next").frame(t, name, anything())
		}
	}
	if len(all) == 0 {
		t.Fatalf("there is no %s", prefix)
	}
	return all
}

func decodeFrame(b []byte, decode func(frame) (any, error)) (any, error) {
	f, err := readFrame(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return decode(f)
}

// reframe gives parts the head of a frame.
func reframe(head []byte, parts ...[]byte) []byte {
	out := append(bytes.Clone(head[:frameHead]), bytes.Join(parts, nil)...)
	binary.LittleEndian.PutUint32(out, uint32(len(out)-frameHead))
	return out
}

// A recorder keeps what a row finds wrong, instead of failing its test.
type recorder struct {
	testing.TB
	found []string
}

func (r *recorder) Error(args ...any)                 { r.found = append(r.found, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

// record runs f, which may end early, and gives what it found.
func record(t *testing.T, f func(testing.TB)) []string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.found
}

// TestServersThatMisbehave is the control of the second table: a played server that does not
// do what its cells say makes its row find fault.
func TestServersThatMisbehave(t *testing.T) {
	good := servers["accepts 1 and 2"]
	said := cells{"hello": served, "topics": served, "write 1": served, "write 2": served, "read 1": served, "read 2": served, "read 3": none}
	for _, tt := range []struct {
		name   string
		change func(*script)
		good   bool
	}{
		{"it does not", func(*script) {}, true},
		{"it names another protocol", spoil("server/hello-ok", frameHead, 9), false},
		{"it accepts version 1 twice", spoil("server/hello-ok", frameHead+2+4+1, 1), false},
		{"its topic has another id", spoil("server/topics-described", frameHead+4+4+2+6, 0xff), false},
		{"it stores at another offset", spoil("server/produce-results", frameHead+4+2+4+8+2+1, 41), false},
		{"it says that it had stored before", spoil("server/produce-results", frameHead+4+2+4+8+2, 1), false},
		{"a value is another one, and the checksum is right", spoilBatch(func(b []byte) { b[headerSize+10] ^= 1; seal(b) }), false},
		{"a value is another one", spoilBatch(func(b []byte) { b[headerSize+10] ^= 1 }), false},
		{"a batch says that it is of version 2", spoilBatch(func(b []byte) { b[offVersion] = 2 }), false},
		{"a batch is left out", func(s *script) { s.pushes = []string{"server/batches-2"} }, false},
		{"a version that the client did not ask for", func(s *script) { s.pushes, s.end = append(s.pushes[:2:2], "newer-server/batches-3"), 6 }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play := good
			tt.change(&play)
			var got cells
			found := record(t, func(tb testing.TB) { got = playServer(tb, "next", play) })
			if ok := len(found) == 0 && reflect.DeepEqual(got, said); ok != tt.good {
				t.Errorf("cells are %v, faults %q", got, found)
			}
		})
	}
}

// spoil sets a byte of a frame.
func spoil(name string, at int, v byte) func(*script) {
	return func(s *script) {
		s.spoil = func(n string, b []byte) []byte {
			if n == name {
				b[at] = v
			}
			return b
		}
	}
}

// spoilBatch changes the plain batch, and gives it the front check that belongs to it.
func spoilBatch(change func([]byte)) func(*script) {
	return func(s *script) {
		s.spoil = func(n string, b []byte) []byte {
			if n == "server/batches-1" {
				batch := b[frameHead+8+4:]
				change(batch)
				binary.LittleEndian.PutUint32(batch[offFrontCheck:], frontCheckOf(batch))
			}
			return b
		}
	}
}

// TestDeliveriesThatMisbehave is the control of the first table: what reaches a reader is held
// to what is stored, whatever the server does to it.
func TestDeliveriesThatMisbehave(t *testing.T) {
	aware := framesOf(t, "server/batches-2")["server/batches-2"][frameHead+8+4:]
	plain := framesOf(t, "server/batches-1")["server/batches-1"][frameHead+8+4:]
	changed := func(b []byte, change func([]byte)) []byte {
		b = bytes.Clone(b)
		change(b)
		seal(b)
		binary.LittleEndian.PutUint32(b[offFrontCheck:], frontCheckOf(b))
		return b
	}
	for _, tt := range []struct {
		name      string
		b, stored []byte
		want      string // empty for a fault
	}{
		{"as it is", aware, aware, served},
		{"converted", toVersion1(aware), aware, converted},
		{"plain", plain, plain, served},
		{"converted, at another offset", changed(toVersion1(aware), func(b []byte) { b[offBaseOffset]++ }), aware, ""},
		{"converted, another value", changed(toVersion1(aware), func(b []byte) { b[len(b)-2]++ }), aware, ""},
		{"converted, another append time", changed(toVersion1(aware), func(b []byte) { b[16]++ }), aware, ""},
		{"as it is, another producer", changed(aware, func(b []byte) { b[80]++ }), aware, ""},
		{"version 1 for another batch", plain, aware, ""},
	} {
		got, err := deliveryOf([][]byte{tt.b}, [][]byte{tt.stored})
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
	if err := checkRecords([][]byte{plain}, 0); err == nil {
		t.Error("records of another topic are taken for those of this one")
	}
}

// A refusal without advice, or with that for the other side, is another cell.
func TestAdvice(t *testing.T) {
	for text, want := range map[string]string{
		"too old: upgrade the client":    "upgrade the client",
		"upgrade the reader, or read on": "upgrade the reader",
		"something is too old":           "without advice: something is too old",
	} {
		if got := advice(text); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
	err := &sdk.DialError{Stage: sdk.StageTLS}
	if found := record(t, func(tb testing.TB) { dialCell(tb, err) }); !slices.Equal(found, []string{err.Error()}) {
		t.Errorf("a dial that failed for another reason gives %q", found)
	}
}
