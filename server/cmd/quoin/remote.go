package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server"
	"github.com/quoin-io/quoin/server/internal/catalog"
	"github.com/quoin-io/quoin/wire"
)

// A remote is the server that a command asks.
type remote struct {
	url     string
	timeout time.Duration
}

func (r *remote) flags(f *pflag.FlagSet) {
	f.StringVar(&r.url, "url", os.Getenv("QUOIN_URL"), "of the server (QUOIN_URL); default: the one that announced itself on this machine")
	f.DurationVar(&r.timeout, "timeout", 30*time.Second, "how long all of it may take")
}

// ask connects, lets fn ask, and marks its error for the exit code.
func (r *remote) ask(ctx context.Context, fn func(context.Context, *sdk.Client) error) (err error) {
	url, err := serverURL(r.url)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	client, err := sdk.Dial(ctx, url)
	if err != nil {
		return answer(err)
	}
	defer func() { err = errors.Join(err, client.Close(ctx)) }()
	return answer(meantTopic(ctx, client, fn(ctx, client)))
}

// streamFlags are those of a command that works until its input or output ends.
func (r *remote) streamFlags(f *pflag.FlagSet, timeout string) {
	r.flags(f)
	f.Lookup("timeout").Usage = timeout
}

// stream connects within the timeout, and lets fn work for as long as that takes. What
// happens to the connection meanwhile is told in notes.
func (r *remote) stream(ctx context.Context, n *notes, fn func(context.Context, *sdk.Client) error) error {
	url, err := serverURL(r.url)
	if err != nil {
		return err
	}
	dialing, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	client, err := sdk.Dial(dialing, url, sdk.OnEvent(n.event))
	if err != nil {
		return answer(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingPatience)
		defer cancel()
		client.Close(ctx) // fn has closed what could report anything
	}()
	return answer(meantTopic(ctx, client, fn(ctx, client)))
}

// partingPatience is how long a command that was interrupted may take to end in order.
const partingPatience = 5 * time.Second

// serverURL is the URL that was given, or the announced one.
func serverURL(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	url, err := server.FindURL()
	if err != nil {
		return "", unreachableError{fmt.Errorf("%w with --url or QUOIN_URL", err)}
	}
	return url, nil
}

// answer marks what came of asking a server. First match wins.
//
//	the URL is none                                   a mistake in usage
//	topic, partition, producer or offset not there    not found
//	the key is not the producer's                     denied
//	another refusal                                   as it is
//	the time was over, or nobody answered             unreachable
func answer(err error) error {
	var dial *sdk.DialError
	var refused *sdk.ServerError
	switch {
	case errors.As(err, &dial) && (dial.Stage == sdk.StageURL || dial.Stage == sdk.StageOptions):
		return usageError{err}
	case errors.Is(err, sdk.ErrUnknownTopic), errors.Is(err, sdk.ErrUnknownPartition), errors.Is(err, sdk.ErrUnknownProducer),
		errors.Is(err, sdk.ErrOffsetOutOfRange):
		return notFoundError{err}
	case errors.As(err, &refused) && refused.Code == wire.CodeProducerKeyMismatch:
		return deniedError{err}
	case errors.As(err, &refused):
		return err
	case dial != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, sdk.ErrDeliveryTimeout),
		errors.Is(err, sdk.ErrConnectionLost), errors.Is(err, sdk.ErrUnreachable):
		return unreachableError{err}
	}
	return err
}

// parsePartition reads TOPIC/PARTITION. Where all is allowed the partition may be left out,
// and is -1 then.
func parsePartition(arg string, all bool) (topic string, partition int, err error) {
	topic, number, slash := strings.Cut(arg, "/")
	if err := catalog.CheckTopicName(topic); err != nil {
		return "", 0, usageError{fmt.Errorf("%q: %w", arg, err)}
	}
	if !slash && all {
		return topic, -1, nil
	}
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return "", 0, usageError{fmt.Errorf("%q is not TOPIC/PARTITION", arg)}
	}
	return topic, int(n), nil
}

// parseProducer reads the id of a producer.
func parseProducer(arg string) (uint64, error) {
	id, err := strconv.ParseUint(arg, 10, 64)
	if err != nil || id == 0 {
		return 0, usageError{fmt.Errorf("%q is not the id of a producer", arg)}
	}
	return id, nil
}
