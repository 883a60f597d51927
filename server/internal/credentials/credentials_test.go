package credentials

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

var allFiles = []string{certFile, keyFile, resetFile, tokenFile}

func load(t *testing.T, dir string) Credentials {
	t.Helper()
	c, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLoadMakesOnceAndKeeps(t *testing.T) {
	dir := t.TempDir()
	first := load(t, dir)
	if !first.Created || first.StatelessResetKey == first.TokenKey || first.StatelessResetKey == [32]byte{} {
		t.Fatalf("first start: created %v", first.Created)
	}
	if len(first.Tightened) != 0 {
		t.Fatalf("tightened %q", first.Tightened)
	}
	second := load(t, dir)
	if second.Created || second.Pin != first.Pin || second.StatelessResetKey != first.StatelessResetKey ||
		second.TokenKey != first.TokenKey || !bytes.Equal(second.Certificate.Certificate[0], first.Certificate.Certificate[0]) {
		t.Fatal("the second start has other credentials")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(allFiles) {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if other := load(t, t.TempDir()); other.Pin == first.Pin || other.TokenKey == first.TokenKey {
		t.Fatal("two directories share a secret")
	}
	// What quic.Transport takes.
	_ = &quic.Transport{
		StatelessResetKey: (*quic.StatelessResetKey)(&first.StatelessResetKey),
		TokenGeneratorKey: (*quic.TokenGeneratorKey)(&first.TokenKey),
	}
}

func TestDevelopmentCertificate(t *testing.T) {
	c := load(t, t.TempDir())
	leaf := c.Certificate.Leaf
	names := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil && isDNSName(host) {
		names = append(names, host)
	}
	for _, name := range names {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if d := time.Until(leaf.NotAfter); d < 9*365*24*time.Hour || leaf.NotBefore.After(time.Now().Add(-time.Hour)) {
		t.Errorf("valid from %v to %v", leaf.NotBefore, leaf.NotAfter)
	}
	if len(c.Certificate.Certificate) != 1 || len(c.Certificate.Certificate[0]) > 1000 {
		t.Errorf("chain of %d, leaf of %d bytes", len(c.Certificate.Certificate), len(c.Certificate.Certificate[0]))
	}
	if !strings.HasPrefix(c.Pin, "sha256:") || len(c.Pin) != len("sha256:")+43 || strings.ContainsAny(c.Pin[7:], "+/=") {
		t.Errorf("pin %q", c.Pin)
	}
	handshake(t, c.Certificate)
}

// handshake lets a client that trusts the certificate, and speaks TLS 1.3, connect.
func handshake(t *testing.T, cert tls.Certificate) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	cc, sc := net.Pipe()
	defer cc.Close()
	defer sc.Close()
	served := make(chan error, 1)
	go func() {
		served <- tls.Server(sc, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true}).Handshake()
	}()
	err := tls.Client(cc, &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS13}).Handshake()
	if err = errors.Join(err, <-served); err != nil {
		t.Fatal(err)
	}
}

func TestCertTemplateOfOddHosts(t *testing.T) {
	tests := []struct {
		reason, host string
		dns          []string
		ips          int
	}{
		{"a name", "edge-7.example", []string{"localhost", "edge-7.example"}, 2},
		{"no name", "", []string{"localhost"}, 2},
		{"localhost itself", "localhost", []string{"localhost"}, 2},
		{"an address", "10.0.0.9", []string{"localhost"}, 3},
		{"not ascii", "zürich", []string{"localhost"}, 2},
		{"a dot at the end", "host.", []string{"localhost"}, 2},
		{"too long", strings.Repeat("a", 254), []string{"localhost"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			c := certTemplate(tt.host, time.Now())
			if strings.Join(c.DNSNames, " ") != strings.Join(tt.dns, " ") || len(c.IPAddresses) != tt.ips {
				t.Fatalf("%q %v", c.DNSNames, c.IPAddresses)
			}
		})
	}
}

func TestBroadPermissionsAreTightened(t *testing.T) {
	if runtime.GOOS == "windows" {
		return
	}
	dir := t.TempDir()
	first := load(t, dir)
	for _, name := range allFiles {
		if err := os.Chmod(filepath.Join(dir, name), 0o664); err != nil {
			t.Fatal(err)
		}
	}
	second := load(t, dir)
	if len(second.Tightened) != len(allFiles) || second.Pin != first.Pin {
		t.Fatalf("tightened %q", second.Tightened)
	}
	for _, name := range allFiles {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if third := load(t, dir); len(third.Tightened) != 0 {
		t.Fatalf("tightened again: %q", third.Tightened)
	}
}

// Each file missing alone: a crash between two writes, or an operator's hand.
func TestOneFileMissing(t *testing.T) {
	for _, name := range allFiles {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := load(t, dir)
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			second, err := Load(dir)
			if name == keyFile {
				var fe *FileError
				if !errors.As(err, &fe) || !errors.Is(err, ErrMissing) || fe.Path != filepath.Join(dir, keyFile) {
					t.Fatalf("got %v", err)
				}
				if _, err := os.Stat(filepath.Join(dir, keyFile)); !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("a refusal made a key: %v", err)
				}
				return
			}
			if err != nil || second.Created || second.Pin != first.Pin {
				t.Fatalf("created %v, pin %q, was %q, %v", second.Created, second.Pin, first.Pin, err)
			}
			handshake(t, second.Certificate)
		})
	}
}

