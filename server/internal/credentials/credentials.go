package credentials

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"time"
)

// Credentials is what a server listens with.
type Credentials struct {
	Certificate tls.Certificate // Leaf is set
	// Pin is [PinOf] the certificate: what a client is told out of band.
	Pin               string
	StatelessResetKey [32]byte // for quic.Transport
	TokenKey          [32]byte // for quic.Transport.TokenGeneratorKey
	// Created reports that the key of the development certificate was made by this
	// call, so that its pin is new to everybody.
	Created bool
	// Tightened lists the files whose permissions were broader than 0600. Whoever
	// could read them may have.
	Tightened []string
}

// Load reads the credentials in dir, which must exist, and makes those that are not
// there. Errors: *FileError, or the system's.
func Load(dir string) (Credentials, error) {
	s := store{dir: dir}
	c, err := s.loadKeys()
	if err != nil {
		return Credentials{}, fmt.Errorf("load credentials: %w", err)
	}
	if c.Certificate, c.Created, err = s.developmentPair(time.Now()); err != nil {
		return Credentials{}, fmt.Errorf("load credentials: %w", err)
	}
	c.Pin = PinOf(c.Certificate.Leaf)
	c.Tightened = s.tightened
	return c, nil
}

// LoadWith is [Load] with the operator's certificate ([LoadPEM]); it neither reads nor
// makes the development certificate.
func LoadWith(dir, certFile, keyFile string) (Credentials, error) {
	s := store{dir: dir}
	cert, err := LoadPEM(certFile, keyFile)
	if err != nil {
		return Credentials{}, err
	}
	c, err := s.loadKeys()
	if err != nil {
		return Credentials{}, fmt.Errorf("load credentials: %w", err)
	}
	c.Certificate, c.Pin, c.Tightened = cert, PinOf(cert.Leaf), s.tightened
	return c, nil
}

// LoadPEM reads a certificate chain, leaf first, and its key, each a PEM file of at
// most 64 KiB. The two may be the same file. Their permissions are the operator's
// affair and are left alone, and so is the time of validity: Leaf.NotAfter tells.
//
// Errors: *FileError.
func LoadPEM(certFile, keyFile string) (tls.Certificate, error) {
	const remedy = "give a PEM file with the certificate chain, leaf first, and a PEM file with its key"
	certPEM, err := readBounded(certFile)
	if err != nil {
		return tls.Certificate{}, &FileError{Path: certFile, Reason: err.Error(), Remedy: remedy, Kind: err}
	}
	keyPEM, err := readBounded(keyFile)
	if err != nil {
		return tls.Certificate{}, &FileError{Path: keyFile, Reason: err.Error(), Remedy: remedy, Kind: err}
	}
	cert, err := parsePair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, &FileError{Path: certFile + ", " + keyFile, Reason: err.Error(), Remedy: remedy, Kind: ErrDamaged}
	}
	return cert, nil
}

// PinOf returns "sha256:" and the unpadded base64url of the SHA-256 of the
// certificate's SubjectPublicKeyInfo: it stays the same when a certificate is issued
// anew for the same key.
func PinOf(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// loadKeys fills in the two QUIC keys.
func (s *store) loadKeys() (Credentials, error) {
	var c Credentials
	var err error
	if c.StatelessResetKey, err = s.secret(resetFile, resetType); err != nil {
		return c, err
	}
	c.TokenKey, err = s.secret(tokenFile, tokenType)
	return c, err
}
