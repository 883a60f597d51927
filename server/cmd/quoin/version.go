package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/wire"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is, and what it speaks",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "quoin %s (protocol %d, batch versions %d and %d, %s %s/%s)\n",
				server.Version, wire.MaxProtocol, batchfmt.Version1, batchfmt.Version2,
				runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
