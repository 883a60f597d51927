package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/quoin-io/quoin/sdk"
)

// lastStored is the last number that the topic has from this producer, 0 for none. Others
// may write to the topic as well: the server knows where the last record of each is.
func (c *counter) lastStored(ctx context.Context) (int64, error) {
	lane, err := c.client.DescribeProducer(ctx, c.topic, partition, c.producer.ID())
	switch {
	case errors.Is(err, sdk.ErrUnknownProducer): // it has not begun yet
		return 0, nil
	case err != nil:
		return 0, err
	case lane.Last < 0:
		return 0, nil
	case lane.LastOffset < 0:
		return 0, errors.New("the server does not know any more where the last number is")
	}
	return c.numberAt(ctx, lane.LastOffset)
}

// numberAt reads the one record at an offset.
func (c *counter) numberAt(ctx context.Context, offset int64) (int64, error) {
	consumer, err := c.client.Consumer(c.topic).Partitions(partition).From(sdk.At(offset)).Build(ctx)
	if err != nil {
		return 0, err
	}
	defer consumer.Close()
	for record, err := range consumer.Records(ctx) {
		if err != nil {
			return 0, err
		}
		if record.Offset != offset {
			return 0, fmt.Errorf("the last number, at offset %d, cannot be read", offset)
		}
		return numberOf(record)
	}
	return 0, reason(ctx)
}

func numberOf(record *sdk.Record) (int64, error) {
	n, err := strconv.ParseInt(string(record.Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the record at offset %d is not a number: %.40q", record.Offset, record.Value)
	}
	return n, nil
}
