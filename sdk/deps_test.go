package sdk

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDependencies keeps short what an application links by importing this package.
func TestDependencies(t *testing.T) {
	allowed := []string{
		"github.com/quoin-io/quoin/sdk",
		"github.com/quoin-io/quoin/wire",
		"github.com/quoin-io/quoin/batchfmt",
		"github.com/quic-go/quic-go",
		"github.com/klauspost/compress",
		"github.com/cespare/xxhash/v2",
		"golang.org/x/crypto", // of quic-go
		"golang.org/x/net",    // of quic-go and wire/udp
		"golang.org/x/sys",    // of quic-go and wire/udp
		"golang.org/x/text",   // of x/net
	}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, path := range strings.Fields(string(out)) {
		within := func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") }
		if !slices.ContainsFunc(allowed, within) {
			t.Errorf("sdk links %s, which is not on the list", path)
		}
	}
}
