package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/server/internal/seglog"
)

// askTimeout bounds how long a server is asked for a topic.
const askTimeout = 10 * time.Second

// A place is an offset in a partition.
type place struct {
	topic     string // its name or its id
	partition int32
	offset    seglog.Offset
}

func (p place) String() string { return fmt.Sprintf("%s/%d@%d", p.topic, p.partition, p.offset) }

// parseTarget says what an argument names. First match wins.
//
//	a path that exists                       a file
//	a topic, a slash, anything with an @     a place, or a mistake in usage
//	anything else                            a file that is not there
func parseTarget(arg string) (at place, isFile bool, err error) {
	if _, err := os.Stat(arg); err == nil {
		return place{}, true, nil
	}
	topic, rest, slash := strings.Cut(arg, "/")
	number, offset, ok := strings.Cut(rest, "@")
	if !slash || !ok || catalog.CheckTopicName(topic) != nil {
		return place{}, false, notFoundError{fmt.Errorf("no file %q, and it is not TOPIC/PARTITION@OFFSET either", arg)}
	}
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return place{}, false, usageError{fmt.Errorf("no file %q, and %q is not the number of a partition", arg, number)}
	}
	o, err := strconv.ParseUint(offset, 10, 63)
	if err != nil {
		return place{}, false, usageError{fmt.Errorf("no file %q, and %q is not an offset", arg, offset)}
	}
	return place{topic, int32(n), seglog.Offset(o)}, false, nil
}

// dumpPlace prints the batch at a place, and those that stand before and behind it.
func dumpPlace(ctx context.Context, printer *dumpPrinter, at place, o dumpOrder) error {
	dir, err := partitionDir(ctx, at, o)
	if err != nil {
		return err
	}
	var faults faultList
	printed := 0
	err = seglog.Peek(files, dir, at.offset, func(p seglog.Piece, b []byte) (bool, error) {
		fault := printer.checkPiece(p, b)
		if fault != "" {
			faults.add("%s, byte %d, offsets [%d,%d): %s", filepath.Join(dir, p.File), p.Position, p.From, p.Next, fault)
		}
		if printed > 0 || p.From <= at.offset && at.offset < p.Next {
			printed++
		}
		return o.most == 0 || printed < o.most, printer.printPiece(dir, p, b, fault)
	})
	var corrupt *seglog.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return fmt.Errorf("%w: %s: %w", errVerification, at, err)
	case errors.Is(err, seglog.ErrOutOfRange):
		return notFoundError{fmt.Errorf("%s: %w", at, err)}
	case err != nil:
		return missing(err)
	}
	return faults.err()
}

// partitionDir finds the directory of a partition.
func partitionDir(ctx context.Context, at place, o dumpOrder) (string, error) {
	topics := filepath.Join(o.data, "topics")
	if _, err := os.Stat(topics); err != nil {
		return "", notFoundError{fmt.Errorf("%s holds no topics: give the data directory with --data: %w", o.data, err)}
	}
	id, partitions, err := topicOf(ctx, at.topic, o)
	if err != nil {
		return "", err
	}
	if at.partition >= partitions {
		return "", notFoundError{fmt.Errorf("topic %q has no partition %d, it has %d", at.topic, at.partition, partitions)}
	}
	dir := filepath.Join(topics, id.String(), strconv.Itoa(int(at.partition)))
	if _, err := os.Stat(dir); err != nil {
		return "", notFoundError{fmt.Errorf("partition %d of topic %q has no log: %w", at.partition, at.topic, err)}
	}
	return dir, nil
}

// topicOf finds a topic: by its id if the argument is one, else by its name in the catalog,
// else by asking the server that has the catalog open.
func topicOf(ctx context.Context, name string, o dumpOrder) (id catalog.TopicID, partitions int32, err error) {
	if id, err := catalog.ParseTopicID(name); err == nil && topicExists(o.data, id) {
		return id, catalog.MaxPartitions, nil
	}
	topic, err := catalog.FindTopic(o.data, name)
	switch {
	case err == nil:
		return topic.ID, topic.Partitions, nil
	case errors.Is(err, catalog.ErrLocked):
		return askTopic(ctx, name, o)
	case errors.Is(err, catalog.ErrUnknownTopic):
		return id, 0, notFoundError{fmt.Errorf("%s: no topic has the name %q", o.data, name)}
	case errors.Is(err, catalog.ErrDamaged):
		return id, 0, fmt.Errorf("%w: %w; %s", errVerification, err, byID)
	case errors.Is(err, fs.ErrNotExist):
		return id, 0, notFoundError{fmt.Errorf("%w; %s", err, byID)}
	}
	return id, 0, err
}

const byID = "the id of the topic, as its directory is called, can stand for its name"

func topicExists(data string, id catalog.TopicID) bool {
	_, err := os.Stat(filepath.Join(data, "topics", id.String()))
	return err == nil
}

// askTopic asks a server. That it is the one which has the data directory open shows in the
// id, which is random, and after which a directory is called.
func askTopic(ctx context.Context, name string, o dumpOrder) (catalog.TopicID, int32, error) {
	none := catalog.TopicID{}
	url := o.url
	if url == "" {
		var err error
		if url, err = server.FindURL(); err != nil {
			return none, 0, unreachableError{fmt.Errorf("a server has %s open: %w with --url; or: %s", o.data, err, byID)}
		}
	}
	topic, err := describe(ctx, url, name)
	switch {
	case errors.Is(err, sdk.ErrUnknownTopic):
		return none, 0, notFoundError{fmt.Errorf("the server at %s has no topic %q", url, name)}
	case err != nil:
		return none, 0, unreachableError{fmt.Errorf("a server has %s open, and it cannot be asked for topic %q (%s): %w", o.data, name, byID, err)}
	}
	id := catalog.TopicID(topic.ID)
	if !topicExists(o.data, id) {
		return none, 0, notFoundError{fmt.Errorf("the server at %s does not serve %s: give the URL of the one that does with --url; or: %s", url, o.data, byID)}
	}
	return id, int32(len(topic.Partitions)), nil
}

func describe(ctx context.Context, url, name string) (topic sdk.Topic, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client, err := sdk.Dial(ctx, url)
	if err != nil {
		return topic, err
	}
	defer func() { err = errors.Join(err, client.Close(ctx)) }()
	return client.DescribeTopic(ctx, name)
}

// missing marks what is not there as such.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return notFoundError{err}
	}
	return err
}
