package main

import (
	"fmt"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quoin-io/quoin/batchfmt"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/wire"
)

// A versionObject is the version in JSON. Its keys stay.
type versionObject struct {
	Version  string `json:"version"`
	Protocol int    `json:"protocol"` // the newest it speaks
	Batches  []int  `json:"batch_versions"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

const versionHelp = `Say which version this is, and which protocol and batches it speaks. No server is asked. With
--output it is a row, or an object.`

func versionCommand() *cobra.Command {
	var form outputForm
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is, and what it speaks",
		Long:  versionHelp,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionObject{server.Version, int(wire.MaxProtocol), []int{int(batchfmt.Version1), int(batchfmt.Version2)},
				runtime.Version(), runtime.GOOS, runtime.GOARCH}
			batches := fmt.Sprintf("%d and %d", batchfmt.Version1, batchfmt.Version2)
			list, err := form.asked(cmd.OutOrStdout(), "VERSION", "PROTOCOL", "BATCHES", "GO", "OS", "ARCH")
			if err != nil {
				return err
			}
			if list == nil {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "quoin %s (protocol %d, batch versions %s, %s %s/%s)\n",
					v.Version, v.Protocol, batches, v.Go, v.OS, v.Arch)
				return err
			}
			return list.end(list.row(v, v.Version, strconv.Itoa(v.Protocol), batches, v.Go, v.OS, v.Arch))
		},
	}
	form.flags(cmd.Flags())
	cmd.Flags().Lookup("output").Usage = `print it as "table", "tsv" or "json", instead of a sentence`
	return cmd
}
