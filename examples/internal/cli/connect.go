package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
)

// urlVariable names the server when no flag does.
const urlVariable = "QUOIN_URL"

// closeTimeout bounds the good order in which a session ends.
const closeTimeout = 10 * time.Second

// Server says which server to use. First match wins.
//
//	--server   that one
//	--data     one in this process, on that directory
//	QUOIN_URL  that one
//	otherwise  one in this process, on ./quoin-data
type Server struct {
	URL  string // empty for one in this process
	Data string
	from string // who named URL, for error messages
}

// AddFlags adds --server and --data.
func (s *Server) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.URL, "server", "", "URL of the server: quoin://HOST:PORT?pin=... (default $"+urlVariable+")")
	flags.StringVar(&s.Data, "data", server.DefaultData,
		"without a server: run one in this process, on this data directory")
}

// Resolve decides, once the flags are parsed.
func (s *Server) Resolve(flags *pflag.FlagSet) error {
	s.from = "--server"
	switch {
	case flags.Changed("server") && flags.Changed("data"):
		return Usagef("--server and --data exclude each other")
	case flags.Changed("server") && s.URL == "":
		return Usagef("--server is empty")
	case flags.Changed("data") && s.Data == "":
		return Usagef("--data is empty")
	case flags.Changed("server"), flags.Changed("data"):
		return nil
	}
	s.URL, s.from = os.Getenv(urlVariable), urlVariable
	return nil
}

// A Session is a connected client. Close it.
type Session struct {
	Client *sdk.Client
	server *server.Server // nil when it runs elsewhere
}

// Connect connects to the server, and starts it first if it is to run in this process. A
// server in this process listens on loopback, on a port that is free.
func (s *Server) Connect(ctx context.Context, opts ...sdk.DialOption) (*Session, error) {
	session, url := &Session{}, s.URL
	if url == "" {
		srv, err := server.Start(server.Config{Data: s.Data, Addr: "127.0.0.1:0", Log: errorsTo(os.Stderr)})
		if err != nil {
			return nil, fmt.Errorf("start a server in this process (--server or %s would use one that runs): %w", urlVariable, err)
		}
		session.server, url = srv, srv.URL()
	}
	client, err := sdk.Dial(ctx, url, opts...)
	if err != nil {
		return nil, errors.Join(s.dialFault(err), session.Close())
	}
	session.Client = client
	return session, nil
}

// dialFault makes a wrong URL a fault of the command line.
func (s *Server) dialFault(err error) error {
	var dial *sdk.DialError
	if errors.As(err, &dial) && dial.Stage == sdk.StageURL {
		return Usagef("%s: %w", s.from, err)
	}
	return err
}

func errorsTo(w *os.File) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelError}))
}

// Close closes the client, then the server if it is ours.
func (s *Session) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	if s.Client != nil {
		errs = append(errs, s.Client.Close(ctx))
	}
	if s.server != nil {
		errs = append(errs, s.server.Shutdown(ctx))
	}
	return errors.Join(errs...)
}
