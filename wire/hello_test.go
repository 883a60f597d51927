package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/quoin-io/quoin/batchfmt"
)

func TestNegotiate(t *testing.T) {
	both := []batchfmt.Version{1, 2}
	tests := []struct {
		name     string
		min, max uint16
		batches  []batchfmt.Version
		version  uint16
		code     Code
		detail   string
	}{
		{"the range is upside down", 3, 2, both, 0, CodeProtocol, "3 to 2 is upside down"},
		{"upside down, and below the oldest", MinProtocol, MinProtocol - 1, both, 0, CodeProtocol, "upside down"},
		{"the client is too old", 0, MinProtocol - 1, both, 0, CodeUnsupportedVersion, "speaks protocol 0, the server 1: upgrade the client"},
		{"the server is too old", MaxProtocol + 1, MaxProtocol + 2, both, 0, CodeUnsupportedVersion, "speaks protocol 2 to 3, the server 1: upgrade the server"},
		{"the server is much too old", 1<<16 - 1, 1<<16 - 1, both, 0, CodeUnsupportedVersion, "upgrade the server"},
		{"no batch version", MinProtocol, MaxProtocol, nil, 0, CodeUnsupportedVersion, "no batch version"},
		{"the same range", MinProtocol, MaxProtocol, both, MaxProtocol, CodeOK, ""},
		{"the client speaks newer ones too", MinProtocol, MaxProtocol + 5, both, MaxProtocol, CodeOK, ""},
		{"the client speaks older ones too", 0, MinProtocol, both, MinProtocol, CodeOK, ""},
		{"everything there may ever be", 0, 1<<16 - 1, both, MaxProtocol, CodeOK, ""},
		{"a reader of the first batch version", MinProtocol, MaxProtocol, both[:1], MaxProtocol, CodeOK, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			version, refused := Negotiate(&Hello{MinProtocol: test.min, MaxProtocol: test.max, BatchVersions: test.batches})
			if version != test.version {
				t.Errorf("version %d, want %d", version, test.version)
			}
			if test.code == CodeOK {
				if refused != nil {
					t.Errorf("refused: %v", refused)
				}
				return
			}
			if refused == nil || refused.Err.Code != test.code || !strings.Contains(refused.Err.Detail, test.detail) {
				t.Fatalf("%v, want %v: %s", refused, test.code, test.detail)
			}
			if refused.MinProtocol != MinProtocol || refused.MaxProtocol != MaxProtocol {
				t.Errorf("says %d to %d", refused.MinProtocol, refused.MaxProtocol)
			}
			var inner *Error
			if !errors.As(error(refused), &inner) || inner.Code != test.code {
				t.Errorf("holds no *Error: %v", refused)
			}
		})
	}
}
