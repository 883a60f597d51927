package main

import (
	"context"
	"errors"
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
)

func configData(dir string) func(*server.Config) {
	return func(c *server.Config) { c.Data = dir }
}

func isTopicExists(err error) bool { return errors.Is(err, sdk.ErrTopicExists) }

func deleteTopic(t *testing.T, url, topic string) {
	t.Helper()
	client, err := sdk.Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.Background())
	if err := client.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
}
