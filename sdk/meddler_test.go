package sdk_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// A meddler stands between clients and a server. It sees every frame that the server sends,
// and can lose it, with the connection, after the server has done what it tells. Its
// goroutines end with its listener.
type meddler struct {
	url    string
	server string
	ctx    context.Context
	wg     sync.WaitGroup
	mu     struct {
		sync.Mutex
		lose  func(wire.Kind) bool
		off   bool
		conns map[*quic.Conn]struct{} // of clients
	}
}

func startMeddler(t *testing.T, s *servertest.Server) *meddler {
	t.Helper()
	cert, _ := certificate(t)
	conf := &quic.Config{MaxIncomingStreams: 1000}
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{wire.ALPN}}, conf)
	if err != nil {
		t.Fatal(err)
	}
	addr, _, _ := strings.Cut(strings.TrimPrefix(s.URL(), "quoin://"), "?")
	ctx, cancel := context.WithCancel(context.Background())
	m := &meddler{url: "quoin://" + l.Addr().String() + "?pin=" + pinOf(cert.Leaf), server: addr, ctx: ctx}
	m.mu.conns = make(map[*quic.Conn]struct{})
	m.wg.Go(func() {
		for {
			conn, err := l.Accept(ctx)
			if err != nil {
				return
			}
			m.wg.Go(func() { m.serve(conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		m.wg.Wait()
	})
	return m
}

// loseReplies has lose asked of every frame that the server sends; nil loses none. It is
// called before the frame goes on, and may do other harm.
func (m *meddler) loseReplies(lose func(wire.Kind) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.lose = lose
}

// cutOff parts all clients from the server, or ends that.
func (m *meddler) cutOff(off bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.off = off
	for conn := range m.mu.conns {
		conn.CloseWithError(quic.ApplicationErrorCode(wire.CodeShutdown), "cut off")
	}
}

// join counts a client's connection, unless all are cut off.
func (m *meddler) join(conn *quic.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.off {
		m.mu.conns[conn] = struct{}{}
	}
	return !m.mu.off
}

func (m *meddler) leave(conn *quic.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.conns, conn)
}

func (m *meddler) loses(k wire.Kind) bool {
	m.mu.Lock()
	lose := m.mu.lose
	m.mu.Unlock()
	return lose != nil && lose(k)
}

// serve carries one connection. It ends when either side does, and ends the other.
func (m *meddler) serve(client *quic.Conn) {
	defer client.CloseWithError(quic.ApplicationErrorCode(wire.CodeShutdown), "the meddler's")
	if !m.join(client) {
		return
	}
	defer m.leave(client)
	server, err := quic.DialAddr(m.ctx, m.server, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{wire.ALPN}}, nil)
	if err != nil {
		return
	}
	defer server.CloseWithError(quic.ApplicationErrorCode(wire.CodeOK), "the client left")
	stop := context.AfterFunc(server.Context(), func() {
		client.CloseWithError(quic.ApplicationErrorCode(wire.CodeShutdown), "the server left")
	})
	defer stop()
	for {
		in, err := client.AcceptStream(m.ctx)
		if err != nil {
			return
		}
		out, err := server.OpenStreamSync(m.ctx)
		if err != nil {
			return
		}
		m.wg.Go(func() { // requests
			if _, err := io.Copy(out, in); err != nil {
				out.CancelWrite(0)
				return
			}
			out.Close()
		})
		m.wg.Go(func() {
			defer in.CancelRead(0)
			for {
				frame, kind, err := readFrame(out)
				switch {
				case err != nil:
					in.Close()
					return
				case m.loses(kind):
					client.CloseWithError(quic.ApplicationErrorCode(wire.CodeInternal), "lost on purpose")
					server.CloseWithError(quic.ApplicationErrorCode(wire.CodeOK), "the client left")
					return
				}
				if _, err := in.Write(frame); err != nil {
					out.CancelRead(0)
					return
				}
			}
		})
	}
}

func readFrame(r io.Reader) ([]byte, wire.Kind, error) {
	var raw bytes.Buffer
	tee := io.TeeReader(r, &raw)
	h, err := wire.ReadHeader(tee)
	if err == nil {
		_, err = wire.ReadPayload(tee, h, nil)
	}
	return raw.Bytes(), h.Kind, err
}
