package sdk_test

import (
	"testing"

	"github.com/quoin-io/quoin/sdk"
	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// A lane that has become quiet tells the server, once, up to where its application has every
// outcome: when the last callback has returned, and not before.
func TestQuietLaneConfirms(t *testing.T) {
	s, c, p := setUp(t, 1, servertest.InMemory())
	ctx := testContext(t)
	told := make(chan wire.Confirmed, 16)
	s.HookFrames(servertest.FrameHooks{End: func(in bool, m wire.Message) bool {
		if m, ok := m.(*wire.Confirmed); ok && in {
			told <- *m
		}
		return false
	}})
	inCallback, mayReturn := make(chan struct{}), make(chan struct{})
	for i := range 2 {
		if _, err := p.Send(ctx, value(i)); err != nil {
			t.Fatal(err)
		}
	}
	err := p.SendAsync(ctx, value(2), func(sdk.Ack, error) {
		close(inCallback)
		<-mayReturn
	})
	if err != nil {
		t.Fatal(err)
	}
	<-inCallback
	close(mayReturn)
	if m := <-told; m.Through != 2 { // that record 1 is confirmed its batch has said
		t.Errorf("%d is confirmed", m.Through)
	}
	// The server takes it in: nothing but the frame could have told it.
	for {
		lane, err := c.DescribeProducer(ctx, "t", 0, p.ID())
		if err != nil {
			t.Fatal(err)
		}
		if lane.Confirmed == 2 {
			break
		}
	}
	if len(told) != 0 {
		t.Errorf("it was told again: %+v", <-told)
	}
}
