package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

const (
	certFile = "tls.crt"
	keyFile  = "tls.key"

	validYears = 10
	// clockSkew is how far a client's clock may be behind when the server is new.
	clockSkew = 24 * time.Hour
)

// developmentPair reads the development certificate, or makes what is not there:
//
//	tls.key  tls.crt
//	yes      yes      read
//	no       no       make both, the key first
//	yes      no       issue a certificate for the key: a crash came between, or the
//	                  operator wants a new one; the pin stays
//	no       yes      refuse: a new key would change the pin behind the operator's back
func (s *store) developmentPair(now time.Time) (cert tls.Certificate, created bool, err error) {
	keyPEM, err := s.read(keyFile)
	noKey := missing(err)
	if err != nil && !noKey {
		return cert, false, err
	}
	certPEM, err := s.read(certFile)
	noCert := missing(err)
	if err != nil && !noCert {
		return cert, false, err
	}
	switch {
	case noKey && !noCert:
		return cert, false, &FileError{
			Path: s.path(keyFile), Reason: "is not there, but " + certFile + " is", Kind: ErrMissing,
			Remedy: "restore it from a backup, or remove " + certFile + " too to have a new pair made (clients need its new pin then)",
		}
	case noKey:
		if keyPEM, err = s.makeKey(); err != nil {
			return cert, false, err
		}
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return cert, false, s.damagedPair(keyFile, err, "restore it from a backup, or remove it and "+certFile+" to have a new pair made (clients need its new pin then)")
	}
	if noCert {
		if certPEM, err = s.issue(key, now); err != nil {
			return cert, false, err
		}
	}
	if cert, err = parsePair(certPEM, keyPEM); err == nil {
		err = cert.Leaf.CheckSignature(cert.Leaf.SignatureAlgorithm, cert.Leaf.RawTBSCertificate, cert.Leaf.Signature)
	}
	if err != nil {
		return cert, false, s.damagedPair(certFile, err, "restore it and "+keyFile+" from a backup, or remove it to have one issued for the key that is there")
	}
	return cert, noKey, nil
}

func (s *store) damagedPair(name string, err error, remedy string) error {
	return &FileError{Path: s.path(name), Reason: err.Error(), Remedy: remedy, Kind: ErrDamaged}
}

func (s *store) makeKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return b, s.write(keyFile, b)
}

func (s *store) issue(key *ecdsa.PrivateKey, now time.Time) ([]byte, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "" // a host without a name is reached by the other names
	}
	template := certTemplate(host, now)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("issue the development certificate: %w", err)
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return b, s.write(certFile, b)
}

// certTemplate leaves the serial number to x509, which takes a random one.
func certTemplate(host string, now time.Time) *x509.Certificate {
	t := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "quoin development"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.AddDate(validYears, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	switch ip := net.ParseIP(host); {
	case ip != nil:
		t.IPAddresses = append(t.IPAddresses, ip)
	case host != "localhost" && isDNSName(host):
		t.DNSNames = append(t.DNSNames, host)
	}
	return t
}

// isDNSName keeps host names out of the certificate that it could not express: they
// must not keep a server from starting.
func isDNSName(host string) bool {
	if host == "" || len(host) > 253 || host[0] == '.' || host[len(host)-1] == '.' {
		return false
	}
	for _, c := range []byte(host) {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_'
		if !ok {
			return false
		}
	}
	return true
}

// parseKey takes what makeKey makes.
func parseKey(keyPEM []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("holds no complete PEM block")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("holds no private key: %w", err)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("holds a %T, not an ECDSA key", key)
	}
	return ec, nil
}

// parsePair checks that chain and key belong together, and sets Leaf.
func parsePair(certPEM, keyPEM []byte) (tls.Certificate, error) {
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	if cert.Leaf == nil { // GODEBUG=x509keypairleaf=0
		cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0])
	}
	return cert, err
}
