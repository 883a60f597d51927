package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/server"
)

func serveCommand() *cobra.Command {
	var cfg server.Config
	var verbose, quiet bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a data directory over QUIC",
		Long: "Serve a data directory over QUIC. With no flags it listens on loopback, keeps its data in " +
			server.DefaultData + " and makes itself a certificate on the first start.\n\n" +
			"On a second address it answers plain HTTP: /livez, /readyz, /metrics for Prometheus and /debug/pprof/.\n" +
			"It asks nobody who they are there, so leave it on loopback or in a network of operators.\n\n" +
			"SIGTERM or an interrupt stops it in good order: clients are told, what is in flight is synced and\n" +
			"acknowledged. A second signal ends it at once; nothing that was acknowledged is lost then either.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.AdminAddr == adminOff {
				cfg.AdminAddr = ""
			}
			cfg.Log = serveLogger(cmd.ErrOrStderr(), verbose, quiet)
			return serve(cmd.Context(), cfg, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Data, "data", envOr("QUOIN_DATA", server.DefaultData), "data directory (QUOIN_DATA)")
	f.StringVar(&cfg.Addr, "addr", envOr("QUOIN_ADDR", server.DefaultAddr), "UDP address to listen on, port 0 for any (QUOIN_ADDR)")
	f.StringVar(&cfg.AdminAddr, "admin-addr", envOr("QUOIN_ADMIN_ADDR", server.DefaultAdminAddr),
		"TCP address of health, metrics and profiles, port 0 for any, \"off\" for none (QUOIN_ADMIN_ADDR)")
	f.StringVar(&cfg.CertFile, "cert", os.Getenv("QUOIN_CERT"), "PEM file of a certificate chain (QUOIN_CERT); default: a development certificate")
	f.StringVar(&cfg.KeyFile, "key", os.Getenv("QUOIN_KEY"), "PEM file of its private key (QUOIN_KEY)")
	f.DurationVar(&cfg.Drain, "drain", server.DefaultDrain, "how long clients may take to leave at shutdown")
	f.BoolVarP(&verbose, "verbose", "v", false, "log every connection")
	f.BoolVarP(&quiet, "quiet", "q", false, "log warnings and errors only, print no banner")
	return cmd
}

// adminOff is what to say instead of an address; an environment variable cannot be empty.
const adminOff = "off"

func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

func serveLogger(w io.Writer, verbose, quiet bool) *slog.Logger {
	level := slog.LevelInfo
	switch {
	case quiet:
		level = slog.LevelWarn
	case verbose:
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// serve runs until ctx ends, which the first signal does; a second one ends the process.
func serve(ctx context.Context, cfg server.Config, stderr io.Writer) error {
	srv, err := server.Start(cfg)
	if errors.Is(err, server.ErrAdminInUse) {
		return fmt.Errorf("%w: another server may be running; choose another address with --admin-addr, or none with --admin-addr=off", err)
	}
	if err != nil {
		return err
	}
	withdraw, err := srv.Announce()
	if err != nil {
		cfg.Log.Warn("other commands on this machine will not find the server by themselves", "error", err)
		withdraw = func() {}
	}
	if cfg.Log.Enabled(ctx, slog.LevelInfo) {
		banner(stderr, srv, cfg)
	}
	<-ctx.Done()
	withdraw()
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Shutdown(context.Background()) }() // waited for below, or the process ends
	select {
	case err := <-stopped:
		return err
	case <-again:
		return errors.New("stopped at once by a second signal")
	}
}

func banner(w io.Writer, srv *server.Server, cfg server.Config) {
	fmt.Fprintf(w, "\nquoin %s serves %s on %s. To connect:\n\n  export QUOIN_URL='%s'\n\n", server.Version, cfg.Data, srv.Addr(), srv.URL())
	if admin := srv.AdminURL(); admin != "" {
		fmt.Fprintf(w, "Health, metrics and profiles: %s\n\n", admin)
	}
}
