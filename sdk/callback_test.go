package sdk

import "testing"

// Who comes third waits for the callbacks of who came first, also when the second had none.
func TestCallbacksOfThreeSendersInOrder(t *testing.T) {
	first := newCallbacks(nil) // its callbacks have not returned: done is open
	second := newCallbacks(first.done)
	second.finish() // its lane ended without any callback
	select {
	case <-second.done:
		t.Error("the third sender's callbacks would run while those of the first have not returned")
	default:
	}
	first.finish()
	<-second.done
}
