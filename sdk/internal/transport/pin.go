package transport

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Pin is the SHA-256 of the SubjectPublicKeyInfo of a server's certificate.
type Pin [sha256.Size]byte

const pinPrefix = "sha256:"

// ParsePin reads "sha256:" and 43 characters of unpadded base64url.
func ParsePin(s string) (Pin, error) {
	text, ok := strings.CutPrefix(s, pinPrefix)
	if !ok {
		return Pin{}, fmt.Errorf("pin %q does not begin with %q", s, pinPrefix)
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Pin{}, fmt.Errorf("pin %q is not unpadded base64url: %w", s, err)
	}
	if len(raw) != sha256.Size {
		return Pin{}, fmt.Errorf("pin %q holds %d bytes, a SHA-256 has %d", s, len(raw), sha256.Size)
	}
	return Pin(raw), nil
}

func (p Pin) String() string {
	return pinPrefix + base64.RawURLEncoding.EncodeToString(p[:])
}

// pinError shows both sides, so that a person can compare them.
type pinError struct {
	got  Pin
	want []Pin
}

func (e *pinError) Error() string {
	var want []string
	for _, p := range e.want {
		want = append(want, p.String())
	}
	return fmt.Sprintf("%v: it is %v, pinned is %s", ErrPinMismatch, e.got, strings.Join(want, " or "))
}

func (e *pinError) Is(target error) bool { return target == ErrPinMismatch }

// pinned makes a TLS configuration trust the pins and nothing else: the chain, the names
// and the dates of the certificate are not looked at.
func pinned(c *tls.Config, pins []Pin) {
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("the server showed no certificate")
		}
		got := Pin(sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo))
		for _, want := range pins {
			if got == want {
				return nil
			}
		}
		return &pinError{got, pins}
	}
}