// Any cut and any emptied stretch of any file is refused by name, and nothing is replaced.
func TestDamagedFiles(t *testing.T) {
	for _, name := range allFiles {
		dir := t.TempDir()
		load(t, dir)
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damage := map[string][]byte{
			"empty":     {},
			"too large": bytes.Repeat([]byte("x"), maxFileBytes+1),
		}
		for n := 7; n < len(good)-1; n += 13 {
			damage["cut"+strings.Repeat(".", n)] = good[:n]
		}
		for reason, bad := range damage {
			if bytes.Equal(bad, good) {
				t.Fatalf("%s: %s changes nothing", name, reason)
			}
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(dir)
			var fe *FileError
			if !errors.As(err, &fe) || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), dir) || fe.Remedy == "" {
				t.Fatalf("%s, %s: %v", name, reason, err)
			}
			if now, _ := os.ReadFile(path); !bytes.Equal(now, bad) {
				t.Fatalf("%s, %s: the file was replaced", name, reason)
			}
		}
	}
}

// A changed byte is refused, or it stood where it means nothing (line ends; the public
// key that PKCS #8 repeats): then everything is as before.
func TestChangedBytes(t *testing.T) {
	for _, name := range allFiles {
		dir := t.TempDir()
		before := load(t, dir)
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(good); i += 5 {
			bad := bytes.Clone(good)
			bad[i] ^= 2
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			switch got, err := Load(dir); {
			case err == nil:
				if got.Pin != before.Pin || got.TokenKey != before.TokenKey || got.StatelessResetKey != before.StatelessResetKey {
					t.Fatalf("%s, byte %d: other credentials without an error", name, i)
				}
			case !errors.Is(err, ErrDamaged):
				t.Fatalf("%s, byte %d: %v", name, i, err)
			}
		}
	}
}

func TestSecretsAreNotInterchangeable(t *testing.T) {
	dir := t.TempDir()
	load(t, dir)
	b, err := os.ReadFile(filepath.Join(dir, tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, resetFile), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), resetFile) {
		t.Fatalf("got %v", err)
	}
}

func TestPairOfTwoServers(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	load(t, a)
	load(t, b)
	if err := os.Rename(filepath.Join(b, certFile), filepath.Join(a, certFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(a); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), certFile) {
		t.Fatalf("got %v", err)
	}
}

