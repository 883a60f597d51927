package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/quoin-io/quoin/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExitCode(t *testing.T) {
	going := context.Background()
	ended, cancel := context.WithCancel(going)
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"all is well", going, nil, 0},
		{"all is well although an interrupt came too late", ended, nil, 0},
		{"an interrupt goes before what it caused", ended, ErrPartial, 130},
		{"some lines failed", going, fmt.Errorf("x: %w", ErrPartial), 6},
		{"some lines failed since the server went", going, errors.Join(sdk.ErrConnectionLost, ErrPartial), 6},
		{"what was read back is wrong", going, fmt.Errorf("x: %w", ErrWrong), 7},
		{"the command line makes no sense", going, fmt.Errorf("x: %w", Usagef("no")), 2},
		{"a file is missing", going, &fs.PathError{Err: fs.ErrNotExist}, 3},
		{"a topic is missing", going, fmt.Errorf("x: %w", sdk.ErrUnknownTopic), 3},
		{"nothing answers", going, &sdk.DialError{Stage: sdk.StageUDP, Err: errors.New("x")}, 5},
		{"the name has no address", going, &sdk.DialError{Stage: sdk.StageResolve, Err: errors.New("x")}, 5},
		{"the connection went", going, fmt.Errorf("x: %w", sdk.ErrConnectionLost), 5},
		{"the server is another one", going, &sdk.DialError{Stage: sdk.StageTLS, Err: sdk.ErrPinMismatch}, 1},
		{"anything else", going, errors.New("x"), 1},
	} {
		if got := ExitCode(tt.ctx, tt.err); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestResolve(t *testing.T) {
	for _, tt := range []struct {
		name, env, args string
		url, data       string
		usage           bool
	}{
		{name: "nothing is said", data: "./quoin-data"},
		{name: "the variable names a server", env: "quoin://e", url: "quoin://e", data: "./quoin-data"},
		{name: "a flag goes before the variable", env: "quoin://e", args: "--server quoin://f", url: "quoin://f", data: "./quoin-data"},
		{name: "a directory goes before the variable", env: "quoin://e", args: "--data d", data: "d"},
		{name: "two servers cannot both be used", args: "--server quoin://f --data d", usage: true},
		{name: "an empty URL is a slip", args: "--server=", usage: true},
		{name: "an empty directory is a slip", args: "--data=", usage: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(urlVariable, tt.env)
			flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
			var s Server
			s.AddFlags(flags)
			if err := flags.Parse(strings.Fields(tt.args)); err != nil {
				t.Fatal(err)
			}
			err := s.Resolve(flags)
			var usage *UsageError
			if errors.As(err, &usage) != tt.usage {
				t.Fatalf("got %v", err)
			}
			if err == nil && (s.URL != tt.url || s.Data != tt.data) {
				t.Errorf("got %q, %q", s.URL, s.Data)
			}
		})
	}
}

func TestConnect(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	session, err := (&Server{Data: dir}).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&Server{Data: dir}).Connect(ctx); err == nil || !strings.Contains(err.Error(), urlVariable) {
		t.Errorf("a directory that is in use: got %v", err)
	}
	if _, err := session.Client.ListTopics(ctx); err != nil {
		t.Error(err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	_, err = (&Server{URL: "http://localhost", from: "--server"}).Connect(ctx)
	if code := ExitCode(ctx, err); code != ExitUsage || !strings.Contains(err.Error(), "--server") {
		t.Errorf("a wrong URL: %d, %v", code, err)
	}
}
