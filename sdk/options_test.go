package sdk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const somePin = "sha256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func TestParseURL(t *testing.T) {
	tests := []struct {
		name, url, hosts, err string
		pins                  int
	}{
		{"host alone has the default port", "quoin://a", "a:7733", "", 0},
		{"host and port", "quoin://a:1", "a:1", "", 0},
		{"a slash at the end is nothing", "quoin://a:1/", "a:1", "", 0},
		{"several hosts", "quoin://a:1,b,c:3", "a:1,b:7733,c:3", "", 0},
		{"address of version 6", "quoin://[::1]:5", "[::1]:5", "", 0},
		{"address of version 6 without a port", "quoin://[::1]", "[::1]:7733", "", 0},
		{"bare address of version 6", "quoin://::1", "[::1]:7733", "", 0},
		{"a pin", "quoin://a?pin=" + somePin, "a:7733", "", 1},
		{"two pins, for the time when the key changes", "quoin://a?pin=" + somePin + "&pin=" + somePin, "a:7733", "", 2},
		{"another scheme", "https://a", "", "does not begin", 0},
		{"no host", "quoin://", "", "not a host", 0},
		{"an empty host among others", "quoin://a,,b", "", "not a host", 0},
		{"port zero", "quoin://a:0", "", "not 1 to 65535", 0},
		{"port too large", "quoin://a:65536", "", "not 1 to 65535", 0},
		{"colon without port", "quoin://a:", "", "no port", 0},
		{"user", "quoin://me@a", "", "not a host", 0},
		{"path", "quoin://a/topic", "", "not a host", 0},
		{"open bracket", "quoin://[::1", "", "bracket", 0},
		{"unknown parameter", "quoin://a?tls=off", "", `"tls" is not known`, 0},
		{"pin of another hash", "quoin://a?pin=sha1:AAAA", "", "does not begin", 0},
		{"pin too short", "quoin://a?pin=sha256:AAAA", "", "holds 3 bytes", 0},
		{"pin that is not base64url", "quoin://a?pin=sha256:%2B%2B", "", "base64url", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			targets, pins, err := parseURL(tt.url)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := hostList(targets); got != tt.hosts || len(pins) != tt.pins {
				t.Errorf("got %s with %d pins, want %s with %d", got, len(pins), tt.hosts, tt.pins)
			}
		})
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("quoin://a:1,[::1]:2?pin=" + somePin)
	f.Add("quoin://::1")
	f.Fuzz(func(t *testing.T, s string) {
		targets, _, err := parseURL(s)
		if err != nil {
			return
		}
		if len(targets) == 0 || len(targets) > maxHosts {
			t.Fatalf("%d targets", len(targets))
		}
		again, _, err := parseURL(urlScheme + hostList(targets))
		if err != nil || hostList(again) != hostList(targets) {
			t.Fatalf("%q reads back as %q: %v", hostList(targets), hostList(again), err)
		}
	})
}

func TestDialOptionsAreCheckedTogether(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Dial(context.Background(), "quoin://127.0.0.1",
		WithPin("nothing"), WithCAFile(empty), WithCAFile(empty+".gone"), WithClientName(""), WithLogger(nil))
	var de *DialError
	if !errors.As(err, &de) || de.Stage != StageOptions {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"WithPin", "holds no certificate", "no such file", "WithClientName"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}

func TestBuilderReportsAllFaults(t *testing.T) {
	c := new(Client)
	_, err := c.Producer("t").Idempotent().RetryMayDuplicate().Durability(9).Compression(77).MaxBuffered(1).BatchBytes(0).Linger(-1).DeliveryTimeout(1).
		Partition(-5).Partitioner(func(*Record, int) int { return 0 }).Build(context.Background())
	for _, want := range []string{"RetryMayDuplicate", "Durability", "Compression", "MaxBuffered", "BatchBytes", "Linger", "DeliveryTimeout", "Partition is negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("producer: error does not name %s: %v", want, err)
		}
	}
	_, err = c.Consumer("t").From(At(-1)).Partitions(1, 1, -2).Prefetch(1).Build(context.Background())
	for _, want := range []string{"At(-1)", "twice", "Prefetch"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("consumer: error does not name %s: %v", want, err)
		}
	}
}