func TestTemporaryFilesOfACrash(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, keyFile+".77"+newSuffix)
	if err := os.WriteFile(stale, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := load(t, dir); !c.Created {
		t.Fatal("a temporary file was taken for the key")
	}
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("stale file: %v", err)
	}
}

func TestDirectoryMissing(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "no")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
}

func TestOperatorsCertificate(t *testing.T) {
	theirs, dir := t.TempDir(), t.TempDir()
	made := load(t, theirs)
	cert, key := filepath.Join(theirs, certFile), filepath.Join(theirs, keyFile)
	got, err := LoadWith(dir, cert, key)
	if err != nil || got.Pin != made.Pin || got.Created || got.Pin != PinOf(got.Certificate.Leaf) {
		t.Fatalf("%v", err)
	}
	if got.TokenKey == made.TokenKey || got.TokenKey == [32]byte{} {
		t.Fatal("the token key is not the directory's own")
	}
	if _, err := os.Stat(filepath.Join(dir, keyFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("a development key was made that nobody uses")
	}
	handshake(t, got.Certificate)
	again, err := LoadWith(dir, cert, key)
	if err != nil || again.TokenKey != got.TokenKey || again.StatelessResetKey != got.StatelessResetKey {
		t.Fatalf("second start: %v", err)
	}

	// Chain and key in one file.
	var both []byte
	for _, name := range []string{cert, key} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, b...)
	}
	one := filepath.Join(theirs, "both.pem")
	if err := os.WriteFile(one, both, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadPEM(one, one); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(one); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o644 {
		t.Fatalf("the operator's file was changed: %v, %v", info.Mode(), err)
	}
}

func TestOperatorsCertificateRefused(t *testing.T) {
	dir := t.TempDir()
	load(t, dir)
	cert, key, none := filepath.Join(dir, certFile), filepath.Join(dir, keyFile), filepath.Join(dir, "none")
	tests := []struct {
		reason, cert, key string
		want              error
		text              string
	}{
		{"no certificate file", none, key, fs.ErrNotExist, none},
		{"no key file", cert, none, fs.ErrNotExist, none},
		{"files swapped", key, cert, ErrDamaged, cert},
		{"not a certificate", filepath.Join(dir, tokenFile), key, ErrDamaged, tokenFile},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			var fe *FileError
			_, err := LoadPEM(tt.cert, tt.key)
			if !errors.Is(err, tt.want) || !errors.As(err, &fe) || !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("got %v", err)
			}
			if _, err := LoadWith(t.TempDir(), tt.cert, tt.key); !errors.Is(err, tt.want) {
				t.Fatalf("with directory: %v", err)
			}
		})
	}
}

func FuzzParseSecret(f *testing.F) {
	f.Add(formatSecret(resetType, [32]byte{1, 2, 3}))
	f.Add([]byte("-----BEGIN QUOIN TOKEN KEY-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		key, err := parseSecret(resetType, b)
		if err != nil {
			return
		}
		if again, err := parseSecret(resetType, formatSecret(resetType, key)); err != nil || again != key {
			t.Fatalf("key does not survive: %v", err)
		}
	})
}

func FuzzParsePair(f *testing.F) {
	// A whole pair is made here and not committed: a private key in a repository
	// alarms every scanner.
	dir := f.TempDir()
	if _, err := Load(dir); err != nil {
		f.Fatal(err)
	}
	certPEM, e1 := os.ReadFile(filepath.Join(dir, certFile))
	keyPEM, e2 := os.ReadFile(filepath.Join(dir, keyFile))
	if err := errors.Join(e1, e2); err != nil {
		f.Fatal(err)
	}
	f.Add(certPEM, keyPEM)
	f.Fuzz(func(t *testing.T, certPEM, keyPEM []byte) {
		if _, err := parseKey(keyPEM); err != nil {
			return
		}
		if cert, err := parsePair(certPEM, keyPEM); err == nil && (cert.Leaf == nil || PinOf(cert.Leaf) == "") {
			t.Fatal("a pair without a leaf")
		}
	})
}
