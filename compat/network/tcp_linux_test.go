package network

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"os"
	"strings"
	"time"
)

// envTCP makes the test binary the server that acknowledges over TCP and TLS.
const envTCP = "QUOIN_NETWORK_TCP"

// A frame to it is the number of a record and the record; its answer is the number, big
// endian. There is no more to it: this is what the transport alone costs.
const numberBytes = 4

func serveTCP() {
	_, addr, _ := strings.Cut(os.Getenv(envTCP), "|")
	cert, err := ownCertificate()
	if err == nil {
		err = acceptTCP(addr, cert)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func acceptTCP(addr string, cert tls.Certificate) error {
	l, err := tls.Listen("tcp", addr, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
	if err != nil {
		return err
	}
	fmt.Println(addr)
	go func() { // ends the process with its parent
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { // ends with the connection, or the process
			defer c.Close()
			in, frame := bufio.NewReader(c), make([]byte, numberBytes+ackRecord)
			for {
				if _, err := io.ReadFull(in, frame); err != nil {
					return
				}
				if _, err := c.Write(frame[:numberBytes]); err != nil {
					return
				}
			}
		}()
	}
}

func ownCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func sendTCP(ctx context.Context, addr string, p *pace) error {
	// Nobody is to be believed here: the other end is a process of this test.
	d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	read := make(chan error, 1)
	go func() { // ends with the last answer, or the connection
		in, number := bufio.NewReader(c), make([]byte, numberBytes)
		for range len(p.taken) + ackPartitions {
			if _, err := io.ReadFull(in, number); err != nil {
				read <- err
				return
			}
			p.acknowledged(int(int32(binary.BigEndian.Uint32(number))), passage{})
		}
		read <- nil
	}()
	frame := make([]byte, numberBytes+ackRecord)
	err = p.run(func(n int) error {
		binary.BigEndian.PutUint32(frame, uint32(int32(n)))
		_, err := c.Write(frame)
		return err
	})
	if err != nil {
		return err
	}
	return <-read
}
