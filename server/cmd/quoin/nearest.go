package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/wire"
)

// nearest is the name that was probably meant: the one that the fewest changes of a letter
// make of what was given, at most one for every four letters and one more. It is empty when
// none is as near as that; of several the first wins.
func nearest(given string, names []string) string {
	best, least := "", min(2+len(given)/4, len(given))
	for _, name := range names {
		if max(len(name)-len(given), len(given)-len(name)) >= least {
			continue
		}
		if d := changes(given, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// changes counts how many bytes must be put in, left out, replaced or swapped with their
// neighbour to make b of a.
func changes(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		older, old, row = old, row, older
		row[0] = i + 1
		for j := range len(b) {
			replaced := old[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, old[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// meant adds to an error the name that was probably meant, if there is one.
func meant(err error, given string, names []string) error {
	if name := nearest(given, names); name != "" {
		return fmt.Errorf("%w; did you mean %s?", err, name)
	}
	return err
}

// meantCommand is meant for the name of a command below cmd.
func meantCommand(cmd *cobra.Command, err error, given string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return meant(err, given, names)
}

// meantFlag is meant for the name of a flag of cmd.
func meantFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return meant(err, "--"+unknown.GetSpecifiedName(), names)
}

// meantPatience bounds the question for the names of topics: it is a favour.
const meantPatience = 2 * time.Second

// meantTopic is meant for the name of a topic that the server does not know.
func meantTopic(ctx context.Context, c *sdk.Client, err error) error {
	var refused *sdk.ServerError
	if !errors.As(err, &refused) || refused.Code != wire.CodeUnknownTopic {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, meantPatience)
	defer cancel()
	topics, listErr := c.ListTopics(ctx)
	if listErr != nil {
		return err // which is what matters
	}
	names := make([]string, len(topics))
	for i := range topics {
		names[i] = topics[i].Name
	}
	return meant(err, refused.Topic, names)
}
